// Products of bytes by AMX: the unit that multiplies tiles of 16 rows. All else is that of AVX-512.
//
// Sums of whole numbers are exact, so that a row has the same bits by these tiles as by VNNI, which takes what is too few
// rows for them. A packed weight is laid out as they want it: a step of 64 numbers of 16 columns is 16 lines of 64 bytes.
#include "lanes_avx512.hpp"

#define FLOAT_TILE_HEIGHT 6
#define FLOAT_TILE_WIDTH 4
#include "products.hpp"

#include <sys/syscall.h>
#include <unistd.h>

#include "avx512_int8.hpp"
#include "tables.hpp"

namespace dragoman {
namespace {

constexpr int height = 16;
constexpr std::size_t step = 64;
/// Bytes from one line of a packed weight to the next.
constexpr std::size_t line = group * Int8::interleave;

/// Bytes of a group that a step reads.
constexpr std::size_t step_bytes = step * group;
/// Rows that make it worth while to read half of a group at a time, so that it stays near: fewer read all of it as one stream.
constexpr std::size_t rows_to_halve_for = 64;

/// What `ldtilecfg` reads: every tile has 16 rows of 64 bytes.
struct alignas(64) Configuration {
    std::uint8_t palette = 1, start = 0, reserved[14] = {};
    std::uint16_t bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
    std::uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};
static_assert(sizeof(Configuration) == 64);
constexpr Configuration whole_tiles;

/// What the four tiles of sums hold in the end: tiles 0 to 3, and 4 to 7 are for what is multiplied.
struct alignas(64) Sums {
    std::int32_t tiles[4][height][lanes];
};

void begin() {
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
}

void end(Sums& sums) {
    constexpr std::size_t stride = sizeof(sums.tiles[0][0]);
    _tile_stored(0, sums.tiles[0], stride);
    _tile_stored(1, sums.tiles[1], stride);
    _tile_stored(2, sums.tiles[2], stride);
    _tile_stored(3, sums.tiles[3], stride);
}

/// What the sums of one tile become: `height` rows of 16 outputs.
void finish(const Sums& sums, std::size_t tile, const Operand& x, std::size_t row, const Packed& weight, std::size_t column,
            float* y, std::size_t y_stride) {
    __m512i rows[height];
    for (int r = 0; r < height; r++) rows[r] = _mm512_load_si512(sums.tiles[tile][r]);
    Int8::finish(rows, height, 1, x.scale + row, weight, column, y, y_stride);
}

/// Asks for so many tiles of the next step: the processor guesses too little of what tiles read by itself.
template <int tiles>
void ask_for_next(const std::int8_t* w) {
#pragma GCC unroll 64
    for (std::size_t i = 0; i < height * tiles; i++) {
        _mm_prefetch(w + step_bytes + i / tiles * line + i % tiles * sizeof(__m512i), _MM_HINT_T1);
    }
}

/// 32 rows times 32 columns: four tiles of sums, so that what is read serves twice.
void large_tile(const Operand& x, std::size_t row, const Packed& weight, std::size_t group_number, std::size_t column,
                float* y, std::size_t y_stride) {
    const auto* upper = static_cast<const std::uint8_t*>(x.data) + row * x.depth;
    const auto* lower = upper + height * x.depth;
    const auto* w = static_cast<const std::int8_t*>(weight.data) + group_number * group * x.depth + column * Int8::interleave;
    begin();
    for (std::size_t k = 0; k < x.depth; k += step) {
        if (row == 0) ask_for_next<2>(w + k * group);  // what comes after finds the weights near
        _tile_loadd(4, upper + k, x.depth);
        _tile_loadd(6, w + k * group, line);
        _tile_dpbusd(0, 4, 6);
        _tile_loadd(7, w + k * group + lanes * Int8::interleave, line);
        _tile_dpbusd(1, 4, 7);
        _tile_loadd(5, lower + k, x.depth);
        _tile_dpbusd(2, 5, 6);
        _tile_dpbusd(3, 5, 7);
    }
    Sums sums;
    end(sums);
    for (std::size_t part = 0; part < 4; part++) {
        std::size_t below = part / 2 * height, beside = column + part % 2 * lanes;
        finish(sums, part, x, row + below, weight, group_number * group + beside, y + (row + below) * y_stride + beside,
               y_stride);
    }
}

/// 16 rows times all columns of the group.
void broad_tile(const Operand& x, std::size_t row, const Packed& weight, std::size_t group_number, float* y,
                std::size_t y_stride) {
    const auto* numbers = static_cast<const std::uint8_t*>(x.data) + row * x.depth;
    const auto* w = static_cast<const std::int8_t*>(weight.data) + group_number * group * x.depth;
    constexpr std::size_t beside = lanes * Int8::interleave;
    begin();
    for (std::size_t k = 0; k < x.depth; k += step) {
        if (row == 0) ask_for_next<4>(w + k * group);
        _tile_loadd(4, numbers + k, x.depth);
        _tile_loadd(5, w + k * group, line);
        _tile_dpbusd(0, 4, 5);
        _tile_loadd(6, w + k * group + beside, line);
        _tile_dpbusd(1, 4, 6);
        _tile_loadd(7, w + k * group + 2 * beside, line);
        _tile_dpbusd(2, 4, 7);
        _tile_loadd(5, w + k * group + 3 * beside, line);
        _tile_dpbusd(3, 4, 5);
    }
    Sums sums;
    end(sums);
    for (std::size_t part = 0; part < 4; part++) {
        finish(sums, part, x, row, weight, group_number * group + part * lanes, y + row * y_stride + part * lanes, y_stride);
    }
}

/// The last rows, where they do not fill a tile, are computed together with some before them once more.
void tiled_product(const Operand& x, std::size_t rows, const Packed& weight, std::size_t group_number, float* y,
                   std::size_t y_stride) {
    if (rows < height) return product<Int8>(x, rows, weight, group_number, y, y_stride);
    _tile_loadconfig(&whole_tiles);
    std::size_t row = 0, paired = rows < rows_to_halve_for ? 0 : rows / (2 * height) * (2 * height);
    for (std::size_t column = 0; column < group; column += 2 * lanes) {  // outside: half of the group's weights stay near
        for (row = 0; row < paired; row += 2 * height) large_tile(x, row, weight, group_number, column, y, y_stride);
    }
    for (; row + height < rows; row += height) broad_tile(x, row, weight, group_number, y, y_stride);
    if (row < rows) broad_tile(x, rows - height, weight, group_number, y, y_stride);
    _tile_release();
}

}  // namespace

bool may_use_tiles() {
    constexpr long request = 0x1023, tile_data = 18;  // ARCH_REQ_XCOMP_PERM: Linux gives the registers to who asks
    return syscall(SYS_arch_prctl, request, tile_data) == 0;
}

Kernels amx_kernels(bool has_bfloat16) {
    Kernels kernels = has_bfloat16 ? avx512_bfloat16_kernels() : avx512_kernels();
    kernels.name = "amx";
    kernels.int8.product = tiled_product;
    return kernels;
}

}  // namespace dragoman
