// Int8 GEMM by AMX, whose tiles hold 16 rows of 64 bytes. All other kernels are those of AVX-512.
//
// Integer sums are exact, so AMX tiles give the same bits as VNNI, which computes batches of fewer rows than a tile.
// The layout of packed weights is the tile layout: 64 input features of 16 columns are 16 rows of 64 bytes.
#include "kernels/simd_avx512.hpp"

#define FLOAT_TILE_ROWS 6
#define FLOAT_TILE_VECTORS 4
#include "kernels/gemm.hpp"

#include <sys/syscall.h>
#include <unistd.h>

#include "kernels/dispatch.hpp"
#include "kernels/gemm_avx512_vnni.hpp"

namespace dragoman {
namespace {

constexpr int tile_height = 16;
constexpr std::size_t depth_step = 64;
/// Bytes between the rows of a weight tile.
constexpr std::size_t weight_stride = panel_width * Int8Gemm::interleave;
/// Bytes of a weight panel per depth step.
constexpr std::size_t step_bytes = depth_step * panel_width;
/// Rows from which half panels are computed: the half stays in the L1 cache. Fewer rows stream the whole panel once.
constexpr std::size_t min_rows_for_half_panels = 64;

/// Operand of `ldtilecfg`: every tile has 16 rows of 64 bytes.
struct alignas(64) TileConfig {
    std::uint8_t palette = 1, start_row = 0, reserved[14] = {};
    std::uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
    std::uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};
static_assert(sizeof(TileConfig) == 64);
constexpr TileConfig full_tiles;

/// Contents of the accumulator tiles 0 to 3; tiles 4 to 7 hold the operands.
struct alignas(64) TileSums {
    std::int32_t tiles[4][tile_height][simd_width];
};

void zero_sums() {
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
}

void store_sums(TileSums& sums) {
    constexpr std::size_t stride = sizeof(sums.tiles[0][0]);
    _tile_stored(0, sums.tiles[0], stride);
    _tile_stored(1, sums.tiles[1], stride);
    _tile_stored(2, sums.tiles[2], stride);
    _tile_stored(3, sums.tiles[3], stride);
}

/// Dequantize one tile: 16 rows of 16 outputs.
void store_tile(const TileSums& sums, std::size_t tile, const GemmInput& x, std::size_t row, const PackedWeight& weight,
                std::size_t column, float* y, std::size_t y_stride) {
    __m512i rows[tile_height];
    for (int r = 0; r < tile_height; r++) rows[r] = _mm512_load_si512(sums.tiles[tile][r]);
    Int8Gemm::store_tile(rows, tile_height, 1, x.scale + row, weight, column, y, y_stride);
}

/// Prefetch weight tiles of the next depth step: the hardware prefetcher does not keep up with tile loads.
template <int tiles>
void prefetch_next_step(const std::int8_t* w) {
#pragma GCC unroll 64
    for (std::size_t i = 0; i < tile_height * tiles; i++) {
        _mm_prefetch(w + step_bytes + i / tiles * weight_stride + i % tiles * sizeof(__m512i), _MM_HINT_T1);
    }
}

/// Compute 32 rows times 32 columns: four accumulator tiles, so that each loaded tile is used twice.
void gemm_32x32(const GemmInput& x, std::size_t row, const PackedWeight& weight, std::size_t panel, std::size_t column,
                float* y, std::size_t y_stride) {
    const auto* upper = static_cast<const std::uint8_t*>(x.data) + row * x.depth;
    const auto* lower = upper + tile_height * x.depth;
    const auto* w =
        static_cast<const std::int8_t*>(weight.data) + panel * panel_width * x.depth + column * Int8Gemm::interleave;
    zero_sums();
    for (std::size_t k = 0; k < x.depth; k += depth_step) {
        if (row == 0) prefetch_next_step<2>(w + k * panel_width);  // later rows find the weights in the cache
        _tile_loadd(4, upper + k, x.depth);
        _tile_loadd(6, w + k * panel_width, weight_stride);
        _tile_dpbusd(0, 4, 6);
        _tile_loadd(7, w + k * panel_width + simd_width * Int8Gemm::interleave, weight_stride);
        _tile_dpbusd(1, 4, 7);
        _tile_loadd(5, lower + k, x.depth);
        _tile_dpbusd(2, 5, 6);
        _tile_dpbusd(3, 5, 7);
    }
    TileSums sums;
    store_sums(sums);
    for (std::size_t tile = 0; tile < 4; tile++) {
        std::size_t tile_row = tile / 2 * tile_height, tile_column = column + tile % 2 * simd_width;
        store_tile(sums, tile, x, row + tile_row, weight, panel * panel_width + tile_column,
                   y + (row + tile_row) * y_stride + tile_column, y_stride);
    }
}

/// Compute 16 rows times all 64 columns of the panel.
void gemm_16x64(const GemmInput& x, std::size_t row, const PackedWeight& weight, std::size_t panel, float* y,
                std::size_t y_stride) {
    const auto* input = static_cast<const std::uint8_t*>(x.data) + row * x.depth;
    const auto* w = static_cast<const std::int8_t*>(weight.data) + panel * panel_width * x.depth;
    constexpr std::size_t next_tile = simd_width * Int8Gemm::interleave;
    zero_sums();
    for (std::size_t k = 0; k < x.depth; k += depth_step) {
        if (row == 0) prefetch_next_step<4>(w + k * panel_width);
        _tile_loadd(4, input + k, x.depth);
        _tile_loadd(5, w + k * panel_width, weight_stride);
        _tile_dpbusd(0, 4, 5);
        _tile_loadd(6, w + k * panel_width + next_tile, weight_stride);
        _tile_dpbusd(1, 4, 6);
        _tile_loadd(7, w + k * panel_width + 2 * next_tile, weight_stride);
        _tile_dpbusd(2, 4, 7);
        _tile_loadd(5, w + k * panel_width + 3 * next_tile, weight_stride);
        _tile_dpbusd(3, 4, 5);
    }
    TileSums sums;
    store_sums(sums);
    for (std::size_t tile = 0; tile < 4; tile++) {
        store_tile(sums, tile, x, row, weight, panel * panel_width + tile * simd_width,
                   y + row * y_stride + tile * simd_width, y_stride);
    }
}

/// A remainder of fewer than 16 rows is computed as the last 16 rows, some of them a second time.
void gemm_panel_amx(const GemmInput& x, std::size_t rows, const PackedWeight& weight, std::size_t panel, float* y,
                    std::size_t y_stride) {
    if (rows < tile_height) return gemm_panel<Int8Gemm>(x, rows, weight, panel, y, y_stride);
    _tile_loadconfig(&full_tiles);
    std::size_t row = 0, paired = rows < min_rows_for_half_panels ? 0 : rows / (2 * tile_height) * (2 * tile_height);
    // Columns are the outer loop, so that half a panel stays in the cache.
    for (std::size_t column = 0; column < panel_width; column += 2 * simd_width) {
        for (row = 0; row < paired; row += 2 * tile_height) gemm_32x32(x, row, weight, panel, column, y, y_stride);
    }
    for (; row + tile_height < rows; row += tile_height) gemm_16x64(x, row, weight, panel, y, y_stride);
    if (row < rows) gemm_16x64(x, rows - tile_height, weight, panel, y, y_stride);
    _tile_release();
}

}  // namespace

bool request_amx_tiles() {
    // ARCH_REQ_XCOMP_PERM: Linux grants the tile registers on request only.
    constexpr long request = 0x1023, tile_data = 18;
    return syscall(SYS_arch_prctl, request, tile_data) == 0;
}

KernelTable amx_kernels(bool has_bfloat16) {
    KernelTable kernels = has_bfloat16 ? avx512_bf16_kernels() : avx512_kernels();
    kernels.name = "amx";
    kernels.int8.gemm_panel = gemm_panel_amx;
    return kernels;
}

}  // namespace dragoman
