#include "best.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

namespace dragoman {

namespace {

std::size_t all_rows(const std::vector<Scope>& scopes) { return scopes.empty() ? 0 : scopes.back().first + scopes.back().rows; }

}  // namespace

Best::Best(std::vector<Scope> scopes, Workspace& space, std::size_t vocabulary, std::size_t k,
           std::vector<std::int32_t> forbidden, std::size_t members)
    : scopes_(std::move(scopes)),
      space_(space),
      vocabulary_(vocabulary),
      k_(k),
      kept_(rounded_up(k, ranks)),
      rows_(all_rows(scopes_)),
      forbidden_(std::move(forbidden)),
      found_(rows_ * members * kept_),
      limits_(rows_ * members, -std::numeric_limits<float>::infinity()) {
    std::size_t summaries = 0;
    for (const Scope& scope : scopes_) summaries += scope.rows * scope.words->groups();
    space_.summaries.reserve(summaries);
    space_.logits.reserve(members * rows_ * group);
}

void Best::find(const Pass& pass, const Kernels& kernels, float* log_probs, std::int32_t* tokens) {
    const Team::Member& member = pass.member();
    auto hand = static_cast<std::size_t>(member.number);
    std::size_t pieces = 0;
    for (const Scope& scope : scopes_) pieces += scope.words->groups();
    auto [first, last] = member.share(pieces);
    std::size_t before = 0;
    GroupSummary* summaries = space_.summaries.data();
    for (const Scope& scope : scopes_) {
        std::size_t groups = scope.words->groups();
        Operand x = scope.words->rows_from(pass.operand(scope.words->depth()), scope.first);
        for (std::size_t piece = std::max(first, before); piece < std::min(last, before + groups); piece++) {
            look(scope, piece - before, x, kernels, space_.logits.data() + hand * rows_ * group, summaries, hand);
        }
        before += groups;
        summaries += scope.rows * groups;
    }
    member.wait();
    auto [from, to] = member.share(rows_);
    summaries = space_.summaries.data();
    for (const Scope& scope : scopes_) {
        std::size_t groups = scope.words->groups(), enough = wanted(scope);
        for (std::size_t row = std::max(from, scope.first); row < std::min(to, scope.first + scope.rows); row++) {
            float normaliser = kernels.normaliser(summaries + (row - scope.first) * groups, groups);
            if (!finish(row, static_cast<std::size_t>(member.count), enough, normaliser, log_probs + row * k_,
                        tokens + row * k_)) {
                broken_.store(true);
            }
        }
        summaries += scope.rows * groups;
    }
}

/// One group of words for the rows of a scope.
void Best::look(const Scope& scope, std::size_t number, const Operand& x, const Kernels& kernels, float* logits,
                GroupSummary* summaries, std::size_t hand) {
    std::size_t groups = scope.words->groups();
    scope.words->group_product(x, scope.rows, number, logits, group);
    kernels.summarise(logits, scope.rows, summaries + number, groups);
    forbid(scope, number, logits);
    float* limits = limits_.data() + hand * rows_ + scope.first;
    for (std::size_t row = 0; row < scope.rows; row++) {
        if (summaries[row * groups + number].largest > limits[row]) {
            search(scope, kernels, logits + row * group, number, found(hand, scope.first + row), limits + row);
        }
    }
}

/// Out of the search, after the normaliser has seen them.
void Best::forbid(const Scope& scope, std::size_t number, float* logits) const {
    for (std::int32_t token : forbidden_) {
        auto place = static_cast<std::size_t>(token);
        if (scope.tokens != nullptr) {
            auto found = std::lower_bound(scope.tokens->begin(), scope.tokens->end(), token);
            if (found == scope.tokens->end() || *found != token) continue;
            place = static_cast<std::size_t>(found - scope.tokens->begin());
        }
        if (place / group != number) continue;
        for (std::size_t row = 0; row < scope.rows; row++) {
            logits[row * group + place % group] = -std::numeric_limits<float>::infinity();
        }
    }
}

/// Words come with rising tokens, so that one that is only as good as the worst of the best does not come in.
void Best::search(const Scope& scope, const Kernels& kernels, const float* logits, std::size_t number, Candidate* found,
                  float* limit) const {
    std::size_t here = std::min(group, words(scope) - number * group);
    std::uint64_t left = ~std::uint64_t{0} >> (group - here) & kernels.above(logits, *limit);
    kernels.enter(logits, left, scope.names(number * group), found, kept_);
    if (found[k_ - 1] != 0) *limit = logit_of(found[k_ - 1]);
}

/// How many tokens a row of a scope must have found: k, or as many as there are.
std::size_t Best::wanted(const Scope& scope) const {
    if (scope.tokens == nullptr) return k_;
    std::size_t allowed = scope.tokens->size();
    for (std::int32_t token : forbidden_) {
        if (std::binary_search(scope.tokens->begin(), scope.tokens->end(), token)) allowed--;
    }
    return std::min(k_, allowed);
}

/// Joins what the members found in their parts; false where the numbers are not finite.
bool Best::finish(std::size_t row, std::size_t members, std::size_t wanted, float normaliser, float* log_probs,
                  std::int32_t* tokens) {
    std::vector<Candidate> all;
    all.reserve(members * k_);
    for (std::size_t member = 0; member < members; member++) {
        const Candidate* theirs = found(member, row);
        for (std::size_t i = 0; i < k_ && theirs[i] != 0; i++) all.push_back(theirs[i]);
    }
    if (!std::isfinite(normaliser) || all.size() < wanted) return false;
    std::partial_sort(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(wanted), all.end(), std::greater<>());
    for (std::size_t i = 0; i < k_; i++) {
        log_probs[i] = i < wanted ? logit_of(all[i]) - normaliser : -std::numeric_limits<float>::infinity();
        tokens[i] = i < wanted ? token_of(all[i]) : 0;
    }
    return true;
}

}  // namespace dragoman
