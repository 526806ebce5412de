// SIMD vector of 16 floats in standard C++ with the vector extensions of GCC and Clang, for any processor.
//
// The parts hold four floats because most processors have 128-bit registers, and compilers split wider types through
// memory. This code is compiled without floating-point contraction: a product and its sum are always rounded
// separately.
#pragma once

#include <cstring>

#include "kernels/data_layout.hpp"

namespace dragoman {
namespace {

typedef float Float4 __attribute__((vector_size(16)));
typedef std::int32_t Int4 __attribute__((vector_size(16)));
typedef std::uint32_t UInt4 __attribute__((vector_size(16)));

struct Vec {
    Float4 v[4];
};

template <class Operation>
inline Vec for_each_part(Operation operation) {
    return {{operation(0), operation(1), operation(2), operation(3)}};
}
inline Float4 broadcast4(float x) { return Float4{x, x, x, x}; }
inline Float4 select(Int4 condition, Float4 yes, Float4 no) {
    return reinterpret_cast<Float4>((condition & reinterpret_cast<Int4>(yes)) |
                                    (~condition & reinterpret_cast<Int4>(no)));
}

inline Vec broadcast(float x) { return {{broadcast4(x), broadcast4(x), broadcast4(x), broadcast4(x)}}; }
inline Vec load(const float* p) {
    Vec x;
    std::memcpy(&x, p, sizeof(x));
    return x;
}
inline Vec load(const Bfloat16* p) {
    std::uint32_t bits[simd_width];
    for (std::size_t i = 0; i < simd_width; i++) bits[i] = static_cast<std::uint32_t>(p[i].bits) << 16;
    Vec x;
    std::memcpy(&x, bits, sizeof(x));
    return x;
}
inline float to_float(Float16 x) {
    std::uint32_t magnitude = x.bits & 0x7fffu, bits;
    float value;
    if (magnitude < 0x0400) {  // zero or subnormal
        value = static_cast<float>(magnitude) * 0x1p-24f;
        std::memcpy(&bits, &value, sizeof(bits));
    } else {  // the exponents of the formats are biased by 15 and 127
        bits = (magnitude << 13) + ((127u - 15u) << 23);
    }
    bits |= static_cast<std::uint32_t>(x.bits & 0x8000u) << 16;
    std::memcpy(&value, &bits, sizeof(value));
    return value;
}
inline Vec load(const Float16* p) {
    float values[simd_width];
    for (std::size_t i = 0; i < simd_width; i++) values[i] = to_float(p[i]);
    return load(values);
}
inline void store(float* p, Vec x) { std::memcpy(p, &x, sizeof(x)); }

inline Vec operator+(Vec a, Vec b) {
    return for_each_part([&](int i) { return a.v[i] + b.v[i]; });
}
inline Vec operator-(Vec a, Vec b) {
    return for_each_part([&](int i) { return a.v[i] - b.v[i]; });
}
inline Vec operator*(Vec a, Vec b) {
    return for_each_part([&](int i) { return a.v[i] * b.v[i]; });
}
inline Vec operator/(Vec a, Vec b) {
    return for_each_part([&](int i) { return a.v[i] / b.v[i]; });
}
inline Vec fmadd(Vec a, Vec b, Vec c) {
    return for_each_part([&](int i) { return a.v[i] * b.v[i] + c.v[i]; });
}
inline Vec max(Vec a, Vec b) {
    return for_each_part([&](int i) { return select(a.v[i] > b.v[i], a.v[i], b.v[i]); });
}
inline Vec min(Vec a, Vec b) {
    return for_each_part([&](int i) { return select(a.v[i] < b.v[i], a.v[i], b.v[i]); });
}
inline Vec abs(Vec a) {
    return for_each_part([&](int i) { return reinterpret_cast<Float4>(reinterpret_cast<Int4>(a.v[i]) & 0x7fffffff); });
}

inline float reduce_add(Vec a) {
    Float4 total = (a.v[0] + a.v[2]) + (a.v[1] + a.v[3]);
    return (total[0] + total[2]) + (total[1] + total[3]);
}
inline float reduce_max(Vec a) {
    float values[simd_width];
    store(values, a);
    float result = values[0];
    for (float x : values) result = x > result ? x : result;
    return result;
}
/// Bit mask of the elements greater than `limit`.
inline std::uint32_t greater_mask(Vec a, float limit) {
    float values[simd_width];
    store(values, a);
    std::uint32_t bits = 0;
    for (std::size_t i = 0; i < simd_width; i++) bits |= static_cast<std::uint32_t>(values[i] > limit) << i;
    return bits;
}

/// `x` in the first `count` elements, `other` in the rest.
inline Vec select_first(std::size_t count, Vec x, Vec other) {
    int active = count >= simd_width ? static_cast<int>(simd_width) : static_cast<int>(count);
    return for_each_part([&](int i) {
        Int4 index = {4 * i, 4 * i + 1, 4 * i + 2, 4 * i + 3};
        return select(index < Int4{active, active, active, active}, x.v[i], other.v[i]);
    });
}
/// `x` with zeros where `guard < limit`; a NaN in `guard` keeps `x`.
inline Vec zero_below(Vec guard, float limit, Vec x) {
    return for_each_part([&](int i) { return select(guard.v[i] < broadcast4(limit), broadcast4(0.0f), x.v[i]); });
}

/// 1.5 * 2^23. Adding it to |x| < 2^22 rounds x to an integer and leaves that integer in the lowest bits.
constexpr float round_magic = 12582912.0f;

inline Vec round_to_nearest(Vec x) { return (x + broadcast(round_magic)) - broadcast(round_magic); }
/// x * 2^exponent, for integral exponents of normal floats.
inline Vec ldexp(Vec x, Vec exponent) {
    Vec shifted = exponent + broadcast(round_magic + 127.0f);
    return for_each_part(
        [&](int i) { return x.v[i] * reinterpret_cast<Float4>(reinterpret_cast<UInt4>(shifted.v[i]) << 23); });
}

/// Store `x`, within [-127, 127], rounded to nearest, plus the zero point 128.
inline void store_uint8_with_zero_point(std::uint8_t* p, Vec x) {
    Vec shifted = x + broadcast(round_magic);
    std::uint32_t bits[simd_width];
    std::memcpy(bits, &shifted, sizeof(bits));
    for (std::size_t i = 0; i < simd_width; i++) p[i] = static_cast<std::uint8_t>(bits[i] + 128);
}
/// Store integers of 16 bits.
inline void store_int16(std::int16_t* p, Vec x) {
    Vec shifted = x + broadcast(round_magic);
    std::uint32_t bits[simd_width];
    std::memcpy(bits, &shifted, sizeof(bits));
    for (std::size_t i = 0; i < simd_width; i++) p[i] = static_cast<std::int16_t>(bits[i] & 0xffffu);
}
/// Round to bfloat16, ties to even.
inline void store(Bfloat16* p, Vec x) {
    std::uint32_t bits[simd_width];
    std::memcpy(bits, &x, sizeof(bits));
    for (std::size_t i = 0; i < simd_width; i++) {
        p[i].bits = static_cast<std::uint16_t>((bits[i] + 0x7fff + ((bits[i] >> 16) & 1)) >> 16);
    }
}

/// Horizontal sums of 16 vectors.
inline Vec reduce_add_each(const Vec (&x)[simd_width]) {
    float totals[simd_width];
    for (std::size_t i = 0; i < simd_width; i++) totals[i] = reduce_add(x[i]);
    return load(totals);
}

}  // namespace
}  // namespace dragoman
