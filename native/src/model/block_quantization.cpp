#include "model/block_quantization.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace dragoman {

namespace {

constexpr float min_integer = -128.0f, max_integer = 127.0f;

/// Quantize with the given parameters; returns the maximal error.
float quantize(const float* weights, std::size_t count, BlockParams params, std::int8_t* quantized) {
    // 1.5 * 2^23. Adding and subtracting it rounds to nearest, ties to even, in a loop that compilers vectorize.
    constexpr float round_magic = 12582912.0f;
    float divisor = params.scale > 0.0f ? params.scale : 1.0f, worst = 0.0f;
    for (std::size_t i = 0; i < count; i++) {
        float level = (weights[i] - params.center) / divisor;
        level = std::min(std::max(level, min_integer), max_integer);
        level = (level + round_magic) - round_magic;
        quantized[i] = static_cast<std::int8_t>(level);
        worst = std::max(worst, std::fabs(level * params.scale + params.center - weights[i]));
    }
    return worst;
}

}  // namespace

Float16 to_float16(float x) {
    std::uint32_t bits;
    std::memcpy(&bits, &x, sizeof(bits));
    std::uint32_t sign = bits >> 16 & 0x8000u;
    float magnitude = std::fabs(x);
    constexpr float smallest_normal = 0x1p-14f;
    if (magnitude < smallest_normal) {  // multiples of 2^-24; adding 0.5 rounds to these
        float shifted = magnitude + 0.5f;
        std::memcpy(&bits, &shifted, sizeof(bits));
        return {static_cast<std::uint16_t>(sign | (bits - 0x3f000000u))};
    }
    std::memcpy(&bits, &magnitude, sizeof(bits));
    bits += 0x0fffu + (bits >> 13 & 1u);  // the exponents of the formats are biased by 127 and 15
    return {static_cast<std::uint16_t>(sign | (bits >> 13) - ((127u - 15u) << 10))};
}

float from_float16(Float16 x) {
    std::uint32_t magnitude = x.bits & 0x7fffu, bits;
    float value;
    if (magnitude < 0x0400u) {
        value = static_cast<float>(magnitude) * 0x1p-24f;
        std::memcpy(&bits, &value, sizeof(bits));
    } else {
        bits = (magnitude << 13) + ((127u - 15u) << 23);
    }
    bits |= static_cast<std::uint32_t>(x.bits & 0x8000u) << 16;
    std::memcpy(&value, &bits, sizeof(value));
    return value;
}

float float16_unit(float magnitude) {
    constexpr int greatest_exponent = 15, smallest_unit_exponent = -100;
    int exponent = 0;
    std::frexp(magnitude, &exponent);  // 2^(exponent - 1) <= magnitude < 2^exponent
    return std::ldexp(1.0f, std::max(exponent - greatest_exponent, smallest_unit_exponent));
}

BlockParams quantize_block(const float* weights, std::size_t count, float unit, std::int8_t* quantized) {
    auto [smallest, largest] = std::minmax_element(weights, weights + count);
    float low = *smallest, range = *largest - low, magnitude = std::max(std::fabs(low), std::fabs(*largest));
    auto rounded = [unit](float x) { return from_float16(to_float16(x / unit)) * unit; };
    const BlockParams grids[] = {{rounded(range / 255.0f), rounded(low + 128.0f * (range / 255.0f))},
                                 {rounded(magnitude / 127.0f), 0.0f},
                                 {rounded(range / 15.0f), rounded(low)},
                                 {rounded(magnitude / 8.0f), 0.0f}};
    BlockParams best{};
    float least = -1.0f;
    for (const BlockParams& grid : grids) {
        std::int8_t candidate[block_size];
        float worst = quantize(weights, count, grid, candidate);
        if (least >= 0.0f && worst >= least) continue;
        best = grid;
        least = worst;
        std::copy(candidate, candidate + count, quantized);
        if (worst == 0.0f) break;
    }
    return best;
}

}  // namespace dragoman
