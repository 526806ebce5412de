// Products of bfloat16 by the instruction for them.
#include "lanes_avx512.hpp"

#define FLOAT_TILE_HEIGHT 6
#define FLOAT_TILE_WIDTH 4
#include "products.hpp"

#include "avx512_bfloat16.hpp"

namespace dragoman {
namespace {

struct PairedBfloat16 {
    using Number = Bfloat16;
    using Weight = Bfloat16;
    using Sum = Lanes;
    using Columns = __m512i;
    static constexpr std::size_t depth = 2, interleave = 2;
    static constexpr int height = 6, width = 4;
    static Sum nothing() { return spread(0.0f); }
    static Columns columns(const Weight* w) { return _mm512_load_si512(w); }
    static __m512i numbers(const Number* x) {
        std::int32_t pair;
        __builtin_memcpy(&pair, x, sizeof(pair));
        return _mm512_set1_epi32(pair);
    }
    static Sum added(Sum sum, __m512i x, Columns w) {
        return {_mm512_dpbf16_ps(sum.v, reinterpret_cast<__m512bh>(x), reinterpret_cast<__m512bh>(w))};
    }
    static void finish(const Sum* sums, int height, int width, const float*, const Packed& weight, std::size_t column,
                       float* y, std::size_t y_stride) {
        finish_plain(sums, height, width, weight, column, y, y_stride);
    }
};

}  // namespace

void avx512_bfloat16_product(const Operand& x, std::size_t rows, const Packed& weight, std::size_t group_number, float* y,
                             std::size_t y_stride) {
    product<PairedBfloat16>(x, rows, weight, group_number, y, y_stride);
}

}  // namespace dragoman
