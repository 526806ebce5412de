// GEMM microkernels over packed weights, generic in the arithmetic of one instruction set and compute type.
//
// A tile of a few rows times a few vectors of columns keeps its accumulators in registers. Each accumulator adds its
// products in order of depth, so neither the shape of a tile nor the place in it changes a bit of the result.
//
// Included after a simd_*.hpp and the macros FLOAT_TILE_ROWS and FLOAT_TILE_VECTORS, the tile shape in float32.
#pragma once

#include <type_traits>

#include "kernels/block_gemm.hpp"
#include "kernels/kernel_table.hpp"

namespace dragoman {
namespace {

/// Compute `tile_rows` rows times `tile_vectors` vectors of columns, from `column` of the panel.
template <class Gemm, int tile_rows, int tile_vectors>
void gemm_tile(const GemmInput& x, std::size_t row, const PackedWeight& weight, std::size_t panel, std::size_t column,
               float* y, std::size_t y_stride) {
    typename Gemm::Accumulator sums[tile_rows][tile_vectors];
#pragma GCC unroll 16
    for (int r = 0; r < tile_rows; r++)
#pragma GCC unroll 4
        for (int c = 0; c < tile_vectors; c++) sums[r][c] = Gemm::zero();

    const typename Gemm::Weight* w = static_cast<const typename Gemm::Weight*>(weight.data) +
                                     panel * panel_width * x.depth + column * Gemm::interleave;
    const typename Gemm::Input* rows = static_cast<const typename Gemm::Input*>(x.data) + row * x.depth;
    for (std::size_t k = 0; k < x.depth; k += Gemm::depth_step) {
        typename Gemm::WeightVec columns[tile_vectors];
#pragma GCC unroll 4
        for (int c = 0; c < tile_vectors; c++) {
            columns[c] = Gemm::load_weights(w + k * panel_width + c * simd_width * Gemm::interleave);
        }
#pragma GCC unroll 16
        for (int r = 0; r < tile_rows; r++) {
            auto input = Gemm::broadcast_input(rows + r * x.depth + k);
#pragma GCC unroll 4
            for (int c = 0; c < tile_vectors; c++) sums[r][c] = Gemm::multiply_add(sums[r][c], input, columns[c]);
        }
    }
    // Copied through memory: otherwise compilers spill the accumulators inside the loop.
    typename Gemm::Accumulator results[tile_rows][tile_vectors];
#pragma GCC unroll 16
    for (int r = 0; r < tile_rows; r++)
#pragma GCC unroll 4
        for (int c = 0; c < tile_vectors; c++) results[r][c] = sums[r][c];
    Gemm::store_tile(&results[0][0], tile_rows, tile_vectors, x.scale == nullptr ? nullptr : x.scale + row, weight,
                     panel * panel_width + column, y + row * y_stride + column, y_stride);
}

/// Compute a tile by the loop of the GEMM class: its own, or `gemm_tile`.
template <class Gemm, int tile_rows, int tile_vectors>
void compute_tile(const GemmInput& x, std::size_t row, const PackedWeight& weight, std::size_t panel,
                  std::size_t column, float* y, std::size_t y_stride) {
    if constexpr (std::is_same_v<typename Gemm::Input, InputBlock>) {
        block_gemm_tile<Gemm, tile_rows, tile_vectors>(x, row, weight, panel, column, y, y_stride);
    } else {
        gemm_tile<Gemm, tile_rows, tile_vectors>(x, row, weight, panel, column, y, y_stride);
    }
}

/// Compute the remaining rows, fewer than a whole tile.
template <class Gemm, int tile_rows, int tile_vectors>
void gemm_remainder(const GemmInput& x, std::size_t row, std::size_t rows, const PackedWeight& weight,
                    std::size_t panel, std::size_t column, float* y, std::size_t y_stride) {
    if constexpr (tile_rows > 0) {
        if (rows == tile_rows) {
            compute_tile<Gemm, tile_rows, tile_vectors>(x, row, weight, panel, column, y, y_stride);
        } else {
            gemm_remainder<Gemm, tile_rows - 1, tile_vectors>(x, row, rows, weight, panel, column, y, y_stride);
        }
    }
}

template <class Gemm>
void gemm_panel(const GemmInput& x, std::size_t rows, const PackedWeight& weight, std::size_t panel, float* y,
                std::size_t y_stride) {
    if (rows == 1) {  // all columns at once: the weight is read as one stream
        compute_tile<Gemm, 1, 4>(x, 0, weight, panel, 0, y, y_stride);
        return;
    }
    constexpr int tile_rows = Gemm::tile_rows, tile_vectors = Gemm::tile_vectors;
    for (std::size_t column = 0; column < panel_width; column += tile_vectors * simd_width) {
        std::size_t row = 0;
        for (; row + tile_rows <= rows; row += tile_rows) {
            compute_tile<Gemm, tile_rows, tile_vectors>(x, row, weight, panel, column, y, y_stride);
        }
        gemm_remainder<Gemm, tile_rows - 1, tile_vectors>(x, row, rows - row, weight, panel, column, y, y_stride);
    }
}

/// y = sum + bias, for accumulators of floats.
inline void store_float_tile(const Vec* sums, int tile_rows, int tile_vectors, const PackedWeight& weight,
                             std::size_t column, float* y, std::size_t y_stride) {
    for (int c = 0; c < tile_vectors; c++) {
        Vec bias = load(weight.bias + column + c * simd_width);
        for (int r = 0; r < tile_rows; r++) store(y + r * y_stride + c * simd_width, sums[r * tile_vectors + c] + bias);
    }
}

struct Float32Gemm {
    using Input = float;
    using Weight = float;
    using Accumulator = Vec;
    using WeightVec = Vec;
    static constexpr std::size_t depth_step = 1, interleave = 1;
    static constexpr int tile_rows = FLOAT_TILE_ROWS, tile_vectors = FLOAT_TILE_VECTORS;
    static Accumulator zero() { return broadcast(0.0f); }
    static WeightVec load_weights(const Weight* w) { return load(w); }
    static Vec broadcast_input(const Input* x) { return broadcast(*x); }
    static Accumulator multiply_add(Accumulator sum, Vec x, WeightVec w) { return fmadd(x, w, sum); }
    static void store_tile(const Accumulator* sums, int tile_rows, int tile_vectors, const float*,
                           const PackedWeight& weight, std::size_t column, float* y, std::size_t y_stride) {
        store_float_tile(sums, tile_rows, tile_vectors, weight, column, y, y_stride);
    }
};

}  // namespace
}  // namespace dragoman
