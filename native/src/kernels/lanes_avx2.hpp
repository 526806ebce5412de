// Sixteen numbers in two registers of AVX2, with FMA.
#pragma once

#include <immintrin.h>

#include "../shapes.hpp"

namespace dragoman {
namespace {

struct Lanes {
    __m256 low, high;
};

inline Lanes spread(float x) { return {_mm256_set1_ps(x), _mm256_set1_ps(x)}; }
inline Lanes load(const float* p) { return {_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)}; }
inline __m256 widened(__m128i halves) {
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(halves), 16));
}
inline Lanes load(const Bfloat16* p) {
    auto at = reinterpret_cast<const __m128i*>(p);
    return {widened(_mm_loadu_si128(at)), widened(_mm_loadu_si128(at + 1))};
}
inline void store(float* p, Lanes x) {
    _mm256_storeu_ps(p, x.low);
    _mm256_storeu_ps(p + 8, x.high);
}

inline Lanes operator+(Lanes a, Lanes b) { return {_mm256_add_ps(a.low, b.low), _mm256_add_ps(a.high, b.high)}; }
inline Lanes operator-(Lanes a, Lanes b) { return {_mm256_sub_ps(a.low, b.low), _mm256_sub_ps(a.high, b.high)}; }
inline Lanes operator*(Lanes a, Lanes b) { return {_mm256_mul_ps(a.low, b.low), _mm256_mul_ps(a.high, b.high)}; }
inline Lanes operator/(Lanes a, Lanes b) { return {_mm256_div_ps(a.low, b.low), _mm256_div_ps(a.high, b.high)}; }
inline Lanes fused(Lanes a, Lanes b, Lanes c) {
    return {_mm256_fmadd_ps(a.low, b.low, c.low), _mm256_fmadd_ps(a.high, b.high, c.high)};
}
inline Lanes larger(Lanes a, Lanes b) { return {_mm256_max_ps(a.low, b.low), _mm256_max_ps(a.high, b.high)}; }
inline Lanes smaller(Lanes a, Lanes b) { return {_mm256_min_ps(a.low, b.low), _mm256_min_ps(a.high, b.high)}; }
inline Lanes absolute(Lanes a) {
    __m256 sign = _mm256_set1_ps(-0.0f);
    return {_mm256_andnot_ps(sign, a.low), _mm256_andnot_ps(sign, a.high)};
}

inline float sum(Lanes a) {
    __m256 eight = _mm256_add_ps(a.low, a.high);
    __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_shuffle_ps(two, two, 1)));
}
inline float largest(Lanes a) {
    __m256 eight = _mm256_max_ps(a.low, a.high);
    __m128 four = _mm_max_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_max_ss(two, _mm_shuffle_ps(two, two, 1)));
}
inline std::uint32_t eight_above(__m256 a, __m256 limit) {
    return static_cast<std::uint32_t>(_mm256_movemask_ps(_mm256_cmp_ps(a, limit, _CMP_GT_OQ)));
}
/// One bit for each lane that is above the limit.
inline std::uint32_t above(Lanes a, float limit) {
    __m256 all = _mm256_set1_ps(limit);
    return eight_above(a.low, all) | eight_above(a.high, all) << 8;
}

inline __m256 first_of_eight(int count, __m256 x, __m256 other) {
    __m256i places = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    __m256i within = _mm256_cmpgt_epi32(_mm256_set1_epi32(count), places);
    return _mm256_blendv_ps(other, x, _mm256_castsi256_ps(within));
}
/// `x` in the first `count` lanes, `other` in the rest.
inline Lanes first(std::size_t count, Lanes x, Lanes other) {
    int many = count >= lanes ? static_cast<int>(lanes) : static_cast<int>(count);
    return {first_of_eight(many, x.low, other.low), first_of_eight(many - 8, x.high, other.high)};
}
/// `x`, or zero where `guard` is below `limit`.
inline Lanes zero_below(Lanes guard, float limit, Lanes x) {
    __m256 least = _mm256_set1_ps(limit);
    return {_mm256_and_ps(_mm256_cmp_ps(guard.low, least, _CMP_NLT_UQ), x.low),
            _mm256_and_ps(_mm256_cmp_ps(guard.high, least, _CMP_NLT_UQ), x.high)};
}

