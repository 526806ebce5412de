// Plain C++, for any processor.
#include "lanes_portable.hpp"

#define FLOAT_TILE_HEIGHT 2
#define FLOAT_TILE_WIDTH 1
#include "products.hpp"

#include "tables.hpp"

namespace dragoman {
namespace {

struct Whole {
    std::int32_t v[lanes];
};

/// Two products of signed bytes fit 16 bits together, which most processors multiply fastest.
struct Int8 {
    using Number = std::uint8_t;
    using Weight = std::int8_t;
    using Sum = Whole;
    struct Columns {
        std::int16_t even[lanes], odd[lanes];
    };
    struct Pair {
        std::int16_t even, odd;
    };
    static constexpr std::size_t depth = 2, interleave = 1;
    static constexpr int height = 2, width = 1;
    static constexpr bool offset_stays = false;
    static Sum nothing() { return {}; }
    static Columns columns(const Weight* w) {
        Columns columns;
        for (std::size_t i = 0; i < lanes; i++) columns.even[i] = w[i];
        for (std::size_t i = 0; i < lanes; i++) columns.odd[i] = w[group + i];
        return columns;
    }
    static Pair numbers(const Number* x) {
        return {static_cast<std::int16_t>(x[0] - 128), static_cast<std::int16_t>(x[1] - 128)};
    }
    static Sum added(Sum sum, Pair x, Columns w) {
        for (std::size_t i = 0; i < lanes; i++) {
            sum.v[i] += static_cast<std::int16_t>(x.even * w.even[i] + x.odd * w.odd[i]);
        }
        return sum;
    }
    static void finish(const Sum* sums, int height, int width, const float* row_scale, const Packed& weight,
                       std::size_t column, float* y, std::size_t y_stride) {
        for (int c = 0; c < width; c++) {
            for (int r = 0; r < height; r++) {
                for (std::size_t i = 0; i < lanes; i++) {
                    std::size_t at = c * lanes + i;
                    float factor = weight.scale[column + at] * row_scale[r];
                    y[r * y_stride + at] = static_cast<float>(sums[r * width + c].v[i]) * factor + weight.bias[column + at];
                }
            }
        }
    }
};

/// The same arithmetic as AVX-512 BF16: a product of two bfloat16 is exact, so that fusing changes nothing.
struct WidenedBfloat16 {
    using Number = Bfloat16;
    using Weight = Bfloat16;
    using Sum = Lanes;
    struct Columns {
        Lanes even, odd;
    };
    struct Pair {
        float even, odd;
    };
    static constexpr std::size_t depth = 2, interleave = 1;
    static constexpr int height = 2, width = 1;
    static Sum nothing() { return spread(0.0f); }
    static Columns columns(const Weight* w) { return {load(w), load(w + group)}; }
    static float widened(Number x) {
        std::uint32_t bits = static_cast<std::uint32_t>(x.bits) << 16;
        float number;
        std::memcpy(&number, &bits, sizeof(number));
        return number;
    }
    static Pair numbers(const Number* x) { return {widened(x[0]), widened(x[1])}; }
    static Sum added(Sum sum, Pair x, const Columns& w) {
        return fused(spread(x.even), w.even, fused(spread(x.odd), w.odd, sum));
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

Kernels portable_kernels() { return table<Int8, WidenedBfloat16>("portable"); }

}  // namespace dragoman
