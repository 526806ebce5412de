// The stack that reads sources.
#pragma once

#include <vector>

#include "attention.hpp"

namespace dragoman {

class Encoder {
public:
    /// `unembedding` is where the weight of the embedding is, if it is tied.
    Encoder(const Loading& loading, const Linear& unembedding);

    /// One member's part in reading sentences, whose tokens are the rows of the pass.
    void read(Pass& pass, const std::vector<std::int32_t>& tokens, const std::vector<Stretch>& stretches,
              const std::vector<Sentence*>& sentences) const;

    /// Before sentences of so many places are read.
    void reach(std::size_t places) { positions_.reach(places); }

    std::size_t memory_width() const { return memory_.width(); }

private:
    const Settings& settings_;
    const Kernels& kernels_;
    /// Of the decoder layers that look at what is read.
    const std::vector<Heads> across_;
    Embedding embedding_;
    Positions positions_;
    std::vector<EncoderBlock> blocks_;
    NormLayer norm_;
    /// Keys and values of the cross-attention of all decoder layers.
    Linear memory_;
};

}  // namespace dragoman
