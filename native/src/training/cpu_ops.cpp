#include "training/cpu_ops.hpp"

#include <algorithm>
#include <stdexcept>
#include <vector>

#include "kernels/dispatch.hpp"

namespace dragoman {

namespace {

void require(bool condition, const char* message) {
    if (!condition) throw std::invalid_argument(message);
}

void require_matching_shapes(const AttentionInputs& inputs) {
    const auto& [query, key, value, mask, causal, scale] = inputs;
    require(key.same_shape(value), "key and value must have the same shape");
    require(query.batch == key.batch && query.num_heads == key.num_heads && query.head_dim == key.head_dim,
            "query and key must have the same batch size, number of heads and head size");
    require(scale > 0, "scale must be positive");
    require(!causal || query.length == key.length, "causal attention needs as many queries as keys");
    if (mask.data == nullptr) return;
    auto broadcasts = [](std::size_t size, std::size_t full) { return size == 1 || size == full; };
    require(broadcasts(mask.batch, query.batch) && broadcasts(mask.heads, query.num_heads) &&
                broadcasts(mask.queries, query.length) && mask.keys == key.length,
            "mask must have the shape (batch or 1, heads or 1, queries or 1, keys)");
}

/// Call `work(shape, mask, inputs, item, head)` for every head of every batch item.
template <class Work>
void for_each_head(const AttentionInputs& arrays, const Work& work) {
    const auto& [query, key, value, mask, causal, scale] = arrays;
    HeadShape shape{query.length, key.length, query.head_dim};
    std::size_t query_stride = mask.queries == 1 ? 0 : mask.keys;
    for (std::size_t item = 0; item < query.batch; item++) {
        for (std::size_t head = 0; head < query.num_heads; head++) {
            work(shape, AttentionMask{causal, mask.rows_of(item, head), query_stride},
                 HeadInputs{query.rows_of(item, head), key.rows_of(item, head), value.rows_of(item, head)}, item, head);
        }
    }
}

std::vector<float> attention_scratch(const AttentionInputs& inputs) {
    return std::vector<float>(HeadShape{inputs.query.length, inputs.key.length, inputs.query.head_dim}.scratch_size());
}

}  // namespace

CpuOps::CpuOps(const std::optional<std::string>& instruction_set) {
    KernelTable kernels = select_kernels(instruction_set);
    name_ = kernels.name;
    kernels_ = kernels.cpu_ops;
}

void CpuOps::to_bfloat16(const MatrixView<const float>& x, const MatrixView<Bfloat16>& y, float* column_sums) const {
    require(x.columns == y.columns && x.rows <= y.rows, "y must have the columns of x and at least as many rows");
    if (column_sums == nullptr) {
        kernels_.to_bfloat16(x.data, x.size(), y.data);
    } else {
        for (std::size_t row = 0; row < x.rows; row++) {
            kernels_.to_bfloat16_and_sum(x.row(row), x.columns, y.row(row), column_sums);
        }
    }
    std::fill(y.row(x.rows), y.row(y.rows), Bfloat16{0});
}

void CpuOps::to_float32(const MatrixView<const Bfloat16>& x, const float* bias, const MatrixView<float>& y) const {
    require(x.columns == y.columns && y.rows <= x.rows, "y must have the columns of x and at most as many rows");
    if (bias == nullptr) return kernels_.to_float32(x.data, nullptr, y.size(), y.data);
    for (std::size_t row = 0; row < y.rows; row++) kernels_.to_float32(x.row(row), bias, x.columns, y.row(row));
}

void CpuOps::rope(const MatrixView<const float>& x, const MatrixView<const float>& cos,
                  const MatrixView<const float>& sin, std::size_t num_heads, const MatrixView<float>& y) const {
    require(x.rows == y.rows && x.columns == y.columns, "y must have the shape of x");
    require(cos.rows == sin.rows && cos.columns == sin.columns, "cos and sin must have the same shape");
    require(x.columns == 2 * cos.columns, "cos and sin must have half as many columns as a head");
    require(num_heads > 0 && (x.rows == 0 || (cos.rows > 0 && x.rows % (num_heads * cos.rows) == 0)),
            "the rows of x must be a multiple of num_heads times the rows of cos");
    for (std::size_t row = 0; row < x.rows; row++) {
        std::size_t position = row / num_heads % cos.rows;
        kernels_.rope(x.row(row), cos.row(position), sin.row(position), cos.columns, y.row(row));
    }
}

void CpuOps::dropout(const MatrixView<const float>& x, const std::int64_t* row_seeds, const DropoutParams& params,
                     const MatrixView<float>& y) const {
    require(x.rows == y.rows && x.columns == y.columns, "y must have the shape of x");
    for (std::size_t row = 0; row < x.rows; row++) {
        kernels_.dropout(x.row(row), params, static_cast<std::uint64_t>(row_seeds[row]), x.columns, y.row(row));
    }
}

template <class Element>
LossTerms CpuOps::cross_entropy(const MatrixView<Element>& logits, const std::int64_t* targets, float target_weight,
                                const TeacherProbs& teacher, float* bias_gradient) const {
    for (std::size_t row = 0; row < logits.rows; row++) {
        require(targets[row] >= 0 && static_cast<std::size_t>(targets[row]) < logits.columns,
                "targets must be token ids of the vocabulary");
    }
    std::vector<float> scratch(logits.columns);
    double nll = 0, mean_log_prob = 0, teacher_log_prob = 0;
    for (std::size_t row = 0; row < logits.rows; row++) {
        TeacherProbs row_probs{teacher.probs == nullptr ? nullptr : teacher.probs + row * logits.columns,
                               teacher.weight};
        LossTerms terms = loss_kernels<Element>().cross_entropy(logits.row(row), logits.columns,
                                                                static_cast<std::size_t>(targets[row]), target_weight,
                                                                row_probs, scratch.data(), bias_gradient);
        nll += terms.nll;
        mean_log_prob += terms.mean_log_prob;
        teacher_log_prob += terms.teacher_log_prob;
    }
    return {static_cast<float>(nll), static_cast<float>(mean_log_prob), static_cast<float>(teacher_log_prob)};
}

template <class Element>
void CpuOps::accumulate_softmax(const MatrixView<Element>& logits, float weight, const MatrixView<float>& sums) const {
    require(logits.rows == sums.rows && logits.columns == sums.columns, "sums must have the shape of the logits");
    std::vector<float> scratch(logits.columns);
    for (std::size_t row = 0; row < logits.rows; row++) {
        loss_kernels<Element>().accumulate_softmax(logits.row(row), logits.columns, weight, scratch.data(),
                                                   sums.row(row));
    }
}

template LossTerms CpuOps::cross_entropy(const MatrixView<float>&, const std::int64_t*, float, const TeacherProbs&,
                                         float*) const;
template LossTerms CpuOps::cross_entropy(const MatrixView<Bfloat16>&, const std::int64_t*, float, const TeacherProbs&,
                                         float*) const;
template void CpuOps::accumulate_softmax(const MatrixView<float>&, float, const MatrixView<float>&) const;
template void CpuOps::accumulate_softmax(const MatrixView<Bfloat16>&, float, const MatrixView<float>&) const;

void CpuOps::attention(const AttentionInputs& arrays, const AttentionArray<float>& output) const {
    require_matching_shapes(arrays);
    require(output.same_shape(arrays.query), "output must have the shape of query");
    std::vector<float> scratch = attention_scratch(arrays);
    for_each_head(arrays, [&](const HeadShape& shape, const AttentionMask& mask, const HeadInputs& inputs,
                              std::size_t item, std::size_t head) {
        kernels_.attention(shape, arrays.scale, mask, inputs, scratch.data(), output.rows_of(item, head));
    });
}

void CpuOps::attention_backward(const AttentionInputs& arrays, const AttentionArray<const float>& output_gradient,
                                const AttentionArray<float>& query_gradient, const AttentionArray<float>& key_gradient,
                                const AttentionArray<float>& value_gradient) const {
    require_matching_shapes(arrays);
    require(output_gradient.same_shape(arrays.query) && query_gradient.same_shape(arrays.query) &&
                key_gradient.same_shape(arrays.key) && value_gradient.same_shape(arrays.value),
            "gradients must have the shapes of query, key and value");
    std::vector<float> scratch = attention_scratch(arrays);
    for_each_head(arrays, [&](const HeadShape& shape, const AttentionMask& mask, const HeadInputs& inputs,
                              std::size_t item, std::size_t head) {
        kernels_.attention_backward(
            shape, arrays.scale, mask, inputs, output_gradient.rows_of(item, head), scratch.data(),
            {query_gradient.rows_of(item, head), key_gradient.rows_of(item, head), value_gradient.rows_of(item, head)});
    });
}

}  // namespace dragoman
