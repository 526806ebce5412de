// SIMD vector of 16 floats in two AVX2 registers, with FMA.
#pragma once

#include <immintrin.h>

#include "kernels/data_layout.hpp"

namespace dragoman {
namespace {

struct Vec {
    __m256 low, high;
};

inline Vec broadcast(float x) { return {_mm256_set1_ps(x), _mm256_set1_ps(x)}; }
inline Vec load(const float* p) { return {_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)}; }
inline __m256 bfloat16_to_float(__m128i bits) {
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(bits), 16));
}
inline Vec load(const Bfloat16* p) {
    auto at = reinterpret_cast<const __m128i*>(p);
    return {bfloat16_to_float(_mm_loadu_si128(at)), bfloat16_to_float(_mm_loadu_si128(at + 1))};
}
inline Vec load(const Float16* p) {
    auto at = reinterpret_cast<const __m128i*>(p);
    return {_mm256_cvtph_ps(_mm_loadu_si128(at)), _mm256_cvtph_ps(_mm_loadu_si128(at + 1))};
}
inline void store(float* p, Vec x) {
    _mm256_storeu_ps(p, x.low);
    _mm256_storeu_ps(p + 8, x.high);
}

inline Vec operator+(Vec a, Vec b) { return {_mm256_add_ps(a.low, b.low), _mm256_add_ps(a.high, b.high)}; }
inline Vec operator-(Vec a, Vec b) { return {_mm256_sub_ps(a.low, b.low), _mm256_sub_ps(a.high, b.high)}; }
inline Vec operator*(Vec a, Vec b) { return {_mm256_mul_ps(a.low, b.low), _mm256_mul_ps(a.high, b.high)}; }
inline Vec operator/(Vec a, Vec b) { return {_mm256_div_ps(a.low, b.low), _mm256_div_ps(a.high, b.high)}; }
inline Vec fmadd(Vec a, Vec b, Vec c) {
    return {_mm256_fmadd_ps(a.low, b.low, c.low), _mm256_fmadd_ps(a.high, b.high, c.high)};
}
inline Vec max(Vec a, Vec b) { return {_mm256_max_ps(a.low, b.low), _mm256_max_ps(a.high, b.high)}; }
inline Vec min(Vec a, Vec b) { return {_mm256_min_ps(a.low, b.low), _mm256_min_ps(a.high, b.high)}; }
inline Vec abs(Vec a) {
    __m256 sign = _mm256_set1_ps(-0.0f);
    return {_mm256_andnot_ps(sign, a.low), _mm256_andnot_ps(sign, a.high)};
}

inline float reduce_add(Vec a) {
    __m256 eight = _mm256_add_ps(a.low, a.high);
    __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_shuffle_ps(two, two, 1)));
}
inline float reduce_max(Vec a) {
    __m256 eight = _mm256_max_ps(a.low, a.high);
    __m128 four = _mm_max_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_max_ss(two, _mm_shuffle_ps(two, two, 1)));
}
inline std::uint32_t greater_mask8(__m256 a, __m256 limit) {
    return static_cast<std::uint32_t>(_mm256_movemask_ps(_mm256_cmp_ps(a, limit, _CMP_GT_OQ)));
}
/// Bit mask of the elements greater than `limit`.
inline std::uint32_t greater_mask(Vec a, float limit) {
    __m256 limits = _mm256_set1_ps(limit);
    return greater_mask8(a.low, limits) | greater_mask8(a.high, limits) << 8;
}

inline __m256 select_first8(int count, __m256 x, __m256 other) {
    __m256i indices = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    __m256i mask = _mm256_cmpgt_epi32(_mm256_set1_epi32(count), indices);
    return _mm256_blendv_ps(other, x, _mm256_castsi256_ps(mask));
}
/// `x` in the first `count` elements, `other` in the rest.
inline Vec select_first(std::size_t count, Vec x, Vec other) {
    int active = count >= simd_width ? static_cast<int>(simd_width) : static_cast<int>(count);
    return {select_first8(active, x.low, other.low), select_first8(active - 8, x.high, other.high)};
}
/// `x` with zeros where `guard < limit`; a NaN in `guard` keeps `x`.
inline Vec zero_below(Vec guard, float limit, Vec x) {
    __m256 limits = _mm256_set1_ps(limit);
    return {_mm256_and_ps(_mm256_cmp_ps(guard.low, limits, _CMP_NLT_UQ), x.low),
            _mm256_and_ps(_mm256_cmp_ps(guard.high, limits, _CMP_NLT_UQ), x.high)};
}

