// Selection of the kernels at run time, by the instructions that the processor supports.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "kernels/kernel_table.hpp"

namespace dragoman {

/// Names of the instruction sets that this processor supports, best first.
std::vector<std::string> instruction_sets();

/// Dispatch table by name, or the best one; throws std::invalid_argument if the processor does not support it.
KernelTable select_kernels(const std::optional<std::string>& name);

// One table per instruction set of this build.
KernelTable amx_kernels(bool has_bfloat16);
KernelTable avx512_bf16_kernels();
KernelTable avx512_kernels();
KernelTable avx2_kernels();
KernelTable portable_kernels();

/// Whether the operating system grants this process the AMX tile registers.
bool request_amx_tiles();

}  // namespace dragoman
