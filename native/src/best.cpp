#include "best.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace dragoman {

namespace {

std::size_t all_rows(const std::vector<Scope>& scopes) { return scopes.empty() ? 0 : scopes.back().first + scopes.back().rows; }

/// In one way down the heap, where taking one out and putting another in would go two ways.
void replace_worst(std::vector<Candidate>& heap, Candidate one) {
    std::size_t hole = 0;
    for (std::size_t child = 1; child < heap.size(); child = 2 * hole + 1) {
        if (child + 1 < heap.size() && heap[child] < heap[child + 1]) child++;
        if (!(one < heap[child])) break;
        heap[hole] = heap[child];
        hole = child;
    }
    heap[hole] = one;
}

}  // namespace

Best::Best(std::vector<Scope> scopes, Workspace& space, std::size_t vocabulary, std::size_t k,
           std::vector<std::int32_t> forbidden, std::size_t members)
    : scopes_(std::move(scopes)),
      space_(space),
      vocabulary_(vocabulary),
      k_(k),
      rows_(all_rows(scopes_)),
      forbidden_(std::move(forbidden)),
      heaps_(rows_ * members) {
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
    for (std::size_t row = 0; row < scope.rows; row++) {
        Heap& best = heap(hand, scope.first + row);
        float largest = summaries[row * groups + number].largest;
        if (best.size() < k_ || largest > best.front().logit) search(scope, kernels, logits + row * group, number, best);
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

/// The heap keeps the k best, the worst of them in front; only logits above that one are looked at.
void Best::search(const Scope& scope, const Kernels& kernels, const float* logits, std::size_t number, Heap& heap) const {
    std::size_t here = std::min(group, words(scope) - number * group);
    std::uint64_t left = ~std::uint64_t{0} >> (group - here);
    if (heap.empty()) heap.reserve(k_);
    float limit = heap.size() < k_ ? -std::numeric_limits<float>::infinity() : heap.front().logit;
    for (left &= kernels.above(logits, limit); left != 0; left &= left - 1) {
        auto i = static_cast<std::size_t>(__builtin_ctzll(left));
        Candidate one = {logits[i], scope.token(number * group + i)};
        if (heap.size() == k_) {
            replace_worst(heap, one);
        } else {
            heap.push_back(one);
            if (heap.size() < k_) continue;
            std::make_heap(heap.begin(), heap.end());
        }
        left &= kernels.above(logits, heap.front().logit) | (left & -left);
    }
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
    Heap& all = heap(0, row);
    all.reserve(members * k_);
    for (std::size_t member = 1; member < members; member++) {
        const Heap& theirs = heap(member, row);
        all.insert(all.end(), theirs.begin(), theirs.end());
    }
    if (!std::isfinite(normaliser) || all.size() < wanted) return false;
    std::partial_sort(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(wanted), all.end());
    for (std::size_t i = 0; i < k_; i++) {
        log_probs[i] = i < wanted ? all[i].logit - normaliser : -std::numeric_limits<float>::infinity();
        tokens[i] = i < wanted ? all[i].token : 0;
    }
    return true;
}

}  // namespace dragoman
