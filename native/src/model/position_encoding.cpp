#include "model/position_encoding.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>

namespace dragoman {

namespace {

/// base^(-i / steps)
std::vector<float> geometric_rates(std::size_t count, double base, double steps) {
    std::vector<float> rates(count);
    for (std::size_t i = 0; i < count; i++) {
        rates[i] = static_cast<float>(std::pow(base, -static_cast<double>(i) / steps));
    }
    return rates;
}

/// Rates of sinusoidal positions: 10000^(-2i/d) (Vaswani et al., 2017, section 3.5), or 10000^(-i/(T-1)) for T rates.
std::vector<float> sinusoid_rates(const ModelConfig& config) {
    std::size_t count = (config.d_model + 1) / 2;
    double inclusive_steps = static_cast<double>(std::max<std::size_t>(count, 2) - 1);
    double steps = config.sinusoid_inclusive ? inclusive_steps : static_cast<double>(config.d_model) / 2.0;
    return geometric_rates(count, 10000.0, steps);
}

std::vector<float> rotary_rates(const ModelConfig& config) {
    std::size_t count = config.head_dim() / 2;
    std::vector<float> rates = geometric_rates(count, config.rotary_base, static_cast<double>(count));
    const RotaryScaling& scaling = config.rotary_scaling;
    constexpr double two_pi = 6.283185307179586;
    for (float& rate : rates) {
        double scaled = rate / scaling.factor, turns = scaling.original_length * rate / two_pi;
        double unscaled = (turns - scaling.low_frequency_factor) /
                          (scaling.high_frequency_factor - scaling.low_frequency_factor);
        unscaled = std::min(1.0, std::max(0.0, unscaled));
        switch (scaling.kind) {
            case RotaryScalingKind::none:
                break;
            case RotaryScalingKind::linear:
                rate = static_cast<float>(scaled);
                break;
            case RotaryScalingKind::llama3:
                rate = static_cast<float>((1.0 - unscaled) * scaled + unscaled * rate);
                break;
        }
    }
    return rates;
}

}  // namespace

PositionEncoding::PositionEncoding(const ModelConfig& config, bool causal, Weights& weights,
                                   const std::string& embedding, const std::string& blocks)
    : kind_(causal ? config.decoder_positions() : config.positions),
      d_model_(config.d_model),
      num_heads_(config.num_heads),
      head_dim_(config.head_dim()),
      max_positions_(config.max_positions),
      num_buckets_(config.num_buckets),
      max_distance_(config.max_distance),
      offset_(config.position_offset),
      halves_(config.sinusoid_halves),
      causal_(causal) {
    if (kind_ == PositionKind::sinusoidal) rates_ = sinusoid_rates(config);
    if (kind_ == PositionKind::rotary) rates_ = rotary_rates(config);
    if (kind_ == PositionKind::learned) {
        WeightMatrix learned =
            weights.matrix(embedding + ".positions.table.weight", offset_ + max_positions_, d_model_);
        table_ = AlignedBuffer<float>(max_positions_ * padded_width(d_model_));
        for (std::size_t position = 0; position < max_positions_; position++) {
            learned.read_row(offset_ + position, table_.data() + position * padded_width(d_model_));
        }
        length_ = max_positions_;
    }
    if (kind_ == PositionKind::t5_bias) {
        std::size_t layers = causal ? config.decoder_layers : config.encoder_layers;
        std::vector<std::string> names;  // all layers share one table, which may be stored in each of them
        for (std::size_t layer = 0; layer < layers; layer++) {
            names.push_back(blocks + "." + std::to_string(layer) + ".attention.position_bias.table");
        }
        WeightMatrix learned = weights.tied_matrix(names, num_buckets_, num_heads_);
        bucket_biases_.resize(num_buckets_ * num_heads_);
        for (std::size_t row = 0; row < num_buckets_; row++) {
            learned.read_row(row, bucket_biases_.data() + row * num_heads_);
        }
    }
}

void PositionEncoding::extend_to(std::size_t length) {
    if (kind_ == PositionKind::none || length <= length_) return;
    if (kind_ == PositionKind::learned) {
        throw std::out_of_range("a sequence reaches position " + std::to_string(length - 1) +
                                ", but the learned table of positions ends at " + std::to_string(max_positions_ - 1) +
                                "; shorten the input, or train with a larger model.positions.max_length");
    }
    std::size_t from = has_bias() ? 0 : length_, to = std::max<std::size_t>({length, 2 * length_, 64});
    std::size_t width = kind_ == PositionKind::sinusoidal ? padded_width(d_model_) : head_dim_;
    // The bias of a head covers distances in both directions; kernels load whole vectors, also beyond its end.
    AlignedBuffer<float> extended(has_bias() ? num_heads_ * (2 * to + simd_width) : to * width);
    std::copy(table_.data(), table_.data() + from * width, extended.data());
    table_ = std::move(extended);
    length_ = to;
    if (kind_ == PositionKind::sinusoidal) fill_sinusoids(from, to);
    if (kind_ == PositionKind::rotary) fill_rope(from, to);
    if (has_bias()) fill_biases();
}

const float* PositionEncoding::embedding(std::size_t position) const {
    if (kind_ != PositionKind::sinusoidal && kind_ != PositionKind::learned) return nullptr;
    return table_.data() + position * padded_width(d_model_);
}

void PositionEncoding::apply_rope(float* head, std::size_t position) const {
    std::size_t half = head_dim_ / 2;
    const float *cos = table_.data() + position * head_dim_, *sin = cos + half;
    for (std::size_t i = 0; i < half; i++) {
        float left = head[i], right = head[half + i];
        head[i] = left * cos[i] - right * sin[i];
        head[half + i] = right * cos[i] + left * sin[i];
    }
}

const float* PositionEncoding::bias(std::size_t head, std::size_t position) const {
    if (!has_bias()) return nullptr;
    return table_.data() + head * (2 * length_ + simd_width) + (length_ - 1 - position);
}

/// Sines and cosines by turns (Vaswani et al., 2017, section 3.5), or all sines, then all cosines (Marian, fairseq).
void PositionEncoding::fill_sinusoids(std::size_t from, std::size_t to) {
    for (std::size_t position = from; position < to; position++) {
        float* row = table_.data() + position * padded_width(d_model_);
        for (std::size_t i = 0; i < d_model_; i++) {
            bool is_sine = halves_ ? i < rates_.size() : i % 2 == 0;
            float rate = rates_[halves_ ? i % rates_.size() : i / 2];
            float angle = static_cast<float>(offset_ + position) * rate;
            row[i] = is_sine ? std::sin(angle) : std::cos(angle);
        }
    }
}

void PositionEncoding::fill_rope(std::size_t from, std::size_t to) {
    std::size_t half = head_dim_ / 2;
    for (std::size_t position = from; position < to; position++) {
        float* row = table_.data() + position * head_dim_;
        for (std::size_t i = 0; i < half; i++) {
            float angle = static_cast<float>(position) * rates_[i];
            row[i] = std::cos(angle);
            row[half + i] = std::sin(angle);
        }
    }
}

void PositionEncoding::fill_biases() {
    auto longest_distance = static_cast<std::ptrdiff_t>(length_) - 1;
    for (std::size_t head = 0; head < num_heads_; head++) {
        float* row = table_.data() + head * (2 * length_ + simd_width);
        for (std::size_t i = 0; i < 2 * length_ - 1; i++) {
            row[i] = bias_at(head, static_cast<std::ptrdiff_t>(i) - longest_distance);
        }
    }
}

float PositionEncoding::bias_at(std::size_t head, std::ptrdiff_t distance) const {
    auto magnitude = static_cast<float>(distance < 0 ? -distance : distance);
    if (kind_ == PositionKind::alibi) {  // Press et al., 2022
        return -std::exp2(-8.0f * static_cast<float>(head + 1) / static_cast<float>(num_heads_)) * magnitude;
    }
    // Raffel et al., 2020, section 2.1: one bucket per short distance, then buckets that grow logarithmically.
    std::size_t buckets = causal_ ? num_buckets_ : num_buckets_ / 2;
    std::size_t side = !causal_ && distance > 0 ? buckets : 0;
    if (causal_ && distance > 0) magnitude = 0.0f;
    std::size_t exact = buckets / 2, bucket = static_cast<std::size_t>(magnitude);
    if (bucket >= exact) {
        auto span = static_cast<float>(std::log(static_cast<double>(max_distance_) / static_cast<double>(exact)));
        float ratio = std::log(magnitude / static_cast<float>(exact)) / span;
        bucket = std::min(buckets - 1, exact + static_cast<std::size_t>(ratio * static_cast<float>(buckets - exact)));
    }
    return bucket_biases_[(side + bucket) * num_heads_ + head];
}

}  // namespace dragoman
