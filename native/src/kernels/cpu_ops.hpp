// Fused training operations over single rows: bfloat16 conversion, RoPE, dropout and cross-entropy.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>

#include "kernels/kernel_table.hpp"
#include "kernels/vector_math.hpp"

namespace dragoman {
namespace {

/// Load up to 16 elements; missing ones are zero.
template <class Element>
inline Vec load_partial(const Element* p, std::size_t count) {
    if (count >= simd_width) return load(p);
    Element buffer[simd_width] = {};
    std::memcpy(buffer, p, count * sizeof(Element));
    return load(buffer);
}
template <class Element>
inline void store_partial(Element* p, std::size_t count, Vec x) {
    if (count >= simd_width) return store(p, x);
    Element buffer[simd_width];
    store(buffer, x);
    std::memcpy(p, buffer, count * sizeof(Element));
}

void to_bfloat16(const float* x, std::size_t count, Bfloat16* y) {
    for (std::size_t i = 0; i < count; i += simd_width) store_partial(y + i, count - i, load_partial(x + i, count - i));
}

void to_bfloat16_and_sum(const float* x, std::size_t count, Bfloat16* y, float* sums) {
    for (std::size_t i = 0; i < count; i += simd_width) {
        Vec values = load_partial(x + i, count - i);
        store_partial(y + i, count - i, values);
        store_partial(sums + i, count - i, load_partial(sums + i, count - i) + values);
    }
}

void to_float32(const Bfloat16* x, const float* bias, std::size_t count, float* y) {
    for (std::size_t i = 0; i < count; i += simd_width) {
        Vec values = load_partial(x + i, count - i);
        store_partial(y + i, count - i, bias == nullptr ? values : values + load_partial(bias + i, count - i));
    }
}

/// Rotary position embedding (Su et al., 2021): the halves of a head are coordinates of rotated points.
void rope(const float* x, const float* cos, const float* sin, std::size_t half, float* y) {
    for (std::size_t i = 0; i < half; i += simd_width) {
        std::size_t count = half - i;
        Vec left = load_partial(x + i, count), right = load_partial(x + half + i, count);
        Vec c = load_partial(cos + i, count), s = load_partial(sin + i, count);
        store_partial(y + i, count, left * c - right * s);
        store_partial(y + half + i, count, right * c + left * s);
    }
}

/// Hash row and column seeds to one 64-bit word per four elements. `Vec` has no integers, so loops of constant length
/// are left to the compiler's vectorizer.
void dropout(const float* x, const DropoutParams& params, std::uint64_t row_seed, std::size_t count, float* y) {
    constexpr std::size_t words = 16, elements_per_word = 4, elements = words * elements_per_word;
    const std::uint64_t hash_multiplier = params.hash_multiplier;
    const std::int32_t threshold = params.threshold;
    const float scale = params.scale;
    for (std::size_t i = 0; i < count; i += elements) {
        std::size_t block = std::min(elements, count - i);
        std::size_t used_words = (block + elements_per_word - 1) / elements_per_word;
        std::uint64_t hashes[words] = {};
        std::memcpy(hashes, params.column_seeds + i / elements_per_word, used_words * sizeof(std::uint64_t));
        for (std::size_t j = 0; j < words; j++) {
            std::uint64_t hash = hashes[j] * row_seed;
            hash ^= static_cast<std::uint64_t>(static_cast<std::int64_t>(hash) >> 32);
            hashes[j] = hash * hash_multiplier;
        }
        std::int16_t levels[elements];
        std::memcpy(levels, hashes, sizeof(levels));
        float factors[elements];
        for (std::size_t j = 0; j < elements; j++) {
            factors[j] = static_cast<std::int32_t>(levels[j]) >= threshold ? scale : 0.0f;
        }
        for (std::size_t j = 0; j < block; j += simd_width) {
            store_partial(y + i + j, block - j, load_partial(x + i + j, block - j) * load(factors + j));
        }
    }
}

struct SoftmaxTerms {
    float peak, sum_exp;
};

/// Write exp(logit - peak) of a row to `scratch`.
template <class Element>
SoftmaxTerms exp_row(const Element* logits, std::size_t count, float peak, float* scratch) {
    Vec total = broadcast(0.0f);
    for (std::size_t i = 0; i < count; i += simd_width) {
        Vec values = exp_nonpositive(load_partial(logits + i, count - i) - broadcast(peak));
        values = select_first(count - i, values, broadcast(0.0f));
        store_partial(scratch + i, count - i, values);
        total = total + values;
    }
    return {peak, reduce_add(total)};
}

/// Three passes over a row of logits in the L1 cache; `scratch` holds the exponentials in between.
template <class Element>
LossTerms cross_entropy(Element* logits, std::size_t count, std::size_t target, float target_weight,
                        const TeacherProbs& teacher, float* scratch, float* bias_gradient) {
    Vec running_max = broadcast(minus_infinity), logit_sum = broadcast(0.0f);
    for (std::size_t i = 0; i < count; i += simd_width) {
        Vec values = load_partial(logits + i, count - i);
        logit_sum = logit_sum + values;
        running_max = max(select_first(count - i, values, broadcast(minus_infinity)), running_max);
    }
    float target_logit = reduce_add(load_partial(logits + target, 1));
    SoftmaxTerms terms = exp_row(logits, count, reduce_max(running_max), scratch);
    float factor = 1.0f / terms.sum_exp, log_normalizer = terms.peak + std::log(terms.sum_exp);
    scratch[target] -= target_weight * terms.sum_exp;
    Vec teacher_sum = broadcast(0.0f);
    for (std::size_t i = 0; i < count; i += simd_width) {
        Vec gradient = load_partial(scratch + i, count - i) * broadcast(factor);
        if (teacher.probs != nullptr) {
            Vec probs = load_partial(teacher.probs + i, count - i);
            teacher_sum = fmadd(probs, load_partial(logits + i, count - i), teacher_sum);
            gradient = gradient - probs * broadcast(teacher.weight);
        }
        store_partial(logits + i, count - i, gradient);
        if (bias_gradient == nullptr) continue;
        store_partial(bias_gradient + i, count - i, load_partial(bias_gradient + i, count - i) + gradient);
    }
    return {log_normalizer - target_logit, reduce_add(logit_sum) / static_cast<float>(count) - log_normalizer,
            reduce_add(teacher_sum) - log_normalizer};
}

template <class Element>
void accumulate_softmax(const Element* logits, std::size_t count, float weight, float* scratch, float* sums) {
    Vec running_max = broadcast(minus_infinity);
    for (std::size_t i = 0; i < count; i += simd_width) {
        running_max =
            max(select_first(count - i, load_partial(logits + i, count - i), broadcast(minus_infinity)), running_max);
    }
    Vec factor = broadcast(weight / exp_row(logits, count, reduce_max(running_max), scratch).sum_exp);
    for (std::size_t i = 0; i < count; i += simd_width) {
        store_partial(sums + i, count - i,
                      fmadd(load_partial(scratch + i, count - i), factor, load_partial(sums + i, count - i)));
    }
}

}  // namespace
}  // namespace dragoman
