// Streaming log-sum-exp and top-k over the vocabulary, one panel of logits at a time.
#pragma once

#include <cmath>

#include "kernels/kernel_table.hpp"
#include "kernels/vector_math.hpp"

namespace dragoman {
namespace {

void panel_stats(const float* logits, std::size_t rows, PanelStats* stats, std::size_t stride) {
    static_assert(panel_width == 4 * simd_width, "a panel is read as four vectors");
    for (std::size_t row = 0; row < rows; row++, logits += panel_width, stats += stride) {
        Vec a = load(logits), b = load(logits + simd_width);
        Vec c = load(logits + 2 * simd_width), d = load(logits + 3 * simd_width);
        float row_max = reduce_max(max(max(a, b), max(c, d)));
        Vec peak = broadcast(row_max), zero = broadcast(0.0f);
        Vec first_half = exp_nonpositive(a - peak) + exp_nonpositive(b - peak);
        Vec second_half = exp_nonpositive(c - peak) + exp_nonpositive(d - peak);
        // 0 * x is NaN for a non-finite x. Without these terms, minus infinity would leave no trace in the sum.
        first_half = fmadd(a, zero, fmadd(b, zero, first_half));
        second_half = fmadd(c, zero, fmadd(d, zero, second_half));
        *stats = {row_max, reduce_add(first_half + second_half)};
    }
}

std::uint64_t panel_greater_mask(const float* logits, float threshold) {
    std::uint64_t bits = 0;
    for (std::size_t i = 0; i < panel_width; i += simd_width) {
        bits |= static_cast<std::uint64_t>(greater_mask(load(logits + i), threshold)) << i;
    }
    return bits;
}

/// Sort key of the logit at the lowest set bit.
inline SortKey lowest_key(const float* logits, std::uint64_t mask, const PanelTokens& tokens) {
    int column = __builtin_ctzll(mask);
    return make_sort_key(logits[column], tokens.list == nullptr ? tokens.first + column : tokens.list[column]);
}

typedef SortKey KeyVector __attribute__((vector_size(keys_per_vector * sizeof(SortKey)), may_alias));

/// Insert one key into a sorted list without branches, for all ranks at once: rank i becomes
/// max(best[i], min(best[i - 1], key)).
inline void insert_key(SortKey key, KeyVector* best, std::size_t vectors) {
    KeyVector inserted = key - KeyVector{}, previous = ~KeyVector{};
    for (std::size_t i = 0; i < vectors; i++) {
        KeyVector current = best[i];
#ifdef __clang__
        KeyVector shifted = __builtin_shufflevector(previous, current, 7, 8, 9, 10, 11, 12, 13, 14);
#else
        KeyVector shifted = __builtin_shuffle(previous, current, KeyVector{7, 8, 9, 10, 11, 12, 13, 14});
#endif
        shifted = shifted < inserted ? shifted : inserted;
        best[i] = current > shifted ? current : shifted;
        previous = current;
    }
}

template <std::size_t vectors>
inline void insert_in_registers(const float* logits, std::uint64_t mask, const PanelTokens& tokens, KeyVector* best) {
    KeyVector list[vectors];
    for (std::size_t i = 0; i < vectors; i++) list[i] = best[i];
    for (; mask != 0; mask &= mask - 1) insert_key(lowest_key(logits, mask, tokens), list, vectors);
    for (std::size_t i = 0; i < vectors; i++) best[i] = list[i];
}

void insert_top_k(const float* logits, std::uint64_t mask, const PanelTokens& tokens, SortKey* best,
                  std::size_t capacity) {
    KeyVector* list = reinterpret_cast<KeyVector*>(best);
    switch (capacity / keys_per_vector) {  // short lists stay in registers
        case 1:
            return insert_in_registers<1>(logits, mask, tokens, list);
        case 2:
            return insert_in_registers<2>(logits, mask, tokens, list);
        default:
            for (; mask != 0; mask &= mask - 1) {
                insert_key(lowest_key(logits, mask, tokens), list, capacity / keys_per_vector);
            }
    }
}

/// Comparisons skip NaN, so the maximum is a number; a NaN in `sum_exp` reaches the result.
float log_sum_exp(const PanelStats* stats, std::size_t panels) {
    float peak = stats[0].max;
    for (std::size_t i = 1; i < panels; i++) {
        if (stats[i].max > peak) peak = stats[i].max;
    }
    float total = 0.0f;
    for (std::size_t i = 0; i < panels; i += simd_width) {
        float differences[simd_width], sums[simd_width];
        for (std::size_t j = 0; j < simd_width; j++) {
            bool exists = i + j < panels;
            differences[j] = exists ? stats[i + j].max - peak : minus_infinity;
            sums[j] = exists ? stats[i + j].sum_exp : 0.0f;
        }
        total += reduce_add(exp(load(differences)) * load(sums));
    }
    return peak + std::log(total);
}

}  // namespace
}  // namespace dragoman
