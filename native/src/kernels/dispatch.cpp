#include "kernels/dispatch.hpp"

#include <stdexcept>

namespace dragoman {

namespace {

#ifdef DRAGOMAN_X86
bool has_avx512() {
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
           __builtin_cpu_supports("avx512vnni");
}
bool has_avx512_bf16() { return has_avx512() && __builtin_cpu_supports("avx512bf16"); }
#ifdef DRAGOMAN_AMX
bool has_amx() {
    return __builtin_cpu_supports("amx-tile") && __builtin_cpu_supports("amx-int8") && has_avx512() &&
           request_amx_tiles();
}
#endif
bool has_avx2() {
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c");
}
#endif

std::vector<KernelTable> supported_tables() {
    std::vector<KernelTable> tables;
#ifdef DRAGOMAN_X86
    __builtin_cpu_init();
#ifdef DRAGOMAN_AMX
    if (has_amx()) tables.push_back(amx_kernels(has_avx512_bf16()));
#endif
    if (has_avx512_bf16()) tables.push_back(avx512_bf16_kernels());
    if (has_avx512()) tables.push_back(avx512_kernels());
    if (has_avx2()) tables.push_back(avx2_kernels());
#endif
    tables.push_back(portable_kernels());
    return tables;
}

}  // namespace

std::vector<std::string> instruction_sets() {
    std::vector<std::string> names;
    for (const KernelTable& kernels : supported_tables()) names.emplace_back(kernels.name);
    return names;
}

KernelTable select_kernels(const std::optional<std::string>& name) {
    std::vector<KernelTable> tables = supported_tables();
    if (!name) return tables.front();
    std::string supported;
    for (const KernelTable& kernels : tables) {
        if (*name == kernels.name) return kernels;
        supported += supported.empty() ? kernels.name : std::string(", ") + kernels.name;
    }
    throw std::invalid_argument("instruction_set = " + *name + " is not supported by this processor; choose one of " +
                                supported);
}

}  // namespace dragoman
