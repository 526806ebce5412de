#include "model/decoder.hpp"

#include <cmath>
#include <limits>

namespace dragoman {

namespace {

std::string embedding_name(const ModelConfig& config) { return config.decoder_only ? "embedding" : "target_embedding"; }

Embedding load_embedding(const LoadContext& context, const Linear& output_projection) {
    const ModelConfig& config = context.config;
    std::string name = embedding_name(config);
    if (config.tie_output_projection) return Embedding(context, name, output_projection);
    return Embedding(context, name,
                     context.weights.matrix(name + ".tokens.weight", config.target_vocabulary, config.d_model));
}

NormLayer load_final_norm(const LoadContext& context) {
    if (!context.config.pre_norm) return NormLayer();
    return NormLayer(context, context.config.decoder_only ? "norm" : "decoder_norm");
}

}  // namespace

Linear load_output_projection(const LoadContext& context) {
    const ModelConfig& config = context.config;
    std::vector<std::string> names;
    if (config.tie_source_embedding && !config.decoder_only) names.emplace_back("source_embedding.tokens.weight");
    if (config.tie_output_projection) names.push_back(embedding_name(config) + ".tokens.weight");
    names.emplace_back("unembedding.weight");
    WeightMatrix weight = context.weights.tied_matrix(names, config.target_vocabulary, config.d_model);
    std::vector<float> bias;
    if (config.output_bias) bias = context.weights.vector("unembedding.bias", config.target_vocabulary);
    Linear projection(context.kernels, context.compute_type, FeatureLayout::contiguous(config.d_model),
                      config.target_vocabulary);
    projection.add(weight, bias, FeatureLayout::contiguous(config.target_vocabulary), 0);
    projection.fill_padding_bias(std::numeric_limits<float>::lowest(), config.target_vocabulary);
    return projection;
}

Decoder::Decoder(const LoadContext& context, const Linear& output_projection)
    : config_(context.config),
      kernels_(context.kernels),
      embedding_(load_embedding(context, output_projection)),
      positions_(context.config, true, context.weights, embedding_name(context.config),
                 context.config.decoder_only ? "blocks" : "decoder"),
      norm_(load_final_norm(context)) {
    std::vector<HeadLayout> heads =
        HeadLayout::of_layers(config_, config_.decoder_kept_heads, config_.decoder_layers, context.compute_type);
    std::vector<HeadLayout> cross_heads =
        HeadLayout::of_layers(config_, config_.cross_kept_heads, config_.decoder_layers, context.compute_type);
    for (std::size_t layer = 0; layer < config_.decoder_layers; layer++) {
        blocks_.emplace_back(context, (config_.decoder_only ? "blocks." : "decoder.") + std::to_string(layer),
                             layer, heads[layer], config_.decoder_only ? nullptr : &cross_heads[layer]);
    }
}

void Decoder::forward(ForwardPass& pass, const DecoderInput& input) const {
    pass.for_own_rows([&](std::size_t row) {
        embedding_.lookup(static_cast<std::size_t>(input.tokens[row]),
                          positions_.embedding(input.caches.positions[row]), pass.residual(row));
    });
    for (std::size_t layer = 0; layer < blocks_.size(); layer++) {
        const DecoderBlock& block = blocks_[layer];
        bool is_recorded = input.recorded != nullptr && input.recorded->layer == layer;
        pass.residual_block(block.attention_norm, [&] {
            if (block.ssru) return update_ssru(pass, *block.ssru, input.caches);
            std::size_t width = block.attention->qkv.output_width();
            pass.gemm(block.attention->qkv, pass.projected());
            decoder_self_attention(pass, kernels_, block.attention->heads, positions_, config_.decoder_scale,
                                   input.caches, width);
            pass.project_attention(block.attention->heads, block.attention->output);
        });
        if (block.cross) {
            pass.residual_block(block.cross_norm, [&] {
                pass.gemm(block.cross->query, pass.projected());
                cross_attention(pass, kernels_, block.cross->heads, config_.cross_scale, input.sources,
                                input.beam_size, block.cross->query.output_width(),
                                is_recorded ? input.recorded : nullptr);
                pass.project_attention(block.cross->heads, block.cross->output);
            });
        }
        pass.residual_block(block.feed_forward_norm, [&] { pass.feed_forward(block.feed_forward); });
    }
    float scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(config_.d_model)));
    pass.for_own_rows([&](std::size_t row) {
        if (norm_) norm_(pass.residual(row), pass.residual(row));
        if (config_.scale_output) {
            for (std::size_t i = 0; i < config_.d_model; i++) pass.residual(row)[i] *= scale;
        }
        pass.pack_input(row, pass.residual(row), padded_width(config_.d_model));
    });
    pass.sync_rows();
}

void Decoder::update_ssru(ForwardPass& pass, const Ssru& ssru, const RowCaches& caches) const {
    pass.gemm(ssru.gates, pass.projected());
    std::size_t width = padded_width(config_.d_model);
    auto [first, last] = pass.worker().partition(pass.rows());
    for (std::size_t row = first; row < last; row++) {
        const float* input = pass.projected() + row * ssru.gates.output_width();
        const auto* previous = reinterpret_cast<const float*>(caches.previous[row]);
        auto* cell = reinterpret_cast<float*>(caches.current[row]) + ssru.state_offset;
        kernels_.ssru(input, input + width, previous == nullptr ? nullptr : previous + ssru.state_offset, width, cell,
                      pass.update(row));
    }
    pass.worker().wait();
}

}  // namespace dragoman
