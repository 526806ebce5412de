// Int8 GEMMs by AVX-512 VNNI, with inputs in 8 and 16 bits.
#pragma once

#include "kernels/gemm.hpp"

namespace dragoman {
namespace {

/// Adds four products of unsigned and signed bytes to each 32-bit accumulator. Inputs keep their zero point of 128.
struct Int8Gemm {
    using Input = std::uint8_t;
    using Weight = std::int8_t;
    using Accumulator = __m512i;
    using WeightVec = __m512i;
    static constexpr std::size_t depth_step = 4, interleave = 4;
    static constexpr int tile_rows = 6, tile_vectors = 4;
    static constexpr bool needs_compensation = true;
    static Accumulator zero() { return _mm512_setzero_si512(); }
    static WeightVec load_weights(const Weight* w) { return _mm512_load_si512(w); }
    static __m512i broadcast_input(const Input* x) {
        std::int32_t four;
        __builtin_memcpy(&four, x, sizeof(four));
        return _mm512_set1_epi32(four);
    }
    static Accumulator multiply_add(Accumulator sum, __m512i x, WeightVec w) { return _mm512_dpbusd_epi32(sum, x, w); }
    static void store_tile(const Accumulator* sums, int tile_rows, int tile_vectors, const float* row_scale,
                           const PackedWeight& weight, std::size_t column, float* y, std::size_t y_stride) {
        for (int c = 0; c < tile_vectors; c++, column += simd_width, y += simd_width) {
            Vec bias = load(weight.bias + column), scale = load(weight.scale + column);
            __m512i compensation = _mm512_load_si512(weight.compensation + column);
            for (int r = 0; r < tile_rows; r++) {
                Vec sum = {_mm512_cvtepi32_ps(_mm512_sub_epi32(sums[r * tile_vectors + c], compensation))};
                store(y + r * y_stride, fmadd(sum, scale * broadcast(row_scale[r]), bias));
            }
        }
    }
};

/// Adds pairs of products of 16-bit numbers to each 32-bit accumulator.
struct BlockGemm {
    using Input = InputBlock;
    using Weight = std::int8_t;
    using Accumulator = __m512i;
    using WeightVec = __m512i;
    static constexpr std::size_t depth_step = 2, interleave = 2;
    static constexpr int tile_rows = 6, tile_vectors = 2;
    static Accumulator zero() { return _mm512_setzero_si512(); }
    static WeightVec load_weights(const Weight* w) {
        return _mm512_cvtepi8_epi16(_mm256_load_si256(reinterpret_cast<const __m256i*>(w)));
    }
    static __m512i broadcast_input(const std::int16_t* x) {
        std::int32_t pair;
        __builtin_memcpy(&pair, x, sizeof(pair));
        return _mm512_set1_epi32(pair);
    }
    static Accumulator multiply_add(Accumulator sum, __m512i x, WeightVec w) { return _mm512_dpwssd_epi32(sum, x, w); }
    static Vec to_float(Accumulator sum) { return {_mm512_cvtepi32_ps(sum)}; }
};

}  // namespace
}  // namespace dragoman
