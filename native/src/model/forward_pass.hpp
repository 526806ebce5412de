// Operations of one thread while a chunk of rows (source positions or hypotheses) passes through a stack of blocks.
//
// Row-wise work (residual addition, normalization, packing) is divided by rows. A chunk of very few rows is not
// divided: every thread computes all rows on its own copy, which is cheaper than synchronization.
#pragma once

#include "model/layers.hpp"
#include "runtime/thread_pool.hpp"

namespace dragoman {

/// Reusable activation memory, grown on demand.
struct Workspace {
    std::size_t width = 0, max_output_width = 0, max_input_width = 0, attention_width = 0, scratch_size = 0;
    AlignedBuffer<float> residual, normed, hidden, projected, attention, update, input_scale, scratch;
    AlignedBuffer<std::byte> input;
    /// Logits of the current panel of each thread, and statistics of all panels.
    AlignedBuffer<float> logits;
    AlignedBuffer<PanelStats> panel_stats;

    /// Prepare for a pass of `rows` rows by `threads` threads, in which no query attends to more than `keys` keys.
    void reserve(std::size_t rows, std::size_t threads, std::size_t keys, std::size_t extra_scratch);
    static bool is_replicated(std::size_t rows) { return rows <= max_replicated_rows; }

private:
    static constexpr std::size_t max_replicated_rows = 4;
};

class ForwardPass {
public:
    ForwardPass(const ModelConfig& config, const KernelTable& kernels, ComputeType compute_type, Workspace& workspace,
                const ThreadPool::Worker& worker, std::size_t rows);

    const ThreadPool::Worker& worker() const { return worker_; }
    std::size_t rows() const { return rows_; }

    /// Call `work(row)` for the rows of this thread.
    template <class Work>
    void for_own_rows(const Work& work) const {
        auto [first, last] = replicated_ ? Range{0, rows_} : worker_.partition(rows_);
        for (std::size_t row = first; row < last; row++) work(row);
    }

    /// A row of the residual stream.
    float* residual(std::size_t row) const {
        return workspace_.residual.data() + (copy_offset_ + row) * workspace_.width;
    }

    /// x + f(norm(x)) or norm(x + f(x)). `sublayer` reads the packed input and writes its result to `update`.
    template <class Sublayer>
    void residual_block(const NormLayer& norm, const Sublayer& sublayer) {
        for_own_rows([&](std::size_t row) {
            const float* x = residual(row);
            if (config_.pre_norm) {
                norm(x, normed(row));
                x = normed(row);
            }
            pack_input(row, x, workspace_.width);
        });
        sublayer();
        for_own_rows([&](std::size_t row) {
            kernels_.add(residual(row), update(row), workspace_.width);
            if (!config_.pre_norm) norm(residual(row), residual(row));
        });
    }

    /// Multiply the packed input by a linear layer, divided among the threads; the result is complete on return.
    void gemm(const Linear& linear, float* result);
    void feed_forward(const FeedForward& network);
    /// Apply the output projection of an attention layer with these heads.
    void project_attention(const HeadLayout& heads, const Linear& output);

    /// Pack a row of `count` floats as GEMM input.
    void pack_input(std::size_t row, const float* x, std::size_t count) const;
    GemmInput input(std::size_t depth) const;

    float* normed(std::size_t row) const { return workspace_.normed.data() + (copy_offset_ + row) * workspace_.width; }
    float* projected() const { return workspace_.projected.data(); }
    float* attention(std::size_t row) const { return workspace_.attention.data() + row * workspace_.attention_width; }
    /// Result of a sublayer.
    float* update(std::size_t row) const { return workspace_.update.data() + row * workspace_.width; }
    /// Scratch memory of this thread.
    float* scratch() const { return workspace_.scratch.data() + worker_.index * workspace_.scratch_size; }

    /// Wait until the rows of all threads are written.
    void sync_rows() const {
        if (!replicated_) worker_.wait();
    }

private:
    /// Input of a linear layer, before packing.
    float* hidden(std::size_t row) const {
        return workspace_.hidden.data() + (copy_offset_ + row) * workspace_.max_input_width;
    }
    /// Attention results of a row as input of its output projection, without the padding of heads if that has none.
    const float* join_heads(std::size_t row, const HeadLayout& heads, const Linear& output) const;

    const ModelConfig& config_;
    const KernelTable& kernels_;
    const GemmKernel& gemm_kernel_;
    Workspace& workspace_;
    const ThreadPool::Worker& worker_;
    const std::size_t rows_;
    const bool replicated_;
    /// First row of this thread's copy.
    const std::size_t copy_offset_;
};

}  // namespace dragoman
