#include "decoder.hpp"

#include <limits>

namespace dragoman {

namespace {

std::string embedding_name(const Settings& settings) { return settings.causal ? "embedding" : "target_embedding"; }

Embedding embedding_of(const Loading& loading, const Linear& unembedding) {
    const Settings& settings = loading.settings;
    std::string name = embedding_name(settings);
    if (settings.tie_unembedding) return Embedding(loading, name, unembedding);
    return Embedding(loading, name, loading.weights.matrix(name + ".tokens.weight", settings.target_vocabulary, settings.size));
}

NormLayer last_norm(const Loading& loading) {
    if (!loading.settings.pre_norm) return NormLayer();
    return NormLayer(loading, loading.settings.causal ? "norm" : "decoder_norm");
}

}  // namespace

Linear unembedding_of(const Loading& loading) {
    const Settings& settings = loading.settings;
    std::vector<std::string> names;
    if (settings.tie_source && !settings.causal) names.emplace_back("source_embedding.tokens.weight");
    if (settings.tie_unembedding) names.push_back(embedding_name(settings) + ".tokens.weight");
    names.emplace_back("unembedding.weight");
    Matrix weight = loading.weights.shared_matrix(names, settings.target_vocabulary, settings.size);
    std::vector<float> bias;
    if (settings.bias) bias = loading.weights.vector("unembedding.bias", settings.target_vocabulary);
    Linear unembedding(loading.kernels, loading.compute, Layout::plain(settings.size), settings.target_vocabulary);
    unembedding.add(weight, bias, Layout::plain(settings.target_vocabulary), 0);
    unembedding.fill_unused(std::numeric_limits<float>::lowest(), settings.target_vocabulary);
    return unembedding;
}

Decoder::Decoder(const Loading& loading, const Linear& unembedding)
    : settings_(loading.settings),
      kernels_(loading.kernels),
      embedding_(embedding_of(loading, unembedding)),
      positions_(loading.settings, true, loading.weights, embedding_name(loading.settings),
                 loading.settings.causal ? "blocks" : "decoder"),
      norm_(last_norm(loading)) {
    std::vector<Heads> back = Heads::of_layers(settings_, settings_.decoder_kept, settings_.decoder_layers, loading.compute);
    std::vector<Heads> across = Heads::of_layers(settings_, settings_.cross_kept, settings_.decoder_layers, loading.compute);
    for (std::size_t layer = 0; layer < settings_.decoder_layers; layer++) {
        blocks_.emplace_back(loading, (settings_.causal ? "blocks." : "decoder.") + std::to_string(layer), back[layer],
                             settings_.causal ? nullptr : &across[layer]);
    }
}

void Decoder::go_on(Pass& pass, const Steps& steps) const {
    pass.own_rows([&](std::size_t row) {
        embedding_.read(static_cast<std::size_t>(steps.tokens[row]), positions_.vector(steps.paths.places[row]),
                        pass.stream(row));
    });
    for (const auto& [block, around_cross, cross] : blocks_) {
        pass.residual(block.around_attention, [&, &block = block] {
            std::size_t width = block.attention.inputs.width();
            pass.multiply(block.attention.inputs, pass.projected());
            look_back(pass, kernels_, block.attention.heads, positions_, settings_.decoder_scale, steps.paths, width);
            pass.gather(block.attention.output);
        });
        if (cross) {
            pass.residual(around_cross, [&, &cross = cross] {
                pass.multiply(cross->query, pass.projected());
                look_across(pass, kernels_, cross->heads, settings_.cross_scale, steps.sentences, steps.beam,
                            cross->query.width());
                pass.gather(cross->output);
            });
        }
        pass.residual(block.around_feed_forward, [&, &block = block] { pass.feed_forward(block.feed_forward); });
    }
    pass.own_rows([&](std::size_t row) {
        if (norm_) norm_(pass.stream(row), pass.stream(row));
        pass.prepare(row, pass.stream(row), padded(settings_.size));
    });
    pass.settle();
}

}  // namespace dragoman
