#include "model/encoder.hpp"

namespace dragoman {

namespace {

const char embedding_name[] = "source_embedding";

Embedding load_embedding(const LoadContext& context, const Linear& output_projection) {
    const ModelConfig& config = context.config;
    if (config.tie_source_embedding) return Embedding(context, embedding_name, output_projection);
    return Embedding(context, embedding_name,
                     context.weights.matrix(std::string(embedding_name) + ".tokens.weight", config.source_vocabulary,
                                            config.d_model));
}

Linear load_cross_kv(const LoadContext& context, const std::vector<HeadLayout>& layers) {
    const ModelConfig& config = context.config;
    std::size_t width = layers.back().kv_offset() + 2 * layers.back().kv_width();
    Linear cross_kv(context.kernels, context.compute_type, FeatureLayout::contiguous(config.d_model), width);
    for (std::size_t layer = 0; layer < layers.size(); layer++) {
        const HeadLayout& heads = layers[layer];
        std::string attention = "decoder." + std::to_string(layer) + ".cross_attention";
        context.add_to(cross_kv, attention + ".key", config.d_model, heads.kv_features(), heads.kv_offset(),
                       config.qkv_bias);
        context.add_to(cross_kv, attention + ".value", config.d_model, heads.kv_features(),
                       heads.kv_offset() + heads.kv_width(), config.qkv_bias);
    }
    return cross_kv;
}

}  // namespace

Encoder::Encoder(const LoadContext& context, const Linear& output_projection)
    : config_(context.config),
      kernels_(context.kernels),
      cross_heads_(
          HeadLayout::of_layers(config_, config_.cross_kept_heads, config_.decoder_layers, context.compute_type)),
      embedding_(load_embedding(context, output_projection)),
      positions_(context.config, false, context.weights, embedding_name, "encoder"),
      norm_(context.config.pre_norm ? NormLayer(context, "encoder_norm") : NormLayer()),
      cross_kv_(load_cross_kv(context, cross_heads_)) {
    std::vector<HeadLayout> heads =
        HeadLayout::of_layers(config_, config_.encoder_kept_heads, config_.encoder_layers, context.compute_type);
    for (std::size_t layer = 0; layer < config_.encoder_layers; layer++) {
        blocks_.emplace_back(context, "encoder." + std::to_string(layer), heads[layer]);
    }
}

void Encoder::forward(ForwardPass& pass, const std::vector<std::int32_t>& tokens, const std::vector<SourceRows>& rows,
                      const std::vector<EncodedSource*>& sources) const {
    std::vector<std::size_t> positions;
    for (const SourceRows& source : rows) {
        for (std::size_t position = 0; position < source.length; position++) positions.push_back(position);
    }
    pass.for_own_rows([&](std::size_t row) {
        embedding_.lookup(static_cast<std::size_t>(tokens[row]), positions_.embedding(positions[row]),
                          pass.residual(row));
    });
    for (const EncoderBlock& block : blocks_) {
        pass.residual_block(block.attention_norm, [&] {
            pass.gemm(block.attention.qkv, pass.projected());
            encoder_self_attention(pass, kernels_, block.attention.heads, positions_, config_.encoder_scale, rows,
                                   block.attention.qkv.output_width());
            pass.project_attention(block.attention.heads, block.attention.output);
        });
        pass.residual_block(block.feed_forward_norm, [&] { pass.feed_forward(block.feed_forward); });
    }
    pass.for_own_rows([&](std::size_t row) {
        if (norm_) norm_(pass.residual(row), pass.residual(row));
        pass.pack_input(row, pass.residual(row), padded_width(config_.d_model));
    });
    pass.gemm(cross_kv_, pass.projected());
    store_cross_kv(pass, kernels_, cross_heads_, rows, sources, cross_kv_.output_width());
}

}  // namespace dragoman