inline Vec round_to_nearest(Vec x) {
    constexpr int nearest = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
    return {_mm256_round_ps(x.low, nearest), _mm256_round_ps(x.high, nearest)};
}
/// 2^n for integral n, by writing the exponent bits.
inline __m256 exp2_of_integers(__m256 n) {
    __m256i exponent = _mm256_add_epi32(_mm256_cvtps_epi32(n), _mm256_set1_epi32(127));
    return _mm256_castsi256_ps(_mm256_slli_epi32(exponent, 23));
}
/// x * 2^exponent, for integral exponents of normal floats.
inline Vec ldexp(Vec x, Vec exponent) {
    return x * Vec{exp2_of_integers(exponent.low), exp2_of_integers(exponent.high)};
}

/// Lowest byte of each of 16 32-bit integers.
inline __m128i pack_low_bytes(__m256i a, __m256i b) {
    __m256i mask = _mm256_set1_epi32(0xff);
    __m256i words = _mm256_packus_epi32(_mm256_and_si256(a, mask), _mm256_and_si256(b, mask));
    words = _mm256_permute4x64_epi64(words, 0xd8);
    return _mm_packus_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1));
}
/// Store `x`, within [-127, 127], rounded to nearest, plus the zero point 128.
inline void store_uint8_with_zero_point(std::uint8_t* p, Vec x) {
    __m256i offset = _mm256_set1_epi32(128);
    __m256i low = _mm256_add_epi32(_mm256_cvtps_epi32(x.low), offset);
    __m256i high = _mm256_add_epi32(_mm256_cvtps_epi32(x.high), offset);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p), pack_low_bytes(low, high));
}
/// Store integers of 16 bits.
inline void store_int16(std::int16_t* p, Vec x) {
    __m256i words = _mm256_packs_epi32(_mm256_cvtps_epi32(x.low), _mm256_cvtps_epi32(x.high));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm256_permute4x64_epi64(words, 0xd8));
}
/// Upper 16 bits of each float after rounding to nearest, ties to even.
inline __m256i round_to_bfloat16_bits(__m256 x) {
    __m256i bits = _mm256_castps_si256(x);
    __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
    return _mm256_srli_epi32(_mm256_add_epi32(bits, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff))), 16);
}
/// Round to bfloat16, ties to even.
inline void store(Bfloat16* p, Vec x) {
    __m256i words = _mm256_packus_epi32(round_to_bfloat16_bits(x.low), round_to_bfloat16_bits(x.high));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm256_permute4x64_epi64(words, 0xd8));
}

inline __m256 reduce_add_each8(const __m256 (&x)[8]) {
    __m256 pairs[4], fours[2];
    for (int i = 0; i < 4; i++) {
        pairs[i] =
            _mm256_add_ps(_mm256_unpacklo_ps(x[2 * i], x[2 * i + 1]), _mm256_unpackhi_ps(x[2 * i], x[2 * i + 1]));
    }
    for (int i = 0; i < 2; i++) {
        __m256d a = _mm256_castps_pd(pairs[2 * i]), b = _mm256_castps_pd(pairs[2 * i + 1]);
        fours[i] =
            _mm256_add_ps(_mm256_castpd_ps(_mm256_unpacklo_pd(a, b)), _mm256_castpd_ps(_mm256_unpackhi_pd(a, b)));
    }
    return _mm256_add_ps(_mm256_permute2f128_ps(fours[0], fours[1], 0x20),
                         _mm256_permute2f128_ps(fours[0], fours[1], 0x31));
}
/// Horizontal sums of 16 vectors, by an addition tree that halves the number of registers at each level.
inline Vec reduce_add_each(const Vec (&x)[simd_width]) {
    __m256 first_eight[8], last_eight[8];
    for (int i = 0; i < 8; i++) {
        first_eight[i] = _mm256_add_ps(x[i].low, x[i].high);
        last_eight[i] = _mm256_add_ps(x[8 + i].low, x[8 + i].high);
    }
    return {reduce_add_each8(first_eight), reduce_add_each8(last_eight)};
}

}  // namespace
}  // namespace dragoman
