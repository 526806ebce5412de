// Linear layer whose weight is packed once for the GEMM kernels.
#pragma once

#include <string>
#include <vector>

#include "kernels/kernel_table.hpp"
#include "model/block_quantization.hpp"
#include "model/model_config.hpp"
#include "model/weights.hpp"
#include "runtime/aligned_buffer.hpp"
#include "runtime/thread_pool.hpp"

namespace dragoman {

const GemmKernel& gemm_kernel_of(const KernelTable& kernels, ComputeType compute_type);

/// Offsets of the features of a row: in segments (the heads of an attention), each padded on its own.
struct FeatureLayout {
    std::size_t count, segment, stride;

    std::size_t offset(std::size_t feature) const { return feature / segment * stride + feature % segment; }
    /// All features in one segment.
    static FeatureLayout contiguous(std::size_t count) { return {count, count, count}; }
    /// One segment per head, padded to whole vectors.
    static FeatureLayout heads(std::size_t num_heads, std::size_t head_dim) {
        return {num_heads * head_dim, head_dim, round_up(head_dim, simd_width)};
    }
    std::size_t width() const { return count / segment * stride; }
};

/// y = x W + b, for one weight or for several concatenated ones.
class Linear {
public:
    Linear() = default;
    Linear(const KernelTable& kernels, ComputeType compute_type, const FeatureLayout& inputs, std::size_t outputs);
    /// Empty layer of the same inputs and format as `other`, for a selection of its outputs.
    Linear(const Linear& other, std::size_t outputs);

    /// Pack `weight` (outputs x inputs) from column `first` on; an empty bias is zero.
    void add(const WeightMatrix& weight, const std::vector<float>& bias, const FeatureLayout& outputs,
             std::size_t first);
    void copy_output(const Linear& other, std::size_t from, std::size_t to);
    /// Set the bias of the padding from output `first` on.
    void fill_padding_bias(float value, std::size_t first);

    /// Features of an input row, its padded size, and the padded size of an output row.
    std::size_t input_width() const { return inputs_.width(); }
    std::size_t depth() const { return depth_; }
    std::size_t output_width() const { return output_width_; }
    std::size_t num_panels() const { return output_width_ / panel_width; }

    /// The input without its first rows.
    GemmInput skip_rows(const GemmInput& x, std::size_t rows) const;
    /// Compute one panel of 64 outputs for all rows.
    void gemm_panel(const GemmInput& x, std::size_t rows, std::size_t panel, float* y, std::size_t y_stride) const {
        kernel_.gemm_panel(x, rows, packed_weight(), panel, y, y_stride);
    }
    /// Compute this worker's share of all outputs; result rows are `output_width()` apart.
    void gemm_partition(const ThreadPool::Worker& worker, const GemmInput& x, std::size_t rows, float* y) const;

    /// Unpack the weights of one output: a row of an embedding that is tied to the output projection.
    void read_row(std::size_t output, float* values) const;

private:
    PackedWeight packed_weight() const;
    std::size_t packed_index(std::size_t output, std::size_t input) const;
    template <class Stored, class Value, class Convert>
    void pack_row(std::size_t output, const Value* values, const Convert& convert);
    void pack_int8_row(std::size_t output, const WeightMatrix& weight, std::size_t row, const float* values);
    void pack_block_row(std::size_t output, const WeightMatrix& weight, std::size_t row, const float* values);
    void pack_block(std::size_t output, std::size_t block, std::size_t count, const std::int8_t* quantized,
                    BlockParams params);
    /// Index of the scale of a block of one output; that of its center is `panel_width` greater.
    std::size_t block_params_index(std::size_t output, std::size_t block) const;
    void read_block_row(std::size_t output, float* values) const;

    ComputeType compute_type_ = ComputeType::float32;
    GemmKernel kernel_{};
    bool needs_compensation_ = false;
    FeatureLayout inputs_{};
    std::size_t depth_ = 0, output_width_ = 0;
    AlignedBuffer<std::byte> data_;
    AlignedBuffer<float> scale_, bias_;
    AlignedBuffer<std::int32_t> compensation_;
    AlignedBuffer<Float16> block_params_;
};

}  // namespace dragoman
