// Activation functions of the feed-forward network, and the cell of the recurrent decoder layer.
#pragma once

#include "kernels/kernel_table.hpp"
#include "kernels/vector_math.hpp"

namespace dragoman {
namespace {

inline Vec activation(Activation name, Vec x) {
    constexpr float sqrt_half = 0.70710678f, two_sqrt_two_over_pi = 1.59576912f, cubic = 0.044715f;
    switch (name) {
        case Activation::relu:
            return max(x, broadcast(0.0f));
        case Activation::gelu:
            return x * broadcast(0.5f) * (broadcast(1.0f) + erf(x * broadcast(sqrt_half)));
        case Activation::gelu_tanh:  // (1 + tanh u) / 2 = sigmoid(2 u)
            return x * sigmoid(broadcast(two_sqrt_two_over_pi) * fmadd(x * x * x, broadcast(cubic), x));
        case Activation::silu:
            return x * sigmoid(x);
    }
    return x;
}

template <Activation name>
void activate_row(const float* x, const float* gate, std::size_t count, float* y) {
    if (gate == nullptr) {
        for (std::size_t i = 0; i < count; i += simd_width) store(y + i, activation(name, load(x + i)));
    } else {
        for (std::size_t i = 0; i < count; i += simd_width) {
            store(y + i, activation(name, load(x + i)) * load(gate + i));
        }
    }
}

void activate(Activation name, const float* x, const float* gate, std::size_t count, float* y) {
    switch (name) {
        case Activation::relu:
            return activate_row<Activation::relu>(x, gate, count, y);
        case Activation::gelu:
            return activate_row<Activation::gelu>(x, gate, count, y);
        case Activation::gelu_tanh:
            return activate_row<Activation::gelu_tanh>(x, gate, count, y);
        case Activation::silu:
            return activate_row<Activation::silu>(x, gate, count, y);
    }
}

/// Simpler simple recurrent unit (Kim et al., 2019).
void ssru(const float* x, const float* gate, const float* previous, std::size_t count, float* cell, float* y) {
    for (std::size_t i = 0; i < count; i += simd_width) {
        Vec forget = sigmoid(load(gate + i));
        Vec next = (broadcast(1.0f) - forget) * load(x + i);
        if (previous != nullptr) next = fmadd(forget, load(previous + i), next);
        store(cell + i, next);
        store(y + i, max(broadcast(0.0f), next));  // this operand order propagates NaN
    }
}

}  // namespace
}  // namespace dragoman
