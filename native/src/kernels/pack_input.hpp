// Conversion of GEMM inputs to the number format of the weights.
#pragma once

#include "kernels/kernel_table.hpp"

namespace dragoman {
namespace {

void pack_float32(const float* x, std::size_t count, void* packed, float*) {
    for (std::size_t i = 0; i < count; i += simd_width) store(static_cast<float*>(packed) + i, load(x + i));
}

void pack_bfloat16(const float* x, std::size_t count, void* packed, float*) {
    for (std::size_t i = 0; i < count; i += simd_width) store(static_cast<Bfloat16*>(packed) + i, load(x + i));
}

/// q = round(127 x / max |x|) + 128. A row with NaN or infinity gets a NaN scale, which makes its product NaN.
void pack_int8(const float* x, std::size_t count, void* packed, float* scale) {
    Vec largest = broadcast(0.0f), non_finite = broadcast(0.0f);
    for (std::size_t i = 0; i < count; i += simd_width) {
        Vec values = load(x + i);
        largest = max(largest, abs(values));
        non_finite = non_finite + values * broadcast(0.0f);
    }
    float range = reduce_max(largest), smallest_range = 1e-30f;
    if (!(range > smallest_range)) range = smallest_range;
    Vec factor = broadcast(127.0f / range);
    for (std::size_t i = 0; i < count; i += simd_width) {
        store_uint8_with_zero_point(static_cast<std::uint8_t*>(packed) + i, load(x + i) * factor);
    }
    *scale = range / 127.0f + reduce_add(non_finite);
}

}  // namespace
}  // namespace dragoman
