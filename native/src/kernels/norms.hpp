// Residual addition and normalization of one row.
#pragma once

#include <cmath>

#include "kernels/kernel_table.hpp"

namespace dragoman {
namespace {

void add(float* x, const float* y, std::size_t count) {
    for (std::size_t i = 0; i < count; i += simd_width) store(x + i, load(x + i) + load(y + i));
}

/// Layer normalization (Ba et al., 2016). Zero padding does not change the mean, and is masked out of the variance.
void layer_norm(const float* x, const NormParams& params, float* y) {
    float count = static_cast<float>(params.size);
    Vec total = broadcast(0.0f), squares = broadcast(0.0f);
    for (std::size_t i = 0; i < params.padded_size; i += simd_width) total = total + load(x + i);
    Vec mean = broadcast(reduce_add(total) / count);
    for (std::size_t i = 0; i < params.size; i += simd_width) {
        Vec centered = select_first(params.size - i, load(x + i) - mean, broadcast(0.0f));
        squares = fmadd(centered, centered, squares);
    }
    Vec factor = broadcast(1.0f / std::sqrt(reduce_add(squares) / count + params.epsilon));
    for (std::size_t i = 0; i < params.padded_size; i += simd_width) {
        Vec normalized = (load(x + i) - mean) * factor;
        store(y + i, fmadd(normalized, load(params.weight + i), load(params.bias + i)));
    }
}

/// Root-mean-square normalization (Zhang and Sennrich, 2019).
void rms_norm(const float* x, const NormParams& params, float* y) {
    Vec squares = broadcast(0.0f);
    for (std::size_t i = 0; i < params.padded_size; i += simd_width) squares = fmadd(load(x + i), load(x + i), squares);
    Vec factor = broadcast(1.0f / std::sqrt(reduce_add(squares) / static_cast<float>(params.size) + params.epsilon));
    for (std::size_t i = 0; i < params.padded_size; i += simd_width) {
        store(y + i, load(x + i) * factor * load(params.weight + i));
    }
}

}  // namespace
}  // namespace dragoman
