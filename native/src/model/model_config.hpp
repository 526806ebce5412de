// Architecture of a model, read by the Python side from a configuration.
#pragma once

#include <cstddef>
#include <vector>

#include "kernels/kernel_table.hpp"

namespace dragoman {

/// Number formats of the matrix products. `int8_int16` has weights of 8 bits, quantized by blocks of 32 inputs, and inputs
/// of 16 bits.
enum class ComputeType { int8, int8_int16, bfloat16, float32 };

enum class PositionKind { none, sinusoidal, learned, rotary, alibi, t5_bias };

/// Extension of rotary positions to longer contexts.
enum class RotaryScalingKind { none, linear, llama3 };

struct RotaryScaling {
    RotaryScalingKind kind = RotaryScalingKind::none;
    /// Divisor of the rates; for llama3, of rates with fewer turns over the original length than the low factor.
    double factor = 1.0, low_frequency_factor = 1.0, high_frequency_factor = 4.0, original_length = 8192.0;
};

/// Heads that pruning kept, by layer; empty if no layer was pruned.
using KeptHeads = std::vector<std::vector<std::size_t>>;

struct ModelConfig {
    bool decoder_only = false;
    /// A head size of 0 stands for d_model / num_heads.
    std::size_t d_model = 0, num_heads = 0, num_kv_heads = 0, head_size = 0, d_ff = 0;
    std::size_t encoder_layers = 0, decoder_layers = 0;
    std::size_t source_vocabulary = 0, target_vocabulary = 0;
    Activation activation = Activation::relu;
    bool gated = false, rms_norm = false, pre_norm = true;
    /// Biases of the linear layers; of queries, keys and values; of the output projection.
    bool bias = true, qkv_bias = true, output_bias = true;
    float norm_epsilon = 1e-5f;
    bool scale_embedding = true, norm_embedding = false;
    /// Whether hidden states are multiplied by d_model^(-1/2) before the output projection (T5).
    bool scale_output = false;
    /// Whether decoder layers have a simpler simple recurrent unit (Kim et al., 2019) in place of self-attention.
    bool ssru = false;
    PositionKind positions = PositionKind::sinusoidal;
    /// Number of the first position; rows of a learned table before the one of that position.
    std::size_t position_offset = 0;
    /// Whether sinusoidal vectors hold all sines, then all cosines; whether their last rate is 1/10000.
    bool sinusoid_halves = false, sinusoid_inclusive = false;
    /// Length of a table of learned positions; buckets and maximal distance of a T5 bias.
    std::size_t max_positions = 0, num_buckets = 0, max_distance = 0;
    double rotary_base = 10000.0;
    RotaryScaling rotary_scaling;
    /// Factors of the attention scores.
    float encoder_scale = 1.0f, decoder_scale = 1.0f, cross_scale = 1.0f;
    KeptHeads encoder_kept_heads, decoder_kept_heads, cross_kept_heads;
    /// Whether source and target share an embedding, and the target embedding is the output projection too.
    bool tie_source_embedding = true, tie_output_projection = true;

    std::size_t head_dim() const { return head_size == 0 ? d_model / num_heads : head_size; }
    /// Positions of the decoder: a recurrent one has no attention scores, on which rotations and biases act.
    PositionKind decoder_positions() const;
    /// Head size, padded to whole vectors.
    std::size_t head_width() const { return round_up(head_dim(), simd_width); }
    /// Query heads that share one head of keys and values (Ainslie et al., 2023).
    std::size_t queries_per_kv_head() const { return num_heads / num_kv_heads; }
    /// Heads of keys and values in all layers of a stack.
    std::size_t total_kv_heads(const KeptHeads& kept, std::size_t layers) const;

    /// Throw std::invalid_argument if sizes contradict each other.
    void validate() const;
};

}  // namespace dragoman
