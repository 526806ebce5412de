// Sixteen numbers in plain C++ and the vector types of GCC and Clang, for any processor that they know.
//
// Four at a time, because that is what most processors have: wider types are taken apart through memory. Built without
// contraction, so that a product and a sum are rounded alike wherever they stand.
#pragma once

#include <cstring>

#include "../shapes.hpp"

namespace dragoman {
namespace {

typedef float Four __attribute__((vector_size(16)));
typedef std::int32_t FourWhole __attribute__((vector_size(16)));
typedef std::uint32_t FourBits __attribute__((vector_size(16)));

struct Lanes {
    Four v[4];
};

template <class Operation>
inline Lanes each(Operation operation) {
    return {{operation(0), operation(1), operation(2), operation(3)}};
}
inline Four four(float x) { return Four{x, x, x, x}; }
inline Four chosen(FourWhole condition, Four yes, Four no) {
    return reinterpret_cast<Four>((condition & reinterpret_cast<FourWhole>(yes)) |
                                  (~condition & reinterpret_cast<FourWhole>(no)));
}

inline Lanes spread(float x) { return {{four(x), four(x), four(x), four(x)}}; }
inline Lanes load(const float* p) {
    Lanes x;
    std::memcpy(&x, p, sizeof(x));
    return x;
}
inline Lanes load(const Bfloat16* p) {
    std::uint32_t bits[lanes];
    for (std::size_t i = 0; i < lanes; i++) bits[i] = static_cast<std::uint32_t>(p[i].bits) << 16;
    Lanes x;
    std::memcpy(&x, bits, sizeof(x));
    return x;
}
inline void store(float* p, Lanes x) { std::memcpy(p, &x, sizeof(x)); }

inline Lanes operator+(Lanes a, Lanes b) { return each([&](int i) { return a.v[i] + b.v[i]; }); }
inline Lanes operator-(Lanes a, Lanes b) { return each([&](int i) { return a.v[i] - b.v[i]; }); }
inline Lanes operator*(Lanes a, Lanes b) { return each([&](int i) { return a.v[i] * b.v[i]; }); }
inline Lanes operator/(Lanes a, Lanes b) { return each([&](int i) { return a.v[i] / b.v[i]; }); }
inline Lanes fused(Lanes a, Lanes b, Lanes c) { return each([&](int i) { return a.v[i] * b.v[i] + c.v[i]; }); }
inline Lanes larger(Lanes a, Lanes b) {
    return each([&](int i) { return chosen(a.v[i] > b.v[i], a.v[i], b.v[i]); });
}
inline Lanes smaller(Lanes a, Lanes b) {
    return each([&](int i) { return chosen(a.v[i] < b.v[i], a.v[i], b.v[i]); });
}
inline Lanes absolute(Lanes a) {
    return each([&](int i) { return reinterpret_cast<Four>(reinterpret_cast<FourWhole>(a.v[i]) & 0x7fffffff); });
}

inline float sum(Lanes a) {
    Four total = (a.v[0] + a.v[2]) + (a.v[1] + a.v[3]);
    return (total[0] + total[2]) + (total[1] + total[3]);
}
inline float largest(Lanes a) {
    float numbers[lanes];
    store(numbers, a);
    float most = numbers[0];
    for (float x : numbers) most = x > most ? x : most;
    return most;
}
/// One bit for each lane that is above the limit.
inline std::uint32_t above(Lanes a, float limit) {
    float numbers[lanes];
    store(numbers, a);
    std::uint32_t bits = 0;
    for (std::size_t i = 0; i < lanes; i++) bits |= static_cast<std::uint32_t>(numbers[i] > limit) << i;
    return bits;
}

/// `x` in the first `count` lanes, `other` in the rest.
inline Lanes first(std::size_t count, Lanes x, Lanes other) {
    int many = count >= lanes ? static_cast<int>(lanes) : static_cast<int>(count);
    return each([&](int i) {
        FourWhole place = {4 * i, 4 * i + 1, 4 * i + 2, 4 * i + 3};
        return chosen(place < FourWhole{many, many, many, many}, x.v[i], other.v[i]);
    });
}
/// `x`, or zero where `guard` is below `limit`.
inline Lanes zero_below(Lanes guard, float limit, Lanes x) {
    return each([&](int i) { return chosen(guard.v[i] < four(limit), four(0.0f), x.v[i]); });
}

/// Added to a number below 2 to the 22, it leaves no room for a fraction, and the whole number in the lowest bits.
constexpr float no_fraction = 12582912.0f;

inline Lanes rounded(Lanes x) { return (x + spread(no_fraction)) - spread(no_fraction); }
/// x times 2 to a whole power that a normal number can have.
inline Lanes doubled(Lanes x, Lanes whole) {
    Lanes shifted = whole + spread(no_fraction + 127.0f);
    return each([&](int i) { return x.v[i] * reinterpret_cast<Four>(reinterpret_cast<FourBits>(shifted.v[i]) << 23); });
}

/// The whole numbers nearest to `x`, which are at most 127 away from zero, plus 128.
inline void store_with_offset(std::uint8_t* p, Lanes x) {
    Lanes shifted = x + spread(no_fraction);
    std::uint32_t bits[lanes];
    std::memcpy(bits, &shifted, sizeof(bits));
    for (std::size_t i = 0; i < lanes; i++) p[i] = static_cast<std::uint8_t>(bits[i] + 128);
}
/// The nearest bfloat16, ties to even.
inline void store(Bfloat16* p, Lanes x) {
    std::uint32_t bits[lanes];
    std::memcpy(bits, &x, sizeof(bits));
    for (std::size_t i = 0; i < lanes; i++) {
        p[i].bits = static_cast<std::uint16_t>((bits[i] + 0x7fff + ((bits[i] >> 16) & 1)) >> 16);
    }
}

/// The sum of each of sixteen times sixteen numbers.
inline Lanes sums(const Lanes (&x)[lanes]) {
    float totals[lanes];
    for (std::size_t i = 0; i < lanes; i++) totals[i] = sum(x[i]);
    return load(totals);
}

}  // namespace
}  // namespace dragoman
