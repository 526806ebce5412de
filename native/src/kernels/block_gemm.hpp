// GEMM of weights that are quantized by blocks, w = scale * q + center with one scale and one center per 32 inputs, and
// of inputs in 16 bits with one scale per row.
//
// With x = row_scale * p for integers p, a block adds scale * sum(p * q) + center * sum(p) to an output, divided by
// row_scale. Both sums are exact: the first one is below 2^27, the second one below 2^20.
//
// Included by gemm.hpp, after a simd_*.hpp.
#pragma once

#include "kernels/kernel_table.hpp"

namespace dragoman {
namespace {

/// Block of a packed input row.
struct InputBlock {
    std::int16_t values[block_size];
    /// Sum of the values, an integer.
    float sum;
};

/// p = round(32767 x / max |x|). A row with NaN or infinity gets a NaN scale, which makes its product NaN.
void pack_int16_blocks(const float* x, std::size_t count, void* packed, float* scale) {
    constexpr float largest_integer = 32767.0f;
    Vec largest = broadcast(0.0f), non_finite = broadcast(0.0f);
    for (std::size_t i = 0; i < count; i += simd_width) {
        Vec values = load(x + i);
        largest = max(largest, abs(values));
        non_finite = non_finite + values * broadcast(0.0f);
    }
    float range = reduce_max(largest), smallest_range = 1e-30f;
    if (!(range > smallest_range)) range = smallest_range;
    Vec factor = broadcast(largest_integer / range);
    auto* blocks = static_cast<InputBlock*>(packed);
    for (std::size_t i = 0; i < count; i += block_size, blocks++) {
        Vec low = round_to_nearest(load(x + i) * factor), high = round_to_nearest(load(x + i + simd_width) * factor);
        store_int16(blocks->values, low);
        store_int16(blocks->values + simd_width, high);
        blocks->sum = reduce_add(low + high);
    }
    *scale = range / largest_integer + reduce_add(non_finite);
}

/// Integer sums of one block: `tile_rows` rows times `tile_vectors` vectors of columns. The first rows of a batch prefetch
/// weights of a later block, which the other rows then find in the cache;
/// a single row reads the weights as one stream.
template <class Gemm, int tile_rows, int tile_vectors>
inline void add_block_products(const InputBlock* block, std::size_t blocks_per_row, const std::int8_t* w,
                               bool prefetches, typename Gemm::Accumulator (&results)[tile_rows][tile_vectors]) {
    constexpr std::size_t block_bytes = block_size * panel_width, prefetch_distance = 2 * block_bytes;
    typename Gemm::Accumulator sums[tile_rows][tile_vectors];
#pragma GCC unroll 16
    for (int r = 0; r < tile_rows; r++)
#pragma GCC unroll 4
        for (int c = 0; c < tile_vectors; c++) sums[r][c] = Gemm::zero();
    if (prefetches) {
        for (std::size_t k = 0; k < block_size; k += Gemm::interleave) {
            __builtin_prefetch(w + prefetch_distance + k * panel_width);
        }
    }
#pragma GCC unroll 16
    for (std::size_t k = 0; k < block_size; k += Gemm::depth_step) {
        typename Gemm::WeightVec columns[tile_vectors];
#pragma GCC unroll 4
        for (int c = 0; c < tile_vectors; c++) {
            columns[c] = Gemm::load_weights(w + k * panel_width + c * simd_width * Gemm::interleave);
        }
#pragma GCC unroll 16
        for (int r = 0; r < tile_rows; r++) {
            auto input = Gemm::broadcast_input(block[r * blocks_per_row].values + k);
#pragma GCC unroll 4
            for (int c = 0; c < tile_vectors; c++) sums[r][c] = Gemm::multiply_add(sums[r][c], input, columns[c]);
        }
    }
#pragma GCC unroll 16
    for (int r = 0; r < tile_rows; r++)
#pragma GCC unroll 4
        for (int c = 0; c < tile_vectors; c++) results[r][c] = sums[r][c];
}

template <class Gemm, int tile_rows, int tile_vectors>
void block_gemm_tile(const GemmInput& x, std::size_t row, const PackedWeight& weight, std::size_t panel,
                     std::size_t column, float* y, std::size_t y_stride) {
    std::size_t blocks = x.depth / block_size;
    const auto* w =
        static_cast<const std::int8_t*>(weight.data) + panel * panel_width * x.depth + column * Gemm::interleave;
    const Float16* params = weight.block_params + panel * blocks * 2 * panel_width + column;
    const InputBlock* input = static_cast<const InputBlock*>(x.data) + row * blocks;
    Vec totals[tile_rows][tile_vectors];
#pragma GCC unroll 16
    for (int r = 0; r < tile_rows; r++)
#pragma GCC unroll 4
        for (int c = 0; c < tile_vectors; c++) totals[r][c] = broadcast(0.0f);
    for (std::size_t b = 0; b < blocks; b++, w += block_size * panel_width, params += 2 * panel_width) {
        typename Gemm::Accumulator sums[tile_rows][tile_vectors];
        add_block_products<Gemm, tile_rows, tile_vectors>(input + b, blocks, w, tile_rows > 1 && row == 0, sums);
#pragma GCC unroll 4
        for (int c = 0; c < tile_vectors; c++) {
            Vec scale = load(params + c * simd_width), center = load(params + panel_width + c * simd_width);
#pragma GCC unroll 16
            for (int r = 0; r < tile_rows; r++) {
                Vec from_centers = fmadd(center, broadcast(input[r * blocks + b].sum), totals[r][c]);
                totals[r][c] = fmadd(scale, Gemm::to_float(sums[r][c]), from_centers);
            }
        }
    }
    for (int c = 0; c < tile_vectors; c++) {
        std::size_t output = panel * panel_width + column + c * simd_width;
        Vec unit = load(weight.scale + output), bias = load(weight.bias + output);
        for (int r = 0; r < tile_rows; r++) {
            store(y + (row + r) * y_stride + column + c * simd_width,
                  fmadd(totals[r][c], unit * broadcast(x.scale[row + r]), bias));
        }
    }
}

}  // namespace
}  // namespace dragoman
