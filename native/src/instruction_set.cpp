#include "instruction_set.hpp"

#include <stdexcept>

#include "kernels/tables.hpp"

namespace dragoman {

namespace {

#ifdef DRAGOMAN_X86
bool has_avx512() {
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vnni");
}
bool has_avx512_bfloat16() { return has_avx512() && __builtin_cpu_supports("avx512bf16"); }
#ifdef DRAGOMAN_AMX
bool has_amx() {
    return __builtin_cpu_supports("amx-tile") && __builtin_cpu_supports("amx-int8") && has_avx512() && may_use_tiles();
}
#endif
bool has_avx2() { return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"); }
#endif

std::vector<Kernels> usable() {
    std::vector<Kernels> tables;
#ifdef DRAGOMAN_X86
    __builtin_cpu_init();
#ifdef DRAGOMAN_AMX
    if (has_amx()) tables.push_back(amx_kernels(has_avx512_bfloat16()));
#endif
    if (has_avx512_bfloat16()) tables.push_back(avx512_bfloat16_kernels());
    if (has_avx512()) tables.push_back(avx512_kernels());
    if (has_avx2()) tables.push_back(avx2_kernels());
#endif
    tables.push_back(portable_kernels());
    return tables;
}

}  // namespace

std::vector<std::string> instruction_sets() {
    std::vector<std::string> names;
    for (const Kernels& kernels : usable()) names.emplace_back(kernels.name);
    return names;
}

Kernels kernels_of(const std::optional<std::string>& name) {
    std::vector<Kernels> tables = usable();
    if (!name) return tables.front();
    std::string here;
    for (const Kernels& kernels : tables) {
        if (*name == kernels.name) return kernels;
        here += here.empty() ? kernels.name : std::string(", ") + kernels.name;
    }
    throw std::invalid_argument("instruction_set = " + *name + " cannot be used here; choose one of " + here);
}

}  // namespace dragoman
