// Vector widths, padding and number formats shared by the whole library.
#pragma once

#include <cstddef>
#include <cstdint>

namespace dragoman {

/// Floats per SIMD vector, for every instruction set: narrower registers process a vector in two or four steps.
constexpr std::size_t simd_width = 16;

/// Columns of a packed weight panel. Every matrix width is padded to a multiple of it, so kernels need no tail loop.
constexpr std::size_t panel_width = 64;

constexpr std::size_t round_up(std::size_t number, std::size_t multiple) {
    return (number + multiple - 1) / multiple * multiple;
}

constexpr std::size_t padded_width(std::size_t width) { return round_up(width, panel_width); }

/// Inputs of one output that share a scale and a center in a weight that is quantized by blocks.
constexpr std::size_t block_size = 32;

/// IEEE 754 half precision.
struct Float16 {
    std::uint16_t bits;
};

/// Upper half of a float32.
struct Bfloat16 {
    std::uint16_t bits;
};

}  // namespace dragoman
