// The attentions of a pass, divided among the team by heads and sentences.
#pragma once

#include <vector>

#include "hypotheses.hpp"
#include "pass.hpp"
#include "positions.hpp"

namespace dragoman {

/// Sentences whose places are rows of a pass, one after the other.
struct Stretch {
    std::size_t first, places;
};

/// Every place looks at all places of its sentence. Queries, keys and values are in `projected`, `width` a row.
void look_around(const Pass& pass, const Kernels& kernels, const Heads& heads, const Positions& positions, float scale,
                 const std::vector<Stretch>& sentences, std::size_t width);

/// What a decoder's pass reads and writes of hypotheses: row by row its place, and the slots from its first place to its own.
struct Paths {
    std::vector<std::size_t> places;
    std::vector<const std::byte* const*> slots;
    std::vector<std::byte*> own;
    /// Whether rows look at the slots of other rows, as when a prompt is read.
    bool among_rows = false;
};

/// Every hypothesis looks at its past and itself; its keys and values are left in its slot.
void look_back(const Pass& pass, const Kernels& kernels, const Heads& heads, const Positions& positions, float scale,
               const Paths& paths, std::size_t width);

/// Every hypothesis looks at its source; the `beam` hypotheses of a sentence together.
void look_across(const Pass& pass, const Kernels& kernels, const Heads& heads, float scale,
                 const std::vector<const Sentence*>& sentences, std::size_t beam, std::size_t width);

/// Leaves keys and values of all decoder layers, `width` numbers a row of `projected`, in the sentences' memories.
void remember(const Pass& pass, const Kernels& kernels, const std::vector<Heads>& layers, const std::vector<Stretch>& stretches,
              const std::vector<Sentence*>& sentences, std::size_t width);

}  // namespace dragoman
