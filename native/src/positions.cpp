#include "positions.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>

namespace dragoman {

Positions::Positions(const Settings& settings, bool past_only, Weights& weights, const std::string& embedding,
                     const std::string& blocks)
    : kind_(settings.positions),
      size_(settings.size),
      heads_(settings.heads),
      head_size_(settings.head_size()),
      end_(settings.places),
      buckets_(settings.buckets),
      furthest_(settings.furthest),
      base_(settings.rotary_base),
      past_only_(past_only) {
    if (kind_ == PositionKind::learned) {
        Matrix learned = weights.matrix(embedding + ".positions.table.weight", end_, size_);
        table_ = Buffer<float>(end_ * padded(size_));
        for (std::size_t place = 0; place < end_; place++) learned.read(place, table_.data() + place * padded(size_));
        reached_ = end_;
    }
    if (kind_ == PositionKind::bucketed) {
        std::size_t layers = past_only ? settings.decoder_layers : settings.encoder_layers;
        std::vector<std::string> names;  // all layers share one table, which may be stored for each
        for (std::size_t layer = 0; layer < layers; layer++) {
            names.push_back(blocks + "." + std::to_string(layer) + ".attention.distances.table");
        }
        Matrix learned = weights.shared_matrix(names, buckets_, heads_);
        bucket_table_.resize(buckets_ * heads_);
        for (std::size_t row = 0; row < buckets_; row++) learned.read(row, bucket_table_.data() + row * heads_);
    }
}

void Positions::reach(std::size_t places) {
    if (kind_ == PositionKind::none || places <= reached_) return;
    if (kind_ == PositionKind::learned) {
        throw std::out_of_range("a sequence reaches position " + std::to_string(places - 1) +
                                ", but the learned table of positions ends at " + std::to_string(end_ - 1) +
                                "; shorten the input, or train with a larger model.positions.length");
    }
    std::size_t from = biases() ? 0 : reached_, to = std::max<std::size_t>({places, 2 * reached_, 64});
    std::size_t width = kind_ == PositionKind::sinusoidal ? padded(size_) : head_size_;
    // A query at the last place reads from its furthest key on, so that a head has both sides, and lanes beyond the end.
    Buffer<float> larger(biases() ? heads_ * (2 * to + lanes) : to * width);
    std::copy(table_.data(), table_.data() + from * width, larger.data());
    table_ = std::move(larger);
    reached_ = to;
    if (kind_ == PositionKind::sinusoidal) fill_sinusoids(from, to);
    if (kind_ == PositionKind::rotary) fill_turns(from, to);
    if (biases()) fill_biases();
}

const float* Positions::vector(std::size_t place) const {
    if (kind_ != PositionKind::sinusoidal && kind_ != PositionKind::learned) return nullptr;
    return table_.data() + place * padded(size_);
}

void Positions::turn(float* head, std::size_t place) const {
    std::size_t half = head_size_ / 2;
    const float *cosine = table_.data() + place * head_size_, *sine = cosine + half;
    for (std::size_t i = 0; i < half; i++) {
        float left = head[i], right = head[half + i];
        head[i] = left * cosine[i] - right * sine[i];
        head[half + i] = right * cosine[i] + left * sine[i];
    }
}

const float* Positions::bias(std::size_t head, std::size_t place) const {
    if (!biases()) return nullptr;
    return table_.data() + head * (2 * reached_ + lanes) + (reached_ - 1 - place);
}

/// sin(p / 10000^(2i/d)) and its cosine, in turn (Vaswani et al., 2017, section 3.5).
void Positions::fill_sinusoids(std::size_t from, std::size_t to) {
    for (std::size_t place = from; place < to; place++) {
        float* row = table_.data() + place * padded(size_);
        for (std::size_t i = 0; i < size_; i++) {
            double power = -static_cast<double>(i / 2 * 2) / static_cast<double>(size_);
            float angle = static_cast<float>(place) * static_cast<float>(std::pow(10000.0, power));
            row[i] = i % 2 == 0 ? std::sin(angle) : std::cos(angle);
        }
    }
}

void Positions::fill_turns(std::size_t from, std::size_t to) {
    std::size_t half = head_size_ / 2;
    for (std::size_t place = from; place < to; place++) {
        float* row = table_.data() + place * head_size_;
        for (std::size_t i = 0; i < half; i++) {
            double power = -static_cast<double>(i) / static_cast<double>(half);
            float angle = static_cast<float>(place) * static_cast<float>(std::pow(base_, power));
            row[i] = std::cos(angle);
            row[half + i] = std::sin(angle);
        }
    }
}

void Positions::fill_biases() {
    auto furthest_past = static_cast<std::ptrdiff_t>(reached_) - 1;
    for (std::size_t head = 0; head < heads_; head++) {
        float* row = table_.data() + head * (2 * reached_ + lanes);
        for (std::size_t i = 0; i < 2 * reached_ - 1; i++) row[i] = bias_at(head, static_cast<std::ptrdiff_t>(i) - furthest_past);
    }
}

float Positions::bias_at(std::size_t head, std::ptrdiff_t distance) const {
    auto away = static_cast<float>(distance < 0 ? -distance : distance);
    if (kind_ == PositionKind::alibi) {  // Press et al., 2022
        return -std::exp2(-8.0f * static_cast<float>(head + 1) / static_cast<float>(heads_)) * away;
    }
    // Raffel et al., 2020, section 2.1: one bucket a distance at first, then growing with the logarithm.
    std::size_t buckets = past_only_ ? buckets_ : buckets_ / 2;
    std::size_t side = !past_only_ && distance > 0 ? buckets : 0;
    if (past_only_ && distance > 0) away = 0.0f;
    std::size_t exact = buckets / 2, bucket = static_cast<std::size_t>(away);
    if (bucket >= exact) {
        auto span = static_cast<float>(std::log(static_cast<double>(furthest_) / static_cast<double>(exact)));
        float ratio = std::log(away / static_cast<float>(exact)) / span;
        bucket = std::min(buckets - 1, exact + static_cast<std::size_t>(ratio * static_cast<float>(buckets - exact)));
    }
    return bucket_table_[(side + bucket) * heads_ + head];
}

}  // namespace dragoman
