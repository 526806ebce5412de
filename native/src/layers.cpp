#include "layers.hpp"

#include <algorithm>
#include <cmath>

namespace dragoman {

void Loading::add(Linear& linear, const std::string& name, std::size_t inputs, const Layout& outputs,
                  std::size_t first) const {
    Matrix weight = weights.matrix(name + ".weight", outputs.count, inputs);
    std::vector<float> bias;
    if (settings.bias) bias = weights.vector(name + ".bias", outputs.count);
    linear.add(weight, bias, outputs, first);
}

NormLayer::NormLayer(const Loading& loading, const std::string& name)
    : norm_(loading.settings.rms_norm ? loading.kernels.rms_norm : loading.kernels.layer_norm),
      size_(loading.settings.size),
      weight_(padded(size_)),
      bias_(padded(size_)) {
    std::vector<float> weight = loading.weights.vector(name + ".weight", size_);
    std::copy(weight.begin(), weight.end(), weight_.data());
    if (loading.settings.rms_norm) return;
    std::vector<float> bias = loading.weights.vector(name + ".bias", size_);
    std::copy(bias.begin(), bias.end(), bias_.data());
}

namespace {

Linear output_of(const Loading& loading, const std::string& name, const Heads& heads) {
    const Settings& settings = loading.settings;
    Layout found = heads.of_queries();
    Linear output(loading.kernels, loading.compute, found, settings.size);
    loading.add(output, name + ".output", found.count, Layout::plain(settings.size), 0);
    return output;
}

}  // namespace

SelfAttention::SelfAttention(const Loading& loading, const std::string& name, const Heads& heads)
    : heads(heads), output(output_of(loading, name, heads)) {
    const Settings& settings = loading.settings;
    Layout queries = heads.of_queries(), keys = heads.of_keys();
    inputs = Linear(loading.kernels, loading.compute, Layout::plain(settings.size), queries.width() + 2 * keys.width());
    loading.add(inputs, name + ".query", settings.size, queries, 0);
    loading.add(inputs, name + ".key", settings.size, keys, queries.width());
    loading.add(inputs, name + ".value", settings.size, keys, queries.width() + keys.width());
}

CrossAttention::CrossAttention(const Loading& loading, const std::string& name, const Heads& heads)
    : heads(heads), output(output_of(loading, name, heads)) {
    const Settings& settings = loading.settings;
    Layout queries = heads.of_queries();
    query = Linear(loading.kernels, loading.compute, Layout::plain(settings.size), queries.width());
    loading.add(query, name + ".query", settings.size, queries, 0);
}

FeedForward::FeedForward(const Loading& loading, const std::string& name) {
    const Settings& settings = loading.settings;
    Layout plain = Layout::plain(settings.size), hidden = Layout::plain(settings.feed_forward);
    std::size_t width = padded(settings.feed_forward);
    inner = Linear(loading.kernels, loading.compute, plain, settings.gated ? 2 * width : width);
    outer = Linear(loading.kernels, loading.compute, hidden, settings.size);
    loading.add(inner, name + ".inner", settings.size, hidden, 0);
    if (settings.gated) loading.add(inner, name + ".gate", settings.size, hidden, width);
    loading.add(outer, name + ".outer", settings.feed_forward, plain, 0);
}

EncoderBlock::EncoderBlock(const Loading& loading, const std::string& name, const Heads& heads)
    : around_attention(loading, name + ".around_attention.norm"),
      around_feed_forward(loading, name + ".around_feed_forward.norm"),
      attention(loading, name + ".attention", heads),
      feed_forward(loading, name + ".feed_forward") {}

DecoderBlock::DecoderBlock(const Loading& loading, const std::string& name, const Heads& heads, const Heads* across)
    : block(loading, name, heads) {
    if (across == nullptr) return;
    around_cross = NormLayer(loading, name + ".around_cross_attention.norm");
    cross.emplace(loading, name + ".cross_attention", *across);
}

namespace {

float embedding_scale(const Settings& settings) {
    return settings.scale_embedding ? static_cast<float>(std::sqrt(static_cast<double>(settings.size))) : 1.0f;
}

NormLayer embedding_norm(const Loading& loading, const std::string& name) {
    return loading.settings.norm_embedding ? NormLayer(loading, name + ".norm") : NormLayer();
}

}  // namespace

Embedding::Embedding(const Loading& loading, const std::string& name, const Matrix& weight)
    : size_(loading.settings.size),
      scale_(embedding_scale(loading.settings)),
      own_(loading.kernels, loading.compute, Layout::plain(size_), weight.rows()),
      norm_(embedding_norm(loading, name)) {
    own_.add(weight, {}, Layout::plain(weight.rows()), 0);
}

Embedding::Embedding(const Loading& loading, const std::string& name, const Linear& tied)
    : size_(loading.settings.size),
      scale_(embedding_scale(loading.settings)),
      tied_(&tied),
      norm_(embedding_norm(loading, name)) {}

void Embedding::read(std::size_t token, const float* place, float* x) const {
    (tied_ == nullptr ? own_ : *tied_).read_row(token, x);
    for (std::size_t i = 0; i < size_; i++) x[i] *= scale_;
    std::fill(x + size_, x + padded(size_), 0.0f);
    if (place != nullptr) {
        for (std::size_t i = 0; i < size_; i++) x[i] += place[i];
    }
    if (norm_) norm_(x, x);
}

}  // namespace dragoman
