// Top-k tokens and their log-probabilities, in one pass over the vocabulary.
//
// Logits are never stored. Each panel of logits is reduced to its maximum and its sum of exponentials, and searched
// only if its maximum exceeds the k-th best logit so far.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <vector>

#include "model/forward_pass.hpp"
#include "model/shortlist.hpp"
#include "runtime/aligned_buffer.hpp"

namespace dragoman {

/// Consecutive rows with the same output tokens: the full vocabulary, or the shortlist of their source.
struct RowGroup {
    const Linear* projection;
    /// Token ids of the outputs; null for the full vocabulary.
    const std::vector<std::int32_t>* tokens;
    std::size_t first_row, rows;
    static constexpr std::size_t no_output = ~std::size_t{0};

    /// Output of a token; `no_output` if it is not in the shortlist.
    std::size_t output_of(std::int32_t token) const {
        if (tokens == nullptr) return static_cast<std::size_t>(token);
        auto found = std::lower_bound(tokens->begin(), tokens->end(), token);
        return found == tokens->end() || *found != token ? no_output : static_cast<std::size_t>(found - tokens->begin());
    }

    /// Token ids from output `first` on.
    PanelTokens tokens_from(std::size_t first) const {
        return {tokens == nullptr ? nullptr : tokens->data() + first, static_cast<std::int32_t>(first)};
    }
};

/// Top-k search of one pass, shared by its threads.
class TopKSearch {
public:
    /// `groups` cover all rows in order. `suppressed` tokens are ascending. `extra` tokens are distinct.
    TopKSearch(std::vector<RowGroup> groups, Workspace& workspace, std::size_t vocabulary, std::size_t k,
               std::vector<std::int32_t> suppressed, const std::vector<std::int32_t>& extra, std::size_t threads);

    /// Run this thread's share after the decoder pass. Writes k results per row, and behind them those of the extra
    /// tokens; a row with fewer tokens is filled with minus infinity and token 0, and so is an extra token that is not
    /// in the shortlist of its row.
    void run(const ForwardPass& pass, const KernelTable& kernels, float* log_probs, std::int32_t* tokens);

    /// Whether a logit was not finite, which makes the results invalid.
    bool found_non_finite() const { return found_non_finite_.load(); }

private:
    /// Sorted list of one thread for a row: k keys, padded to whole vectors.
    SortKey* keys_of(std::size_t thread, std::size_t row) { return keys_.data() + (thread * rows_ + row) * capacity_; }
    std::size_t num_tokens(const RowGroup& group) const {
        return group.tokens == nullptr ? vocabulary_ : group.tokens->size();
    }
    void search_panel(std::size_t group, std::size_t panel, const GemmInput& x, const KernelTable& kernels,
                      float* logits, PanelStats* stats, std::size_t thread, float* log_probs);
    void suppress(const RowGroup& group, std::size_t panel, float* logits) const;
    void keep_extra(std::size_t group, std::size_t panel, const float* logits, float* log_probs) const;
    void insert(const RowGroup& group, const KernelTable& kernels, const float* logits, std::size_t panel,
                SortKey* keys, float* threshold) const;
    bool merge(std::size_t row, std::size_t threads, std::size_t results, float log_normalizer, float* log_probs,
               std::int32_t* tokens);
    std::size_t num_results(const RowGroup& group) const;

    const std::vector<RowGroup> groups_;
    Workspace& workspace_;
    const std::size_t vocabulary_, k_, capacity_, rows_;
    const std::vector<std::int32_t> suppressed_;
    /// An extra token: its output in the projection of a group, and its place among the extra tokens.
    struct ExtraOutput {
        std::size_t output, place;
    };
    const std::size_t num_extra_;
    /// By group, in the order of the outputs.
    std::vector<std::vector<ExtraOutput>> extra_;
    AlignedBuffer<SortKey> keys_;
    /// By thread and row, the k-th best logit so far.
    std::vector<float> thresholds_;
    std::atomic<bool> found_non_finite_{false};
};

}  // namespace dragoman
