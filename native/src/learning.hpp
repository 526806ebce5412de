// What training computes between products, for arrays of many rows.
#pragma once

#include <optional>
#include <string>
#include <type_traits>

#include "kernels.hpp"

namespace dragoman {

/// Numbers in rows that follow one another.
template <class Number>
struct Grid {
    Number* data;
    std::size_t rows, columns;

    Number* row(std::size_t number) const { return data + number * columns; }
    std::size_t size() const { return rows * columns; }
};

/// Texts by places by heads by numbers.
template <class Number>
struct HeadsOfTexts {
    Number* data;
    std::size_t texts, places, heads, head_size;

    RowsOfHead<Number> of(std::size_t text, std::size_t head) const {
        return {data + (text * places * heads + head) * head_size, heads * head_size};
    }
    bool like(const HeadsOfTexts<const float>& other) const {
        return texts == other.texts && places == other.places && heads == other.heads && head_size == other.head_size;
    }
};

/// Which keys may be seen: a byte for each text, head, query and key, where each of the first three may be one for all.
struct AllowedKeys {
    const std::uint8_t* data;
    std::size_t texts, heads, queries, keys;

    const std::uint8_t* of(std::size_t text, std::size_t head) const {
        if (data == nullptr) return nullptr;
        return data + ((texts == 1 ? 0 : text) * heads + (heads == 1 ? 0 : head)) * queries * keys;
    }
};

struct Attention {
    HeadsOfTexts<const float> query, key, value;
    AllowedKeys allowed;
    bool causal;
    float scale;
};

/// Functions of an instruction set; what does not fit together is refused with std::invalid_argument.
class Learning {
public:
    explicit Learning(const std::optional<std::string>& instruction_set);

    const char* instruction_set() const { return name_; }

    /// The rows in bfloat16, and zeros in what rows `y` has after them; their sums by column too where `sums` is given.
    void narrow(const Grid<const float>& x, const Grid<Bfloat16>& y, float* sums) const;
    /// As many rows as `y` has, plus the bias where there is one.
    void widen(const Grid<const Bfloat16>& x, const float* bias, const Grid<float>& y) const;
    /// Each row is that of a head; row r turns by the angles of row r / heads, where these start again after their last.
    void turn(const Grid<const float>& x, const Grid<const float>& cosine, const Grid<const float>& sine, std::size_t heads,
              const Grid<float>& y) const;
    void drop(const Grid<const float>& x, const std::int64_t* lines, const Dropping& dropping, const Grid<float>& y) const;
    /// Sums over the rows; the logits become the gradient in them. What is taught is as many rows, or null.
    template <class Number>
    RowLoss losses(const Grid<Number>& logits, const std::int64_t* expected, float certainty, const Taught& taught,
                   float* bias_gradient) const;
    /// A share of the probabilities of each row, added to the sums.
    template <class Number>
    void add_probabilities(const Grid<Number>& logits, float share, const Grid<float>& sums) const;
    void attend(const Attention& attention, const HeadsOfTexts<float>& attended) const;
    /// The gradients in queries, keys and values, of the one in what was attended to.
    void attend_back(const Attention& attention, const HeadsOfTexts<const float>& gradient, const HeadsOfTexts<float>& query,
                     const HeadsOfTexts<float>& key, const HeadsOfTexts<float>& value) const;

private:
    template <class Number>
    const RowsOfLogits<Number>& rows_of() const {
        if constexpr (std::is_same_v<Number, float>) {
            return kernels_.in_float32;
        } else {
            return kernels_.in_bfloat16;
        }
    }

    const char* name_;
    LearningKernels kernels_;
};

}  // namespace dragoman
