// Transformer layers with their weights: normalization, embedding, attention projections, feed-forward network, blocks.
#pragma once

#include <optional>
#include <string>

#include "model/head_layout.hpp"
#include "model/linear.hpp"
#include "model/weights.hpp"

namespace dragoman {

/// Inputs of loading a layer: its architecture, kernels and weights.
struct LoadContext {
    const ModelConfig& config;
    const KernelTable& kernels;
    ComputeType compute_type;
    Weights& weights;

    /// Add the named weight, and bias if it has one, to a linear layer, from column `first` on.
    void add_to(Linear& linear, const std::string& name, std::size_t inputs, const FeatureLayout& outputs,
                std::size_t first, bool has_bias) const;
};

class NormLayer {
public:
    NormLayer() = default;
    NormLayer(const LoadContext& context, const std::string& name);

    /// Whether the layer exists in this architecture.
    explicit operator bool() const { return norm_ != nullptr; }
    void operator()(const float* x, float* y) const {
        norm_(x, {weight_.data(), bias_.data(), size_, padded_width(size_), epsilon_}, y);
    }

private:
    NormFn norm_ = nullptr;
    std::size_t size_ = 0;
    float epsilon_ = 0.0f;
    AlignedBuffer<float> weight_, bias_;
};

/// Self-attention with one projection for queries, keys and values, in this order.
struct SelfAttention {
    HeadLayout heads;
    Linear qkv, output;

    SelfAttention(const LoadContext& context, const std::string& name, const HeadLayout& heads);
};

/// Cross-attention. The encoder computes the keys and values of all layers with one projection.
struct CrossAttention {
    HeadLayout heads;
    Linear query, output;

    CrossAttention(const LoadContext& context, const std::string& name, const HeadLayout& heads);
};

/// Simpler simple recurrent unit (Kim et al., 2019), with one projection for its input and its forget gate.
struct Ssru {
    Linear gates;
    /// Offset of this layer in the state of a hypothesis, in floats.
    std::size_t state_offset;

    Ssru(const LoadContext& context, const std::string& name, std::size_t state_offset);
};

/// Feed-forward network; a gate projection is concatenated to the padded inner projection.
struct FeedForward {
    Linear inner, outer;

    FeedForward(const LoadContext& context, const std::string& name);
};

struct EncoderBlock {
    NormLayer attention_norm, feed_forward_norm;
    SelfAttention attention;
    FeedForward feed_forward;

    EncoderBlock(const LoadContext& context, const std::string& name, const HeadLayout& heads);
};

/// Decoder block with self-attention or a recurrent unit, and without cross-attention in a decoder-only model.
struct DecoderBlock {
    NormLayer attention_norm, cross_norm, feed_forward_norm;
    std::optional<SelfAttention> attention;
    std::optional<Ssru> ssru;
    std::optional<CrossAttention> cross;
    FeedForward feed_forward;

    /// `cross_heads` is null in a decoder-only model.
    DecoderBlock(const LoadContext& context, const std::string& name, std::size_t layer, const HeadLayout& heads,
                 const HeadLayout* cross_heads);
};

/// Token embedding. An embedding that is tied to the output projection reads its packed weight.
class Embedding {
public:
    Embedding() = default;
    Embedding(const LoadContext& context, const std::string& name, const WeightMatrix& weight);
    /// Embedding tied to a linear layer, which must outlive it.
    Embedding(const LoadContext& context, const std::string& name, const Linear& tied);

    /// Write the padded embedding of a token plus its position embedding, which may be null.
    void lookup(std::size_t token, const float* position_embedding, float* x) const;

private:
    std::size_t size_ = 0;
    float scale_ = 1.0f;
    const Linear* tied_ = nullptr;
    Linear own_;
    NormLayer norm_;
};

}  // namespace dragoman
