// Kernels for AVX2 with FMA and F16C.
#include "kernels/simd_avx2.hpp"

#define FLOAT_TILE_ROWS 6
#define FLOAT_TILE_VECTORS 1
#include "kernels/gemm.hpp"

#include "kernels/dispatch.hpp"

namespace dragoman {
namespace {

/// 32-bit integer sums of 16 columns.
struct Int32x16 {
    __m256i low, high;
};

/// The byte multiplication of AVX2 adds pairs of products in 16 bits, where 2 * 255 * 127 overflows. The sign of the
/// input therefore moves to the weight: |x| * (sign(x) * w) is at most 127 * 127, and a pair of these fits.
struct Int8Gemm {
    using Input = std::uint8_t;
    using Weight = std::int8_t;
    using Accumulator = Int32x16;
    using WeightVec = Int32x16;
    struct SignedInput {
        __m256i magnitude, sign;
    };
    static constexpr std::size_t depth_step = 4, interleave = 4;
    static constexpr int tile_rows = 4, tile_vectors = 1;
    static constexpr bool needs_compensation = false;
    static Accumulator zero() { return {_mm256_setzero_si256(), _mm256_setzero_si256()}; }
    static WeightVec load_weights(const Weight* w) {
        auto at = reinterpret_cast<const __m256i*>(w);
        return {_mm256_load_si256(at), _mm256_load_si256(at + 1)};
    }
    static SignedInput broadcast_input(const Input* x) {
        std::int32_t four;
        __builtin_memcpy(&four, x, sizeof(four));
        __m256i centered = _mm256_xor_si256(_mm256_set1_epi32(four), _mm256_set1_epi8(static_cast<char>(0x80)));
        return {_mm256_abs_epi8(centered), centered};
    }
    static __m256i dot4(SignedInput x, __m256i w) {
        __m256i pairs = _mm256_maddubs_epi16(x.magnitude, _mm256_sign_epi8(w, x.sign));
        return _mm256_madd_epi16(pairs, _mm256_set1_epi16(1));
    }
    static Accumulator multiply_add(Accumulator sum, SignedInput x, WeightVec w) {
        return {_mm256_add_epi32(sum.low, dot4(x, w.low)), _mm256_add_epi32(sum.high, dot4(x, w.high))};
    }
    static void store_tile(const Accumulator* sums, int tile_rows, int tile_vectors, const float* row_scale,
                           const PackedWeight& weight, std::size_t column, float* y, std::size_t y_stride) {
        for (int c = 0; c < tile_vectors; c++, column += simd_width, y += simd_width) {
            Vec bias = load(weight.bias + column), scale = load(weight.scale + column);
            for (int r = 0; r < tile_rows; r++) {
                Int32x16 sum = sums[r * tile_vectors + c];
                Vec floats = {_mm256_cvtepi32_ps(sum.low), _mm256_cvtepi32_ps(sum.high)};
                store(y + r * y_stride, fmadd(floats, scale * broadcast(row_scale[r]), bias));
            }
        }
    }
};

/// Adds pairs of products of 16-bit numbers to each 32-bit accumulator.
struct BlockGemm {
    using Input = InputBlock;
    using Weight = std::int8_t;
    using Accumulator = Int32x16;
    using WeightVec = Int32x16;
    static constexpr std::size_t depth_step = 2, interleave = 2;
    static constexpr int tile_rows = 3, tile_vectors = 1;
    static Accumulator zero() { return {_mm256_setzero_si256(), _mm256_setzero_si256()}; }
    static WeightVec load_weights(const Weight* w) {
        auto at = reinterpret_cast<const __m128i*>(w);
        return {_mm256_cvtepi8_epi16(_mm_load_si128(at)), _mm256_cvtepi8_epi16(_mm_load_si128(at + 1))};
    }
    static __m256i broadcast_input(const std::int16_t* x) {
        std::int32_t pair;
        __builtin_memcpy(&pair, x, sizeof(pair));
        return _mm256_set1_epi32(pair);
    }
    static Accumulator multiply_add(Accumulator sum, __m256i x, WeightVec w) {
        return {_mm256_add_epi32(sum.low, _mm256_madd_epi16(x, w.low)),
                _mm256_add_epi32(sum.high, _mm256_madd_epi16(x, w.high))};
    }
    static Vec to_float(Accumulator sum) { return {_mm256_cvtepi32_ps(sum.low), _mm256_cvtepi32_ps(sum.high)}; }
};

/// Adds a pair of products to each accumulator, second element first: the order of AVX-512 BF16.
struct EmulatedBfloat16Gemm {
    using Input = Bfloat16;
    using Weight = Bfloat16;
    using Accumulator = Vec;
    struct WeightVec {
        Vec even, odd;
    };
    struct InputPair {
        __m256 even, odd;
    };
    static constexpr std::size_t depth_step = 2, interleave = 2;
    static constexpr int tile_rows = 4, tile_vectors = 1;
    static Accumulator zero() { return broadcast(0.0f); }
    static __m256 lower(__m256i pairs) { return _mm256_castsi256_ps(_mm256_slli_epi32(pairs, 16)); }
    static __m256 upper(__m256i pairs) {
        return _mm256_castsi256_ps(_mm256_and_si256(pairs, _mm256_set1_epi32(static_cast<int>(0xffff0000))));
    }
    static WeightVec load_weights(const Weight* w) {
        auto at = reinterpret_cast<const __m256i*>(w);
        __m256i low = _mm256_load_si256(at), high = _mm256_load_si256(at + 1);
        return {{lower(low), lower(high)}, {upper(low), upper(high)}};
    }
    static InputPair broadcast_input(const Input* x) {
        std::int32_t pair;
        __builtin_memcpy(&pair, x, sizeof(pair));
        return {lower(_mm256_set1_epi32(pair)), upper(_mm256_set1_epi32(pair))};
    }
    static Accumulator multiply_add(Accumulator sum, InputPair x, WeightVec w) {
        return fmadd({x.even, x.even}, w.even, fmadd({x.odd, x.odd}, w.odd, sum));
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

KernelTable avx2_kernels() { return make_kernel_table<Int8Gemm, BlockGemm, EmulatedBfloat16Gemm>("avx2"); }

}  // namespace dragoman
