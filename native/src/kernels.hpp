// What the instruction sets have in common: one table of functions each, chosen when a model is loaded.
//
// Every function gives a number the same bits whatever else it computes beside it: rows are independent, and the order of
// the additions of one output is fixed.
#pragma once

#include <cstddef>
#include <cstdint>

#include "ranked.hpp"
#include "shapes.hpp"

namespace dragoman {

/// Rows ready to be multiplied, in the arithmetic of the weights.
struct Operand {
    const void* data;
    /// One factor a row, for int8.
    const float* scale;
    /// Numbers from one row to the next, which is the depth of the product too.
    std::size_t depth;
};

/// A weight, packed in groups of 64 columns (its outputs).
struct Packed {
    const void* data;
    /// For each column: factor (int8), what the offset of the operand adds to the sum (int8), and bias.
    const float* scale;
    const std::int32_t* compensation;
    const float* bias;
    std::size_t depth;
};

/// `rows` rows times the columns of one group: y = x W + b.
using Product = void (*)(const Operand& x, std::size_t rows, const Packed& weight, std::size_t group_number, float* y,
                         std::size_t y_stride);

/// One row of `count` numbers made ready to be multiplied.
using Prepare = void (*)(const float* x, std::size_t count, void* operand, float* scale);

struct Arithmetic {
    Product product;
    Prepare prepare;
    std::size_t bytes;
    /// Numbers of one column that stand beside each other in a packed weight.
    std::size_t interleave;
};

enum class Activation { relu, gelu, gelu_tanh, silu };

struct NormWeights {
    const float* weight;
    const float* bias;
    /// Real numbers, and those with the zeros after them.
    std::size_t size, width;
};
using Norm = void (*)(const float* x, const NormWeights& weights, float* y);

/// Keys and values of one head, of places that follow one another: keys in blocks of 16 places, transposed.
template <class Number>
struct BlockKeys {
    const Number* keys;
    const Number* values;
    std::size_t value_stride, places, head_size;
};

/// Keys and values of one head, each place where it happens to be.
struct ScatteredKeys {
    const std::byte* const* slots;
    std::size_t places, keys_at, values_at;
};

/// What is added to the scores: number `key` of query q is at `first[q * stride + key]`.
struct ScoreBias {
    const float* first;
    std::ptrdiff_t stride;
};

/// So many queries of one head, and no more, read a key or value together.
constexpr std::size_t queries_together = 6;

struct Queries {
    const float* first;
    std::size_t stride, count;
};

template <class Number>
using LookAtBlocks = void (*)(const Queries& queries, const BlockKeys<Number>& seen, float scale, ScoreBias bias,
                              float* scratch, float* attended, std::size_t attended_stride, std::size_t head_width);
using LookAtScattered = void (*)(const float* query, const ScatteredKeys& seen, float scale, const float* bias,
                                 float* scratch, float* attended, std::size_t head_width);

/// What is kept of the logits of one group: enough for the normaliser and to know whether to look closer.
struct GroupSummary {
    float largest;
    /// Sum of the exponentials of what is below the largest; NaN where a logit is not finite.
    float total;
};

/// How the numbers of a cache are stored, and the functions that read them.
template <class Number>
struct Looks {
    /// Which numbers these are, for templates; never called.
    static Number* number();
    LookAtBlocks<Number> at_blocks;
    LookAtScattered at_scattered;
    void (*write)(const float* x, std::size_t count, Number* cache);
    /// Sixteen keys (fewer at the end) side by side.
    void (*transpose)(const float* keys, std::size_t stride, std::size_t places, std::size_t head_size, Number* block);
};

/// What a row of elements loses by chance: a 64-bit word serves four of them, each kept where its share of the bits, as a
/// number of 16 with a sign, is at least `least`; what is kept is multiplied by `factor`.
struct Dropping {
    const std::int64_t* columns;
    std::uint64_t finisher;
    std::int32_t least;
    float factor;
};

/// What a row is to be like beside the word that is expected: a distribution, none where null, and how much it counts.
struct Taught {
    const float* distribution;
    float share;
};

/// Of one row: -log p of what was expected, the mean log p of all words, and the mean that a teacher expects of it.
struct RowLoss {
    float negative_log_likelihood, mean_log_prob, taught_log_prob;
};

/// Numbers of one head, of places that follow one another.
template <class Number>
struct RowsOfHead {
    Number* first;
    std::size_t stride;
};

struct HeadSizes {
    std::size_t queries, keys, head_size;

