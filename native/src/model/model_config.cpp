#include "model/model_config.hpp"

#include <stdexcept>
#include <string>

namespace dragoman {

namespace {

/// Products of two sizes below this limit do not overflow.
constexpr std::size_t max_size = std::size_t{1} << 24;

void check_size(const char* name, std::size_t size) {
    if (size < 1 || size > max_size) {
        throw std::invalid_argument(std::string("configuration: ") + name + " = " + std::to_string(size) +
                                    " must be from 1 to " + std::to_string(max_size));
    }
}

void check_divides(const char* name, std::size_t divisor, const char* dividend_name, std::size_t dividend) {
    if (dividend % divisor != 0) {
        throw std::invalid_argument(std::string("configuration: ") + name + " = " + std::to_string(divisor) +
                                    " does not divide " + dividend_name + " = " + std::to_string(dividend));
    }
}

/// Every layer keeps at least one head, in ascending order, and keeps or loses all query heads of a key-value head.
void check_kept_heads(const char* name, const KeptHeads& kept, const ModelConfig& config, std::size_t layers) {
    if (kept.empty()) return;
    std::size_t group = config.queries_per_kv_head();
    bool valid = kept.size() == layers;
    for (const std::vector<std::size_t>& heads : kept) {
        valid = valid && !heads.empty() && heads.size() % group == 0 && heads.back() < config.num_heads;
        for (std::size_t i = 1; i < heads.size(); i++) valid = valid && heads[i - 1] < heads[i];
        for (std::size_t i = 0; valid && i < heads.size(); i++) {
            valid = heads[i] == heads[i - i % group] + i % group && heads[i] % group == i % group;
        }
    }
    if (!valid) {
        throw std::invalid_argument(std::string("configuration: attention.") + name +
                                    ".kept_heads does not list heads of " + std::to_string(layers) + " layers with " +
                                    std::to_string(config.num_heads) +
                                    " heads each, in ascending order and in whole groups of " + std::to_string(group));
    }
}

void check_rotary_scaling(const RotaryScaling& scaling) {
    if (!(scaling.factor > 0.0) || !(scaling.low_frequency_factor > 0.0) ||
        !(scaling.high_frequency_factor > scaling.low_frequency_factor) || !(scaling.original_length > 0.0)) {
        throw std::invalid_argument(
            "configuration: the numbers of positions.scaling must be above 0, and high_frequency_factor above "
            "low_frequency_factor");
    }
}

void check_positions(const ModelConfig& config) {
    if (config.positions == PositionKind::learned) check_size("positions.max_length", config.max_positions);
    if (config.position_offset > max_size) check_size("positions.offset", config.position_offset);
    if (config.positions == PositionKind::rotary && config.head_dim() % 2 != 0) {
        throw std::invalid_argument("configuration: rotary positions need an even head size, and it is " +
                                    std::to_string(config.head_dim()));
    }
    if (config.positions == PositionKind::rotary && !(config.rotary_base > 0.0)) {
        throw std::invalid_argument("configuration: positions.base = " + std::to_string(config.rotary_base) +
                                    " must be above 0");
    }
    check_rotary_scaling(config.rotary_scaling);
    if (config.positions == PositionKind::t5_bias) {
        check_size("positions.num_buckets", config.num_buckets);
        if (config.num_buckets % 4 != 0 || config.max_distance <= config.num_buckets / 2 ||
            config.max_distance > max_size) {
            throw std::invalid_argument("configuration: " + std::to_string(config.num_buckets) +
                                        " buckets up to a distance of " + std::to_string(config.max_distance) +
                                        "; buckets must be a multiple of 4, and the distance more than half of them");
        }
    }
}

}  // namespace

PositionKind ModelConfig::decoder_positions() const {
    bool is_vector = positions == PositionKind::sinusoidal || positions == PositionKind::learned;
    return ssru && !is_vector ? PositionKind::none : positions;
}

std::size_t ModelConfig::total_kv_heads(const KeptHeads& kept, std::size_t layers) const {
    std::size_t heads = kept.empty() ? layers * num_kv_heads : 0;
    for (const std::vector<std::size_t>& kept_heads : kept) heads += kept_heads.size() / queries_per_kv_head();
    return heads;
}

void ModelConfig::validate() const {
    check_size("d_model", d_model);
    check_size("num_heads", num_heads);
    check_size("num_kv_heads", num_kv_heads);
    check_size("d_ff", d_ff);
    check_size("num_layers", decoder_layers);
    check_size("vocabulary", target_vocabulary);
    if (!decoder_only) {
        check_size("encoder_layers", encoder_layers);
        check_size("source_vocabulary", source_vocabulary);
    }
    if (head_size == 0) {
        check_divides("num_heads", num_heads, "d_model", d_model);
    } else {
        check_size("head_size", head_size);
    }
    check_divides("num_kv_heads", num_kv_heads, "num_heads", num_heads);
    check_kept_heads("encoder", encoder_kept_heads, *this, encoder_layers);
    check_kept_heads("decoder", decoder_kept_heads, *this, decoder_layers);
    check_kept_heads("cross", cross_kept_heads, *this, decoder_layers);
    if (!decoder_only && tie_source_embedding && source_vocabulary != target_vocabulary) {
        throw std::invalid_argument(
            "configuration: tie_embeddings = all needs one vocabulary for both sides, and they hold " +
            std::to_string(source_vocabulary) + " and " + std::to_string(target_vocabulary) + " tokens");
    }
    check_positions(*this);
    if (!(norm_epsilon > 0.0f)) {
        throw std::invalid_argument("configuration: norm_epsilon = " + std::to_string(norm_epsilon) +
                                    " must be above 0");
    }
}

}  // namespace dragoman
