// Heads of one attention layer, and the offsets of their keys and values in the caches.
#pragma once

#include <vector>

#include "model/linear.hpp"
#include "model/model_config.hpp"

namespace dragoman {

/// Heads of one layer, which pruning may have reduced. Caches store float32 or bfloat16.
struct HeadLayout {
    std::size_t num_heads, num_kv_heads, head_dim, head_width;
    /// Key-value heads of the previous layers, which precede this layer in the caches.
    std::size_t previous_kv_heads = 0;
    /// Head numbers in the unpruned model; empty if no head was pruned.
    std::vector<std::size_t> head_ids;
    bool float32_cache;

    /// All heads of a model.
    HeadLayout(const ModelConfig& config, ComputeType compute_type)
        : num_heads(config.num_heads),
          num_kv_heads(config.num_kv_heads),
          head_dim(config.head_dim()),
          head_width(config.head_width()),
          float32_cache(compute_type == ComputeType::float32 || compute_type == ComputeType::int8_int16) {}

    /// Layouts of the layers of a stack.
    static std::vector<HeadLayout> of_layers(const ModelConfig& config, const KeptHeads& kept, std::size_t layers,
                                             ComputeType compute_type) {
        std::vector<HeadLayout> layouts;
        for (std::size_t layer = 0, previous = 0; layer < layers; previous += layouts[layer++].num_kv_heads) {
            HeadLayout heads(config, compute_type);
            heads.previous_kv_heads = previous;
            if (!kept.empty()) {
                heads.head_ids = kept[layer];
                heads.num_heads = kept[layer].size();
                heads.num_kv_heads = heads.num_heads / config.queries_per_kv_head();
            }
            layouts.push_back(std::move(heads));
        }
        return layouts;
    }

    /// Head number in the unpruned model, which selects the position bias.
    std::size_t head_id(std::size_t head) const { return head_ids.empty() ? head : head_ids[head]; }
    std::size_t queries_per_kv_head() const { return num_heads / num_kv_heads; }
    std::size_t query_width() const { return num_heads * head_width; }
    std::size_t kv_width() const { return num_kv_heads * head_width; }
    std::size_t element_bytes() const { return float32_cache ? sizeof(float) : sizeof(Bfloat16); }
    FeatureLayout query_features() const { return FeatureLayout::heads(num_heads, head_dim); }
    /// Inputs of the output projection. Blocks of a quantized weight count features without padding.
    FeatureLayout output_features(ComputeType compute_type) const {
        if (compute_type == ComputeType::int8_int16) return FeatureLayout::contiguous(num_heads * head_dim);
        return query_features();
    }
    FeatureLayout kv_features() const { return FeatureLayout::heads(num_kv_heads, head_dim); }

    /// Offset of this layer in the keys and values of one position, in elements.
    std::size_t kv_offset() const { return 2 * previous_kv_heads * head_width; }
    /// Elements of one head in the cross-attention cache of a source: keys in blocks of 16 positions, then values.
    std::size_t cross_kv_size(std::size_t length) const {
        return round_up(length, simd_width) * head_dim + length * head_width;
    }
    std::size_t cross_keys_size(std::size_t length) const {
        return round_up(length, simd_width) * num_kv_heads * head_dim;
    }
    std::size_t cross_kv_offset(std::size_t length) const { return previous_kv_heads * cross_kv_size(length); }
};

}  // namespace dragoman
