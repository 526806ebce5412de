// The widths that all of the core agrees on.
#pragma once

#include <cstddef>
#include <cstdint>

namespace dragoman {

/// Numbers that a kernel handles at once, whatever the instruction set: what is narrower does it in two or four steps.
constexpr std::size_t lanes = 16;

/// Columns of a weight that are packed together. Every width is padded to it, so that no kernel has a tail.
constexpr std::size_t group = 64;

constexpr std::size_t rounded_up(std::size_t number, std::size_t unit) { return (number + unit - 1) / unit * unit; }

constexpr std::size_t padded(std::size_t width) { return rounded_up(width, group); }

/// The upper half of a float32.
struct Bfloat16 {
    std::uint16_t bits;
};

}  // namespace dragoman
