// The one function that needs AVX-512 BF16 too.
#pragma once

#include "../kernels.hpp"

namespace dragoman {

void avx512_bfloat16_product(const Operand& x, std::size_t rows, const Packed& weight, std::size_t group_number, float* y,
                             std::size_t y_stride);

}  // namespace dragoman
