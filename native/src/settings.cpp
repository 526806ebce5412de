#include "settings.hpp"

#include <stdexcept>
#include <string>

namespace dragoman {

namespace {

/// Beyond this nothing is a model, and products of two sizes stay far from overflow.
constexpr std::size_t largest_size = std::size_t{1} << 24;

void within(const char* name, std::size_t size) {
    if (size < 1 || size > largest_size) {
        throw std::invalid_argument(std::string("configuration: ") + name + " = " + std::to_string(size) +
                                    " must be from 1 to " + std::to_string(largest_size));
    }
}

void divides(const char* name, std::size_t part, const char* of, std::size_t whole) {
    if (whole % part != 0) {
        throw std::invalid_argument(std::string("configuration: ") + name + " = " + std::to_string(part) +
                                    " does not divide " + of + " = " + std::to_string(whole));
    }
}

/// Heads that are left are some of all, in order, at least one in each layer; those that share keys stay or leave together.
void left(const char* name, const Kept& kept, const Settings& settings, std::size_t layers) {
    if (kept.empty()) return;
    bool fits = kept.size() == layers;
    for (const std::vector<std::size_t>& heads : kept) {
        fits = fits && !heads.empty() && heads.size() % settings.sharing() == 0 && heads.back() < settings.heads;
        for (std::size_t i = 1; i < heads.size(); i++) fits = fits && heads[i - 1] < heads[i];
        for (std::size_t i = 0; fits && i < heads.size(); i++) {
            fits = heads[i] == heads[i - i % settings.sharing()] + i % settings.sharing() &&
                   heads[i] % settings.sharing() == i % settings.sharing();
        }
    }
    if (!fits) {
        throw std::invalid_argument(std::string("configuration: attention.") + name + ".kept names no heads of " +
                                    std::to_string(layers) + " layers with " + std::to_string(settings.heads) +
                                    " heads, " + std::to_string(settings.sharing()) + " to each of their keys");
    }
}

}  // namespace

std::size_t Settings::keys_in(const Kept& kept, std::size_t layers) const {
    std::size_t keys = kept.empty() ? layers * key_value_heads : 0;
    for (const std::vector<std::size_t>& heads : kept) keys += heads.size() / sharing();
    return keys;
}

void Settings::check() const {
    within("size", size);
    within("heads", heads);
    within("key_value_heads", key_value_heads);
    within("feed_forward", feed_forward);
    within("layers", decoder_layers);
    within("vocabulary", target_vocabulary);
    if (!causal) {
        within("encoder_layers", encoder_layers);
        within("source_vocabulary", source_vocabulary);
    }
    divides("heads", heads, "size", size);
    divides("key_value_heads", key_value_heads, "heads", heads);
    left("encoder", encoder_kept, *this, encoder_layers);
    left("decoder", decoder_kept, *this, decoder_layers);
    left("cross", cross_kept, *this, decoder_layers);
    if (!causal && tie_source && source_vocabulary != target_vocabulary) {
        throw std::invalid_argument("configuration: tie = all needs one vocabulary for both sides, and they hold " +
                                    std::to_string(source_vocabulary) + " and " + std::to_string(target_vocabulary));
    }
    if (positions == PositionKind::learned) within("positions.length", places);
    if (positions == PositionKind::rotary && head_size() % 2 != 0) {
        throw std::invalid_argument("configuration: rotary positions turn pairs of numbers, and a head has " +
                                    std::to_string(head_size()));
    }
    if (positions == PositionKind::rotary && !(rotary_base > 0.0)) {
        throw std::invalid_argument("configuration: positions.base = " + std::to_string(rotary_base) + " must be above 0");
    }
    if (positions == PositionKind::bucketed) {
        within("positions.buckets", buckets);
        if (buckets % 4 != 0 || furthest <= buckets / 2 || furthest > largest_size) {
            throw std::invalid_argument("configuration: " + std::to_string(buckets) + " buckets up to a distance of " +
                                        std::to_string(furthest) + "; buckets must be a multiple of 4, and the distance "
                                        "more than half of them");
        }
    }
}

}  // namespace dragoman
