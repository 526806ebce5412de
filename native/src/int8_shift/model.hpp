// Transformer with an SSRU decoder in the 8-bit arithmetic of Marian's `int8shiftAlphaAll`, bit by bit.
//
// All products have 8-bit factors: inputs are rounded with a fixed multiplier, shifted by 127, and multiplied by integers;
// sums of two products saturate at 16 bits, as with AVX2, but for those of the output layer, which the engine computes
// without vector instructions. Other numbers are float32, whose sums run from the first to the
// last number without fused operations. Every row is computed on its own, so results do not depend on the batch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace dragoman::int8_shift {

/// y = scale * (q(x) W) + bias, where W holds panels of 16 outputs, whose inputs are interleaved by 4.
struct Product {
    std::size_t inputs = 0, outputs = 0;
    float activation = 0, scale = 0;
    std::vector<float> bias;
    std::vector<std::int8_t> packed;

    /// Pack `values` (inputs x outputs); inputs are a multiple of 16 and outputs of 16.
    Product(const std::int8_t* values, std::size_t inputs, std::size_t outputs, float activation, float scale,
            const float* bias);
};

struct Norm {
    std::vector<float> scale, bias;
};

struct Attention {
    Product query, key, value, output;
    Norm norm;
};

struct FeedForward {
    Product inner, outer;
    Norm norm;
};

struct EncoderLayer {
    Attention attention;
    FeedForward feed_forward;
};

struct DecoderLayer {
    Product input, forget_gate;
    Norm norm;
    Attention attention;
    FeedForward feed_forward;
};

/// Embedding of tokens, whose integers are the output layer too.
struct Vocabulary {
    std::vector<std::int8_t> values;
    /// Factors of the integers: that of the weights and sqrt(d_model), applied in this order.
    float unit = 0, factor = 0;
    float activation = 0, scale = 0;
    std::vector<float> bias;
};

struct Network {
    std::size_t size = 0, heads = 0;
    Vocabulary vocabulary;
    std::vector<EncoderLayer> encoder;
    std::vector<DecoderLayer> decoder;
    /// Position embeddings, row after row.
    std::vector<float> positions;
};

/// Hypotheses of one step. `memories` are those of their sentences: by layer the keys (size x length) and values.
struct Step {
    std::vector<std::int32_t> tokens, positions;
    std::vector<const float*> memories;
    std::vector<std::size_t> lengths;
    /// Cells before and after the step, (rows, layers, size).
    const float* before;
    float* after;
    /// Take the weights of the first head in the last layer, one array per row; empty if nobody reads them.
    std::vector<float*> weights;
};

/// Functions compiled for an instruction set.
struct Functions {
    /// Write the memory of one source, its end symbol included.
    void (*encode)(const Network&, const std::int32_t* tokens, std::size_t length, float* memory);
    /// Write the last hidden states, (rows, size); tokens below zero have a zero embedding.
    void (*decode)(const Network&, const Step&, float* hidden);
    /// Write the logits of candidates after one hidden state.
    void (*logits)(const Network&, const float* hidden, const std::int32_t* candidates, std::size_t count, float* logits);
};

/// Functions of an instruction set by its name: with AVX2 for all but `portable`.
Functions select_functions(const std::string& instruction_set);
Functions avx2_functions();

}  // namespace dragoman::int8_shift
