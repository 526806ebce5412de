// The words that alone may be written for one source: a part of the vocabulary, gathered once and read at every step.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "linear.hpp"

namespace dragoman {

struct Candidates {
    /// Their outputs of the unembedding, side by side. What is beyond them gives the lowest number.
    Linear words;
    /// Which tokens they are, in order.
    std::vector<std::int32_t> tokens;
};

/// Lists of tokens, one after the other; `counts` says how long each is.
struct TokenLists {
    const std::int32_t* tokens = nullptr;
    std::size_t total = 0;
    std::vector<std::int64_t> counts;
};

/// The candidates of each sentence. Throws std::invalid_argument where there is not a list for each that rises and has
/// a token at least, and std::out_of_range for tokens beyond the vocabulary.
std::vector<std::shared_ptr<Candidates>> candidates_of(const TokenLists& lists, std::size_t sentences,
                                                       const Linear& unembedding, std::size_t vocabulary, Team& team);

}  // namespace dragoman
