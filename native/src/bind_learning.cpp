// The door to Python of what training computes: arrays of any number of axes, whose last one is a row.
#include "bind_learning.hpp"

#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>

#include <stdexcept>
#include <tuple>

#include "learning.hpp"

namespace dragoman {

namespace nb = nanobind;

namespace {

using Floats = nb::ndarray<const float, nb::c_contig, nb::device::cpu>;
using Results = nb::ndarray<float, nb::c_contig, nb::device::cpu>;
using Heads = nb::ndarray<const float, nb::ndim<4>, nb::c_contig, nb::device::cpu>;
using HeadResults = nb::ndarray<float, nb::ndim<4>, nb::c_contig, nb::device::cpu>;
using Bytes = nb::ndarray<const std::uint8_t, nb::ndim<4>, nb::c_contig, nb::device::cpu>;
using Words = nb::ndarray<const std::int64_t, nb::c_contig, nb::device::cpu>;
/// Of a format that is asked for when they are there: float32; bfloat16, or uint16 where a library has no such numbers.
using Numbers = nb::ndarray<nb::c_contig, nb::device::cpu>;

template <class Number, class Array>
Grid<Number> grid(const Array& array, Number* data) {
    if (array.ndim() == 0) throw std::invalid_argument("a number by itself is no array of rows");
    std::size_t columns = array.shape(array.ndim() - 1), rows = 1;
    for (std::size_t axis = 0; axis + 1 < array.ndim(); axis++) rows *= array.shape(axis);
    return {data, rows, columns};
}
Grid<const float> grid(const Floats& array) { return grid(array, array.data()); }
Grid<float> grid(const Results& array) { return grid(array, array.data()); }
bool is_bfloat16(const Numbers& array) {
    bool brain = array.dtype().code == static_cast<std::uint8_t>(nb::dlpack::dtype_code::Bfloat) && array.dtype().bits == 16;
    return brain || array.dtype() == nb::dtype<std::uint16_t>();
}
Grid<Bfloat16> halves(const Numbers& array) {
    if (!is_bfloat16(array)) throw std::invalid_argument("halves must be bfloat16, or uint16");
    return grid(array, static_cast<Bfloat16*>(array.data()));
}
/// `work(grid)` in the format that the logits have.
template <class Work>
auto of_logits(const Numbers& array, const Work& work) {
    if (is_bfloat16(array)) return work(halves(array));
    if (array.dtype() != nb::dtype<float>()) throw std::invalid_argument("logits must be float32, bfloat16, or uint16");
    return work(grid(array, static_cast<float*>(array.data())));
}

template <class Array>
auto as_many(const std::optional<Array>& numbers, std::size_t count) -> decltype(numbers->data()) {
    if (!numbers) return nullptr;
    if (numbers->size() != count) throw std::invalid_argument("there must be one number for each column");
    return numbers->data();
}

const std::int64_t* one_a_row(const Words& words, std::size_t rows, const char* what) {
    if (words.size() != rows) throw std::invalid_argument(what);
    return words.data();
}

void narrow(const Learning& learning, const Floats& x, const Numbers& y, const std::optional<Results>& sums) {
    Grid<const float> from = grid(x);
    learning.narrow(from, halves(y), as_many(sums, from.columns));
}

void widen(const Learning& learning, const Numbers& x, const std::optional<Floats>& bias, const Results& y) {
    Grid<Bfloat16> from = halves(x);
    learning.widen({from.data, from.rows, from.columns}, as_many(bias, from.columns), grid(y));
}

void drop(const Learning& learning, const Floats& x, const Words& lines, const Words& columns, std::int64_t finisher,
          std::int32_t least, float factor, const Results& y) {
    Grid<const float> from = grid(x);
    if (columns.size() < (from.columns + 3) / 4) throw std::invalid_argument("four elements of a row need a column's word");
    learning.drop(from, one_a_row(lines, from.rows, "each row needs a line's word"),
                  {columns.data(), static_cast<std::uint64_t>(finisher), least, factor}, grid(y));
}

std::tuple<float, float, float> losses(const Learning& learning, const Numbers& logits, const Words& expected,
                                       float certainty, const std::optional<Floats>& taught, float share,
                                       const std::optional<Results>& bias_gradient) {
    RowLoss found = of_logits(logits, [&](const auto& all) {
        if (taught && (taught->ndim() != 2 || taught->shape(0) != all.rows || taught->shape(1) != all.columns)) {
            throw std::invalid_argument("what is taught needs the shape of the logits");
        }
        return learning.losses(all, one_a_row(expected, all.rows, "each row of logits needs an expected word"), certainty,
                               {taught ? taught->data() : nullptr, share}, as_many(bias_gradient, all.columns));
    });
    return {found.negative_log_likelihood, found.mean_log_prob, found.taught_log_prob};
}

void add_probabilities(const Learning& learning, const Numbers& logits, float share, const Results& sums) {
    of_logits(logits, [&](const auto& all) { learning.add_probabilities(all, share, grid(sums)); });
}

template <class Number, class Array>
HeadsOfTexts<Number> heads(const Array& array) {
    return {array.data(), array.shape(0), array.shape(1), array.shape(2), array.shape(3)};
}

Attention attention(const Heads& query, const Heads& key, const Heads& value, const std::optional<Bytes>& allowed,
                    bool causal, float scale) {
    AllowedKeys keys{nullptr, 1, 1, 1, 0};
    if (allowed) keys = {allowed->data(), allowed->shape(0), allowed->shape(1), allowed->shape(2), allowed->shape(3)};
    return {heads<const float>(query), heads<const float>(key), heads<const float>(value), keys, causal, scale};
}

void attend(const Learning& learning, const Heads& query, const Heads& key, const Heads& value,
            const std::optional<Bytes>& allowed, bool causal, float scale, const HeadResults& attended) {
    learning.attend(attention(query, key, value, allowed, causal, scale), heads<float>(attended));
}

void attend_back(const Learning& learning, const Heads& query, const Heads& key, const Heads& value,
                 const std::optional<Bytes>& allowed, bool causal, float scale, const Heads& gradient,
                 const HeadResults& for_query, const HeadResults& for_key, const HeadResults& for_value) {
    learning.attend_back(attention(query, key, value, allowed, causal, scale), heads<const float>(gradient),
                         heads<float>(for_query), heads<float>(for_key), heads<float>(for_value));
}

}  // namespace

void bind_learning(nb::module_& module) {
    using released = nb::call_guard<nb::gil_scoped_release>;
    nb::class_<Learning>(module, "Learning")
        .def(nb::init<const std::optional<std::string>&>(), nb::arg("instruction_set").none() = nb::none())
        .def_prop_ro("instruction_set", &Learning::instruction_set)
        .def("narrow", &narrow, nb::arg("x").noconvert(), nb::arg("y").noconvert(), nb::arg("sums").noconvert().none() = nb::none(),
             released())
        .def("widen", &widen, nb::arg("x").noconvert(), nb::arg("bias").noconvert().none(), nb::arg("y").noconvert(), released())
        .def("turn",
             [](const Learning& learning, const Floats& x, const Floats& cosine, const Floats& sine, std::size_t heads,
                const Results& y) { learning.turn(grid(x), grid(cosine), grid(sine), heads, grid(y)); },
             nb::arg("x").noconvert(), nb::arg("cosine").noconvert(), nb::arg("sine").noconvert(), nb::arg("heads"),
             nb::arg("y").noconvert(), released())
        .def("drop", &drop, nb::arg("x").noconvert(), nb::arg("lines").noconvert(), nb::arg("columns").noconvert(),
             nb::arg("finisher"), nb::arg("least"), nb::arg("factor"), nb::arg("y").noconvert(), released())
        .def("losses", &losses, nb::arg("logits").noconvert(), nb::arg("expected").noconvert(), nb::arg("certainty"),
             nb::arg("taught").noconvert().none() = nb::none(), nb::arg("share") = 0.0f,
             nb::arg("bias_gradient").noconvert().none() = nb::none(), released())
        .def("add_probabilities", &add_probabilities, nb::arg("logits").noconvert(), nb::arg("share"),
             nb::arg("sums").noconvert(), released())
        .def("attend", &attend, nb::arg("query").noconvert(), nb::arg("key").noconvert(), nb::arg("value").noconvert(),
             nb::arg("allowed").noconvert().none(), nb::arg("causal"), nb::arg("scale"), nb::arg("attended").noconvert(),
             released())
        .def("attend_back", &attend_back, nb::arg("query").noconvert(), nb::arg("key").noconvert(),
             nb::arg("value").noconvert(), nb::arg("allowed").noconvert().none(), nb::arg("causal"), nb::arg("scale"),
             nb::arg("gradient").noconvert(), nb::arg("for_query").noconvert(), nb::arg("for_key").noconvert(),
             nb::arg("for_value").noconvert(), released());
}

}  // namespace dragoman
