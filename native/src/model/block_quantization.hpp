// Quantization of weights by blocks of 32 inputs: w = scale * q + center, with q from -128 to 127.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/data_layout.hpp"

namespace dragoman {

/// Round to half precision, ties to even; |x| must be below 2^15.
Float16 to_float16(float x);
float from_float16(Float16 x);

struct BlockParams {
    float scale, center;
};

/// Power of two that brings numbers of at most this magnitude below 2^15. Scales and centers of a row are stored in half
/// precision as multiples of its unit, so that rows of small weights lose no precision.
float float16_unit(float magnitude);

/// Quantize up to 32 weights of one block of a row with this unit, with the grid of the smallest maximal error: 256
/// levels from the smallest to the largest weight, 16 such levels, or symmetric levels up to 127 or up to 8. Weights that
/// were stored in 8 bits with a scale (Q8_0), or in 4 bits with or without an offset (Q4_1, Q4_0), are exact.
BlockParams quantize_block(const float* weights, std::size_t count, float unit, std::int8_t* quantized);

}  // namespace dragoman