inline Lanes rounded(Lanes x) {
    constexpr int nearest = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
    return {_mm256_round_ps(x.low, nearest), _mm256_round_ps(x.high, nearest)};
}
inline __m256 power_of_eight_twos(__m256 whole) {
    __m256i exponent = _mm256_add_epi32(_mm256_cvtps_epi32(whole), _mm256_set1_epi32(127));
    return _mm256_castsi256_ps(_mm256_slli_epi32(exponent, 23));
}
/// x times 2 to a whole power that a normal number can have.
inline Lanes doubled(Lanes x, Lanes whole) {
    return x * Lanes{power_of_eight_twos(whole.low), power_of_eight_twos(whole.high)};
}

/// The sixteen lower bytes of each four.
inline __m128i low_bytes(__m256i a, __m256i b) {
    __m256i mask = _mm256_set1_epi32(0xff);
    __m256i words = _mm256_packus_epi32(_mm256_and_si256(a, mask), _mm256_and_si256(b, mask));
    words = _mm256_permute4x64_epi64(words, 0xd8);
    return _mm_packus_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1));
}
/// The whole numbers nearest to `x`, which are at most 127 away from zero, plus 128.
inline void store_with_offset(std::uint8_t* p, Lanes x) {
    __m256i offset = _mm256_set1_epi32(128);
    __m256i low = _mm256_add_epi32(_mm256_cvtps_epi32(x.low), offset);
    __m256i high = _mm256_add_epi32(_mm256_cvtps_epi32(x.high), offset);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p), low_bytes(low, high));
}
inline __m256i upper_halves(__m256 x) {
    __m256i bits = _mm256_castps_si256(x);
    __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
    return _mm256_srli_epi32(_mm256_add_epi32(bits, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff))), 16);
}
/// The nearest bfloat16, ties to even.
inline void store(Bfloat16* p, Lanes x) {
    __m256i words = _mm256_packus_epi32(upper_halves(x.low), upper_halves(x.high));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm256_permute4x64_epi64(words, 0xd8));
}

inline __m256 sums_of_eight(const __m256 (&x)[8]) {
    __m256 pairs[4], fours[2];
    for (int i = 0; i < 4; i++) {
        pairs[i] = _mm256_add_ps(_mm256_unpacklo_ps(x[2 * i], x[2 * i + 1]), _mm256_unpackhi_ps(x[2 * i], x[2 * i + 1]));
    }
    for (int i = 0; i < 2; i++) {
        __m256d a = _mm256_castps_pd(pairs[2 * i]), b = _mm256_castps_pd(pairs[2 * i + 1]);
        fours[i] = _mm256_add_ps(_mm256_castpd_ps(_mm256_unpacklo_pd(a, b)), _mm256_castpd_ps(_mm256_unpackhi_pd(a, b)));
    }
    return _mm256_add_ps(_mm256_permute2f128_ps(fours[0], fours[1], 0x20),
                         _mm256_permute2f128_ps(fours[0], fours[1], 0x31));
}
/// The sum of each of sixteen times sixteen numbers, by a tree that halves the registers while it adds.
inline Lanes sums(const Lanes (&x)[lanes]) {
    __m256 first_eight[8], last_eight[8];
    for (int i = 0; i < 8; i++) {
        first_eight[i] = _mm256_add_ps(x[i].low, x[i].high);
        last_eight[i] = _mm256_add_ps(x[8 + i].low, x[8 + i].high);
    }
    return {sums_of_eight(first_eight), sums_of_eight(last_eight)};
}

}  // namespace
}  // namespace dragoman
