// Fused training operations over arrays of many rows.
#pragma once

#include <optional>
#include <string>
#include <type_traits>

#include "kernels/kernel_table.hpp"
#include "runtime/matrix_view.hpp"
#include "runtime/openmp_threads.hpp"

namespace dragoman {

/// Array of shape (batch, length, heads, head_dim).
template <class Element>
struct AttentionArray {
    Element* data;
    std::size_t batch, length, num_heads, head_dim;

    HeadRows<Element> rows_of(std::size_t item, std::size_t head) const {
        return {data + (item * length * num_heads + head) * head_dim, num_heads * head_dim};
    }
    bool same_shape(const AttentionArray<const float>& other) const {
        return batch == other.batch && length == other.length && num_heads == other.num_heads &&
               head_dim == other.head_dim;
    }
};

/// Byte mask of shape (batch, heads, queries, keys), nonzero where a key is allowed; the first three broadcast from 1.
struct MaskArray {
    const std::uint8_t* data;
    std::size_t batch, heads, queries, keys;

    const std::uint8_t* rows_of(std::size_t item, std::size_t head) const {
        if (data == nullptr) return nullptr;
        return data + ((batch == 1 ? 0 : item) * heads + (heads == 1 ? 0 : head)) * queries * keys;
    }
};

struct AttentionInputs {
    AttentionArray<const float> query, key, value;
    MaskArray mask;
    bool causal;
    float scale;
};

/// Operations of one instruction set; throw std::invalid_argument if shapes do not match.
///
/// Large arrays are computed by the threads of OpenMP. Results are bit-identical for any number of threads: rows and
/// heads are independent, and sums over rows add their terms in a fixed order.
class CpuOps {
public:
    explicit CpuOps(const std::optional<std::string>& instruction_set);

    const char* instruction_set() const { return name_; }

    /// Convert rows to bfloat16 and fill additional rows of `y` with zeros. Add the column sums to `column_sums` unless
    /// null.
    void to_bfloat16(const MatrixView<const float>& x, const MatrixView<Bfloat16>& y, float* column_sums) const;
    /// Convert the first rows of `x`, as many as `y` has, and add a bias unless null.
    void to_float32(const MatrixView<const Bfloat16>& x, const float* bias, const MatrixView<float>& y) const;
    /// Rotate heads by their positions. A row of `x` is one head; `num_heads` consecutive rows share a row of angles,
    /// and the angles repeat after their last row.
    void rope(const MatrixView<const float>& x, const MatrixView<const float>& cos, const MatrixView<const float>& sin,
              std::size_t num_heads, const MatrixView<float>& y) const;
    void dropout(const MatrixView<const float>& x, const std::int64_t* row_seeds, const DropoutParams& params,
                 const MatrixView<float>& y) const;
    /// Sum the loss terms over the rows, and replace the logits by their gradient. The teacher's probabilities have the
    /// shape of the logits, or are null.
    template <class Element>
    LossTerms cross_entropy(const MatrixView<Element>& logits, const std::int64_t* targets, float target_weight,
                            const TeacherProbs& teacher, float* bias_gradient) const;
    /// sums += weight * softmax(logits), row by row
    template <class Element>
    void accumulate_softmax(const MatrixView<Element>& logits, float weight, const MatrixView<float>& sums) const;
    void attention(const AttentionInputs& inputs, const AttentionArray<float>& output) const;
    void attention_backward(const AttentionInputs& inputs, const AttentionArray<const float>& output_gradient,
                            const AttentionArray<float>& query_gradient, const AttentionArray<float>& key_gradient,
                            const AttentionArray<float>& value_gradient) const;

private:
    template <class Element>
    const LossKernels<Element>& loss_kernels() const {
        if constexpr (std::is_same_v<Element, float>) {
            return kernels_.loss_float32;
        } else {
            return kernels_.loss_bfloat16;
        }
    }

    const char* name_;
    CpuOpKernels kernels_;
    OpenMpThreads threads_;
};

}  // namespace dragoman
