// A logit and its token in one number, so that to compare candidates is to compare numbers.
#pragma once

#include <cstdint>
#include <cstring>

#include "shapes.hpp"

namespace dragoman {

/// Larger for the better of two; ties go to the lower token. None is zero.
using Candidate = std::uint64_t;

/// The best candidates found so far, best first, are kept in places of which there are a multiple of this; empty ones are zero.
constexpr std::size_t ranks = 8;

/// Which tokens the logits of a group are: those listed, or without a list those that follow one another from `first` on.
struct Names {
    const std::int32_t* listed;
    std::int32_t first;
};

// Not shared between files, which are compiled for different processors.
namespace {

constexpr std::uint32_t sign_bit = 0x80000000u;

inline Candidate candidate_of(float logit, std::int32_t token) {
    logit += 0.0f;  // of two zeros none is better
    std::uint32_t bits;
    std::memcpy(&bits, &logit, sizeof(bits));
    bits = (bits & sign_bit) != 0 ? ~bits : bits ^ sign_bit;
    return static_cast<Candidate>(bits) << 32 | ~static_cast<std::uint32_t>(token);
}

inline float logit_of(Candidate candidate) {
    auto bits = static_cast<std::uint32_t>(candidate >> 32);
    bits = (bits & sign_bit) != 0 ? bits ^ sign_bit : ~bits;
    float logit;
    std::memcpy(&logit, &bits, sizeof(logit));
    return logit;
}

inline std::int32_t token_of(Candidate candidate) {
    return static_cast<std::int32_t>(~static_cast<std::uint32_t>(candidate));
}

}  // namespace
}  // namespace dragoman
