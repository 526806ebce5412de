// The k best continuations and their log-probabilities, in one go over the vocabulary.
//
// Logits are looked at group by group while they are at hand and never kept: a group leaves its largest and a sum for the
// normaliser, and is searched only where its largest could be among the best.
#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

#include "buffer.hpp"
#include "candidates.hpp"
#include "pass.hpp"

namespace dragoman {

/// Rows that go on with the same words: with all, or with the candidates of their sentence.
struct Scope {
    const Linear* words;
    /// Which tokens the words are; null where they are all of the vocabulary.
    const std::vector<std::int32_t>* tokens;
    std::size_t first, rows;

    /// Which tokens the words are from this place on.
    Names names(std::size_t place) const {
        return {tokens == nullptr ? nullptr : tokens->data() + place, static_cast<std::int32_t>(place)};
    }
};

/// Of some rows; made before a pass, used by all members of it.
class Best {
public:
    /// `scopes` are about all rows, one after the other.
    Best(std::vector<Scope> scopes, Workspace& space, std::size_t vocabulary, std::size_t k,
         std::vector<std::int32_t> forbidden, std::size_t members);

    /// One member's part; the pass's operand is ready. Results are in `log_probs` and `tokens`, k a row; where a row has
    /// fewer candidates, what is left is minus infinity and token 0.
    void find(const Pass& pass, const Kernels& kernels, float* log_probs, std::int32_t* tokens);

    /// Whether a logit was not finite; the results mean nothing then.
    bool broken() const { return broken_.load(); }

private:
    /// What a member has found for a row: k candidates, best first, and what fills the last of the registers they come in.
    Candidate* found(std::size_t member, std::size_t row) { return found_.data() + (member * rows_ + row) * kept_; }
    std::size_t words(const Scope& scope) const { return scope.tokens == nullptr ? vocabulary_ : scope.tokens->size(); }
    void look(const Scope& scope, std::size_t number, const Operand& x, const Kernels& kernels, float* logits,
              GroupSummary* summaries, std::size_t hand);
    void forbid(const Scope& scope, std::size_t number, float* logits) const;
    void search(const Scope& scope, const Kernels& kernels, const float* logits, std::size_t number, Candidate* found,
                float* limit) const;
    bool finish(std::size_t row, std::size_t members, std::size_t wanted, float normaliser, float* log_probs,
                std::int32_t* tokens);
    std::size_t wanted(const Scope& scope) const;

    const std::vector<Scope> scopes_;
    Workspace& space_;
    const std::size_t vocabulary_, k_, kept_, rows_;
    const std::vector<std::int32_t> forbidden_;
    Buffer<Candidate> found_;
    /// For each member and row, the logit that a word must exceed to be among the k best so far.
    std::vector<float> limits_;
    std::atomic<bool> broken_{false};
};

}  // namespace dragoman
