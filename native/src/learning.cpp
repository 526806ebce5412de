#include "learning.hpp"

#include <algorithm>
#include <stdexcept>
#include <vector>

#include "instruction_set.hpp"

namespace dragoman {

namespace {

void require(bool fits, const char* what) {
    if (!fits) throw std::invalid_argument(what);
}

void require_fitting(const Attention& attention) {
    const auto& [query, key, value, allowed, causal, scale] = attention;
    require(key.like(value), "keys and values need one shape");
    require(query.texts == key.texts && query.heads == key.heads && query.head_size == key.head_size,
            "queries and keys need as many texts, heads and numbers in a head");
    require(scale > 0, "the factor of the scores must be above zero");
    require(!causal || query.places == key.places, "only as many queries as keys can be causal");
    if (allowed.data == nullptr) return;
    auto fits = [](std::size_t given, std::size_t wanted) { return given == 1 || given == wanted; };
    require(fits(allowed.texts, query.texts) && fits(allowed.heads, query.heads) && fits(allowed.queries, query.places) &&
                allowed.keys == key.places,
            "what is allowed needs a byte for each key, for all queries, heads and texts or for each");
}

/// `work(sizes, sight, inputs, text, head)` for every head of every text.
template <class Work>
void for_all_heads(const Attention& attention, const Work& work) {
    const auto& [query, key, value, allowed, causal, scale] = attention;
    HeadSizes sizes{query.places, key.places, query.head_size};
    std::size_t stride = allowed.queries == 1 ? 0 : allowed.keys;
    for (std::size_t text = 0; text < query.texts; text++) {
        for (std::size_t head = 0; head < query.heads; head++) {
            work(sizes, Sight{causal, allowed.of(text, head), stride},
                 HeadInputs{query.of(text, head), key.of(text, head), value.of(text, head)}, text, head);
        }
    }
}

}  // namespace

Learning::Learning(const std::optional<std::string>& instruction_set) {
    Kernels kernels = kernels_of(instruction_set);
    name_ = kernels.name;
    kernels_ = kernels.learning;
}

void Learning::narrow(const Grid<const float>& x, const Grid<Bfloat16>& y, float* sums) const {
    require(x.columns == y.columns && x.rows <= y.rows, "the result needs the columns of the rows, and as many rows or more");
    if (sums == nullptr) {
        kernels_.narrow(x.data, x.size(), y.data);
    } else {
        for (std::size_t row = 0; row < x.rows; row++) kernels_.narrow_and_add(x.row(row), x.columns, y.row(row), sums);
    }
    std::fill(y.row(x.rows), y.row(y.rows), Bfloat16{0});
}

void Learning::widen(const Grid<const Bfloat16>& x, const float* bias, const Grid<float>& y) const {
    require(x.columns == y.columns && y.rows <= x.rows, "the result needs the columns of the rows, and no more rows");
    if (bias == nullptr) return kernels_.widen(x.data, nullptr, y.size(), y.data);
    for (std::size_t row = 0; row < y.rows; row++) kernels_.widen(x.row(row), bias, x.columns, y.row(row));
}

void Learning::turn(const Grid<const float>& x, const Grid<const float>& cosine, const Grid<const float>& sine,
                    std::size_t heads, const Grid<float>& y) const {
    require(x.rows == y.rows && x.columns == y.columns, "the result needs the shape of the rows");
    require(cosine.rows == sine.rows && cosine.columns == sine.columns, "cosines and sines need one shape");
    require(x.columns == 2 * cosine.columns, "there must be an angle for each pair of a head's numbers");
    require(heads > 0 && (x.rows == 0 || (cosine.rows > 0 && x.rows % (heads * cosine.rows) == 0)),
            "there must be a row of angles for each place");
    for (std::size_t row = 0; row < x.rows; row++) {
        std::size_t place = row / heads % cosine.rows;
        kernels_.turn(x.row(row), cosine.row(place), sine.row(place), cosine.columns, y.row(row));
    }
}

void Learning::drop(const Grid<const float>& x, const std::int64_t* lines, const Dropping& dropping,
                    const Grid<float>& y) const {
    require(x.rows == y.rows && x.columns == y.columns, "the result needs the shape of the rows");
    for (std::size_t row = 0; row < x.rows; row++) {
        kernels_.drop(x.row(row), dropping, static_cast<std::uint64_t>(lines[row]), x.columns, y.row(row));
    }
}

template <class Number>
RowLoss Learning::losses(const Grid<Number>& logits, const std::int64_t* expected, float certainty, const Taught& taught,
                         float* bias_gradient) const {
    for (std::size_t row = 0; row < logits.rows; row++) {
        require(expected[row] >= 0 && static_cast<std::size_t>(expected[row]) < logits.columns,
                "what is expected must be a word of the vocabulary");
    }
    std::vector<float> scratch(logits.columns);
    double negative_log_likelihood = 0, mean_log_prob = 0, taught_log_prob = 0;
    for (std::size_t row = 0; row < logits.rows; row++) {
        Taught here{taught.distribution == nullptr ? nullptr : taught.distribution + row * logits.columns, taught.share};
        RowLoss found = rows_of<Number>().loss(logits.row(row), logits.columns, static_cast<std::size_t>(expected[row]),
                                               certainty, here, scratch.data(), bias_gradient);
        negative_log_likelihood += found.negative_log_likelihood;
        mean_log_prob += found.mean_log_prob;
        taught_log_prob += found.taught_log_prob;
    }
    return {static_cast<float>(negative_log_likelihood), static_cast<float>(mean_log_prob),
            static_cast<float>(taught_log_prob)};
}

template <class Number>
void Learning::add_probabilities(const Grid<Number>& logits, float share, const Grid<float>& sums) const {
    require(logits.rows == sums.rows && logits.columns == sums.columns, "the sums need the shape of the logits");
    std::vector<float> scratch(logits.columns);
    for (std::size_t row = 0; row < logits.rows; row++) {
        rows_of<Number>().add_probabilities(logits.row(row), logits.columns, share, scratch.data(), sums.row(row));
    }
}

template RowLoss Learning::losses(const Grid<float>&, const std::int64_t*, float, const Taught&, float*) const;
template RowLoss Learning::losses(const Grid<Bfloat16>&, const std::int64_t*, float, const Taught&, float*) const;
template void Learning::add_probabilities(const Grid<float>&, float, const Grid<float>&) const;
template void Learning::add_probabilities(const Grid<Bfloat16>&, float, const Grid<float>&) const;

void Learning::attend(const Attention& attention, const HeadsOfTexts<float>& attended) const {
    require_fitting(attention);
    require(attended.like(attention.query), "the result needs the shape of the queries");
    std::vector<float> scratch(HeadSizes{attention.query.places, attention.key.places, attention.query.head_size}.scratch());
    for_all_heads(attention, [&](const HeadSizes& sizes, const Sight& sight, const HeadInputs& inputs, std::size_t text,
                                 std::size_t head) {
        kernels_.attend_head(sizes, attention.scale, sight, inputs, scratch.data(), attended.of(text, head));
    });
}

void Learning::attend_back(const Attention& attention, const HeadsOfTexts<const float>& gradient,
                           const HeadsOfTexts<float>& query, const HeadsOfTexts<float>& key,
                           const HeadsOfTexts<float>& value) const {
    require_fitting(attention);
    require(gradient.like(attention.query) && query.like(attention.query) && key.like(attention.key) &&
                value.like(attention.value),
            "gradients need the shapes of what they are gradients in");
    std::vector<float> scratch(HeadSizes{attention.query.places, attention.key.places, attention.query.head_size}.scratch());
    for_all_heads(attention, [&](const HeadSizes& sizes, const Sight& sight, const HeadInputs& inputs, std::size_t text,
                                 std::size_t head) {
        kernels_.attend_head_back(sizes, attention.scale, sight, inputs, gradient.of(text, head), scratch.data(),
                                  {query.of(text, head), key.of(text, head), value.of(text, head)});
    });
}

}  // namespace dragoman
