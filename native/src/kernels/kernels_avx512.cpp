// Kernels for AVX-512 with VNNI. The GEMM of AVX-512 BF16 is in a separate file, compiled with that extension.
#include "kernels/simd_avx512.hpp"

#define FLOAT_TILE_ROWS 6
#define FLOAT_TILE_VECTORS 4
#include "kernels/gemm.hpp"

#include "kernels/dispatch.hpp"
#include "kernels/gemm_avx512_bf16.hpp"
#include "kernels/gemm_avx512_vnni.hpp"

namespace dragoman {
namespace {

/// Adds a pair of products to each accumulator, second element first: the order of AVX-512 BF16.
struct EmulatedBfloat16Gemm {
    using Input = Bfloat16;
    using Weight = Bfloat16;
    using Accumulator = Vec;
    struct WeightVec {
        Vec even, odd;
    };
    static constexpr std::size_t depth_step = 2, interleave = 2;
    static constexpr int tile_rows = 6, tile_vectors = 2;
    static Accumulator zero() { return broadcast(0.0f); }
    static WeightVec split(__m512i pairs) {
        __m512i upper = _mm512_and_si512(pairs, _mm512_set1_epi32(static_cast<int>(0xffff0000)));
        return {{_mm512_castsi512_ps(_mm512_slli_epi32(pairs, 16))}, {_mm512_castsi512_ps(upper)}};
    }
    static WeightVec load_weights(const Weight* w) { return split(_mm512_load_si512(w)); }
    static WeightVec broadcast_input(const Input* x) {
        std::int32_t pair;
        __builtin_memcpy(&pair, x, sizeof(pair));
        return split(_mm512_set1_epi32(pair));
    }
    static Accumulator multiply_add(Accumulator sum, WeightVec x, WeightVec w) {
        return fmadd(x.even, w.even, fmadd(x.odd, w.odd, sum));
    }
    static void store_tile(const Accumulator* sums, int tile_rows, int tile_vectors, const float*,
                           const PackedWeight& weight, std::size_t column, float* y, std::size_t y_stride) {
        store_float_tile(sums, tile_rows, tile_vectors, weight, column, y, y_stride);
    }
};

}  // namespace
}  // namespace dragoman

#include "kernels/make_kernel_table.hpp"

namespace dragoman {

KernelTable avx512_kernels() { return make_kernel_table<Int8Gemm, BlockGemm, EmulatedBfloat16Gemm>("avx512_vnni"); }

KernelTable avx512_bf16_kernels() {
    KernelTable kernels = avx512_kernels();
    kernels.name = "avx512_bf16";
    kernels.bfloat16.gemm_panel = gemm_panel_avx512_bf16;
    return kernels;
}

}  // namespace dragoman
