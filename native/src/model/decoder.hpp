// Transformer decoder, of an encoder-decoder or of a decoder-only model.
#pragma once

#include <vector>

#include "model/attention.hpp"

namespace dragoman {

/// Rows of a decoder pass: the last token of each hypothesis, or all tokens of prompts.
struct DecoderInput {
    std::vector<std::int32_t> tokens;
    RowCaches caches;
    /// Entry addresses that `caches.history` points to, row after row.
    std::vector<const std::byte*> addresses;
    /// Sources of `beam_size` rows each; empty in a decoder-only model.
    std::vector<const EncodedSource*> sources;
    std::size_t beam_size = 1;
    /// Takes the weights of one cross-attention layer; null if nobody reads them.
    const RecordedWeights* recorded = nullptr;
};

class Decoder {
public:
    Decoder(const LoadContext& context, const Linear& output_projection);

    /// Run the stack, and write keys and values to the cache. Leaves the input of the output projection packed in the
    /// pass.
    void forward(ForwardPass& pass, const DecoderInput& input) const;

    /// Extend the position tables before decoding hypotheses of this length.
    void extend_to(std::size_t length) { positions_.extend_to(length); }

private:
    /// Recurrent sublayer: write the next states to the cache.
    void update_ssru(ForwardPass& pass, const Ssru& ssru, const RowCaches& caches) const;

    const ModelConfig& config_;
    const KernelTable& kernels_;
    Embedding embedding_;
    PositionEncoding positions_;
    std::vector<DecoderBlock> blocks_;
    NormLayer norm_;
};

/// Output projection, whose weight may be tied to the embeddings. Padding columns give the lowest float.
Linear load_output_projection(const LoadContext& context);

}  // namespace dragoman
