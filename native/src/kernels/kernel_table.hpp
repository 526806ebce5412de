// Dispatch table of the functions that every instruction set provides. A model selects one table when it is loaded.
//
// Results do not depend on the batch: rows are independent, and every output adds its terms in a fixed order. An
// element therefore has the same bits whatever else the call computes.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/data_layout.hpp"
#include "kernels/sort_key.hpp"

namespace dragoman {

/// Left operand of a GEMM: packed rows in the number format of the weights.
struct GemmInput {
    const void* data;
    /// One scale per row, for int8 and int16.
    const float* scale;
    /// Inner dimension of the GEMM.
    std::size_t depth;
};

/// Right operand of a GEMM, packed in panels of 64 columns (output features).
struct PackedWeight {
    const void* data;
    /// Per column: scale (int8, int8_int16), contribution of the input's zero point to the sum (int8), and bias.
    const float* scale;
    const std::int32_t* compensation;
    const float* bias;
    /// For each panel and block of 32 inputs, the scales of all columns, then their centers, as multiples of `scale`
    /// (int8_int16).
    const Float16* block_params;
    std::size_t depth;
};

/// y = x W + b for `rows` rows and the columns of one panel.
using GemmPanelFn = void (*)(const GemmInput& x, std::size_t rows, const PackedWeight& weight, std::size_t panel,
                             float* y, std::size_t y_stride);

/// Convert one row of `count` floats to the number format of the weights.
using PackInputFn = void (*)(const float* x, std::size_t count, void* packed, float* scale);

/// GEMM of one compute type.
struct GemmKernel {
    GemmPanelFn gemm_panel;
    PackInputFn pack_input;
    /// Bytes of one element of a packed weight.
    std::size_t weight_bytes;
    /// Consecutive elements of one column in a packed weight.
    std::size_t interleave;
    /// A packed input row consists of units of `unit_size` features, `unit_bytes` each.
    std::size_t unit_size, unit_bytes;

    std::size_t input_row_bytes(std::size_t depth) const { return depth / unit_size * unit_bytes; }
};

enum class Activation { relu, gelu, gelu_tanh, silu };

struct NormParams {
    const float* weight;
    const float* bias;
    /// Elements of a row without and with its zero padding.
    std::size_t size, padded_size;
    /// Added to the variance.
    float epsilon;
};
using NormFn = void (*)(const float* x, const NormParams& params, float* y);

/// Contiguous keys and values of one head: transposed keys in blocks of 16 positions, values row by row.
template <class Element>
struct BlockedKv {
    const Element* keys;
    const Element* values;
    std::size_t value_stride, length, head_dim;
};

/// Paged keys and values of one head: one cache entry per position, at any address.
struct PagedKv {
    const std::byte* const* entries;
    /// Byte offsets of the head's key and value in an entry.
    std::size_t length, key_offset, value_offset;
};

/// Bias added to attention scores: that of query q and key k is `data[q * query_stride + k]`.
struct ScoreBias {
    const float* data;
    std::ptrdiff_t query_stride;
};

/// Maximal number of queries of one head that share each load of a key or value.
constexpr std::size_t query_tile = 6;

struct QueryRows {
    const float* data;
    std::size_t stride, count;
};

template <class Element>
using BlockedAttentionFn = void (*)(const QueryRows& queries, const BlockedKv<Element>& kv, float scale, ScoreBias bias,
                                    float* scratch, float* output, std::size_t output_stride, std::size_t head_width);
using PagedAttentionFn = void (*)(const float* query, const PagedKv& kv, float scale, const float* bias, float* scratch,
                                  float* output, std::size_t head_width);

/// Attention kernels for inference, by the number format of the cached keys and values.
template <class Element>
struct AttentionKernels {
    /// Name the element type in generic code; never called.
    static Element* element();
    BlockedAttentionFn<Element> blocked;
    PagedAttentionFn paged;
    /// Convert floats to the format of the cache.
    void (*store_kv)(const float* x, std::size_t count, Element* cache);
    /// Transpose the keys of up to 16 positions into one block.
    void (*transpose_keys)(const float* keys, std::size_t stride, std::size_t count, std::size_t head_dim,
                           Element* block);
};

/// Statistics of one panel of logits: enough for log-sum-exp, and to skip panels without a top-k candidate.
struct PanelStats {
    float max;
    /// Sum of exp(logit - max); NaN if a logit is not finite.
    float sum_exp;
};

/// Parameters of dropout. One 64-bit hash serves four elements, 16 bits each. An element is kept and multiplied by
/// `scale` if its signed bits are at least `threshold`.
struct DropoutParams {
    const std::int64_t* column_seeds;
    std::uint64_t hash_multiplier;
    std::int32_t threshold;
    float scale;
};

/// Soft targets of a row from a teacher (null for none), and their weight in the loss.
struct TeacherProbs {
    const float* probs;
    float weight;
};

/// Terms of the loss: -log p of the target, mean log p over the vocabulary, and mean log p under the teacher.
struct LossTerms {
    float nll, mean_log_prob, teacher_log_prob;
};

/// Rows of one head at consecutive positions.
template <class Element>
struct HeadRows {
    Element* data;
    std::size_t stride;
};

struct HeadShape {
    std::size_t num_queries, num_keys, head_dim;

