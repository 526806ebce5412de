// Rows of numbers made ready for a product.
#pragma once

#include "../kernels.hpp"

namespace dragoman {
namespace {

void prepare_float32(const float* x, std::size_t count, void* operand, float*) {
    for (std::size_t i = 0; i < count; i += lanes) store(static_cast<float*>(operand) + i, load(x + i));
}

void prepare_bfloat16(const float* x, std::size_t count, void* operand, float*) {
    for (std::size_t i = 0; i < count; i += lanes) store(static_cast<Bfloat16*>(operand) + i, load(x + i));
}

/// q = round(127 x / max |x|) + 128; a row that is not finite gets a factor that is not a number, and so does its product.
void prepare_int8(const float* x, std::size_t count, void* operand, float* scale) {
    Lanes most = spread(0.0f), broken = spread(0.0f);
    for (std::size_t i = 0; i < count; i += lanes) {
        Lanes some = load(x + i);
        most = larger(most, absolute(some));
        broken = broken + some * spread(0.0f);
    }
    float reach = largest(most), smallest_reach = 1e-30f;
    if (!(reach > smallest_reach)) reach = smallest_reach;
    Lanes factor = spread(127.0f / reach);
    for (std::size_t i = 0; i < count; i += lanes) {
        store_with_offset(static_cast<std::uint8_t*>(operand) + i, load(x + i) * factor);
    }
    *scale = reach / 127.0f + sum(broken);
}

}  // namespace
}  // namespace dragoman
