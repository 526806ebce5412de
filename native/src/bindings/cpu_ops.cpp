#include "bindings/cpu_ops.hpp"

#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>

#include <stdexcept>
#include <tuple>
#include <vector>

#include "bindings/gil.hpp"
#include "training/cpu_ops.hpp"

namespace dragoman {

namespace nb = nanobind;

namespace {

using FloatArray = nb::ndarray<const float, nb::c_contig, nb::device::cpu>;
using FloatOutput = nb::ndarray<float, nb::c_contig, nb::device::cpu>;
using HeadsArray = nb::ndarray<const float, nb::ndim<4>, nb::c_contig, nb::device::cpu>;
using HeadsOutput = nb::ndarray<float, nb::ndim<4>, nb::c_contig, nb::device::cpu>;
using ByteMask = nb::ndarray<const std::uint8_t, nb::ndim<4>, nb::c_contig, nb::device::cpu>;
using Int64Array = nb::ndarray<const std::int64_t, nb::c_contig, nb::device::cpu>;
/// Array whose format is checked at run time: float32, or bfloat16, which NumPy stores as uint16.
using AnyArray = nb::ndarray<nb::c_contig, nb::device::cpu>;

/// View of an array of any number of axes as a matrix; the last axis is a row.
template <class Element, class Array>
MatrixView<Element> matrix(const Array& array, Element* data) {
    if (array.ndim() == 0) throw std::invalid_argument("a scalar is not an array of rows");
    std::size_t columns = array.shape(array.ndim() - 1), rows = 1;
    for (std::size_t axis = 0; axis + 1 < array.ndim(); axis++) rows *= array.shape(axis);
    return {data, rows, columns};
}
MatrixView<const float> matrix(const FloatArray& array) { return matrix(array, array.data()); }
MatrixView<float> matrix(const FloatOutput& array) { return matrix(array, array.data()); }

bool is_bfloat16(const AnyArray& array) {
    bool bfloat =
        array.dtype().code == static_cast<std::uint8_t>(nb::dlpack::dtype_code::Bfloat) && array.dtype().bits == 16;
    return bfloat || array.dtype() == nb::dtype<std::uint16_t>();
}
MatrixView<Bfloat16> bfloat16_matrix(const AnyArray& array) {
    if (!is_bfloat16(array)) {
        throw std::invalid_argument("the array must be bfloat16, or uint16 with the bits of bfloat16");
    }
    return matrix(array, static_cast<Bfloat16*>(array.data()));
}

/// Call `work(matrix)` with logits of either format.
template <class Work>
auto with_logits(const AnyArray& array, const Work& work) {
    if (is_bfloat16(array)) return work(bfloat16_matrix(array));
    if (array.dtype() != nb::dtype<float>()) throw std::invalid_argument("logits must be float32, bfloat16 or uint16");
    return work(matrix(array, static_cast<float*>(array.data())));
}

template <class Array>
auto column_vector(const std::optional<Array>& values, std::size_t columns) -> decltype(values->data()) {
    if (!values) return nullptr;
    if (values->size() != columns) throw std::invalid_argument("a vector must have one element per column");
    return values->data();
}

const std::int64_t* row_vector(const Int64Array& values, std::size_t rows, const char* message) {
    if (values.size() != rows) throw std::invalid_argument(message);
    return values.data();
}

void to_bfloat16(const CpuOps& ops, const FloatArray& x, const AnyArray& y,
                 const std::optional<FloatOutput>& column_sums) {
    MatrixView<const float> from = matrix(x);
    ops.to_bfloat16(from, bfloat16_matrix(y), column_vector(column_sums, from.columns));
}

void to_float32(const CpuOps& ops, const AnyArray& x, const std::optional<FloatArray>& bias, const FloatOutput& y) {
    MatrixView<Bfloat16> from = bfloat16_matrix(x);
    ops.to_float32({from.data, from.rows, from.columns}, column_vector(bias, from.columns), matrix(y));
}

void rope(const CpuOps& ops, const FloatArray& x, const FloatArray& cos, const FloatArray& sin, std::size_t num_heads,
          const FloatOutput& y) {
    ops.rope(matrix(x), matrix(cos), matrix(sin), num_heads, matrix(y));
}

void dropout(const CpuOps& ops, const FloatArray& x, const Int64Array& row_seeds, const Int64Array& column_seeds,
             std::int64_t hash_multiplier, std::int32_t threshold, float scale, const FloatOutput& y) {
    MatrixView<const float> from = matrix(x);
    if (column_seeds.size() < (from.columns + 3) / 4) {
        throw std::invalid_argument("column_seeds needs a seed per four columns");
    }
    ops.dropout(from, row_vector(row_seeds, from.rows, "row_seeds needs a seed per row"),
                {column_seeds.data(), static_cast<std::uint64_t>(hash_multiplier), threshold, scale}, matrix(y));
}

std::tuple<float, float, float> cross_entropy(const CpuOps& ops, const AnyArray& logits, const Int64Array& targets,
                                              float target_weight, const std::optional<FloatArray>& teacher_probs,
                                              float teacher_weight, const std::optional<FloatOutput>& bias_gradient) {
    // Other threads may change the array after the targets are checked.
    std::vector<std::int64_t> copied_targets(targets.data(), targets.data() + targets.size());
    GilRelease release;
    LossTerms terms = with_logits(logits, [&](const auto& view) {
        if (teacher_probs && (teacher_probs->ndim() != 2 || teacher_probs->shape(0) != view.rows ||
                              teacher_probs->shape(1) != view.columns)) {
            throw std::invalid_argument("teacher_probs must have the shape of the logits");
        }
        if (copied_targets.size() != view.rows) {
            throw std::invalid_argument("targets needs a token id per row of logits");
        }
        return ops.cross_entropy(view, copied_targets.data(), target_weight, {teacher_probs ? teacher_probs->data() : nullptr, teacher_weight},
                                 column_vector(bias_gradient, view.columns));
    });
    return {terms.nll, terms.mean_log_prob, terms.teacher_log_prob};
}

void accumulate_softmax(const CpuOps& ops, const AnyArray& logits, float weight, const FloatOutput& sums) {
    with_logits(logits, [&](const auto& view) { ops.accumulate_softmax(view, weight, matrix(sums)); });
}

template <class Element, class Array>
AttentionArray<Element> heads(const Array& array) {
    return {array.data(), array.shape(0), array.shape(1), array.shape(2), array.shape(3)};
}

AttentionInputs attention_inputs(const HeadsArray& query, const HeadsArray& key, const HeadsArray& value,
                                 const std::optional<ByteMask>& mask, bool causal, float scale) {
    MaskArray mask_array{nullptr, 1, 1, 1, 0};
    if (mask) mask_array = {mask->data(), mask->shape(0), mask->shape(1), mask->shape(2), mask->shape(3)};
    return {heads<const float>(query), heads<const float>(key), heads<const float>(value), mask_array, causal, scale};
}

void attention(const CpuOps& ops, const HeadsArray& query, const HeadsArray& key, const HeadsArray& value,
               const std::optional<ByteMask>& mask, bool causal, float scale, const HeadsOutput& output) {
    ops.attention(attention_inputs(query, key, value, mask, causal, scale), heads<float>(output));
}

void attention_backward(const CpuOps& ops, const HeadsArray& query, const HeadsArray& key, const HeadsArray& value,
                        const std::optional<ByteMask>& mask, bool causal, float scale,
                        const HeadsArray& output_gradient, const HeadsOutput& query_gradient,
                        const HeadsOutput& key_gradient, const HeadsOutput& value_gradient) {
    ops.attention_backward(attention_inputs(query, key, value, mask, causal, scale),
                           heads<const float>(output_gradient), heads<float>(query_gradient),
                           heads<float>(key_gradient), heads<float>(value_gradient));
}

}  // namespace

void bind_cpu_ops(nb::module_& module) {
    using release_gil = nb::call_guard<GilRelease>;
    nb::class_<CpuOps>(module, "CpuOps")
        .def(nb::init<const std::optional<std::string>&>(), nb::arg("instruction_set").none() = nb::none())
        .def_prop_ro("instruction_set", &CpuOps::instruction_set)
        .def("to_bfloat16", &to_bfloat16, nb::arg("x").noconvert(), nb::arg("y").noconvert(),
             nb::arg("column_sums").noconvert().none() = nb::none(), release_gil())
        .def("to_float32", &to_float32, nb::arg("x").noconvert(), nb::arg("bias").noconvert().none(),
             nb::arg("y").noconvert(), release_gil())
        .def("rope", &rope, nb::arg("x").noconvert(), nb::arg("cos").noconvert(), nb::arg("sin").noconvert(),
             nb::arg("num_heads"), nb::arg("y").noconvert(), release_gil())
        .def("dropout", &dropout, nb::arg("x").noconvert(), nb::arg("row_seeds").noconvert(),
             nb::arg("column_seeds").noconvert(), nb::arg("hash_multiplier"), nb::arg("threshold"), nb::arg("scale"),
             nb::arg("y").noconvert(), release_gil())
        .def("cross_entropy", &cross_entropy, nb::arg("logits").noconvert(), nb::arg("targets").noconvert(),
             nb::arg("target_weight"), nb::arg("teacher_probs").noconvert().none() = nb::none(),
             nb::arg("teacher_weight") = 0.0f, nb::arg("bias_gradient").noconvert().none() = nb::none())
        .def("accumulate_softmax", &accumulate_softmax, nb::arg("logits").noconvert(), nb::arg("weight"),
             nb::arg("sums").noconvert(), release_gil())
        .def("attention", &attention, nb::arg("query").noconvert(), nb::arg("key").noconvert(),
             nb::arg("value").noconvert(), nb::arg("mask").noconvert().none(), nb::arg("causal"), nb::arg("scale"),
             nb::arg("output").noconvert(), release_gil())
        .def("attention_backward", &attention_backward, nb::arg("query").noconvert(), nb::arg("key").noconvert(),
             nb::arg("value").noconvert(), nb::arg("mask").noconvert().none(), nb::arg("causal"), nb::arg("scale"),
             nb::arg("output_gradient").noconvert(), nb::arg("query_gradient").noconvert(),
             nb::arg("key_gradient").noconvert(), nb::arg("value_gradient").noconvert(), release_gil());
}

}  // namespace dragoman
