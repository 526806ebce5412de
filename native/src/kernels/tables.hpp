// The tables of all instruction sets that this build knows.
#pragma once

#include "../kernels.hpp"

namespace dragoman {

/// Whether the system lets this process use the tiles of AMX.
bool may_use_tiles();
Kernels amx_kernels(bool has_bfloat16);
Kernels avx512_bfloat16_kernels();
Kernels avx512_kernels();
Kernels avx2_kernels();
Kernels portable_kernels();

}  // namespace dragoman
