// Dispatch table of the instruction set that the including file is compiled for.
//
// Included last, after a simd_*.hpp and the GEMM classes.
#pragma once

#include "kernels/activations.hpp"
#include "kernels/attention.hpp"
#include "kernels/cpu_ops.hpp"
#include "kernels/cpu_ops_attention.hpp"
#include "kernels/gemm.hpp"
#include "kernels/norms.hpp"
#include "kernels/pack_input.hpp"
#include "kernels/top_k.hpp"

namespace dragoman {
namespace {

template <class Gemm>
constexpr GemmKernel gemm_kernel(PackInputFn pack_input) {
    return {gemm_panel<Gemm>, pack_input, sizeof(typename Gemm::Weight), Gemm::interleave, 1,
            sizeof(typename Gemm::Input)};
}

template <class Gemm>
constexpr GemmKernel block_gemm_kernel() {
    return {gemm_panel<Gemm>, pack_int16_blocks, sizeof(std::int8_t), Gemm::interleave, block_size, sizeof(InputBlock)};
}

template <class Element>
constexpr AttentionKernels<Element> attention_kernels() {
    return {blocked_attention<Element>, paged_attention<Element>, store_kv<Element>, transpose_keys<Element>};
}

constexpr CpuOpKernels cpu_op_kernels() {
    return {to_bfloat16,
            to_bfloat16_and_sum,
            to_float32,
            rope,
            dropout,
            {cross_entropy<float>, accumulate_softmax<float>},
            {cross_entropy<Bfloat16>, accumulate_softmax<Bfloat16>},
            attention_forward,
            attention_backward};
}

template <class Int8Gemm, class BlockGemm, class Bfloat16Gemm>
constexpr KernelTable make_kernel_table(const char* name) {
    return {name,
            gemm_kernel<Int8Gemm>(pack_int8),
            block_gemm_kernel<BlockGemm>(),
            gemm_kernel<Bfloat16Gemm>(pack_bfloat16),
            gemm_kernel<Float32Gemm>(pack_float32),
            Int8Gemm::needs_compensation,
            layer_norm,
            rms_norm,
            add,
            activate,
            ssru,
            attention_kernels<float>(),
            attention_kernels<Bfloat16>(),
            panel_stats,
            panel_greater_mask,
            insert_top_k,
            log_sum_exp,
            cpu_op_kernels()};
}

}  // namespace
}  // namespace dragoman
