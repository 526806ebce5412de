// Attention kernels for inference: softmax(q K' scale + bias) V for the queries of one head.
#pragma once

#include "kernels/kernel_table.hpp"
#include "kernels/vector_math.hpp"

namespace dragoman {
namespace {

/// Softmax in place; padding after `length` up to the next multiple of 16 becomes zero.
inline void softmax(float* scores, std::size_t length) {
    Vec running_max = broadcast(minus_infinity);
    for (std::size_t i = 0; i < length; i += simd_width) {
        Vec masked = select_first(length - i, load(scores + i), broadcast(minus_infinity));
        store(scores + i, masked);
        running_max = max(running_max, masked);
    }
    Vec peak = broadcast(reduce_max(running_max)), total = broadcast(0.0f);
    for (std::size_t i = 0; i < length; i += simd_width) {
        Vec weights = exp(load(scores + i) - peak);
        store(scores + i, weights);
        total = total + weights;
    }
    Vec factor = broadcast(1.0f / reduce_add(total));
    for (std::size_t i = 0; i < length; i += simd_width) store(scores + i, load(scores + i) * factor);
}

template <int number>
struct VectorCount {
    static constexpr int value = number;
};

/// Call `work(vector_count, d)` for slices of four, two or one vectors of a head, whose sums fit the registers.
template <class Work>
inline void for_each_head_slice(std::size_t head_width, const Work& work) {
    std::size_t d = 0;
    for (; d + 4 * simd_width <= head_width; d += 4 * simd_width) work(VectorCount<4>(), d);
    for (; d + 2 * simd_width <= head_width; d += 2 * simd_width) work(VectorCount<2>(), d);
    for (; d < head_width; d += simd_width) work(VectorCount<1>(), d);
}

template <int rows, int columns>
inline void set_zero(Vec (&sums)[rows][columns]) {
    for (int i = 0; i < rows; i++) {
        for (int j = 0; j < columns; j++) sums[i][j] = broadcast(0.0f);
    }
}

/// Attention of `queries` queries that share each load of a key or value.
template <class Element, int queries>
void blocked_attention_tile(const float* query, std::size_t query_stride, const BlockedKv<Element>& kv, float scale,
                            ScoreBias bias, float* scores, float* output, std::size_t output_stride,
                            std::size_t head_width) {
    std::size_t score_stride = round_up(kv.length, simd_width);
    for (std::size_t position = 0; position < kv.length; position += simd_width) {
        Vec products[queries];
        for (int q = 0; q < queries; q++) products[q] = broadcast(0.0f);
        const Element* block = kv.keys + position * kv.head_dim;
        for (std::size_t d = 0; d < kv.head_dim; d++) {
            Vec keys = load(block + d * simd_width);
#pragma GCC unroll 4
            for (int q = 0; q < queries; q++) {
                products[q] = fmadd(broadcast(query[q * query_stride + d]), keys, products[q]);
            }
        }
        for (int q = 0; q < queries; q++) {
            Vec score = products[q] * broadcast(scale);
            if (bias.data != nullptr) score = score + load(bias.data + q * bias.query_stride + position);
            store(scores + q * score_stride + position, score);
        }
    }
    for (int q = 0; q < queries; q++) softmax(scores + q * score_stride, kv.length);
    for_each_head_slice(head_width, [&](auto vector_count, std::size_t d) {
        constexpr int vectors = decltype(vector_count)::value;
        Vec totals[queries][vectors];
        set_zero(totals);
        for (std::size_t position = 0; position < kv.length; position++) {
            const Element* values = kv.values + position * kv.value_stride + d;
            Vec value[vectors];
#pragma GCC unroll 4
            for (int i = 0; i < vectors; i++) value[i] = load(values + i * simd_width);
#pragma GCC unroll 4
            for (int q = 0; q < queries; q++) {
                Vec weight = broadcast(scores[q * score_stride + position]);
#pragma GCC unroll 4
                for (int i = 0; i < vectors; i++) totals[q][i] = fmadd(weight, value[i], totals[q][i]);
            }
        }
        for (int q = 0; q < queries; q++) {
            for (int i = 0; i < vectors; i++) store(output + q * output_stride + d + i * simd_width, totals[q][i]);
        }
    });
}

/// Select the instance of `blocked_attention_tile` for `count` queries, from `queries` down.
template <class Element, int queries>
void dispatch_blocked_attention_tile(std::size_t count, const float* query, std::size_t query_stride,
                                     const BlockedKv<Element>& kv, float scale, ScoreBias bias, float* scores,
                                     float* output, std::size_t output_stride, std::size_t head_width) {
    if constexpr (queries > 1) {
        if (count < queries) {
            return dispatch_blocked_attention_tile<Element, queries - 1>(count, query, query_stride, kv, scale, bias,
                                                                         scores, output, output_stride, head_width);
        }
    }
    blocked_attention_tile<Element, queries>(query, query_stride, kv, scale, bias, scores, output, output_stride,
                                             head_width);
}

/// Attention to contiguous keys and values, in tiles of as many queries as possible and of similar size.
template <class Element>
void blocked_attention(const QueryRows& queries, const BlockedKv<Element>& kv, float scale, ScoreBias bias,
                       float* scratch, float* output, std::size_t output_stride, std::size_t head_width) {
    std::size_t tiles = (queries.count + query_tile - 1) / query_tile;
    for (std::size_t tile = 0; tile < tiles; tile++) {
        std::size_t q = queries.count * tile / tiles, count = queries.count * (tile + 1) / tiles - q;
        ScoreBias tile_bias = bias;
        if (bias.data != nullptr) tile_bias.data = bias.data + static_cast<std::ptrdiff_t>(q) * bias.query_stride;
        dispatch_blocked_attention_tile<Element, query_tile>(count, queries.data + q * queries.stride, queries.stride,
                                                             kv, scale, tile_bias, scratch, output + q * output_stride,
                                                             output_stride, head_width);
    }
}

/// Scores of one query, for heads of `vectors` vectors: 16 keys at a time, whose sums are reduced together.
template <class Element, int vectors>
void paged_scores(const float* query, const PagedKv& kv, float scale, const float* bias, float* scores) {
    Vec queries[vectors];
    for (int i = 0; i < vectors; i++) queries[i] = load(query + i * simd_width);
    for (std::size_t block = 0; block < kv.length; block += simd_width) {
        Vec products[simd_width];
        std::size_t count = kv.length - block < simd_width ? kv.length - block : simd_width;
        for (std::size_t i = count; i < simd_width; i++) products[i] = broadcast(0.0f);
        for (std::size_t i = 0; i < count; i++) {
            const Element* key = reinterpret_cast<const Element*>(kv.entries[block + i] + kv.key_offset);
            Vec product = queries[0] * load(key);
#pragma GCC unroll 8
            for (int j = 1; j < vectors; j++) product = fmadd(queries[j], load(key + j * simd_width), product);
            products[i] = product;
        }
        Vec score = reduce_add_each(products) * broadcast(scale);
        if (bias != nullptr) score = score + load(bias + block);
        store(scores + block, score);
    }
}

/// Scores of one query, for heads of any width.
template <class Element>
void paged_scores_any_width(const float* query, const PagedKv& kv, float scale, const float* bias, float* scores,
                            std::size_t head_width) {
    for (std::size_t position = 0; position < kv.length; position++) {
        const Element* key = reinterpret_cast<const Element*>(kv.entries[position] + kv.key_offset);
        Vec product = broadcast(0.0f);
        for (std::size_t d = 0; d < head_width; d += simd_width) {
            product = fmadd(load(query + d), load(key + d), product);
        }
        scores[position] = reduce_add(product) * scale + (bias == nullptr ? 0.0f : bias[position]);
    }
}

/// Attention of one query to keys and values at scattered addresses.
template <class Element>
void paged_attention(const float* query, const PagedKv& kv, float scale, const float* bias, float* scores,
                     float* output, std::size_t head_width) {
    switch (head_width / simd_width) {
        case 1:
            paged_scores<Element, 1>(query, kv, scale, bias, scores);
            break;
        case 2:
            paged_scores<Element, 2>(query, kv, scale, bias, scores);
            break;
        case 4:
            paged_scores<Element, 4>(query, kv, scale, bias, scores);
            break;
        default:
            paged_scores_any_width<Element>(query, kv, scale, bias, scores, head_width);
    }
    softmax(scores, kv.length);
    for_each_head_slice(head_width, [&](auto vector_count, std::size_t d) {
        constexpr int vectors = decltype(vector_count)::value;
        Vec totals[1][vectors];
        set_zero(totals);
        for (std::size_t position = 0; position < kv.length; position++) {
            const Element* value = reinterpret_cast<const Element*>(kv.entries[position] + kv.value_offset) + d;
            Vec weight = broadcast(scores[position]);
#pragma GCC unroll 4
            for (int i = 0; i < vectors; i++) totals[0][i] = fmadd(weight, load(value + i * simd_width), totals[0][i]);
        }
        for (int i = 0; i < vectors; i++) store(output + d + i * simd_width, totals[0][i]);
    });
}

template <class Element>
void store_kv(const float* x, std::size_t count, Element* cache) {
    for (std::size_t i = 0; i < count; i += simd_width) store(cache + i, load(x + i));
}

template <class Element>
void transpose_keys(const float* keys, std::size_t stride, std::size_t count, std::size_t head_dim, Element* block) {
    for (std::size_t d = 0; d < head_dim; d++) {
        float column[simd_width] = {};
        for (std::size_t position = 0; position < count; position++) column[position] = keys[position * stride + d];
        store(block + d * simd_width, load(column));
    }
}

}  // namespace
}  // namespace dragoman
