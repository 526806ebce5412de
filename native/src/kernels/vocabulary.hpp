// What is wanted of all logits, found group by group while they are at hand.
#pragma once

#include "rows.hpp"

namespace dragoman {
namespace {

/// e to the x for x up to zero, to 3e-7: 2 to the whole part of x log2 e, times a polynomial of the rest. All that is below
/// -87 gives e^-87, which is nothing beside the largest.
inline Lanes falling_exponential(Lanes x) {
    constexpr float log2_of_e = 1.44269504f;
    constexpr float coefficients[] = {1.327647129e-03f, 9.675541893e-03f, 5.550713092e-02f,
                                      2.402212024e-01f, 6.931469440e-01f, 1.000000119e+00f};
    Lanes power = larger(spread(-87.0f), x) * spread(log2_of_e);  // in this order, so that what is not a number stays so
    Lanes whole = rounded(power), rest = power - whole;
    Lanes series = spread(coefficients[0]);
    for (int i = 1; i < 6; i++) series = fused(series, rest, spread(coefficients[i]));
    return doubled(series, whole);
}

void summarise(const float* logits, std::size_t rows, GroupSummary* summaries, std::size_t stride) {
    static_assert(group == 4 * lanes, "a group is read as four times 16 numbers");
    for (std::size_t row = 0; row < rows; row++, logits += group, summaries += stride) {
        Lanes a = load(logits), b = load(logits + lanes), c = load(logits + 2 * lanes), d = load(logits + 3 * lanes);
        float most = largest(larger(larger(a, b), larger(c, d)));
        Lanes peak = spread(most), nothing = spread(0.0f);
        Lanes first_half = falling_exponential(a - peak) + falling_exponential(b - peak);
        Lanes second_half = falling_exponential(c - peak) + falling_exponential(d - peak);
        // Nothing times what is not finite is not a number; minus infinity would leave no other trace.
        first_half = fused(a, nothing, fused(b, nothing, first_half));
        second_half = fused(c, nothing, fused(d, nothing, second_half));
        *summaries = {most, sum(first_half + second_half)};
    }
}

std::uint64_t group_above(const float* logits, float limit) {
    std::uint64_t bits = 0;
    for (std::size_t i = 0; i < group; i += lanes) {
        bits |= static_cast<std::uint64_t>(above(load(logits + i), limit)) << i;
    }
    return bits;
}

/// That of the lowest bit set.
inline Candidate candidate_at(const float* logits, std::uint64_t which, const Names& names) {
    int place = __builtin_ctzll(which);
    return candidate_of(logits[place], names.listed == nullptr ? names.first + place : names.listed[place]);
}

typedef Candidate Ranks __attribute__((vector_size(ranks * sizeof(Candidate)), may_alias));

/// Each of the best becomes the larger of itself and of what moves on from the place before: the smaller of the best there
/// and the new one. So all places are computed at once, and no branch is guessed wrong.
inline void enter_one(Candidate one, Ranks* best, std::size_t parts) {
    Ranks entering = one - Ranks{}, before = ~Ranks{};
    for (std::size_t part = 0; part < parts; part++) {
        Ranks here = best[part];
#ifdef __clang__
        Ranks moved = __builtin_shufflevector(before, here, 7, 8, 9, 10, 11, 12, 13, 14);
#else
        Ranks moved = __builtin_shuffle(before, here, Ranks{7, 8, 9, 10, 11, 12, 13, 14});
#endif
        moved = moved < entering ? moved : entering;
        best[part] = here > moved ? here : moved;
        before = here;
    }
}

template <std::size_t parts>
inline void enter_few(const float* logits, std::uint64_t which, const Names& names, Ranks* best) {
    Ranks kept[parts];
    for (std::size_t part = 0; part < parts; part++) kept[part] = best[part];
    for (; which != 0; which &= which - 1) enter_one(candidate_at(logits, which, names), kept, parts);
    for (std::size_t part = 0; part < parts; part++) best[part] = kept[part];
}

void enter(const float* logits, std::uint64_t which, const Names& names, Candidate* best, std::size_t count) {
    Ranks* places = reinterpret_cast<Ranks*>(best);
    switch (count / ranks) {  // few stay in registers
        case 1:
            return enter_few<1>(logits, which, names, places);
        case 2:
            return enter_few<2>(logits, which, names, places);
        default:
            for (; which != 0; which &= which - 1) enter_one(candidate_at(logits, which, names), places, count / ranks);
    }
}

/// log sum exp, from the largest group down; comparisons let no NaN pass, which the totals keep.
float normaliser(const GroupSummary* summaries, std::size_t groups) {
    float most = summaries[0].largest;
    for (std::size_t i = 1; i < groups; i++) {
        if (summaries[i].largest > most) most = summaries[i].largest;
    }
    float total = 0.0f;
    for (std::size_t i = 0; i < groups; i += lanes) {
        float apart[lanes], totals[lanes];
        for (std::size_t j = 0; j < lanes; j++) {
            bool real = i + j < groups;
            apart[j] = real ? summaries[i + j].largest - most : lowest;
            totals[j] = real ? summaries[i + j].total : 0.0f;
        }
        total += sum(exponential(load(apart)) * load(totals));
    }
    return most + std::log(total);
}

}  // namespace
}  // namespace dragoman
