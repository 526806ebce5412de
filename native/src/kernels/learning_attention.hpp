// Attention as training computes it: one head of one text after the other, whose numbers the nearest cache holds.
//
// Everything is one operation, rows mixed by weights: scores are keys, transposed, mixed by a query's numbers; what a query
// takes is values mixed by its weights; gradients are mixtures the other way round. The backward pass computes the weights
// again instead of keeping them.
#pragma once

#include "learning.hpp"

namespace dragoman {
namespace {

/// Weights for `height` mixtures: that of row j in mixture i is at `first[i * row_step + j * column_step]`.
struct Mixing {
    const float* first;
    std::size_t row_step, column_step;
};

/// Numbers of a row from its column `column` on: as many lanes as asked for, zeros behind `size`.
template <int wide, bool whole>
inline void load_row(const float* row, std::size_t left, Lanes (&numbers)[wide]) {
    for (int c = 0; c < wide; c++) {
        std::size_t first = static_cast<std::size_t>(c) * lanes;
        numbers[c] = whole ? load(row + first) : load_some(row + first, left - first);
    }
}

/// y_i = sum_j w_ij x_j, each sum in the order of j, for `height` results of up to `wide` times 16 numbers.
template <int height, int wide, bool whole>
void mix_some(const Mixing& mixing, RowsOfHead<const float> x, std::size_t count, std::size_t left, RowsOfHead<float> y) {
    Lanes sums[height][wide];
#pragma GCC unroll 8
    for (int i = 0; i < height; i++)
#pragma GCC unroll 2
        for (int c = 0; c < wide; c++) sums[i][c] = spread(0.0f);
    const float *row = x.first, *weights = mixing.first;
    for (std::size_t j = 0; j < count; j++, row += x.stride, weights += mixing.column_step) {
        Lanes numbers[wide];
        load_row<wide, whole>(row, left, numbers);
#pragma GCC unroll 8
        for (int i = 0; i < height; i++) {
            Lanes weight = spread(weights[static_cast<std::size_t>(i) * mixing.row_step]);
#pragma GCC unroll 2
            for (int c = 0; c < wide; c++) sums[i][c] = fused(numbers[c], weight, sums[i][c]);
        }
    }
    for (int i = 0; i < height; i++) {
        for (int c = 0; c < wide; c++) {
            std::size_t first = static_cast<std::size_t>(c) * lanes;
            float* result = y.first + static_cast<std::size_t>(i) * y.stride + first;
            whole ? store(result, sums[i][c]) : store_some(result, left - first, sums[i][c]);
        }
    }
}

template <int wide, bool whole>
void mix_columns(const Mixing& mixing, RowsOfHead<const float> x, std::size_t count, std::size_t left, RowsOfHead<float> y,
                 std::size_t results) {
    constexpr int together = FLOAT_TILE_HEIGHT, fewer = 2;
    std::size_t i = 0;
    auto from = [&](std::size_t number) { return Mixing{mixing.first + number * mixing.row_step, mixing.row_step, mixing.column_step}; };
    auto into = [&](std::size_t number) { return RowsOfHead<float>{y.first + number * y.stride, y.stride}; };
    for (; i + together <= results; i += together) mix_some<together, wide, whole>(from(i), x, count, left, into(i));
    for (; i + fewer <= results; i += fewer) mix_some<fewer, wide, whole>(from(i), x, count, left, into(i));
    for (; i < results; i++) mix_some<1, wide, whole>(from(i), x, count, left, into(i));
}

void mix(const Mixing& mixing, RowsOfHead<const float> x, std::size_t count, std::size_t size, RowsOfHead<float> y,
         std::size_t results) {
    constexpr int wide = FLOAT_TILE_WIDTH > 1 ? 2 : 1;  // as much as registers hold the sums of
    for (std::size_t column = 0; column < size;) {
        RowsOfHead<const float> some{x.first + column, x.stride};
        RowsOfHead<float> found{y.first + column, y.stride};
        std::size_t left = size - column;
        if (left >= wide * lanes) {
            mix_columns<wide, true>(mixing, some, count, left, found, results);
            column += wide * lanes;
        } else {
            left >= lanes ? mix_columns<1, true>(mixing, some, count, left, found, results)
                          : mix_columns<1, false>(mixing, some, count, left, found, results);
            column += lanes;
        }
    }
}

/// Rows of numbers as columns, each `width` apart; what is behind the last row is zero.
void transpose(RowsOfHead<const float> x, std::size_t rows, std::size_t size, std::size_t width, float* columns) {
    for (std::size_t i = 0; i < size; i++) {
        float* column = columns + i * width;
        for (std::size_t row = 0; row < rows; row++) column[row] = x.first[row * x.stride + i];
        std::fill(column + rows, column + width, 0.0f);
    }
}

/// What is added to the scores of keys that may be seen, and of those that may not.
void additions(const std::uint8_t* allowed, std::size_t keys, float* added) {
    for (std::size_t key = 0; key < keys; key++) added[key] = allowed[key] != 0 ? 0.0f : lowest;
}

/// Scores become weights: those of the first `seen` keys; a query that may see nothing takes nothing.
void weigh(std::size_t width, std::size_t seen, float scale, const float* added, float* scores) {
    Lanes most = spread(lowest);
    for (std::size_t i = 0; i < width; i += lanes) {
        Lanes some = load(scores + i);
        if (added != nullptr) some = some + load(added + i);
        some = first(seen > i ? seen - i : 0, some, spread(lowest));
        store(scores + i, some);
        most = larger(some, most);
    }
    float peak = largest(most);
    if (peak == lowest) peak = 0.0f;
    Lanes total = spread(0.0f);
    for (std::size_t i = 0; i < width; i += lanes) {
        Lanes raised = exponential((load(scores + i) - spread(peak)) * spread(scale));
        store(scores + i, raised);
        total = total + raised;
    }
    float all = sum(total), share = all == 0.0f ? 0.0f : 1.0f / all;
    for (std::size_t i = 0; i < width; i += lanes) store(scores + i, load(scores + i) * spread(share));
}

/// The weights of all queries, rows of `sizes.width()` numbers; `columns` has room for the keys, transposed, and `added` for
/// a row.
void weights_of(const HeadSizes& sizes, float scale, const Sight& sight, RowsOfHead<const float> query,
                RowsOfHead<const float> key, float* weights, float* columns, float* added) {
    std::size_t width = sizes.width();
    transpose(key, sizes.keys, sizes.head_size, width, columns);
    mix({query.first, query.stride, 1}, {columns, width}, sizes.head_size, width, {weights, width}, sizes.queries);
    const std::uint8_t* allowed = sight.allowed;
    if (allowed != nullptr) additions(allowed, sizes.keys, added);
    for (std::size_t i = 0; i < sizes.queries; i++) {
        if (allowed != nullptr && i > 0 && sight.stride != 0) additions(allowed + i * sight.stride, sizes.keys, added);
        std::size_t seen = sight.causal ? std::min(sizes.keys, i + 1) : sizes.keys;
        weigh(width, seen, scale, allowed == nullptr ? nullptr : added, weights + i * width);
    }
}

void attend_head(const HeadSizes& sizes, float scale, const Sight& sight, const HeadInputs& head, float* scratch,
                 RowsOfHead<float> attended) {
    std::size_t width = sizes.width();
    float *added = scratch, *weights = added + width, *columns = weights + sizes.queries * width;
    weights_of(sizes, scale, sight, head.query, head.key, weights, columns, added);
    mix({weights, width, 1}, head.value, sizes.keys, sizes.head_size, attended, sizes.queries);
}

/// With P the weights: dV = P'dO, dP = dO V', dS = P (dP - sum P dP), dQ = dS K and dK = dS'Q, both times the scale.
void attend_head_back(const HeadSizes& sizes, float scale, const Sight& sight, const HeadInputs& head,
                      RowsOfHead<const float> gradient, float* scratch, const HeadGradients& found) {
    std::size_t width = sizes.width();
    float *added = scratch, *weights = added + width, *columns = weights + sizes.queries * width;
    float* errors = columns + sizes.head_size * width;
    weights_of(sizes, scale, sight, head.query, head.key, weights, columns, added);
    mix({weights, 1, width}, gradient, sizes.queries, sizes.head_size, found.value, sizes.keys);
    transpose(head.value, sizes.keys, sizes.head_size, width, columns);
    mix({gradient.first, gradient.stride, 1}, {columns, width}, sizes.head_size, width, {errors, width}, sizes.queries);
    for (std::size_t query = 0; query < sizes.queries; query++) {
        float *error = errors + query * width, *weight = weights + query * width;
        Lanes product = spread(0.0f);
        for (std::size_t i = 0; i < width; i += lanes) product = fused(load(weight + i), load(error + i), product);
        Lanes mean = spread(sum(product));
        for (std::size_t i = 0; i < width; i += lanes) {
            store(error + i, load(weight + i) * (load(error + i) - mean) * spread(scale));
        }
    }
    mix({errors, width, 1}, head.key, sizes.keys, sizes.head_size, found.query, sizes.queries);
    mix({errors, 1, width}, head.query, sizes.queries, sizes.head_size, found.key, sizes.keys);
}

constexpr LearningKernels learning() {
    return {narrow,
            narrow_and_add,
            widen,
            turn,
            drop,
            {loss_of_row<float>, add_probabilities<float>},
            {loss_of_row<Bfloat16>, add_probabilities<Bfloat16>},
            attend_head,
            attend_head_back};
}

}  // namespace
}  // namespace dragoman
