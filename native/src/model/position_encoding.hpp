// Position encodings of one stack: vectors added to embeddings, rotations of queries and keys, or biases of scores.
#pragma once

#include "model/model_config.hpp"
#include "model/weights.hpp"
#include "runtime/aligned_buffer.hpp"

namespace dragoman {

/// Tables are extended before a pass over longer sequences, while no other thread reads them.
class PositionEncoding {
public:
    PositionEncoding() = default;
    /// `causal`: no query attends to a later position. `embedding` and `blocks` are prefixes of weight names.
    PositionEncoding(const ModelConfig& config, bool causal, Weights& weights, const std::string& embedding,
                     const std::string& blocks);

    /// Extend the tables to `length` positions; throw std::out_of_range beyond the end of a learned table.
    void extend_to(std::size_t length);

    /// Padded vector to add to the token embedding, or null.
    const float* embedding(std::size_t position) const;
    bool is_rotary() const { return kind_ == PositionKind::rotary; }
    /// RoPE in place (Su et al., 2021): elements i and i + d/2 of a head are coordinates of a rotated point.
    void apply_rope(float* head, std::size_t position) const;
    bool has_bias() const { return kind_ == PositionKind::alibi || kind_ == PositionKind::t5_bias; }
    /// Score bias of a query, starting at key position 0, or null. The bias of the next query starts one element
    /// earlier.
    const float* bias(std::size_t head, std::size_t position) const;

private:
    void fill_sinusoids(std::size_t from, std::size_t to);
    void fill_rope(std::size_t from, std::size_t to);
    void fill_biases();
    float bias_at(std::size_t head, std::ptrdiff_t distance) const;

    PositionKind kind_ = PositionKind::none;
    std::size_t d_model_ = 0, num_heads_ = 0, head_dim_ = 0, max_positions_ = 0, num_buckets_ = 0, max_distance_ = 0;
    /// Number of the first position of sinusoidal vectors.
    std::size_t offset_ = 0;
    bool halves_ = false, causal_ = false;
    /// Angle between neighboring positions in radians, of each pair of features.
    std::vector<float> rates_;
    std::size_t length_ = 0;
    std::vector<float> bucket_biases_;
    AlignedBuffer<float> table_;
};

}  // namespace dragoman
