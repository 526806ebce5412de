// The attentions of a pass, divided among the team by heads and sentences.
#pragma once

#include <vector>

#include "hypotheses.hpp"
#include "pass.hpp"
#include "positions.hpp"

namespace dragoman {

/// Sizes that all attentions of a model share, and how its caches store numbers: as they are, or as bfloat16.
struct Heads {
    std::size_t queries, keys, size, width;
    bool cache_in_float32;

    Heads(const Settings& settings, Compute compute)
        : queries(settings.heads),
          keys(settings.key_value_heads),
          size(settings.head_size()),
          width(settings.head_width()),
          cache_in_float32(compute == Compute::float32) {}

    std::size_t sharing() const { return queries / keys; }
    std::size_t key_width() const { return keys * width; }
    std::size_t number_bytes() const { return cache_in_float32 ? sizeof(float) : sizeof(Bfloat16); }

    /// Bytes of one slot: keys, then values, layer after layer.
    std::size_t slot_bytes(std::size_t layers) const { return layers * 2 * key_width() * number_bytes(); }
    /// Numbers of one layer of a sentence's memory: keys in blocks of 16 places, then values.
    std::size_t memory_keys(std::size_t places) const { return rounded_up(places, lanes) * keys * size; }
    std::size_t memory_layer(std::size_t places) const {
        return rounded_up(memory_keys(places) + places * key_width(), lanes);
    }
};

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
               const Paths& paths, std::size_t layer, std::size_t width);

/// Every hypothesis looks at its source; the `beam` hypotheses of a sentence together.
void look_across(const Pass& pass, const Kernels& kernels, const Heads& heads, float scale,
                 const std::vector<const Sentence*>& sentences, std::size_t beam, std::size_t layer, std::size_t width);

/// Leaves keys and values of all decoder layers, `width` numbers a row of `projected`, in the sentences' memories.
void remember(const Pass& pass, const Kernels& kernels, const Heads& heads, const std::vector<Stretch>& stretches,
              const std::vector<Sentence*>& sentences, std::size_t layers, std::size_t width);

}  // namespace dragoman
