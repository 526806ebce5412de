// The tables of all instruction sets that this build knows.
#pragma once

#include "../kernels.hpp"

namespace dragoman {

Kernels avx512_kernels(bool has_bfloat16);
Kernels avx2_kernels();
Kernels portable_kernels();

}  // namespace dragoman
