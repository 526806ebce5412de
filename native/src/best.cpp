#include "best.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace dragoman {

Best::Best(const Linear& unembedding, Workspace& space, std::size_t vocabulary, std::size_t k,
           std::vector<std::int32_t> forbidden, std::size_t rows, std::size_t members)
    : unembedding_(unembedding),
      space_(space),
      vocabulary_(vocabulary),
      k_(k),
      rows_(rows),
      forbidden_(std::move(forbidden)),
      heaps_(rows * members) {
    space_.summaries.reserve(rows * unembedding.groups());
    space_.logits.reserve(members * rows * group);
}

void Best::find(const Pass& pass, const Kernels& kernels, float* log_probs, std::int32_t* tokens) {
    const Team::Member& member = pass.member();
    auto hand = static_cast<std::size_t>(member.number);
    float* logits = space_.logits.data() + hand * rows_ * group;
    auto [first, last] = member.share(unembedding_.groups());
    for (std::size_t number = first; number < last; number++) {
        unembedding_.group_product(pass.operand(unembedding_.depth()), rows_, number, logits, group);
        kernels.summarise(logits, rows_, space_.summaries.data() + number, unembedding_.groups());
        forbid(number, logits);
        for (std::size_t row = 0; row < rows_; row++) {
            Heap& best = heap(hand, row);
            float largest = space_.summaries[row * unembedding_.groups() + number].largest;
            if (best.size() < k_ || largest > best.front().logit) search(logits + row * group, number, best);
        }
    }
    member.wait();
    auto [from, to] = member.share(rows_);
    for (std::size_t row = from; row < to; row++) {
        std::size_t groups = unembedding_.groups();
        float normaliser = kernels.normaliser(space_.summaries.data() + row * groups, groups);
        if (!finish(row, static_cast<std::size_t>(member.count), normaliser, log_probs + row * k_, tokens + row * k_)) {
            broken_.store(true);
        }
    }
}

/// Out of the search, after the normaliser has seen them.
void Best::forbid(std::size_t number, float* logits) const {
    for (std::int32_t token : forbidden_) {
        auto place = static_cast<std::size_t>(token);
        if (place / group != number) continue;
        for (std::size_t row = 0; row < rows_; row++) {
            logits[row * group + place % group] = -std::numeric_limits<float>::infinity();
        }
    }
}

/// The heap keeps the k best, the worst of them in front.
void Best::search(const float* logits, std::size_t number, Heap& heap) const {
    std::size_t here = std::min(group, vocabulary_ - number * group);
    for (std::size_t i = 0; i < here; i++) {
        Candidate one = {logits[i], static_cast<std::int32_t>(number * group + i)};
        if (!std::isfinite(one.logit)) continue;
        if (heap.size() < k_) {
            heap.push_back(one);
            std::push_heap(heap.begin(), heap.end());
        } else if (one < heap.front()) {
            std::pop_heap(heap.begin(), heap.end());
            heap.back() = one;
            std::push_heap(heap.begin(), heap.end());
        }
    }
}

/// Joins what the members found in their parts; false where the numbers are not finite.
bool Best::finish(std::size_t row, std::size_t members, float normaliser, float* log_probs, std::int32_t* tokens) {
    Heap& all = heap(0, row);
    for (std::size_t member = 1; member < members; member++) {
        const Heap& theirs = heap(member, row);
        all.insert(all.end(), theirs.begin(), theirs.end());
    }
    if (!std::isfinite(normaliser) || all.size() < k_) return false;
    std::partial_sort(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(k_), all.end());
    for (std::size_t i = 0; i < k_; i++) {
        log_probs[i] = all[i].logit - normaliser;
        tokens[i] = all[i].token;
    }
    return true;
}

}  // namespace dragoman
