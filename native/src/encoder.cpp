#include "encoder.hpp"

namespace dragoman {

namespace {

const char name[] = "source_embedding";

Embedding embedding_of(const Loading& loading, const Linear& unembedding) {
    const Settings& settings = loading.settings;
    if (settings.tie_source) return Embedding(loading, name, unembedding);
    return Embedding(loading, name,
                     loading.weights.matrix(std::string(name) + ".tokens.weight", settings.source_vocabulary, settings.size));
}

Linear memory_map(const Loading& loading, const std::vector<Heads>& across) {
    const Settings& settings = loading.settings;
    std::size_t width = across.back().begin() + 2 * across.back().key_width();
    Linear memory(loading.kernels, loading.compute, Layout::plain(settings.size), width);
    for (std::size_t layer = 0; layer < across.size(); layer++) {
        const Heads& heads = across[layer];
        std::string attention = "decoder." + std::to_string(layer) + ".cross_attention";
        loading.add(memory, attention + ".key", settings.size, heads.of_keys(), heads.begin());
        loading.add(memory, attention + ".value", settings.size, heads.of_keys(), heads.begin() + heads.key_width());
    }
    return memory;
}

}  // namespace

Encoder::Encoder(const Loading& loading, const Linear& unembedding)
    : settings_(loading.settings),
      kernels_(loading.kernels),
      across_(Heads::of_layers(settings_, settings_.cross_kept, settings_.decoder_layers, loading.compute)),
      embedding_(embedding_of(loading, unembedding)),
      positions_(loading.settings, false, loading.weights, name, "encoder"),
      norm_(loading.settings.pre_norm ? NormLayer(loading, "encoder_norm") : NormLayer()),
      memory_(memory_map(loading, across_)) {
    std::vector<Heads> heads = Heads::of_layers(settings_, settings_.encoder_kept, settings_.encoder_layers, loading.compute);
    for (std::size_t layer = 0; layer < settings_.encoder_layers; layer++) {
        blocks_.emplace_back(loading, "encoder." + std::to_string(layer), heads[layer]);
    }
}

void Encoder::read(Pass& pass, const std::vector<std::int32_t>& tokens, const std::vector<Stretch>& stretches,
                   const std::vector<Sentence*>& sentences) const {
    std::vector<std::size_t> places;
    for (const Stretch& stretch : stretches) {
        for (std::size_t place = 0; place < stretch.places; place++) places.push_back(place);
    }
    pass.own_rows([&](std::size_t row) {
        embedding_.read(static_cast<std::size_t>(tokens[row]), positions_.vector(places[row]), pass.stream(row));
    });
    for (const EncoderBlock& block : blocks_) {
        pass.residual(block.around_attention, [&] {
            pass.multiply(block.attention.inputs, pass.projected());
            look_around(pass, kernels_, block.attention.heads, positions_, settings_.encoder_scale, stretches,
                        block.attention.inputs.width());
            pass.gather(block.attention.output);
        });
        pass.residual(block.around_feed_forward, [&] { pass.feed_forward(block.feed_forward); });
    }
    pass.own_rows([&](std::size_t row) {
        if (norm_) norm_(pass.stream(row), pass.stream(row));
        pass.prepare(row, pass.stream(row), padded(settings_.size));
    });
    pass.multiply(memory_, pass.projected());
    remember(pass, kernels_, across_, stretches, sentences, memory_.width());
}

}  // namespace dragoman
