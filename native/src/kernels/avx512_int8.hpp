// Products of bytes by AVX-512 VNNI; included after the lanes and the products.
#pragma once

#include "products.hpp"

namespace dragoman {
namespace {

/// Four products of unsigned and signed bytes into each of 16 sums. Operands keep their offset of 128.
struct Int8 {
    using Number = std::uint8_t;
    using Weight = std::int8_t;
    using Sum = __m512i;
    using Columns = __m512i;
    static constexpr std::size_t depth = 4, interleave = 4;
    static constexpr int height = 6, width = 4;
    static constexpr bool offset_stays = true;
    static Sum nothing() { return _mm512_setzero_si512(); }
    static Columns columns(const Weight* w) { return _mm512_load_si512(w); }
    static __m512i numbers(const Number* x) {
        std::int32_t four;
        __builtin_memcpy(&four, x, sizeof(four));
        return _mm512_set1_epi32(four);
    }
    static Sum added(Sum sum, __m512i x, Columns w) { return _mm512_dpbusd_epi32(sum, x, w); }
    static void finish(const Sum* sums, int height, int width, const float* row_scale, const Packed& weight,
                       std::size_t column, float* y, std::size_t y_stride) {
        for (int c = 0; c < width; c++, column += lanes, y += lanes) {
            Lanes bias = load(weight.bias + column), scale = load(weight.scale + column);
            __m512i compensation = _mm512_load_si512(weight.compensation + column);
            for (int r = 0; r < height; r++) {
                Lanes whole = {_mm512_cvtepi32_ps(_mm512_sub_epi32(sums[r * width + c], compensation))};
                store(y + r * y_stride, fused(whole, scale * spread(row_scale[r]), bias));
            }
        }
    }
};

}  // namespace
}  // namespace dragoman