    /// Of a row of scores.
    std::size_t width() const { return rounded_up(keys, lanes); }
    /// Numbers that one head needs beside what it is given, forward and backward.
    std::size_t scratch() const { return (2 * queries + head_size + 1) * width(); }
};

/// Which keys a query sees: those before and at its own place, where `causal`, and those whose byte is not zero.
struct Sight {
    bool causal;
    const std::uint8_t* allowed;
    /// From the bytes of one query to those of the next; 0 where all see the same.
    std::size_t stride;
};

struct HeadInputs {
    RowsOfHead<const float> query, key, value;
};
struct HeadGradients {
    RowsOfHead<float> query, key, value;
};

/// What is made of a row of logits, by the format of their numbers; `scratch` has room for a row.
template <class Number>
struct RowsOfLogits {
    /// The logits become p, less `certainty` where the expected word is, and less what is taught; a bias gradient is added
    /// to where there is one.
    RowLoss (*loss)(Number* logits, std::size_t count, std::size_t expected, float certainty, const Taught& taught,
                    float* scratch, float* bias_gradient);
    /// A share of the probabilities is added to `sums`.
    void (*add_probabilities)(const Number* logits, std::size_t count, float share, float* scratch, float* sums);
};

/// What training computes between products; counts may be any.
struct LearningKernels {
    /// Rounded to bfloat16; the second adds the numbers, not rounded, to sums too.
    void (*narrow)(const float* x, std::size_t count, Bfloat16* y);
    void (*narrow_and_add)(const float* x, std::size_t count, Bfloat16* y, float* sums);
    /// Plus a bias where there is one.
    void (*widen)(const Bfloat16* x, const float* bias, std::size_t count, float* y);
    /// (x, y) becomes (x cos - y sin, y cos + x sin), for the halves of a head.
    void (*turn)(const float* x, const float* cosine, const float* sine, std::size_t half, float* y);
    void (*drop)(const float* x, const Dropping& dropping, std::uint64_t line, std::size_t count, float* y);
    RowsOfLogits<float> in_float32;
    RowsOfLogits<Bfloat16> in_bfloat16;
    void (*attend_head)(const HeadSizes& sizes, float scale, const Sight& sight, const HeadInputs& head, float* scratch,
                        RowsOfHead<float> attended);
    void (*attend_head_back)(const HeadSizes& sizes, float scale, const Sight& sight, const HeadInputs& head,
                             RowsOfHead<const float> gradient, float* scratch, const HeadGradients& found);
};

struct Kernels {
    const char* name;
    Arithmetic int8, bfloat16, float32;
    /// Whether int8 operands keep their offset of 128 in the product, so that weights must make up for it.
    bool offset_stays;
    Norm layer_norm, rms_norm;
    void (*add)(float* x, const float* y, std::size_t count);
    /// f(x), times the gate where there is one.
    void (*activate)(Activation name, const float* x, const float* gate, std::size_t count, float* y);
    Looks<float> in_float32;
    Looks<Bfloat16> in_bfloat16;
    void (*summarise)(const float* logits, std::size_t rows, GroupSummary* summaries, std::size_t stride);
    /// One bit for each logit of a group that is above the limit.
    std::uint64_t (*above)(const float* logits, float limit);
    /// Puts those logits of a group whose bit is set among the best; `count` is a multiple of `ranks`.
    void (*enter)(const float* logits, std::uint64_t which, const Names& names, Candidate* best, std::size_t count);
    /// log of the sum of exponentials over all groups; NaN or infinite where a logit is.
    float (*normaliser)(const GroupSummary* summaries, std::size_t groups);
    LearningKernels learning;
};

}  // namespace dragoman
