// Training attention, one head at a time, whose operands fit the L1 cache.
//
// Every product is one small matrix product: scores are queries times transposed keys, outputs are weights times
// values, and gradients are products with the transposed operands. The backward pass recomputes the attention weights
// instead of storing them, as FlashAttention does (Dao et al., 2022).
#pragma once

#include "kernels/cpu_ops.hpp"

namespace dragoman {
namespace {

/// Left operand of a matrix product: element (i, j) is at `data[i * row_stride + j * column_stride]`.
struct LeftOperand {
    const float* data;
    std::size_t row_stride, column_stride;
};

/// Load `vectors` vectors of a row; elements after `remaining` are zero.
template <int vectors, bool full>
inline void load_row(const float* row, std::size_t remaining, Vec (&values)[vectors]) {
    for (int c = 0; c < vectors; c++) {
        std::size_t column = static_cast<std::size_t>(c) * simd_width;
        values[c] = full ? load(row + column) : load_partial(row + column, remaining - column);
    }
}

/// y_i = sum_j w_ij x_j for `tile_rows` rows of up to `vectors` vectors; each sum adds its terms in order of j.
template <int tile_rows, int vectors, bool full>
void matmul_tile(const LeftOperand& w, HeadRows<const float> x, std::size_t depth, std::size_t remaining,
                 HeadRows<float> y) {
    Vec sums[tile_rows][vectors];
#pragma GCC unroll 8
    for (int i = 0; i < tile_rows; i++)
#pragma GCC unroll 2
        for (int c = 0; c < vectors; c++) sums[i][c] = broadcast(0.0f);
    const float *row = x.data, *weights = w.data;
    for (std::size_t j = 0; j < depth; j++, row += x.stride, weights += w.column_stride) {
        Vec values[vectors];
        load_row<vectors, full>(row, remaining, values);
#pragma GCC unroll 8
        for (int i = 0; i < tile_rows; i++) {
            Vec weight = broadcast(weights[static_cast<std::size_t>(i) * w.row_stride]);
#pragma GCC unroll 2
            for (int c = 0; c < vectors; c++) sums[i][c] = fmadd(values[c], weight, sums[i][c]);
        }
    }
    for (int i = 0; i < tile_rows; i++) {
        for (int c = 0; c < vectors; c++) {
            std::size_t column = static_cast<std::size_t>(c) * simd_width;
            float* result = y.data + static_cast<std::size_t>(i) * y.stride + column;
            full ? store(result, sums[i][c]) : store_partial(result, remaining - column, sums[i][c]);
        }
    }
}

template <int vectors, bool full>
void matmul_columns(const LeftOperand& w, HeadRows<const float> x, std::size_t depth, std::size_t remaining,
                    HeadRows<float> y, std::size_t rows) {
    constexpr int large_tile = FLOAT_TILE_ROWS, small_tile = 2;
    std::size_t i = 0;
    auto from = [&](std::size_t row) {
        return LeftOperand{w.data + row * w.row_stride, w.row_stride, w.column_stride};
    };
    auto into = [&](std::size_t row) { return HeadRows<float>{y.data + row * y.stride, y.stride}; };
    for (; i + large_tile <= rows; i += large_tile) {
        matmul_tile<large_tile, vectors, full>(from(i), x, depth, remaining, into(i));
    }
    for (; i + small_tile <= rows; i += small_tile) {
        matmul_tile<small_tile, vectors, full>(from(i), x, depth, remaining, into(i));
    }
    for (; i < rows; i++) matmul_tile<1, vectors, full>(from(i), x, depth, remaining, into(i));
}

/// y = w x, where x has `depth` rows and `columns` columns, and y has `rows` rows.
void matmul(const LeftOperand& w, HeadRows<const float> x, std::size_t depth, std::size_t columns, HeadRows<float> y,
            std::size_t rows) {
    constexpr int vectors = FLOAT_TILE_VECTORS > 1 ? 2 : 1;  // accumulators must fit the registers
    for (std::size_t column = 0; column < columns;) {
        HeadRows<const float> from{x.data + column, x.stride};
        HeadRows<float> into{y.data + column, y.stride};
        std::size_t remaining = columns - column;
        if (remaining >= vectors * simd_width) {
            matmul_columns<vectors, true>(w, from, depth, remaining, into, rows);
            column += vectors * simd_width;
        } else {
            remaining >= simd_width ? matmul_columns<1, true>(w, from, depth, remaining, into, rows)
                                    : matmul_columns<1, false>(w, from, depth, remaining, into, rows);
            column += simd_width;
        }
    }
}

/// Transpose `rows` rows into columns of stride `stride`, padded with zeros.
void transpose(HeadRows<const float> x, std::size_t rows, std::size_t columns, std::size_t stride, float* transposed) {
    for (std::size_t i = 0; i < columns; i++) {
        float* column = transposed + i * stride;
        for (std::size_t row = 0; row < rows; row++) column[row] = x.data[row * x.stride + i];
        std::fill(column + rows, column + stride, 0.0f);
    }
}

/// Score bias of a mask: zero where a key is allowed, minus infinity elsewhere.
void mask_to_bias(const std::uint8_t* allowed, std::size_t keys, float* bias) {
    for (std::size_t key = 0; key < keys; key++) bias[key] = allowed[key] != 0 ? 0.0f : minus_infinity;
}

/// Softmax of scaled scores over the first `visible` keys; a query without any allowed key gets zero weights.
void masked_softmax(std::size_t stride, std::size_t visible, float scale, const float* bias, float* scores) {
    Vec running_max = broadcast(minus_infinity);
    for (std::size_t i = 0; i < stride; i += simd_width) {
        Vec values = load(scores + i);
        if (bias != nullptr) values = values + load(bias + i);
        values = select_first(visible > i ? visible - i : 0, values, broadcast(minus_infinity));
        store(scores + i, values);
        running_max = max(values, running_max);
    }
    float peak = reduce_max(running_max);
    if (peak == minus_infinity) peak = 0.0f;
    Vec total = broadcast(0.0f);
    for (std::size_t i = 0; i < stride; i += simd_width) {
        Vec values = exp((load(scores + i) - broadcast(peak)) * broadcast(scale));
        store(scores + i, values);
        total = total + values;
    }
    float sum = reduce_add(total), factor = sum == 0.0f ? 0.0f : 1.0f / sum;
    for (std::size_t i = 0; i < stride; i += simd_width) store(scores + i, load(scores + i) * broadcast(factor));
}

/// Attention weights of all queries, in rows of `shape.score_stride()`. Scratch: `transposed_keys` and `bias`.
void attention_weights(const HeadShape& shape, float scale, const AttentionMask& mask, HeadRows<const float> query,
                       HeadRows<const float> key, float* weights, float* transposed_keys, float* bias) {
    std::size_t stride = shape.score_stride();
    transpose(key, shape.num_keys, shape.head_dim, stride, transposed_keys);
    matmul({query.data, query.stride, 1}, {transposed_keys, stride}, shape.head_dim, stride, {weights, stride},
           shape.num_queries);
    const std::uint8_t* allowed = mask.allowed;
    if (allowed != nullptr) mask_to_bias(allowed, shape.num_keys, bias);
    for (std::size_t i = 0; i < shape.num_queries; i++) {
        if (allowed != nullptr && i > 0 && mask.query_stride != 0) {
            mask_to_bias(allowed + i * mask.query_stride, shape.num_keys, bias);
        }
        std::size_t visible = mask.causal ? std::min(shape.num_keys, i + 1) : shape.num_keys;
        masked_softmax(stride, visible, scale, allowed == nullptr ? nullptr : bias, weights + i * stride);
    }
}

void attention_forward(const HeadShape& shape, float scale, const AttentionMask& mask, const HeadInputs& inputs,
                       float* scratch, HeadRows<float> output) {
    std::size_t stride = shape.score_stride();
    float *bias = scratch, *weights = bias + stride, *transposed_keys = weights + shape.num_queries * stride;
    attention_weights(shape, scale, mask, inputs.query, inputs.key, weights, transposed_keys, bias);
    matmul({weights, stride, 1}, inputs.value, shape.num_keys, shape.head_dim, output, shape.num_queries);
}

/// With weights P: dV = P'dO, dP = dO V', dS = P (dP - sum P dP) scale, dQ = dS K, dK = dS'Q.
void attention_backward(const HeadShape& shape, float scale, const AttentionMask& mask, const HeadInputs& inputs,
                        HeadRows<const float> output_gradient, float* scratch, const HeadGradients& gradients) {
    std::size_t stride = shape.score_stride();
    float *bias = scratch, *weights = bias + stride, *transposed = weights + shape.num_queries * stride;
    float* score_gradients = transposed + shape.head_dim * stride;
    attention_weights(shape, scale, mask, inputs.query, inputs.key, weights, transposed, bias);
    matmul({weights, 1, stride}, output_gradient, shape.num_queries, shape.head_dim, gradients.value, shape.num_keys);
    transpose(inputs.value, shape.num_keys, shape.head_dim, stride, transposed);
    matmul({output_gradient.data, output_gradient.stride, 1}, {transposed, stride}, shape.head_dim, stride,
           {score_gradients, stride}, shape.num_queries);
    for (std::size_t query = 0; query < shape.num_queries; query++) {
        float *gradient = score_gradients + query * stride, *weight = weights + query * stride;
        Vec product = broadcast(0.0f);
        for (std::size_t i = 0; i < stride; i += simd_width) {
            product = fmadd(load(weight + i), load(gradient + i), product);
        }
        Vec mean = broadcast(reduce_add(product));
        for (std::size_t i = 0; i < stride; i += simd_width) {
            store(gradient + i, load(weight + i) * (load(gradient + i) - mean) * broadcast(scale));
        }
    }
    matmul({score_gradients, stride, 1}, inputs.key, shape.num_keys, shape.head_dim, gradients.query,
           shape.num_queries);
    matmul({score_gradients, 1, stride}, inputs.query, shape.num_queries, shape.head_dim, gradients.key,
           shape.num_keys);
}

}  // namespace
}  // namespace dragoman
