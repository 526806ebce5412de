// What is given to a model, checked, and work in portions that a pass takes.
#pragma once

#include <algorithm>
#include <stdexcept>
#include <string>
#include <vector>

#include "hypotheses.hpp"

namespace dragoman {

/// Rows of one pass: enough to make good use of a weight that was fetched, few enough to stay near the processor.
constexpr std::size_t rows_at_once = 512;

inline std::size_t checked_token(std::int32_t token, std::size_t vocabulary) {
    if (token < 0 || static_cast<std::size_t>(token) >= vocabulary) {
        throw std::out_of_range("token " + std::to_string(token) + " is not in a vocabulary of " + std::to_string(vocabulary));
    }
    return static_cast<std::size_t>(token);
}

inline std::vector<std::size_t> checked_lengths(const Ids& ids, const std::vector<std::int64_t>& lengths, std::size_t vocabulary) {
    if (lengths.size() != ids.rows) {
        throw std::invalid_argument(std::to_string(lengths.size()) + " lengths for " + std::to_string(ids.rows) + " rows");
    }
    std::vector<std::size_t> checked;
    for (std::size_t row = 0; row < ids.rows; row++) {
        if (lengths[row] < 1 || static_cast<std::uint64_t>(lengths[row]) > ids.columns) {
            throw std::invalid_argument("row " + std::to_string(row) + " has a length of " + std::to_string(lengths[row]) +
                                        ", which must be from 1 to the " + std::to_string(ids.columns) + " places there are");
        }
        checked.push_back(static_cast<std::size_t>(lengths[row]));
        for (std::size_t place = 0; place < checked.back(); place++) checked_token(ids.at(row, place), vocabulary);
    }
    return checked;
}

inline std::size_t most(const std::vector<std::size_t>& numbers) {
    return numbers.empty() ? 0 : *std::max_element(numbers.begin(), numbers.end());
}

/// `work(first, last)` for stretches of pieces that have at most so many rows together, or are one piece.
template <class Rows, class Work>
void in_portions(std::size_t pieces, const Rows& rows, const Work& work) {
    for (std::size_t first = 0, last = 0; first < pieces; first = last) {
        std::size_t together = 0;
        while (last < pieces && (last == first || together + rows(last) <= rows_at_once)) together += rows(last++);
        work(first, last);
    }
}

}  // namespace dragoman
