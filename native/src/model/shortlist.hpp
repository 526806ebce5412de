// Lexical shortlist: the target tokens allowed for one source, with their part of the output projection.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "model/linear.hpp"

namespace dragoman {

struct Shortlist {
    /// Output projection of the listed tokens only. Padding columns give the lowest float.
    Linear projection;
    /// Token ids, ascending.
    std::vector<std::int32_t> tokens;
};

/// Concatenated token lists of several sources, and the length of each list.
struct ShortlistTokens {
    const std::int32_t* tokens = nullptr;
    std::size_t total = 0;
    std::vector<std::int64_t> counts;
};

/// Build the shortlist of each source. Throw std::invalid_argument unless each source has a nonempty ascending list,
/// and std::out_of_range for tokens beyond the vocabulary.
std::vector<std::shared_ptr<Shortlist>> build_shortlists(const ShortlistTokens& lists, std::size_t batch_size,
                                                         const Linear& output_projection, std::size_t vocabulary,
                                                         ThreadPool& threads, Interruption& interruption);

}  // namespace dragoman
