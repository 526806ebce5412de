#include "model/layers.hpp"

#include <algorithm>
#include <cmath>

namespace dragoman {

void LoadContext::add_to(Linear& linear, const std::string& name, std::size_t inputs, const FeatureLayout& outputs,
                         std::size_t first, bool has_bias) const {
    WeightMatrix weight = weights.matrix(name + ".weight", outputs.count, inputs);
    std::vector<float> bias;
    if (has_bias) bias = weights.vector(name + ".bias", outputs.count);
    linear.add(weight, bias, outputs, first);
}

NormLayer::NormLayer(const LoadContext& context, const std::string& name)
    : norm_(context.config.rms_norm ? context.kernels.rms_norm : context.kernels.layer_norm),
      size_(context.config.d_model),
      epsilon_(context.config.norm_epsilon),
      weight_(padded_width(size_)),
      bias_(padded_width(size_)) {
    std::vector<float> weight = context.weights.vector(name + ".weight", size_);
    std::copy(weight.begin(), weight.end(), weight_.data());
    if (context.config.rms_norm) return;
    std::vector<float> bias = context.weights.vector(name + ".bias", size_);
    std::copy(bias.begin(), bias.end(), bias_.data());
}

namespace {

Linear load_output_layer(const LoadContext& context, const std::string& name, const HeadLayout& heads) {
    const ModelConfig& config = context.config;
    FeatureLayout inputs = heads.output_features(context.compute_type);
    Linear output(context.kernels, context.compute_type, inputs, config.d_model);
    context.add_to(output, name + ".output", inputs.count, FeatureLayout::contiguous(config.d_model), 0,
                   config.bias);
    return output;
}

}  // namespace

SelfAttention::SelfAttention(const LoadContext& context, const std::string& name, const HeadLayout& heads)
    : heads(heads), output(load_output_layer(context, name, heads)) {
    const ModelConfig& config = context.config;
    FeatureLayout queries = heads.query_features(), keys = heads.kv_features();
    qkv = Linear(context.kernels, context.compute_type, FeatureLayout::contiguous(config.d_model),
                 queries.width() + 2 * keys.width());
    context.add_to(qkv, name + ".query", config.d_model, queries, 0, config.qkv_bias);
    context.add_to(qkv, name + ".key", config.d_model, keys, queries.width(), config.qkv_bias);
    context.add_to(qkv, name + ".value", config.d_model, keys, queries.width() + keys.width(), config.qkv_bias);
}

CrossAttention::CrossAttention(const LoadContext& context, const std::string& name, const HeadLayout& heads)
    : heads(heads), output(load_output_layer(context, name, heads)) {
    const ModelConfig& config = context.config;
    FeatureLayout queries = heads.query_features();
    query = Linear(context.kernels, context.compute_type, FeatureLayout::contiguous(config.d_model), queries.width());
    context.add_to(query, name + ".query", config.d_model, queries, 0, config.qkv_bias);
}

Ssru::Ssru(const LoadContext& context, const std::string& name, std::size_t state_offset)
    : state_offset(state_offset) {
    FeatureLayout model = FeatureLayout::contiguous(context.config.d_model);
    std::size_t width = padded_width(model.count);
    gates = Linear(context.kernels, context.compute_type, model, 2 * width);
    context.add_to(gates, name + ".input", model.count, model, 0, false);
    context.add_to(gates, name + ".forget_gate", model.count, model, width, true);
}

FeedForward::FeedForward(const LoadContext& context, const std::string& name) {
    const ModelConfig& config = context.config;
    FeatureLayout model = FeatureLayout::contiguous(config.d_model), hidden = FeatureLayout::contiguous(config.d_ff);
    std::size_t hidden_width = padded_width(config.d_ff);
    inner = Linear(context.kernels, context.compute_type, model, config.gated ? 2 * hidden_width : hidden_width);
    outer = Linear(context.kernels, context.compute_type, hidden, config.d_model);
    context.add_to(inner, name + ".inner", config.d_model, hidden, 0, config.bias);
    if (config.gated) context.add_to(inner, name + ".gate", config.d_model, hidden, hidden_width, config.bias);
    context.add_to(outer, name + ".outer", config.d_ff, model, 0, config.bias);
}

EncoderBlock::EncoderBlock(const LoadContext& context, const std::string& name, const HeadLayout& heads)
    : attention_norm(context, name + ".attention_residual.norm"),
      feed_forward_norm(context, name + ".feed_forward_residual.norm"),
      attention(context, name + ".attention", heads),
      feed_forward(context, name + ".feed_forward") {}

DecoderBlock::DecoderBlock(const LoadContext& context, const std::string& name, std::size_t layer,
                           const HeadLayout& heads, const HeadLayout* cross_heads)
    : attention_norm(context, name + ".attention_residual.norm"),
      feed_forward_norm(context, name + ".feed_forward_residual.norm"),
      feed_forward(context, name + ".feed_forward") {
    if (context.config.ssru) {
        ssru.emplace(context, name + ".ssru", layer * padded_width(context.config.d_model));
    } else {
        attention.emplace(context, name + ".attention", heads);
    }
    if (cross_heads == nullptr) return;
    cross_norm = NormLayer(context, name + ".cross_attention_residual.norm");
    cross.emplace(context, name + ".cross_attention", *cross_heads);
}

namespace {

float embedding_scale(const ModelConfig& config) {
    return config.scale_embedding ? static_cast<float>(std::sqrt(static_cast<double>(config.d_model))) : 1.0f;
}

NormLayer embedding_norm(const LoadContext& context, const std::string& name) {
    return context.config.norm_embedding ? NormLayer(context, name + ".norm") : NormLayer();
}

}  // namespace

Embedding::Embedding(const LoadContext& context, const std::string& name, const WeightMatrix& weight)
    : size_(context.config.d_model),
      scale_(embedding_scale(context.config)),
      own_(context.kernels, context.compute_type, FeatureLayout::contiguous(size_), weight.rows()),
      norm_(embedding_norm(context, name)) {
    own_.add(weight, {}, FeatureLayout::contiguous(weight.rows()), 0);
}

Embedding::Embedding(const LoadContext& context, const std::string& name, const Linear& tied)
    : size_(context.config.d_model),
      scale_(embedding_scale(context.config)),
      tied_(&tied),
      norm_(embedding_norm(context, name)) {}

void Embedding::lookup(std::size_t token, const float* position_embedding, float* x) const {
    (tied_ == nullptr ? own_ : *tied_).read_row(token, x);
    for (std::size_t i = 0; i < size_; i++) x[i] *= scale_;
    std::fill(x + size_, x + padded_width(size_), 0.0f);
    if (position_embedding != nullptr) {
        for (std::size_t i = 0; i < size_; i++) x[i] += position_embedding[i];
    }
    if (norm_) norm_(x, x);
}

}  // namespace dragoman
