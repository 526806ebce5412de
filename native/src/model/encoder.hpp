// Transformer encoder.
#pragma once

#include <vector>

#include "model/attention.hpp"

namespace dragoman {

class Encoder {
public:
    /// `output_projection` holds the weight of a tied embedding.
    Encoder(const LoadContext& context, const Linear& output_projection);

    /// Encode the sources whose tokens are the rows of the pass, and store their cross-attention keys and values.
    void forward(ForwardPass& pass, const std::vector<std::int32_t>& tokens, const std::vector<SourceRows>& rows,
                 const std::vector<EncodedSource*>& sources) const;

    /// Extend the position tables before encoding sources of this length.
    void extend_to(std::size_t length) { positions_.extend_to(length); }

    std::size_t cross_kv_width() const { return cross_kv_.output_width(); }

private:
    const ModelConfig& config_;
    const KernelTable& kernels_;
    const std::vector<HeadLayout> cross_heads_;
    Embedding embedding_;
    PositionEncoding positions_;
    std::vector<EncoderBlock> blocks_;
    NormLayer norm_;
    /// Projection to the cross-attention keys and values of all decoder layers.
    Linear cross_kv_;
};

}  // namespace dragoman
