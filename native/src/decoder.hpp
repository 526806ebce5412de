// The stack that goes on with hypotheses, of both kinds of model.
#pragma once

#include <vector>

#include "attention.hpp"

namespace dragoman {

/// Rows of a decoder's pass: the last token of each hypothesis, or all tokens of prompts.
struct Steps {
    std::vector<std::int32_t> tokens;
    Paths paths;
    /// What the slots of all rows point into: the addresses of each path, one after the other.
    std::vector<const std::byte*> addresses;
    /// The sources, each of `beam` rows; none in a decoder-only model.
    std::vector<const Sentence*> sentences;
    std::size_t beam = 1;
};

class Decoder {
public:
    Decoder(const Loading& loading, const Linear& unembedding);

    /// One member's part: the rows go through the stack, and their keys and values into their slots. Afterwards the
    /// operand of the pass is what the unembedding is to multiply.
    void go_on(Pass& pass, const Steps& steps) const;

    /// Before hypotheses get so many places.
    void reach(std::size_t places) { positions_.reach(places); }

private:
    const Settings& settings_;
    const Kernels& kernels_;
    Embedding embedding_;
    Positions positions_;
    std::vector<DecoderBlock> blocks_;
    NormLayer norm_;
};

/// The unembedding, whose rows may be embeddings too. What is beyond the vocabulary gives the lowest number.
Linear unembedding_of(const Loading& loading);

}  // namespace dragoman
