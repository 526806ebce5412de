// What is given to a model, checked, and cut into portions that a pass takes.
#pragma once

#include <algorithm>
#include <stdexcept>
#include <string>
#include <vector>

#include "hypotheses.hpp"

namespace dragoman {

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

/// Pieces from `first` to before `last` that go through a pass together; `before` counts the rows of those before them.
struct Portion {
    std::size_t first, last, before;
};

/// Portions of at most so many rows, or of one piece; `rows(piece)` says how many a piece has.
template <class Rows>
std::vector<Portion> portions_of(std::size_t pieces, const Rows& rows, std::size_t at_once) {
    std::vector<Portion> portions;
    std::size_t before = 0;
    for (std::size_t first = 0, last = 0; first < pieces; first = last) {
        std::size_t together = 0;
        while (last < pieces && (last == first || together + rows(last) <= at_once)) together += rows(last++);
        portions.push_back({first, last, before});
        before += together;
    }
    return portions;
}

}  // namespace dragoman
