// What training computes between products, for the instruction set whose lanes were included before.
#pragma once

#include <algorithm>
#include <cstring>

#include "looks.hpp"
#include "vocabulary.hpp"

namespace dragoman {
namespace {

/// Sixteen numbers, or zeros after the last of fewer.
template <class Number>
inline Lanes load_some(const Number* p, std::size_t count) {
    if (count >= lanes) return load(p);
    Number padded[lanes] = {};
    std::memcpy(padded, p, count * sizeof(Number));
    return load(padded);
}
template <class Number>
inline void store_some(Number* p, std::size_t count, Lanes x) {
    if (count >= lanes) return store(p, x);
    Number padded[lanes];
    store(padded, x);
    std::memcpy(p, padded, count * sizeof(Number));
}

void narrow(const float* x, std::size_t count, Bfloat16* y) {
    for (std::size_t i = 0; i < count; i += lanes) store_some(y + i, count - i, load_some(x + i, count - i));
}

void narrow_and_add(const float* x, std::size_t count, Bfloat16* y, float* sums) {
    for (std::size_t i = 0; i < count; i += lanes) {
        Lanes some = load_some(x + i, count - i);
        store_some(y + i, count - i, some);
        store_some(sums + i, count - i, load_some(sums + i, count - i) + some);
    }
}

void widen(const Bfloat16* x, const float* bias, std::size_t count, float* y) {
    for (std::size_t i = 0; i < count; i += lanes) {
        Lanes some = load_some(x + i, count - i);
        store_some(y + i, count - i, bias == nullptr ? some : some + load_some(bias + i, count - i));
    }
}

/// Left and right halves of a head are points of planes, which turn.
void turn(const float* x, const float* cosine, const float* sine, std::size_t half, float* y) {
    for (std::size_t i = 0; i < half; i += lanes) {
        std::size_t count = half - i;
        Lanes left = load_some(x + i, count), right = load_some(x + half + i, count);
        Lanes c = load_some(cosine + i, count), s = load_some(sine + i, count);
        store_some(y + i, count, left * c - right * s);
        store_some(y + half + i, count, right * c + left * s);
    }
}

/// Loops of a known length over numbers of their own, which compilers turn into vectors: lanes hold no whole numbers.
void drop(const float* x, const Dropping& dropping, std::uint64_t line, std::size_t count, float* y) {
    constexpr std::size_t words = 16, shares = 4, elements = words * shares;
    const std::uint64_t finisher = dropping.finisher;
    const std::int32_t least = dropping.least;
    const float factor = dropping.factor;
    for (std::size_t i = 0; i < count; i += elements) {
        std::size_t here = std::min(elements, count - i), asked = (here + shares - 1) / shares;
        std::uint64_t numbers[words] = {};
        std::memcpy(numbers, dropping.columns + i / shares, asked * sizeof(std::uint64_t));
        for (std::size_t j = 0; j < words; j++) {
            std::uint64_t word = numbers[j] * line;
            word ^= static_cast<std::uint64_t>(static_cast<std::int64_t>(word) >> 32);
            numbers[j] = word * finisher;
        }
        std::int16_t levels[elements];
        std::memcpy(levels, numbers, sizeof(levels));
        float factors[elements];
        for (std::size_t j = 0; j < elements; j++) factors[j] = static_cast<std::int32_t>(levels[j]) >= least ? factor : 0.0f;
        for (std::size_t j = 0; j < here; j += lanes) {
            store_some(y + i + j, here - j, load_some(x + i + j, here - j) * load(factors + j));
        }
    }
}

/// Of a row of logits, all exponentials of what is left of the largest one, which `scratch` holds then, and their sum.
struct Raised {
    float peak, total;
};
template <class Number>
Raised raise(const Number* logits, std::size_t count, float peak, float* scratch) {
    Lanes total = spread(0.0f);
    for (std::size_t i = 0; i < count; i += lanes) {
        Lanes raised = falling_exponential(load_some(logits + i, count - i) - spread(peak));
        raised = first(count - i, raised, spread(0.0f));
        store_some(scratch + i, count - i, raised);
        total = total + raised;
    }
    return {peak, sum(total)};
}

/// Three passes over a row of logits that the nearest cache holds; exponentials stay in `scratch` in between.
template <class Number>
RowLoss loss_of_row(Number* logits, std::size_t count, std::size_t expected, float certainty, const Taught& taught,
                    float* scratch, float* bias_gradient) {
    Lanes most = spread(lowest), all = spread(0.0f);
    for (std::size_t i = 0; i < count; i += lanes) {
        Lanes some = load_some(logits + i, count - i);
        all = all + some;
        most = larger(first(count - i, some, spread(lowest)), most);
    }
    float chosen = sum(load_some(logits + expected, 1));
    Raised raised = raise(logits, count, largest(most), scratch);
    float share = 1.0f / raised.total, log_normaliser = raised.peak + std::log(raised.total);
    scratch[expected] -= certainty * raised.total;
    Lanes told = spread(0.0f);
    for (std::size_t i = 0; i < count; i += lanes) {
        Lanes gradient = load_some(scratch + i, count - i) * spread(share);
        if (taught.distribution != nullptr) {
            Lanes wanted = load_some(taught.distribution + i, count - i);
            told = fused(wanted, load_some(logits + i, count - i), told);
            gradient = gradient - wanted * spread(taught.share);
        }
        store_some(logits + i, count - i, gradient);
        if (bias_gradient == nullptr) continue;
        store_some(bias_gradient + i, count - i, load_some(bias_gradient + i, count - i) + gradient);
    }
    return {log_normaliser - chosen, sum(all) / static_cast<float>(count) - log_normaliser, sum(told) - log_normaliser};
}

template <class Number>
void add_probabilities(const Number* logits, std::size_t count, float share, float* scratch, float* sums) {
    Lanes most = spread(lowest);
    for (std::size_t i = 0; i < count; i += lanes) {
        most = larger(first(count - i, load_some(logits + i, count - i), spread(lowest)), most);
    }
    Lanes each = spread(share / raise(logits, count, largest(most), scratch).total);
    for (std::size_t i = 0; i < count; i += lanes) {
        store_some(sums + i, count - i, fused(load_some(scratch + i, count - i), each, load_some(sums + i, count - i)));
    }
}

}  // namespace
}  // namespace dragoman
