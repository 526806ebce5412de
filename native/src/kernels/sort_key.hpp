// A logit and its token packed into one integer: comparing keys ranks tokens by logit, then by lower id.
#pragma once

#include <cstdint>
#include <cstring>

#include "kernels/data_layout.hpp"

namespace dragoman {

/// Larger for the better token; ties go to the lower id. Zero is an empty entry.
using SortKey = std::uint64_t;

/// Top-k lists are kept in vectors of this many keys, best first; unused keys are zero.
constexpr std::size_t keys_per_vector = 8;

/// Token ids of the columns of a weight panel: listed, or consecutive from `first` if `list` is null.
struct PanelTokens {
    const std::int32_t* list;
    std::int32_t first;
};

// In an unnamed namespace, because each including file is compiled for another instruction set.
namespace {

constexpr std::uint32_t sign_bit = 0x80000000u;

inline SortKey make_sort_key(float logit, std::int32_t token) {
    logit += 0.0f;  // -0 and +0 rank equally
    std::uint32_t bits;
    std::memcpy(&bits, &logit, sizeof(bits));
    bits = (bits & sign_bit) != 0 ? ~bits : bits ^ sign_bit;
    return static_cast<SortKey>(bits) << 32 | ~static_cast<std::uint32_t>(token);
}

inline float logit_of(SortKey key) {
    auto bits = static_cast<std::uint32_t>(key >> 32);
    bits = (bits & sign_bit) != 0 ? bits ^ sign_bit : ~bits;
    float logit;
    std::memcpy(&logit, &bits, sizeof(logit));
    return logit;
}

inline std::int32_t token_of(SortKey key) { return static_cast<std::int32_t>(~static_cast<std::uint32_t>(key)); }

}  // namespace
}  // namespace dragoman
