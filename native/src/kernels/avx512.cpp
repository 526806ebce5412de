// AVX-512 with VNNI. Products of bfloat16 are in a file of their own, for processors that have the instruction.
#include "lanes_avx512.hpp"

#define FLOAT_TILE_HEIGHT 6
#define FLOAT_TILE_WIDTH 4
#include "products.hpp"

#include "avx512_bfloat16.hpp"
#include "avx512_int8.hpp"
#include "tables.hpp"

namespace dragoman {
namespace {

/// Two products into each of 16 sums, the second number of a pair first, as the instruction for them does it.
struct WidenedBfloat16 {
    using Number = Bfloat16;
    using Weight = Bfloat16;
    using Sum = Lanes;
    struct Columns {
        Lanes even, odd;
    };
    static constexpr std::size_t depth = 2, interleave = 2;
    static constexpr int height = 6, width = 2;
    static Sum nothing() { return spread(0.0f); }
    static Columns split(__m512i pairs) {
        __m512i upper = _mm512_and_si512(pairs, _mm512_set1_epi32(static_cast<int>(0xffff0000)));
        return {{_mm512_castsi512_ps(_mm512_slli_epi32(pairs, 16))}, {_mm512_castsi512_ps(upper)}};
    }
    static Columns columns(const Weight* w) { return split(_mm512_load_si512(w)); }
    static Columns numbers(const Number* x) {
        std::int32_t pair;
        __builtin_memcpy(&pair, x, sizeof(pair));
        return split(_mm512_set1_epi32(pair));
    }
    static Sum added(Sum sum, Columns x, Columns w) { return fused(x.even, w.even, fused(x.odd, w.odd, sum)); }
    static void finish(const Sum* sums, int height, int width, const float*, const Packed& weight, std::size_t column,
                       float* y, std::size_t y_stride) {
        finish_plain(sums, height, width, weight, column, y, y_stride);
    }
};

}  // namespace
}  // namespace dragoman

#include "table.hpp"

namespace dragoman {

Kernels avx512_kernels() { return table<Int8, WidenedBfloat16>("avx512_vnni"); }

Kernels avx512_bfloat16_kernels() {
    Kernels kernels = avx512_kernels();
    kernels.name = "avx512_bf16";
    kernels.bfloat16.product = avx512_bfloat16_product;
    return kernels;
}

}  // namespace dragoman
