#include "kernels/gemm_avx512_bf16.hpp"

#include "kernels/simd_avx512.hpp"

#define FLOAT_TILE_ROWS 6
#define FLOAT_TILE_VECTORS 4
#include "kernels/gemm.hpp"

namespace dragoman {
namespace {

/// Adds a pair of bfloat16 products to each accumulator.
struct NativeBfloat16Gemm {
    using Input = Bfloat16;
    using Weight = Bfloat16;
    using Accumulator = Vec;
    using WeightVec = __m512i;
    static constexpr std::size_t depth_step = 2, interleave = 2;
    static constexpr int tile_rows = 6, tile_vectors = 4;
    static Accumulator zero() { return broadcast(0.0f); }
    static WeightVec load_weights(const Weight* w) { return _mm512_load_si512(w); }
    static __m512i broadcast_input(const Input* x) {
        std::int32_t pair;
        __builtin_memcpy(&pair, x, sizeof(pair));
        return _mm512_set1_epi32(pair);
    }
    static Accumulator multiply_add(Accumulator sum, __m512i x, WeightVec w) {
        return {_mm512_dpbf16_ps(sum.v, reinterpret_cast<__m512bh>(x), reinterpret_cast<__m512bh>(w))};
    }
    static void store_tile(const Accumulator* sums, int tile_rows, int tile_vectors, const float*,
                           const PackedWeight& weight, std::size_t column, float* y, std::size_t y_stride) {
        store_float_tile(sums, tile_rows, tile_vectors, weight, column, y, y_stride);
    }
};

}  // namespace

void gemm_panel_avx512_bf16(const GemmInput& x, std::size_t rows, const PackedWeight& weight, std::size_t panel,
                            float* y, std::size_t y_stride) {
    gemm_panel<NativeBfloat16Gemm>(x, rows, weight, panel, y, y_stride);
}

}  // namespace dragoman
