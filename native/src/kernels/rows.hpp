// Work on one row: norms, activations, sums.
#pragma once

#include <cmath>

#include "../kernels.hpp"

namespace dragoman {
namespace {

/// e to the x by the remainder of x over log 2, to two units in the last place; zero below -87.
inline Lanes exponential(Lanes x) {
    constexpr float log2_of_e = 1.44269504f, high = 0.693359375f, low = -2.12194440e-4f;
    constexpr float coefficients[] = {1.9875691500e-4f, 1.3981999507e-3f, 8.3334519073e-3f,
                                      4.1665795894e-2f, 1.6666665459e-1f, 5.0000001201e-1f};
    // In this order what is not a number stays so: the second of two is taken unless the first wins.
    Lanes inside = smaller(spread(88.0f), larger(spread(-87.0f), x));
    Lanes whole = rounded(inside * spread(log2_of_e));
    Lanes rest = fused(whole, spread(-high), inside);
    rest = fused(whole, spread(-low), rest);
    Lanes series = spread(coefficients[0]);
    for (int i = 1; i < 6; i++) series = fused(series, rest, spread(coefficients[i]));
    Lanes result = fused(series, rest * rest, rest) + spread(1.0f);
    return zero_below(x, -87.0f, doubled(result, whole));
}

/// 1 / (1 + e^-x)
inline Lanes logistic(Lanes x) { return spread(1.0f) / (spread(1.0f) + exponential(spread(0.0f) - x)); }

/// The error function to 2e-7 (Abramowitz and Stegun, 1964, 7.1.26).
inline Lanes error_function(Lanes x) {
    constexpr float coefficients[] = {1.061405429f, -1.453152027f, 1.421413741f, -0.284496736f, 0.254829592f};
    Lanes size = absolute(x);
    Lanes t = spread(1.0f) / fused(spread(0.3275911f), size, spread(1.0f));
    Lanes series = spread(coefficients[0]);
    for (int i = 1; i < 5; i++) series = fused(series, t, spread(coefficients[i]));
    Lanes value = spread(1.0f) - series * t * exponential(spread(0.0f) - size * size);
    return zero_below(x, 0.0f, value + value) - value;  // an odd function
}

inline Lanes activated(Activation name, Lanes x) {
    constexpr float root_half = 0.70710678f, twice_root_two_over_pi = 1.59576912f, cubic = 0.044715f;
    switch (name) {
        case Activation::relu:
            return larger(x, spread(0.0f));
        case Activation::gelu:
            return x * spread(0.5f) * (spread(1.0f) + error_function(x * spread(root_half)));
        case Activation::gelu_tanh:  // (1 + tanh u) / 2 is the logistic function of 2 u
            return x * logistic(spread(twice_root_two_over_pi) * fused(x * x * x, spread(cubic), x));
        case Activation::silu:
            return x * logistic(x);
    }
    return x;
}

template <Activation name>
void activate_all(const float* x, const float* gate, std::size_t count, float* y) {
    if (gate == nullptr) {
        for (std::size_t i = 0; i < count; i += lanes) store(y + i, activated(name, load(x + i)));
    } else {
        for (std::size_t i = 0; i < count; i += lanes) store(y + i, activated(name, load(x + i)) * load(gate + i));
    }
}

void activate(Activation name, const float* x, const float* gate, std::size_t count, float* y) {
    switch (name) {
        case Activation::relu:
            return activate_all<Activation::relu>(x, gate, count, y);
        case Activation::gelu:
            return activate_all<Activation::gelu>(x, gate, count, y);
        case Activation::gelu_tanh:
            return activate_all<Activation::gelu_tanh>(x, gate, count, y);
        case Activation::silu:
            return activate_all<Activation::silu>(x, gate, count, y);
    }
}

void add(float* x, const float* y, std::size_t count) {
    for (std::size_t i = 0; i < count; i += lanes) store(x + i, load(x + i) + load(y + i));
}

/// Layer normalisation (Ba et al., 2016). The zeros after the row add nothing to the mean and are kept from the variance.
void layer_norm(const float* x, const NormWeights& weights, float* y) {
    constexpr float epsilon = 1e-5f;
    float count = static_cast<float>(weights.size);
    Lanes total = spread(0.0f), squares = spread(0.0f);
    for (std::size_t i = 0; i < weights.width; i += lanes) total = total + load(x + i);
    Lanes mean = spread(sum(total) / count);
    for (std::size_t i = 0; i < weights.size; i += lanes) {
        Lanes apart = first(weights.size - i, load(x + i) - mean, spread(0.0f));
        squares = fused(apart, apart, squares);
    }
    Lanes factor = spread(1.0f / std::sqrt(sum(squares) / count + epsilon));
    for (std::size_t i = 0; i < weights.width; i += lanes) {
        Lanes apart = (load(x + i) - mean) * factor;
        store(y + i, fused(apart, load(weights.weight + i), load(weights.bias + i)));
    }
}

/// Root-mean-square normalisation (Zhang and Sennrich, 2019).
void rms_norm(const float* x, const NormWeights& weights, float* y) {
    constexpr float epsilon = 1e-6f;
    Lanes squares = spread(0.0f);
    for (std::size_t i = 0; i < weights.width; i += lanes) squares = fused(load(x + i), load(x + i), squares);
    Lanes factor = spread(1.0f / std::sqrt(sum(squares) / static_cast<float>(weights.size) + epsilon));
    for (std::size_t i = 0; i < weights.width; i += lanes) {
        store(y + i, load(x + i) * factor * load(weights.weight + i));
    }
}

}  // namespace
}  // namespace dragoman
