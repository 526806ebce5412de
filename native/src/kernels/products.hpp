// Products of rows and packed weights, for the instruction set whose arithmetics were included before.
//
// A tile is a few rows times a few times 16 columns, whose sums stay in registers. Each sum runs over the depth in order,
// so that neither the shape of the tile nor the place in it changes a bit of the result.
#pragma once

#include "../kernels.hpp"

namespace dragoman {
namespace {

/// `height` rows times `width` times 16 columns, from `column` of the group on.
template <class A, int height, int width>
void tile(const Operand& x, std::size_t row, const Packed& weight, std::size_t group_number, std::size_t column, float* y,
          std::size_t y_stride) {
    typename A::Sum sums[height][width];
#pragma GCC unroll 16
    for (int r = 0; r < height; r++)
#pragma GCC unroll 4
        for (int c = 0; c < width; c++) sums[r][c] = A::nothing();

    const typename A::Weight* w = static_cast<const typename A::Weight*>(weight.data) + group_number * group * x.depth +
                                  column * A::interleave;
    const typename A::Number* rows = static_cast<const typename A::Number*>(x.data) + row * x.depth;
    for (std::size_t k = 0; k < x.depth; k += A::depth) {
        typename A::Columns columns[width];
#pragma GCC unroll 4
        for (int c = 0; c < width; c++) columns[c] = A::columns(w + k * group + c * lanes * A::interleave);
#pragma GCC unroll 16
        for (int r = 0; r < height; r++) {
            auto numbers = A::numbers(rows + r * x.depth + k);
#pragma GCC unroll 4
            for (int c = 0; c < width; c++) sums[r][c] = A::added(sums[r][c], numbers, columns[c]);
        }
    }
    // Through memory: with the rest of the arithmetic beside them, compilers would not keep the sums in registers.
    typename A::Sum finished[height][width];
#pragma GCC unroll 16
    for (int r = 0; r < height; r++)
#pragma GCC unroll 4
        for (int c = 0; c < width; c++) finished[r][c] = sums[r][c];
    A::finish(&finished[0][0], height, width, x.scale == nullptr ? nullptr : x.scale + row, weight,
              group_number * group + column, y + row * y_stride + column, y_stride);
}

/// The last rows, fewer than a whole tile.
template <class A, int height, int width>
void last_tile(const Operand& x, std::size_t row, std::size_t rows, const Packed& weight, std::size_t group_number,
               std::size_t column, float* y, std::size_t y_stride) {
    if constexpr (height > 0) {
        if (rows == height) {
            tile<A, height, width>(x, row, weight, group_number, column, y, y_stride);
        } else {
            last_tile<A, height - 1, width>(x, row, rows, weight, group_number, column, y, y_stride);
        }
    }
}

template <class A>
void product(const Operand& x, std::size_t rows, const Packed& weight, std::size_t group_number, float* y,
             std::size_t y_stride) {
    if (rows == 1) {  // all columns at once, which reads the weight as one stream
        tile<A, 1, 4>(x, 0, weight, group_number, 0, y, y_stride);
        return;
    }
    constexpr int height = A::height, width = A::width;
    for (std::size_t column = 0; column < group; column += width * lanes) {
        std::size_t row = 0;
        for (; row + height <= rows; row += height) {
            tile<A, height, width>(x, row, weight, group_number, column, y, y_stride);
        }
        last_tile<A, height - 1, width>(x, row, rows - row, weight, group_number, column, y, y_stride);
    }
}

/// y = sum + bias, for arithmetics whose sums are numbers already.
inline void finish_plain(const Lanes* sums, int height, int width, const Packed& weight, std::size_t column, float* y,
                         std::size_t y_stride) {
    for (int c = 0; c < width; c++) {
        Lanes bias = load(weight.bias + column + c * lanes);
        for (int r = 0; r < height; r++) store(y + r * y_stride + c * lanes, sums[r * width + c] + bias);
    }
}

struct Float32 {
    using Number = float;
    using Weight = float;
    using Sum = Lanes;
    using Columns = Lanes;
    static constexpr std::size_t depth = 1, interleave = 1;
    static constexpr int height = FLOAT_TILE_HEIGHT, width = FLOAT_TILE_WIDTH;
    static Sum nothing() { return spread(0.0f); }
    static Columns columns(const Weight* w) { return load(w); }
    static Lanes numbers(const Number* x) { return spread(*x); }
    static Sum added(Sum sum, Lanes x, Columns w) { return fused(x, w, sum); }
    static void finish(const Sum* sums, int height, int width, const float*, const Packed& weight, std::size_t column,
                       float* y, std::size_t y_stride) {
        finish_plain(sums, height, width, weight, column, y, y_stride);
    }
};

}  // namespace
}  // namespace dragoman
