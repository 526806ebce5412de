// What is wanted of all logits, found group by group while they are at hand.
#pragma once

#include "rows.hpp"

namespace dragoman {
namespace {

void summarise(const float* logits, std::size_t rows, GroupSummary* summaries, std::size_t stride) {
    static_assert(group == 4 * lanes, "a group is read as four times 16 numbers");
    for (std::size_t row = 0; row < rows; row++, logits += group, summaries += stride) {
        Lanes a = load(logits), b = load(logits + lanes), c = load(logits + 2 * lanes), d = load(logits + 3 * lanes);
        float most = largest(larger(larger(a, b), larger(c, d)));
        Lanes peak = spread(most);
        Lanes total = (exponential(a - peak) + exponential(b - peak)) + (exponential(c - peak) + exponential(d - peak));
        *summaries = {most, smallest(smaller(smaller(a, b), smaller(c, d))), sum(total)};
    }
}

/// log sum exp, from the largest group down; comparisons let no NaN pass, which the totals keep.
float normaliser(const GroupSummary* summaries, std::size_t groups) {
    float most = summaries[0].largest, least = summaries[0].smallest;
    for (std::size_t i = 1; i < groups; i++) {
        if (summaries[i].largest > most) most = summaries[i].largest;
        if (summaries[i].smallest < least) least = summaries[i].smallest;
    }
    float total = 0.0f, broken = least * 0.0f;
    for (std::size_t i = 0; i < groups; i += lanes) {
        float apart[lanes], totals[lanes];
        for (std::size_t j = 0; j < lanes; j++) {
            bool real = i + j < groups;
            apart[j] = real ? summaries[i + j].largest - most : lowest;
            totals[j] = real ? summaries[i + j].total : 0.0f;
        }
        total += sum(exponential(load(apart)) * load(totals));
    }
    return most + std::log(total) + broken;
}

}  // namespace
}  // namespace dragoman
