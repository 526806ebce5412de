// Checks of token ids and lengths.
#pragma once

#include <algorithm>
#include <stdexcept>
#include <string>
#include <vector>

#include "runtime/matrix_view.hpp"

namespace dragoman {

/// Throw std::out_of_range unless the token is in the vocabulary; `kind` names it in the message.
inline void check_token(std::int64_t token, std::size_t vocabulary, const char* kind = "token") {
    if (token < 0 || static_cast<std::size_t>(token) >= vocabulary) {
        throw std::out_of_range(std::string(kind) + " " + std::to_string(token) + " is not in a vocabulary of " +
                                std::to_string(vocabulary));
    }
}

/// Lengths of the rows of `ids`, whose tokens up to these lengths must be in the vocabulary.
inline std::vector<std::size_t> checked_lengths(const IdMatrix& ids, const std::vector<std::int64_t>& lengths,
                                                std::size_t vocabulary) {
    if (lengths.size() != ids.rows) {
        throw std::invalid_argument(std::to_string(lengths.size()) + " lengths for " + std::to_string(ids.rows) +
                                    " rows");
    }
    std::vector<std::size_t> checked;
    for (std::size_t row = 0; row < ids.rows; row++) {
        if (lengths[row] < 1 || static_cast<std::uint64_t>(lengths[row]) > ids.columns) {
            throw std::invalid_argument("row " + std::to_string(row) + " has a length of " +
                                        std::to_string(lengths[row]) + ", which must be from 1 to the " +
                                        std::to_string(ids.columns) + " columns of ids");
        }
        checked.push_back(static_cast<std::size_t>(lengths[row]));
        for (std::size_t position = 0; position < checked.back(); position++) {
            check_token(ids.at(row, position), vocabulary);
        }
    }
    return checked;
}

inline std::size_t max_of(const std::vector<std::size_t>& numbers) {
    return numbers.empty() ? 0 : *std::max_element(numbers.begin(), numbers.end());
}

}  // namespace dragoman
