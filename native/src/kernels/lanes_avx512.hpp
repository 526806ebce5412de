// Sixteen numbers in one register of AVX-512.
#pragma once

#include <immintrin.h>

#include "../shapes.hpp"

namespace dragoman {
namespace {

struct Lanes {
    __m512 v;
};

inline Lanes spread(float x) { return {_mm512_set1_ps(x)}; }
inline Lanes load(const float* p) { return {_mm512_loadu_ps(p)}; }
inline Lanes load(const Bfloat16* p) {
    __m256i halves = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
    return {_mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(halves), 16))};
}
inline void store(float* p, Lanes x) { _mm512_storeu_ps(p, x.v); }

inline Lanes operator+(Lanes a, Lanes b) { return {_mm512_add_ps(a.v, b.v)}; }
inline Lanes operator-(Lanes a, Lanes b) { return {_mm512_sub_ps(a.v, b.v)}; }
inline Lanes operator*(Lanes a, Lanes b) { return {_mm512_mul_ps(a.v, b.v)}; }
inline Lanes operator/(Lanes a, Lanes b) { return {_mm512_div_ps(a.v, b.v)}; }
inline Lanes fused(Lanes a, Lanes b, Lanes c) { return {_mm512_fmadd_ps(a.v, b.v, c.v)}; }
inline Lanes larger(Lanes a, Lanes b) { return {_mm512_max_ps(a.v, b.v)}; }
inline Lanes smaller(Lanes a, Lanes b) { return {_mm512_min_ps(a.v, b.v)}; }
inline Lanes absolute(Lanes a) { return {_mm512_abs_ps(a.v)}; }

inline float sum(Lanes a) { return _mm512_reduce_add_ps(a.v); }
inline float largest(Lanes a) { return _mm512_reduce_max_ps(a.v); }
/// One bit for each lane that is above the limit.
inline std::uint32_t above(Lanes a, float limit) { return _mm512_cmp_ps_mask(a.v, _mm512_set1_ps(limit), _CMP_GT_OQ); }

/// `x` in the first `count` lanes, `other` in the rest.
inline Lanes first(std::size_t count, Lanes x, Lanes other) {
    __mmask16 mask = count >= lanes ? 0xffff : static_cast<__mmask16>((1u << count) - 1);
    return {_mm512_mask_mov_ps(other.v, mask, x.v)};
}
/// `x`, or zero where `guard` is below `limit`.
inline Lanes zero_below(Lanes guard, float limit, Lanes x) {
    __mmask16 keep = _mm512_cmp_ps_mask(guard.v, _mm512_set1_ps(limit), _CMP_NLT_UQ);
    return {_mm512_maskz_mov_ps(keep, x.v)};
}

inline Lanes rounded(Lanes x) { return {_mm512_roundscale_ps(x.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)}; }
/// x times 2 to a whole power that a normal number can have.
inline Lanes doubled(Lanes x, Lanes whole) { return {_mm512_scalef_ps(x.v, whole.v)}; }

/// The whole numbers nearest to `x`, which are at most 127 away from zero, plus 128.
inline void store_with_offset(std::uint8_t* p, Lanes x) {
    __m512i whole = _mm512_add_epi32(_mm512_cvtps_epi32(x.v), _mm512_set1_epi32(128));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm512_cvtepi32_epi8(whole));
}
/// The nearest bfloat16, ties to even.
inline void store(Bfloat16* p, Lanes x) {
    __m512i bits = _mm512_castps_si512(x.v);
    __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
    __m512i up = _mm512_add_epi32(bits, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff)));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm512_cvtepi32_epi16(_mm512_srli_epi32(up, 16)));
}

/// The sum of each of sixteen registers, by a tree that halves their number while it adds.
inline Lanes sums(const Lanes (&x)[lanes]) {
    __m512 pairs[8], fours[4];
#pragma GCC unroll 8
    for (int i = 0; i < 8; i++) {
        __m512 a = x[2 * i].v, b = x[2 * i + 1].v;
        pairs[i] = _mm512_add_ps(_mm512_unpacklo_ps(a, b), _mm512_unpackhi_ps(a, b));
    }
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) {
        __m512d a = _mm512_castps_pd(pairs[2 * i]), b = _mm512_castps_pd(pairs[2 * i + 1]);
        fours[i] = _mm512_add_ps(_mm512_castpd_ps(_mm512_unpacklo_pd(a, b)), _mm512_castpd_ps(_mm512_unpackhi_pd(a, b)));
    }
    auto joined = [](__m512 a, __m512 b) {
        return _mm512_add_ps(_mm512_shuffle_f32x4(a, b, 0x88), _mm512_shuffle_f32x4(a, b, 0xdd));
    };
    return {joined(joined(fours[0], fours[1]), joined(fours[2], fours[3]))};
}

}  // namespace
}  // namespace dragoman
