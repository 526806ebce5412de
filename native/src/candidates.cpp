#include "candidates.hpp"

#include <limits>
#include <stdexcept>
#include <string>

namespace dragoman {

namespace {

void check(const TokenLists& lists, std::size_t sentences, std::size_t vocabulary) {
    if (lists.counts.size() != sentences) {
        throw std::invalid_argument(std::to_string(lists.counts.size()) + " lists of candidates for " +
                                    std::to_string(sentences) + " sentences");
    }
    std::size_t begin = 0;
    for (std::size_t number = 0; number < sentences; number++) {
        std::int64_t count = lists.counts[number];
        if (count < 1 || static_cast<std::uint64_t>(count) > lists.total - begin) {
            throw std::invalid_argument("sentence " + std::to_string(number) + " has " + std::to_string(count) +
                                        " candidates; give one at least, and as many as there are");
        }
        std::int64_t before = -1;
        for (std::size_t end = begin + static_cast<std::size_t>(count); begin < end; begin++) {
            std::int32_t token = lists.tokens[begin];
            if (token < 0 || static_cast<std::size_t>(token) >= vocabulary) {
                throw std::out_of_range("candidate " + std::to_string(token) + " is not in a vocabulary of " +
                                        std::to_string(vocabulary));
            }
            if (token <= before) throw std::invalid_argument("the candidates of a sentence must rise");
            before = token;
        }
    }
    if (begin != lists.total) throw std::invalid_argument("more candidates than the lists hold");
}

}  // namespace

std::vector<std::shared_ptr<Candidates>> candidates_of(const TokenLists& lists, std::size_t sentences,
                                                       const Linear& unembedding, std::size_t vocabulary, Team& team) {
    check(lists, sentences, vocabulary);
    std::vector<std::shared_ptr<Candidates>> all;
    const std::int32_t* first = lists.tokens;
    for (std::int64_t count : lists.counts) {
        auto size = static_cast<std::size_t>(count);
        all.push_back(std::make_shared<Candidates>(
            Candidates{Linear(unembedding, size), std::vector<std::int32_t>(first, first + count)}));
        all.back()->words.fill_unused(std::numeric_limits<float>::lowest(), size);
        first += count;
    }
    team.run([&](const Team::Member& member) {
        for (const auto& one : all) {
            auto [from, to] = member.share(one->tokens.size());
            for (std::size_t i = from; i < to; i++) {
                one->words.copy_output(unembedding, static_cast<std::size_t>(one->tokens[i]), i);
            }
        }
    });
    return all;
}

}  // namespace dragoman
