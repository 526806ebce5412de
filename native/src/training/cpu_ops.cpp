#include "training/cpu_ops.hpp"

#include <algorithm>
#include <stdexcept>
#include <vector>

#include "kernels/dispatch.hpp"

namespace dragoman {

namespace {

/// Work per element, in the units of OpenMpThreads.
constexpr std::size_t softmax_work = 4, multiplications_per_unit = 4;
constexpr std::size_t floats_per_cache_line = 16;
/// Columns of a share: a multiple of the elements of a cache line.
constexpr std::size_t columns_per_block = 32;
/// Rows whose bias gradients are added to one partial sum.
constexpr std::size_t rows_per_block = 32;

void require(bool condition, const char* message) {
    if (!condition) throw std::invalid_argument(message);
}

/// Floats of a thread's scratch, so that threads write to different cache lines.
std::size_t scratch_floats(std::size_t needed) { return round_up(needed, floats_per_cache_line); }

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

/// Call `work(shape, mask, inputs, scratch, item, head)` for every head of every batch item.
/// `products` is the number of matrix products for each head.
template <class Work>
void for_each_head(const OpenMpThreads& threads, const AttentionInputs& inputs, std::size_t products,
                   const Work& work) {
    HeadShape shape{inputs.query.length, inputs.key.length, inputs.query.head_dim};
    std::size_t heads = inputs.query.batch * inputs.query.num_heads;
    std::size_t multiplications = products * shape.num_queries * shape.num_keys * shape.head_dim;
    std::size_t count = threads.count_for(heads * multiplications / multiplications_per_unit);
    std::size_t scratch_size = scratch_floats(shape.scratch_size());
    std::vector<float> scratch(count * scratch_size);
    threads.for_each_share(heads, count, [&](Range range, std::size_t thread) {
        for (std::size_t index = range.first; index < range.last; index++) {
            std::size_t item = index / inputs.query.num_heads, head = index % inputs.query.num_heads;
            const MaskArray& mask = inputs.mask;
            work(shape, AttentionMask{inputs.causal, mask.rows_of(item, head), mask.queries == 1 ? 0 : mask.keys},
                 HeadInputs{inputs.query.rows_of(item, head), inputs.key.rows_of(item, head),
                            inputs.value.rows_of(item, head)},
                 scratch.data() + thread * scratch_size, item, head);
        }
    });
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
        threads_.for_each_share(x.rows, threads_.count_for(x.size()), [&](Range rows, std::size_t) {
            kernels_.to_bfloat16(x.row(rows.first), (rows.last - rows.first) * x.columns, y.row(rows.first));
        });
    } else {
        // Threads share the columns, so that each sum adds the rows in order.
        std::size_t blocks = round_up(x.columns, columns_per_block) / columns_per_block;
        threads_.for_each_share(blocks, threads_.count_for(x.size()), [&](Range share, std::size_t) {
            std::size_t first = share.first * columns_per_block;
            std::size_t last = std::min(share.last * columns_per_block, x.columns);
            for (std::size_t row = 0; row < x.rows; row++) {
                kernels_.to_bfloat16_and_sum(x.row(row) + first, last - first, y.row(row) + first, column_sums + first);
            }
        });
    }
    std::fill(y.row(x.rows), y.row(y.rows), Bfloat16{0});
}

void CpuOps::to_float32(const MatrixView<const Bfloat16>& x, const float* bias, const MatrixView<float>& y) const {
    require(x.columns == y.columns && y.rows <= x.rows, "y must have the columns of x and at most as many rows");
    threads_.for_each_share(y.rows, threads_.count_for(y.size()), [&](Range rows, std::size_t) {
        if (bias == nullptr) {
            return kernels_.to_float32(x.row(rows.first), nullptr, (rows.last - rows.first) * x.columns,
                                       y.row(rows.first));
        }
        for (std::size_t row = rows.first; row < rows.last; row++) {
            kernels_.to_float32(x.row(row), bias, x.columns, y.row(row));
        }
    });
}

void CpuOps::rope(const MatrixView<const float>& x, const MatrixView<const float>& cos,
                  const MatrixView<const float>& sin, std::size_t num_heads, const MatrixView<float>& y) const {
    require(x.rows == y.rows && x.columns == y.columns, "y must have the shape of x");
    require(cos.rows == sin.rows && cos.columns == sin.columns, "cos and sin must have the same shape");
    require(x.columns == 2 * cos.columns, "cos and sin must have half as many columns as a head");
    require(num_heads > 0 && (x.rows == 0 || (cos.rows > 0 && x.rows % (num_heads * cos.rows) == 0)),
            "the rows of x must be a multiple of num_heads times the rows of cos");
    threads_.for_each_share(x.rows, threads_.count_for(x.size()), [&](Range rows, std::size_t) {
        for (std::size_t row = rows.first; row < rows.last; row++) {
            std::size_t position = row / num_heads % cos.rows;
            kernels_.rope(x.row(row), cos.row(position), sin.row(position), cos.columns, y.row(row));
        }
    });
}

void CpuOps::dropout(const MatrixView<const float>& x, const std::int64_t* row_seeds, const DropoutParams& params,
                     const MatrixView<float>& y) const {
    require(x.rows == y.rows && x.columns == y.columns, "y must have the shape of x");
    threads_.for_each_share(x.rows, threads_.count_for(x.size()), [&](Range rows, std::size_t) {
        for (std::size_t row = rows.first; row < rows.last; row++) {
            kernels_.dropout(x.row(row), params, static_cast<std::uint64_t>(row_seeds[row]), x.columns, y.row(row));
        }
    });
}

template <class Element>
LossTerms CpuOps::cross_entropy(const MatrixView<Element>& logits, const std::int64_t* targets, float target_weight,
                                const TeacherProbs& teacher, float* bias_gradient) const {
    for (std::size_t row = 0; row < logits.rows; row++) {
        require(targets[row] >= 0 && static_cast<std::size_t>(targets[row]) < logits.columns,
                "targets must be token ids of the vocabulary");
    }
    std::size_t columns = logits.columns, blocks = round_up(logits.rows, rows_per_block) / rows_per_block;
    std::size_t count = threads_.count_for(logits.size() * softmax_work), row_floats = scratch_floats(columns);
    std::vector<float> scratch(count * row_floats), block_sums(bias_gradient == nullptr ? 0 : blocks * columns);
    std::vector<LossTerms> terms(logits.rows);
    threads_.for_each_share(blocks, count, [&](Range share, std::size_t thread) {
        for (std::size_t row = share.first * rows_per_block; row < std::min(share.last * rows_per_block, logits.rows);
             row++) {
            TeacherProbs row_probs{teacher.probs == nullptr ? nullptr : teacher.probs + row * columns, teacher.weight};
            float* sums = bias_gradient == nullptr ? nullptr : block_sums.data() + row / rows_per_block * columns;
            terms[row] = loss_kernels<Element>().cross_entropy(
                logits.row(row), columns, static_cast<std::size_t>(targets[row]), target_weight, row_probs,
                scratch.data() + thread * row_floats, sums);
        }
    });
    for (std::size_t i = 0; i < block_sums.size(); i++) bias_gradient[i % columns] += block_sums[i];
    double nll = 0, mean_log_prob = 0, teacher_log_prob = 0;
    for (const LossTerms& row : terms) {
        nll += row.nll;
        mean_log_prob += row.mean_log_prob;
        teacher_log_prob += row.teacher_log_prob;
    }
    return {static_cast<float>(nll), static_cast<float>(mean_log_prob), static_cast<float>(teacher_log_prob)};
}

template <class Element>
void CpuOps::accumulate_softmax(const MatrixView<Element>& logits, float weight, const MatrixView<float>& sums) const {
    require(logits.rows == sums.rows && logits.columns == sums.columns, "sums must have the shape of the logits");
    std::size_t count = threads_.count_for(logits.size() * softmax_work), row_floats = scratch_floats(logits.columns);
    std::vector<float> scratch(count * row_floats);
    threads_.for_each_share(logits.rows, count, [&](Range rows, std::size_t thread) {
        for (std::size_t row = rows.first; row < rows.last; row++) {
            loss_kernels<Element>().accumulate_softmax(logits.row(row), logits.columns, weight,
                                                       scratch.data() + thread * row_floats, sums.row(row));
        }
    });
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
    constexpr std::size_t products = 2;
    for_each_head(threads_, arrays, products,
                  [&](const HeadShape& shape, const AttentionMask& mask, const HeadInputs& inputs, float* scratch,
                      std::size_t item, std::size_t head) {
                      kernels_.attention(shape, arrays.scale, mask, inputs, scratch, output.rows_of(item, head));
                  });
}

void CpuOps::attention_backward(const AttentionInputs& arrays, const AttentionArray<const float>& output_gradient,
                                const AttentionArray<float>& query_gradient, const AttentionArray<float>& key_gradient,
                                const AttentionArray<float>& value_gradient) const {
    require_matching_shapes(arrays);
    require(output_gradient.same_shape(arrays.query) && query_gradient.same_shape(arrays.query) &&
                key_gradient.same_shape(arrays.key) && value_gradient.same_shape(arrays.value),
            "gradients must have the shapes of query, key and value");
    constexpr std::size_t products = 5;
    for_each_head(threads_, arrays, products,
                  [&](const HeadShape& shape, const AttentionMask& mask, const HeadInputs& inputs, float* scratch,
                      std::size_t item, std::size_t head) {
                      HeadGradients gradients{query_gradient.rows_of(item, head), key_gradient.rows_of(item, head),
                                              value_gradient.rows_of(item, head)};
                      kernels_.attention_backward(shape, arrays.scale, mask, inputs,
                                                  output_gradient.rows_of(item, head), scratch, gradients);
                  });
}

}  // namespace dragoman
