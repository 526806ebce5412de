// SIMD vector of 16 floats in one AVX-512 register.
#pragma once

#include <immintrin.h>

#include "kernels/data_layout.hpp"

namespace dragoman {
namespace {

struct Vec {
    __m512 v;
};

inline Vec broadcast(float x) { return {_mm512_set1_ps(x)}; }
inline Vec load(const float* p) { return {_mm512_loadu_ps(p)}; }
inline Vec load(const Bfloat16* p) {
    __m256i bits = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
    return {_mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(bits), 16))};
}
inline Vec load(const Float16* p) {
    return {_mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)))};
}
inline void store(float* p, Vec x) { _mm512_storeu_ps(p, x.v); }

inline Vec operator+(Vec a, Vec b) { return {_mm512_add_ps(a.v, b.v)}; }
inline Vec operator-(Vec a, Vec b) { return {_mm512_sub_ps(a.v, b.v)}; }
inline Vec operator*(Vec a, Vec b) { return {_mm512_mul_ps(a.v, b.v)}; }
inline Vec operator/(Vec a, Vec b) { return {_mm512_div_ps(a.v, b.v)}; }
inline Vec fmadd(Vec a, Vec b, Vec c) { return {_mm512_fmadd_ps(a.v, b.v, c.v)}; }
inline Vec max(Vec a, Vec b) { return {_mm512_max_ps(a.v, b.v)}; }
inline Vec min(Vec a, Vec b) { return {_mm512_min_ps(a.v, b.v)}; }
inline Vec abs(Vec a) { return {_mm512_abs_ps(a.v)}; }

inline float reduce_add(Vec a) { return _mm512_reduce_add_ps(a.v); }
inline float reduce_max(Vec a) { return _mm512_reduce_max_ps(a.v); }
/// Bit mask of the elements greater than `limit`.
inline std::uint32_t greater_mask(Vec a, float limit) {
    return _mm512_cmp_ps_mask(a.v, _mm512_set1_ps(limit), _CMP_GT_OQ);
}

/// `x` in the first `count` elements, `other` in the rest.
inline Vec select_first(std::size_t count, Vec x, Vec other) {
    __mmask16 mask = count >= simd_width ? 0xffff : static_cast<__mmask16>((1u << count) - 1);
    return {_mm512_mask_mov_ps(other.v, mask, x.v)};
}
/// `x` with zeros where `guard < limit`; a NaN in `guard` keeps `x`.
inline Vec zero_below(Vec guard, float limit, Vec x) {
    __mmask16 keep = _mm512_cmp_ps_mask(guard.v, _mm512_set1_ps(limit), _CMP_NLT_UQ);
    return {_mm512_maskz_mov_ps(keep, x.v)};
}

inline Vec round_to_nearest(Vec x) {
    return {_mm512_roundscale_ps(x.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)};
}
/// x * 2^exponent, for integral exponents of normal floats.
inline Vec ldexp(Vec x, Vec exponent) { return {_mm512_scalef_ps(x.v, exponent.v)}; }

/// Store `x`, within [-127, 127], rounded to nearest, plus the zero point 128.
inline void store_uint8_with_zero_point(std::uint8_t* p, Vec x) {
    __m512i integers = _mm512_add_epi32(_mm512_cvtps_epi32(x.v), _mm512_set1_epi32(128));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm512_cvtepi32_epi8(integers));
}
/// Store integers of 16 bits.
inline void store_int16(std::int16_t* p, Vec x) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm512_cvtepi32_epi16(_mm512_cvtps_epi32(x.v)));
}
/// Round to bfloat16, ties to even.
inline void store(Bfloat16* p, Vec x) {
    __m512i bits = _mm512_castps_si512(x.v);
    __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
    __m512i up = _mm512_add_epi32(bits, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff)));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm512_cvtepi32_epi16(_mm512_srli_epi32(up, 16)));
}

/// Horizontal sums of 16 vectors, by an addition tree that halves the number of registers at each level.
inline Vec reduce_add_each(const Vec (&x)[simd_width]) {
    __m512 pairs[8], fours[4];
#pragma GCC unroll 8
    for (int i = 0; i < 8; i++) {
        __m512 a = x[2 * i].v, b = x[2 * i + 1].v;
        pairs[i] = _mm512_add_ps(_mm512_unpacklo_ps(a, b), _mm512_unpackhi_ps(a, b));
    }
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) {
        __m512d a = _mm512_castps_pd(pairs[2 * i]), b = _mm512_castps_pd(pairs[2 * i + 1]);
        fours[i] =
            _mm512_add_ps(_mm512_castpd_ps(_mm512_unpacklo_pd(a, b)), _mm512_castpd_ps(_mm512_unpackhi_pd(a, b)));
    }
    auto combine = [](__m512 a, __m512 b) {
        return _mm512_add_ps(_mm512_shuffle_f32x4(a, b, 0x88), _mm512_shuffle_f32x4(a, b, 0xdd));
    };
    return {combine(combine(fours[0], fours[1]), combine(fours[2], fours[3]))};
}

}  // namespace
}  // namespace dragoman
