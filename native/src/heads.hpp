// The heads of an attention, which may be fewer in a layer that was pruned, and where their keys and values stand in caches.
#pragma once

#include <vector>

#include "settings.hpp"

namespace dragoman {

/// Of one attention, and how its caches store numbers: as they are, or as bfloat16.
struct Heads {
    std::size_t queries, keys, size, width;
    /// Heads of keys in the layers before, whose numbers stand before its own.
    std::size_t keys_before = 0;
    /// Which of the model's heads they are, where pruning took some.
    std::vector<std::size_t> names;
    bool cache_in_float32;

    /// All heads of a model.
    Heads(const Settings& settings, Compute compute)
        : queries(settings.heads),
          keys(settings.key_value_heads),
          size(settings.head_size()),
          width(settings.head_width()),
          cache_in_float32(compute == Compute::float32) {}

    /// Those of each layer of a stack.
    static std::vector<Heads> of_layers(const Settings& settings, const Kept& kept, std::size_t layers, Compute compute) {
        std::vector<Heads> all;
        for (std::size_t layer = 0, before = 0; layer < layers; before += all[layer++].keys) {
            Heads heads(settings, compute);
            heads.keys_before = before;
            if (!kept.empty()) {
                heads.names = kept[layer];
                heads.queries = kept[layer].size();
                heads.keys = heads.queries / settings.sharing();
            }
            all.push_back(std::move(heads));
        }
        return all;
    }

    /// What a head is called in the whole model, which its bias hangs on.
    std::size_t name(std::size_t head) const { return names.empty() ? head : names[head]; }
    std::size_t sharing() const { return queries / keys; }
    std::size_t query_width() const { return queries * width; }
    std::size_t key_width() const { return keys * width; }
    std::size_t number_bytes() const { return cache_in_float32 ? sizeof(float) : sizeof(Bfloat16); }
    Layout of_queries() const { return Layout::heads(queries, size); }
    Layout of_keys() const { return Layout::heads(keys, size); }

    /// Keys and values of a place, layer after layer: where this layer begins, in numbers.
    std::size_t begin() const { return 2 * keys_before * width; }
    /// Numbers of one head in a sentence's memory: keys in blocks of 16 places, then values. Whole lanes.
    std::size_t memory_head(std::size_t places) const { return rounded_up(places, lanes) * size + places * width; }
    std::size_t memory_keys(std::size_t places) const { return rounded_up(places, lanes) * keys * size; }
    std::size_t memory_begin(std::size_t places) const { return keys_before * memory_head(places); }
};

}  // namespace dragoman
