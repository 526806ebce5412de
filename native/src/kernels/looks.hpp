// Attention of queries to the keys and values of one head, over exactly the places there are.
#pragma once

#include <limits>

#include "rows.hpp"

namespace dragoman {
namespace {

constexpr float lowest = -std::numeric_limits<float>::infinity();

/// Scores into weights that sum to one; what stands after `places` up to the next 16 is overwritten with zeros.
inline void soften(float* scores, std::size_t places) {
    Lanes most = spread(lowest);
    for (std::size_t i = 0; i < places; i += lanes) {
        Lanes some = first(places - i, load(scores + i), spread(lowest));
        store(scores + i, some);
        most = larger(most, some);
    }
    Lanes peak = spread(largest(most)), total = spread(0.0f);
    for (std::size_t i = 0; i < places; i += lanes) {
        Lanes weights = exponential(load(scores + i) - peak);
        store(scores + i, weights);
        total = total + weights;
    }
    Lanes share = spread(1.0f / sum(total));
    for (std::size_t i = 0; i < places; i += lanes) store(scores + i, load(scores + i) * share);
}

template <int number>
struct Strip {
    static constexpr int value = number;
};

/// `work(strip, d)` for stretches of four, two or one times 16 numbers of a head, so that their sums stay in registers.
template <class Work>
inline void in_strips(std::size_t head_width, const Work& work) {
    std::size_t d = 0;
    for (; d + 4 * lanes <= head_width; d += 4 * lanes) work(Strip<4>(), d);
    for (; d + 2 * lanes <= head_width; d += 2 * lanes) work(Strip<2>(), d);
    for (; d < head_width; d += lanes) work(Strip<1>(), d);
}

template <int rows, int columns>
inline void clear(Lanes (&sums)[rows][columns]) {
    for (int i = 0; i < rows; i++) {
        for (int j = 0; j < columns; j++) sums[i][j] = spread(0.0f);
    }
}

/// A few queries at a time, which read every key and value once together.
template <class Number, int queries>
void look_at_blocks_together(const float* query, std::size_t query_stride, const BlockKeys<Number>& seen, float scale,
                             ScoreBias bias, float* scores, float* attended, std::size_t attended_stride,
                             std::size_t head_width) {
    std::size_t width = rounded_up(seen.places, lanes);
    for (std::size_t place = 0; place < seen.places; place += lanes) {
        Lanes products[queries];
        for (int q = 0; q < queries; q++) products[q] = spread(0.0f);
        const Number* block = seen.keys + place * seen.head_size;
        for (std::size_t d = 0; d < seen.head_size; d++) {
            Lanes keys = load(block + d * lanes);
#pragma GCC unroll 4
            for (int q = 0; q < queries; q++) products[q] = fused(spread(query[q * query_stride + d]), keys, products[q]);
        }
        for (int q = 0; q < queries; q++) {
            Lanes score = products[q] * spread(scale);
            if (bias.first != nullptr) score = score + load(bias.first + q * bias.stride + place);
            store(scores + q * width + place, score);
        }
    }
    for (int q = 0; q < queries; q++) soften(scores + q * width, seen.places);
    in_strips(head_width, [&](auto strip, std::size_t d) {
        constexpr int width_of_strip = decltype(strip)::value;
        Lanes totals[queries][width_of_strip];
        clear(totals);
        for (std::size_t place = 0; place < seen.places; place++) {
            const Number* values = seen.values + place * seen.value_stride + d;
            Lanes value[width_of_strip];
#pragma GCC unroll 4
            for (int i = 0; i < width_of_strip; i++) value[i] = load(values + i * lanes);
#pragma GCC unroll 4
            for (int q = 0; q < queries; q++) {
                Lanes weight = spread(scores[q * width + place]);
#pragma GCC unroll 4
                for (int i = 0; i < width_of_strip; i++) totals[q][i] = fused(weight, value[i], totals[q][i]);
            }
        }
        for (int q = 0; q < queries; q++) {
            for (int i = 0; i < width_of_strip; i++) store(attended + q * attended_stride + d + i * lanes, totals[q][i]);
        }
    });
}

/// The function for so many queries, from `queries` down.
template <class Number, int queries>
void look_at_blocks_by(std::size_t together, const float* query, std::size_t query_stride, const BlockKeys<Number>& seen,
                       float scale, ScoreBias bias, float* scores, float* attended, std::size_t attended_stride,
                       std::size_t head_width) {
    if constexpr (queries > 1) {
        if (together < queries) {
            return look_at_blocks_by<Number, queries - 1>(together, query, query_stride, seen, scale, bias, scores, attended,
                                                          attended_stride, head_width);
        }
    }
    look_at_blocks_together<Number, queries>(query, query_stride, seen, scale, bias, scores, attended, attended_stride,
                                             head_width);
}

/// As many together as may be, in parts of like size.
template <class Number>
void look_at_blocks(const Queries& queries, const BlockKeys<Number>& seen, float scale, ScoreBias bias, float* scratch,
                    float* attended, std::size_t attended_stride, std::size_t head_width) {
    std::size_t parts = (queries.count + queries_together - 1) / queries_together;
    for (std::size_t part = 0; part < parts; part++) {
        std::size_t q = queries.count * part / parts, together = queries.count * (part + 1) / parts - q;
        ScoreBias bias_of_part = bias;
        if (bias.first != nullptr) bias_of_part.first = bias.first + static_cast<std::ptrdiff_t>(q) * bias.stride;
        look_at_blocks_by<Number, queries_together>(together, queries.first + q * queries.stride, queries.stride, seen, scale,
                                                    bias_of_part, scratch, attended + q * attended_stride, attended_stride,
                                                    head_width);
    }
}

/// Scores of one query, 16 keys at a time: their sums are taken together.
template <class Number, int strips>
void score_scattered(const float* query, const ScatteredKeys& seen, float scale, const float* bias, float* scores) {
    Lanes queries[strips];
    for (int i = 0; i < strips; i++) queries[i] = load(query + i * lanes);
    for (std::size_t block = 0; block < seen.places; block += lanes) {
        Lanes products[lanes];
        std::size_t here = seen.places - block < lanes ? seen.places - block : lanes;
        for (std::size_t i = here; i < lanes; i++) products[i] = spread(0.0f);
        for (std::size_t i = 0; i < here; i++) {
            const Number* key = reinterpret_cast<const Number*>(seen.slots[block + i] + seen.keys_at);
            Lanes product = queries[0] * load(key);
#pragma GCC unroll 8
            for (int j = 1; j < strips; j++) product = fused(queries[j], load(key + j * lanes), product);
            products[i] = product;
        }
        Lanes score = sums(products) * spread(scale);
        if (bias != nullptr) score = score + load(bias + block);
        store(scores + block, score);
    }
}

/// The same for a head of any width.
template <class Number>
void score_wide(const float* query, const ScatteredKeys& seen, float scale, const float* bias, float* scores,
                std::size_t head_width) {
    for (std::size_t place = 0; place < seen.places; place++) {
        const Number* key = reinterpret_cast<const Number*>(seen.slots[place] + seen.keys_at);
        Lanes product = spread(0.0f);
        for (std::size_t d = 0; d < head_width; d += lanes) product = fused(load(query + d), load(key + d), product);
        scores[place] = sum(product) * scale + (bias == nullptr ? 0.0f : bias[place]);
    }
}

template <class Number>
void look_at_scattered(const float* query, const ScatteredKeys& seen, float scale, const float* bias, float* scores,
                       float* attended, std::size_t head_width) {
    switch (head_width / lanes) {
        case 1:
            score_scattered<Number, 1>(query, seen, scale, bias, scores);
            break;
        case 2:
            score_scattered<Number, 2>(query, seen, scale, bias, scores);
            break;
        case 4:
            score_scattered<Number, 4>(query, seen, scale, bias, scores);
            break;
        default:
            score_wide<Number>(query, seen, scale, bias, scores, head_width);
    }
    soften(scores, seen.places);
    in_strips(head_width, [&](auto strip, std::size_t d) {
        constexpr int width_of_strip = decltype(strip)::value;
        Lanes totals[1][width_of_strip];
        clear(totals);
        for (std::size_t place = 0; place < seen.places; place++) {
            const Number* value = reinterpret_cast<const Number*>(seen.slots[place] + seen.values_at) + d;
            Lanes weight = spread(scores[place]);
#pragma GCC unroll 4
            for (int i = 0; i < width_of_strip; i++) totals[0][i] = fused(weight, load(value + i * lanes), totals[0][i]);
        }
        for (int i = 0; i < width_of_strip; i++) store(attended + d + i * lanes, totals[0][i]);
    });
}

template <class Number>
void write_numbers(const float* x, std::size_t count, Number* cache) {
    for (std::size_t i = 0; i < count; i += lanes) store(cache + i, load(x + i));
}

template <class Number>
void transpose(const float* keys, std::size_t stride, std::size_t places, std::size_t head_size, Number* block) {
    for (std::size_t d = 0; d < head_size; d++) {
        float side_by_side[lanes] = {};
        for (std::size_t place = 0; place < places; place++) side_by_side[place] = keys[place * stride + d];
        store(block + d * lanes, load(side_by_side));
    }
}

template <class Number>
constexpr Looks<Number> looks() {
    return {look_at_blocks<Number>, look_at_scattered<Number>, write_numbers<Number>, transpose<Number>};
}

}  // namespace
}  // namespace dragoman
