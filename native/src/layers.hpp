// The parts of a Transformer with their weights: norms, embeddings, attentions, feed-forward networks, blocks.
#pragma once

#include <optional>
#include <string>

#include "heads.hpp"
#include "linear.hpp"
#include "weights.hpp"

namespace dragoman {

/// Where weights come from and what is made of them.
struct Loading {
    const Settings& settings;
    const Kernels& kernels;
    Compute compute;
    Weights& weights;

    /// Adds the weight of that name to a linear map.
    void add(Linear& linear, const std::string& name, std::size_t inputs, const Layout& outputs, std::size_t first) const;
};

class NormLayer {
public:
    NormLayer() = default;
    NormLayer(const Loading& loading, const std::string& name);

    /// Whether there is one.
    explicit operator bool() const { return norm_ != nullptr; }
    void operator()(const float* x, float* y) const { norm_(x, {weight_.data(), bias_.data(), size_, padded(size_)}, y); }

private:
    Norm norm_ = nullptr;
    std::size_t size_ = 0;
    Buffer<float> weight_, bias_;
};

/// Queries, keys and values of one sequence by one product, in this order.
struct SelfAttention {
    Heads heads;
    Linear inputs, output;

    SelfAttention(const Loading& loading, const std::string& name, const Heads& heads);
};

/// Queries; the keys and values of all layers are made together when the source is read.
struct CrossAttention {
    Heads heads;
    Linear query, output;

    CrossAttention(const Loading& loading, const std::string& name, const Heads& heads);
};

/// The inner maps, the gate after the padded other, and the outer one.
struct FeedForward {
    Linear inner, outer;

    FeedForward(const Loading& loading, const std::string& name);
};

struct EncoderBlock {
    NormLayer around_attention, around_feed_forward;
    SelfAttention attention;
    FeedForward feed_forward;

    EncoderBlock(const Loading& loading, const std::string& name, const Heads& heads);
};

/// A decoder block, or that of a decoder-only model, which has no cross-attention.
struct DecoderBlock {
    EncoderBlock block;
    NormLayer around_cross;
    std::optional<CrossAttention> cross;

    /// `across` are the heads of the cross-attention, where there is one.
    DecoderBlock(const Loading& loading, const std::string& name, const Heads& heads, const Heads* across);
};

/// Tokens to vectors. Where the target's embedding unembeds too, its weight is there once, as the product needs it.
class Embedding {
public:
    Embedding() = default;
    Embedding(const Loading& loading, const std::string& name, const Matrix& weight);
    /// Of the rows of a linear map that belongs to somebody else.
    Embedding(const Loading& loading, const std::string& name, const Linear& tied);

    /// The vector of a token with that of its place, where there is one; `width` numbers, zeros after the last.
    void read(std::size_t token, const float* place, float* x) const;

private:
    std::size_t size_ = 0;
    float scale_ = 1.0f;
    const Linear* tied_ = nullptr;
    Linear own_;
    NormLayer norm_;
};

}  // namespace dragoman
