// Transcendental functions of SIMD vectors.
#pragma once

#include <limits>

#include "kernels/data_layout.hpp"

namespace dragoman {
namespace {

constexpr float minus_infinity = -std::numeric_limits<float>::infinity();

/// e^x by range reduction with log 2 and a polynomial, to two units in the last place; zero below -87.
inline Vec exp(Vec x) {
    constexpr float log2_e = 1.44269504f, ln2_high = 0.693359375f, ln2_low = -2.12194440e-4f;
    constexpr float coefficients[] = {1.9875691500e-4f, 1.3981999507e-3f, 8.3334519073e-3f,
                                      4.1665795894e-2f, 1.6666665459e-1f, 5.0000001201e-1f};
    // This operand order propagates NaN: min and max return the second operand if either is NaN.
    Vec clamped = min(broadcast(88.0f), max(broadcast(-87.0f), x));
    Vec exponent = round_to_nearest(clamped * broadcast(log2_e));
    Vec rest = fmadd(exponent, broadcast(-ln2_high), clamped);
    rest = fmadd(exponent, broadcast(-ln2_low), rest);
    Vec series = broadcast(coefficients[0]);
    for (int i = 1; i < 6; i++) series = fmadd(series, rest, broadcast(coefficients[i]));
    Vec result = fmadd(series, rest * rest, rest) + broadcast(1.0f);
    return zero_below(x, -87.0f, ldexp(result, exponent));
}

/// e^x for x <= 0, to 3e-7: 2^n times a polynomial of the fraction of x log2 e. Below -87 the result is e^-87, which is
/// negligible in a softmax.
inline Vec exp_nonpositive(Vec x) {
    constexpr float log2_e = 1.44269504f;
    constexpr float coefficients[] = {1.327647129e-03f, 9.675541893e-03f, 5.550713092e-02f,
                                      2.402212024e-01f, 6.931469440e-01f, 1.000000119e+00f};
    Vec power = max(broadcast(-87.0f), x) * broadcast(log2_e);  // this operand order propagates NaN
    Vec exponent = round_to_nearest(power), rest = power - exponent;
    Vec series = broadcast(coefficients[0]);
    for (int i = 1; i < 6; i++) series = fmadd(series, rest, broadcast(coefficients[i]));
    return ldexp(series, exponent);
}

/// 1 / (1 + e^-x)
inline Vec sigmoid(Vec x) { return broadcast(1.0f) / (broadcast(1.0f) + exp(broadcast(0.0f) - x)); }

/// Error function, to 2e-7 (Abramowitz and Stegun, 1964, 7.1.26).
inline Vec erf(Vec x) {
    constexpr float coefficients[] = {1.061405429f, -1.453152027f, 1.421413741f, -0.284496736f, 0.254829592f};
    Vec magnitude = abs(x);
    Vec t = broadcast(1.0f) / fmadd(broadcast(0.3275911f), magnitude, broadcast(1.0f));
    Vec series = broadcast(coefficients[0]);
    for (int i = 1; i < 5; i++) series = fmadd(series, t, broadcast(coefficients[i]));
    Vec value = broadcast(1.0f) - series * t * exp(broadcast(0.0f) - magnitude * magnitude);
    return zero_below(x, 0.0f, value + value) - value;  // an odd function
}

}  // namespace
}  // namespace dragoman
