#include "model/shortlist.hpp"

#include <limits>
#include <stdexcept>
#include <string>

namespace dragoman {

namespace {

void check_lists(const ShortlistTokens& lists, std::size_t batch_size, std::size_t vocabulary) {
    if (lists.counts.size() != batch_size) {
        throw std::invalid_argument(std::to_string(lists.counts.size()) + " shortlists for " +
                                    std::to_string(batch_size) + " sentences");
    }
    std::size_t begin = 0;
    for (std::size_t index = 0; index < batch_size; index++) {
        std::int64_t count = lists.counts[index];
        if (count < 1 || static_cast<std::uint64_t>(count) > lists.total - begin) {
            throw std::invalid_argument("the shortlist of sentence " + std::to_string(index) + " has " +
                                        std::to_string(count) +
                                        " tokens; give at least one, and as many as are listed");
        }
        std::int64_t previous = -1;
        for (std::size_t end = begin + static_cast<std::size_t>(count); begin < end; begin++) {
            std::int32_t token = lists.tokens[begin];
            if (token < 0 || static_cast<std::size_t>(token) >= vocabulary) {
                throw std::out_of_range("shortlist token " + std::to_string(token) + " is not in a vocabulary of " +
                                        std::to_string(vocabulary));
            }
            if (token <= previous) {
                throw std::invalid_argument("the tokens of a shortlist must be in strictly ascending order");
            }
            previous = token;
        }
    }
    if (begin != lists.total) throw std::invalid_argument("more shortlist tokens than the counts add up to");
}

}  // namespace

std::vector<std::shared_ptr<Shortlist>> build_shortlists(const ShortlistTokens& lists, std::size_t batch_size,
                                                         const Linear& output_projection, std::size_t vocabulary,
                                                         ThreadPool& threads, Interruption& interruption) {
    check_lists(lists, batch_size, vocabulary);
    std::vector<std::shared_ptr<Shortlist>> shortlists;
    const std::int32_t* first = lists.tokens;
    for (std::int64_t count : lists.counts) {
        interruption.check();
        auto size = static_cast<std::size_t>(count);
        shortlists.push_back(std::make_shared<Shortlist>(
            Shortlist{Linear(output_projection, size), std::vector<std::int32_t>(first, first + count)}));
        shortlists.back()->projection.fill_padding_bias(std::numeric_limits<float>::lowest(), size);
        first += count;
    }
    auto copy_outputs = [&](const ThreadPool::Worker& worker) {
        for (const auto& shortlist : shortlists) {
            auto [from, to] = worker.partition(shortlist->tokens.size());
            if (worker.skips((to - from) * output_projection.depth())) return;
            for (std::size_t i = from; i < to; i++) {
                shortlist->projection.copy_output(output_projection, static_cast<std::size_t>(shortlist->tokens[i]), i);
            }
        }
    };
    threads.run(copy_outputs, interruption);
    return shortlists;
}

}  // namespace dragoman
