// Kernels in standard C++, for any processor.
#include "kernels/simd_portable.hpp"

#define FLOAT_TILE_ROWS 2
#define FLOAT_TILE_VECTORS 1
#include "kernels/gemm.hpp"

#include "kernels/dispatch.hpp"

namespace dragoman {
namespace {

struct Int32x16 {
    std::int32_t v[simd_width];
};

/// Adds two products of signed bytes in 16 bits, the multiplication that most processors vectorize best.
struct Int8Gemm {
    using Input = std::uint8_t;
    using Weight = std::int8_t;
    using Accumulator = Int32x16;
    struct WeightVec {
        std::int16_t even[simd_width], odd[simd_width];
    };
    struct InputPair {
        std::int16_t even, odd;
    };
    static constexpr std::size_t depth_step = 2, interleave = 1;
    static constexpr int tile_rows = 2, tile_vectors = 1;
    static constexpr bool needs_compensation = false;
    static Accumulator zero() { return {}; }
    static WeightVec load_weights(const Weight* w) {
        WeightVec columns;
        for (std::size_t i = 0; i < simd_width; i++) columns.even[i] = w[i];
        for (std::size_t i = 0; i < simd_width; i++) columns.odd[i] = w[panel_width + i];
        return columns;
    }
    static InputPair broadcast_input(const Input* x) {
        return {static_cast<std::int16_t>(x[0] - 128), static_cast<std::int16_t>(x[1] - 128)};
    }
    static Accumulator multiply_add(Accumulator sum, InputPair x, WeightVec w) {
        for (std::size_t i = 0; i < simd_width; i++) {
            sum.v[i] += static_cast<std::int16_t>(x.even * w.even[i] + x.odd * w.odd[i]);
        }
        return sum;
    }
    static void store_tile(const Accumulator* sums, int tile_rows, int tile_vectors, const float* row_scale,
                           const PackedWeight& weight, std::size_t column, float* y, std::size_t y_stride) {
        for (int c = 0; c < tile_vectors; c++) {
            for (int r = 0; r < tile_rows; r++) {
                for (std::size_t i = 0; i < simd_width; i++) {
                    std::size_t at = c * simd_width + i;
                    float scale = weight.scale[column + at] * row_scale[r];
                    y[r * y_stride + at] =
                        static_cast<float>(sums[r * tile_vectors + c].v[i]) * scale + weight.bias[column + at];
                }
            }
        }
    }
};

/// Adds pairs of products of 16-bit numbers in 32 bits.
struct BlockGemm {
    using Input = InputBlock;
    using Weight = std::int8_t;
    using Accumulator = Int32x16;
    using WeightVec = Int8Gemm::WeightVec;
    using InputPair = Int8Gemm::InputPair;
    static constexpr std::size_t depth_step = 2, interleave = 1;
    static constexpr int tile_rows = 2, tile_vectors = 1;
    static Accumulator zero() { return {}; }
    static WeightVec load_weights(const Weight* w) { return Int8Gemm::load_weights(w); }
    static InputPair broadcast_input(const std::int16_t* x) { return {x[0], x[1]}; }
    static Accumulator multiply_add(Accumulator sum, InputPair x, const WeightVec& w) {
        for (std::size_t i = 0; i < simd_width; i++) sum.v[i] += x.even * w.even[i] + x.odd * w.odd[i];
        return sum;
    }
    static Vec to_float(const Accumulator& sum) {
        float values[simd_width];
        for (std::size_t i = 0; i < simd_width; i++) values[i] = static_cast<float>(sum.v[i]);
        return load(values);
    }
};

/// Arithmetic of AVX-512 BF16. A product of two bfloat16 is exact in float32, so fused and separate additions agree.
struct EmulatedBfloat16Gemm {
    using Input = Bfloat16;
    using Weight = Bfloat16;
    using Accumulator = Vec;
    struct WeightVec {
        Vec even, odd;
    };
    struct InputPair {
        float even, odd;
    };
    static constexpr std::size_t depth_step = 2, interleave = 1;
    static constexpr int tile_rows = 2, tile_vectors = 1;
    static Accumulator zero() { return broadcast(0.0f); }
    static WeightVec load_weights(const Weight* w) { return {load(w), load(w + panel_width)}; }
    static float to_float(Input x) {
        std::uint32_t bits = static_cast<std::uint32_t>(x.bits) << 16;
        float number;
        std::memcpy(&number, &bits, sizeof(number));
        return number;
    }
    static InputPair broadcast_input(const Input* x) { return {to_float(x[0]), to_float(x[1])}; }
    static Accumulator multiply_add(Accumulator sum, InputPair x, const WeightVec& w) {
        return fmadd(broadcast(x.even), w.even, fmadd(broadcast(x.odd), w.odd, sum));
    }
    static void store_tile(const Accumulator* sums, int tile_rows, int tile_vectors, const float*,
                           const PackedWeight& weight, std::size_t column, float* y, std::size_t y_stride) {
        store_float_tile(sums, tile_rows, tile_vectors, weight, column, y, y_stride);
    }
};

}  // namespace
}  // namespace dragoman

#include "kernels/make_kernel_table.hpp"

namespace dragoman {

KernelTable portable_kernels() { return make_kernel_table<Int8Gemm, BlockGemm, EmulatedBfloat16Gemm>("portable"); }

}  // namespace dragoman
