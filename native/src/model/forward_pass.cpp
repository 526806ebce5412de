#include "model/forward_pass.hpp"

#include <algorithm>

namespace dragoman {

void Workspace::reserve(std::size_t rows, std::size_t threads, std::size_t keys, std::size_t extra_scratch) {
    std::size_t copies = is_replicated(rows) ? threads * rows : rows;
    residual.reserve(copies * width);
    normed.reserve(copies * width);
    hidden.reserve(copies * max_input_width);
    input.reserve(copies * max_input_width * sizeof(float));
    input_scale.reserve(copies);
    projected.reserve(rows * max_output_width);
    attention.reserve(rows * attention_width);
    update.reserve(rows * width);
    scratch_size = round_up(query_tile * round_up(keys, simd_width) + extra_scratch, simd_width);
    scratch.reserve(threads * scratch_size);
}

ForwardPass::ForwardPass(const ModelConfig& config, const KernelTable& kernels, ComputeType compute_type,
                         Workspace& workspace, const ThreadPool::Worker& worker, std::size_t rows)
    : config_(config),
      kernels_(kernels),
      gemm_kernel_(gemm_kernel_of(kernels, compute_type)),
      workspace_(workspace),
      worker_(worker),
      rows_(rows),
      replicated_(Workspace::is_replicated(rows)),
      copy_offset_(replicated_ ? static_cast<std::size_t>(worker.index) * rows : 0) {}

void ForwardPass::pack_input(std::size_t row, const float* x, std::size_t count) const {
    std::byte* packed = workspace_.input.data() + copy_offset_ * workspace_.max_input_width * sizeof(float) +
                        row * gemm_kernel_.input_row_bytes(count);
    gemm_kernel_.pack_input(x, count, packed, workspace_.input_scale.data() + copy_offset_ + row);
}

GemmInput ForwardPass::input(std::size_t depth) const {
    return {workspace_.input.data() + copy_offset_ * workspace_.max_input_width * sizeof(float),
            workspace_.input_scale.data() + copy_offset_, depth};
}

void ForwardPass::gemm(const Linear& linear, float* result) {
    sync_rows();
    linear.gemm_partition(worker_, input(linear.depth()), rows_, result);
    worker_.wait();
}

void ForwardPass::feed_forward(const FeedForward& network) {
    gemm(network.inner, workspace_.projected.data());
    std::size_t width = network.outer.depth();
    for_own_rows([&](std::size_t row) {
        const float* inner = workspace_.projected.data() + row * network.inner.output_width();
        kernels_.activate(config_.activation, inner, config_.gated ? inner + width : nullptr, width, hidden(row));
        pack_input(row, hidden(row), width);
    });
    gemm(network.outer, workspace_.update.data());
}

const float* ForwardPass::join_heads(std::size_t row, const HeadLayout& heads, const Linear& output) const {
    if (output.input_width() == heads.query_width()) return attention(row);
    float* joined = hidden(row);
    for (std::size_t head = 0; head < heads.num_heads; head++) {
        std::copy_n(attention(row) + head * heads.head_width, heads.head_dim, joined + head * heads.head_dim);
    }
    std::fill(joined + output.input_width(), joined + output.depth(), 0.0f);
    return joined;
}

void ForwardPass::project_attention(const HeadLayout& heads, const Linear& output) {
    auto [first, last] = worker_.partition(rows_);
    for (std::size_t row = first; row < last; row++) {  // the padding holds results of layers with more heads
        std::fill(attention(row) + heads.query_width(), attention(row) + padded_width(heads.query_width()), 0.0f);
    }
    worker_.wait();
    for_own_rows([&](std::size_t row) { pack_input(row, join_heads(row, heads, output), output.depth()); });
    gemm(output, workspace_.update.data());
}

}  // namespace dragoman
