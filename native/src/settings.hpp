// What a model is made of, in plain numbers; the Python side reads it from a configuration.
#pragma once

#include <cstddef>
#include <vector>

#include "kernels.hpp"
#include "linear.hpp"

namespace dragoman {

enum class PositionKind { none, sinusoidal, learned, rotary, alibi, bucketed };

/// The heads that pruning left, layer by layer; no layers where none was pruned.
using Kept = std::vector<std::vector<std::size_t>>;

struct Settings {
    bool causal = false;
    std::size_t size = 0, heads = 0, key_value_heads = 0, feed_forward = 0;
    std::size_t encoder_layers = 0, decoder_layers = 0;
    std::size_t source_vocabulary = 0, target_vocabulary = 0;
    Activation activation = Activation::relu;
    bool gated = false, rms_norm = false, pre_norm = true, bias = true;
    bool scale_embedding = true, norm_embedding = false;
    PositionKind positions = PositionKind::sinusoidal;
    /// Places of a learned table, base of rotary positions, buckets and furthest distance of bucketed ones.
    std::size_t places = 0, buckets = 0, furthest = 0;
    double rotary_base = 10000.0;
    /// Factors of the inner product in the three attentions.
    float encoder_scale = 1.0f, decoder_scale = 1.0f, cross_scale = 1.0f;
    Kept encoder_kept, decoder_kept, cross_kept;
    /// Whether source and target share an embedding, and the target's is the unembedding too.
    bool tie_source = true, tie_unembedding = true;

    std::size_t head_size() const { return size / heads; }
    std::size_t head_width() const { return rounded_up(head_size(), lanes); }
    /// Heads that share their keys and values with one another.
    std::size_t sharing() const { return heads / key_value_heads; }
    /// Heads of keys in all layers of a stack.
    std::size_t keys_in(const Kept& kept, std::size_t layers) const;

    /// Throws std::invalid_argument where sizes do not fit one another.
    void check() const;
};

}  // namespace dragoman
