// How the places of one sequence enter: vectors joined to tokens, turns of queries and keys, or numbers added to scores.
#pragma once

#include "buffer.hpp"
#include "settings.hpp"
#include "weights.hpp"

namespace dragoman {

/// Of one stack. Tables grow as longer sequences come, by `reach`, before anybody reads them.
class Positions {
public:
    Positions() = default;
    /// `past_only`: no query looks at a later place. `embedding` and `blocks` are where the weights are.
    Positions(const Settings& settings, bool past_only, Weights& weights, const std::string& embedding,
              const std::string& blocks);

    /// So that places 0 to `places` - 1 are known; throws std::out_of_range beyond the end of a learned table.
    void reach(std::size_t places);

    /// The vector of a place, padded, or null where tokens are not told their place.
    const float* vector(std::size_t place) const;
    bool turns() const { return kind_ == PositionKind::rotary; }
    /// Rotary positions (Su et al., 2021): numbers i and i + d/2 of a head are a point that turns with its place.
    void turn(float* head, std::size_t place) const;
    bool biases() const { return kind_ == PositionKind::alibi || kind_ == PositionKind::bucketed; }
    /// What is added to the scores of a query at `place`, from key place 0 on; null where nothing is. One place further,
    /// it begins one number earlier.
    const float* bias(std::size_t head, std::size_t place) const;

private:
    void fill_sinusoids(std::size_t from, std::size_t to);
    void fill_turns(std::size_t from, std::size_t to);
    void fill_biases();
    float bias_at(std::size_t head, std::ptrdiff_t distance) const;

    PositionKind kind_ = PositionKind::none;
    std::size_t size_ = 0, heads_ = 0, head_size_ = 0, end_ = 0, buckets_ = 0, furthest_ = 0;
    double base_ = 0.0;
    bool past_only_ = false;
    std::size_t reached_ = 0;
    std::vector<float> bucket_table_;
    Buffer<float> table_;
};

}  // namespace dragoman
