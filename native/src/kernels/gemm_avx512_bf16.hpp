// Bfloat16 GEMM by AVX-512 BF16, compiled separately for processors that have this extension.
#pragma once

#include "kernels/kernel_table.hpp"

namespace dragoman {

void gemm_panel_avx512_bf16(const GemmInput& x, std::size_t rows, const PackedWeight& weight, std::size_t panel,
                            float* y, std::size_t y_stride);

}  // namespace dragoman
