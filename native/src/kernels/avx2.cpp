// AVX2 with FMA.
#include "lanes_avx2.hpp"

#define FLOAT_TILE_HEIGHT 6
#define FLOAT_TILE_WIDTH 1
#include "products.hpp"

#include "tables.hpp"

namespace dragoman {
namespace {

/// Sums of 16 columns.
struct Whole {
    __m256i low, high;
};

/// The instruction multiplies unsigned by signed bytes and adds pairs in 16 bits, where 255 * 127 twice would not fit.
/// So the sign of the operand moves to the weight: |x| times (w with the sign of x), at most 127 * 127 twice.
struct Int8 {
    using Number = std::uint8_t;
    using Weight = std::int8_t;
    using Sum = Whole;
    using Columns = Whole;
    struct Signed {
        __m256i size, sign;
    };
    static constexpr std::size_t depth = 4, interleave = 4;
    static constexpr int height = 4, width = 1;
    static constexpr bool offset_stays = false;
    static Sum nothing() { return {_mm256_setzero_si256(), _mm256_setzero_si256()}; }
    static Columns columns(const Weight* w) {
        auto at = reinterpret_cast<const __m256i*>(w);
        return {_mm256_load_si256(at), _mm256_load_si256(at + 1)};
    }
    static Signed numbers(const Number* x) {
        std::int32_t four;
        __builtin_memcpy(&four, x, sizeof(four));
        __m256i without_offset = _mm256_xor_si256(_mm256_set1_epi32(four), _mm256_set1_epi8(static_cast<char>(0x80)));
        return {_mm256_abs_epi8(without_offset), without_offset};
    }
    static __m256i four_products(Signed x, __m256i w) {
        __m256i pairs = _mm256_maddubs_epi16(x.size, _mm256_sign_epi8(w, x.sign));
        return _mm256_madd_epi16(pairs, _mm256_set1_epi16(1));
    }
    static Sum added(Sum sum, Signed x, Columns w) {
        return {_mm256_add_epi32(sum.low, four_products(x, w.low)), _mm256_add_epi32(sum.high, four_products(x, w.high))};
    }
    static void finish(const Sum* sums, int height, int width, const float* row_scale, const Packed& weight,
                       std::size_t column, float* y, std::size_t y_stride) {
        for (int c = 0; c < width; c++, column += lanes, y += lanes) {
            Lanes bias = load(weight.bias + column), scale = load(weight.scale + column);
            for (int r = 0; r < height; r++) {
                Whole sum = sums[r * width + c];
                Lanes whole = {_mm256_cvtepi32_ps(sum.low), _mm256_cvtepi32_ps(sum.high)};
                store(y + r * y_stride, fused(whole, scale * spread(row_scale[r]), bias));
            }
        }
    }
};

/// Two products into each of 16 sums, the second number of a pair first, as AVX-512 BF16 does it.
struct WidenedBfloat16 {
    using Number = Bfloat16;
    using Weight = Bfloat16;
    using Sum = Lanes;
    struct Columns {
        Lanes even, odd;
    };
    struct Pair {
        __m256 even, odd;
    };
    static constexpr std::size_t depth = 2, interleave = 2;
    static constexpr int height = 4, width = 1;
    static Sum nothing() { return spread(0.0f); }
    static __m256 lower(__m256i pairs) { return _mm256_castsi256_ps(_mm256_slli_epi32(pairs, 16)); }
    static __m256 upper(__m256i pairs) {
        return _mm256_castsi256_ps(_mm256_and_si256(pairs, _mm256_set1_epi32(static_cast<int>(0xffff0000))));
    }
    static Columns columns(const Weight* w) {
        auto at = reinterpret_cast<const __m256i*>(w);
        __m256i low = _mm256_load_si256(at), high = _mm256_load_si256(at + 1);
        return {{lower(low), lower(high)}, {upper(low), upper(high)}};
    }
    static Pair numbers(const Number* x) {
        std::int32_t pair;
        __builtin_memcpy(&pair, x, sizeof(pair));
        return {lower(_mm256_set1_epi32(pair)), upper(_mm256_set1_epi32(pair))};
    }
    static Sum added(Sum sum, Pair x, Columns w) {
        return fused({x.even, x.even}, w.even, fused({x.odd, x.odd}, w.odd, sum));
    }
    static void finish(const Sum* sums, int height, int width, const float*, const Packed& weight, std::size_t column,
                       float* y, std::size_t y_stride) {
        finish_plain(sums, height, width, weight, column, y, y_stride);
    }
};

}  // namespace
}  // namespace dragoman

#include "table.hpp"

namespace dragoman {

Kernels avx2_kernels() { return table<Int8, WidenedBfloat16>("avx2"); }

}  // namespace dragoman