    /// Padded length of a row of scores.
    std::size_t score_stride() const { return round_up(num_keys, simd_width); }
    /// Scratch floats of one head, forward and backward.
    std::size_t scratch_size() const { return (2 * num_queries + head_dim + 1) * score_stride(); }
};

/// Keys that a query may attend to: up to its own position if `causal`, and those whose `allowed` byte is not zero.
struct AttentionMask {
    bool causal;
    const std::uint8_t* allowed;
    /// Bytes from the mask of one query to the next; 0 if all queries share one.
    std::size_t query_stride;
};

struct HeadInputs {
    HeadRows<const float> query, key, value;
};
struct HeadGradients {
    HeadRows<float> query, key, value;
};

/// Loss kernels over one row of logits, by the number format of the logits; `scratch` holds one row of floats.
template <class Element>
struct LossKernels {
    /// Replace the logits by the gradient: p, minus `target_weight` at the target, minus the weighted teacher
    /// probabilities. Add it to the bias gradient if that is not null.
    LossTerms (*cross_entropy)(Element* logits, std::size_t count, std::size_t target, float target_weight,
                               const TeacherProbs& teacher, float* scratch, float* bias_gradient);
    /// sums += weight * softmax(logits)
    void (*accumulate_softmax)(const Element* logits, std::size_t count, float weight, float* scratch, float* sums);
};

/// Fused training operations over rows of any length.
struct CpuOpKernels {
    void (*to_bfloat16)(const float* x, std::size_t count, Bfloat16* y);
    /// Round to bfloat16, and add the unrounded values to `sums`.
    void (*to_bfloat16_and_sum)(const float* x, std::size_t count, Bfloat16* y, float* sums);
    /// Convert to float32, and add a bias if it is not null.
    void (*to_float32)(const Bfloat16* x, const float* bias, std::size_t count, float* y);
    /// (x1, x2) -> (x1 cos - x2 sin, x2 cos + x1 sin) for the two halves of a head.
    void (*rope)(const float* x, const float* cos, const float* sin, std::size_t half, float* y);
    void (*dropout)(const float* x, const DropoutParams& params, std::uint64_t row_seed, std::size_t count, float* y);
    LossKernels<float> loss_float32;
    LossKernels<Bfloat16> loss_bfloat16;
    void (*attention)(const HeadShape& shape, float scale, const AttentionMask& mask, const HeadInputs& inputs,
                      float* scratch, HeadRows<float> output);
    void (*attention_backward)(const HeadShape& shape, float scale, const AttentionMask& mask, const HeadInputs& inputs,
                               HeadRows<const float> output_gradient, float* scratch, const HeadGradients& gradients);
};

struct KernelTable {
    const char* name;
    GemmKernel int8, int8_int16, bfloat16, float32;
    /// Whether the int8 kernel multiplies inputs with their zero point of 128, so that sums need compensation.
    bool needs_compensation;
    NormFn layer_norm, rms_norm;
    void (*add)(float* x, const float* y, std::size_t count);
    /// f(x), times the gate if it is not null.
    void (*activate)(Activation name, const float* x, const float* gate, std::size_t count, float* y);
    /// cell = f * previous + (1 - f) * x with f = sigmoid(gate), y = max(cell, 0); `previous` is null at the start.
    void (*ssru)(const float* x, const float* gate, const float* previous, std::size_t count, float* cell, float* y);
    AttentionKernels<float> attention_float32;
    AttentionKernels<Bfloat16> attention_bfloat16;
    void (*panel_stats)(const float* logits, std::size_t rows, PanelStats* stats, std::size_t stride);
    /// Bit mask of the logits of a panel that are greater than `threshold`.
    std::uint64_t (*panel_greater_mask)(const float* logits, float threshold);
    /// Insert the logits selected by `mask` into a sorted top-k list; `capacity` is a multiple of `keys_per_vector`.
    void (*insert_top_k)(const float* logits, std::uint64_t mask, const PanelTokens& tokens, SortKey* best,
                         std::size_t capacity);
    /// Log-sum-exp over all panels; not finite if a logit is not finite.
    float (*log_sum_exp)(const PanelStats* stats, std::size_t panels);
    CpuOpKernels cpu_ops;
};

}  // namespace dragoman
