#include "model/linear.hpp"

#include <algorithm>

namespace dragoman {

namespace {

/// Zero point of quantized inputs, which are unsigned.
constexpr std::int32_t input_zero_point = 128;
/// Minimal rows of a work item when rows are divided too, because there are fewer panels than workers.
constexpr std::size_t min_rows_per_item = 24;

}  // namespace

const GemmKernel& gemm_kernel_of(const KernelTable& kernels, ComputeType compute_type) {
    switch (compute_type) {
        case ComputeType::int8:
            return kernels.int8;
        case ComputeType::int8_int16:
            return kernels.int8_int16;
        case ComputeType::bfloat16:
            return kernels.bfloat16;
        case ComputeType::float32:
            return kernels.float32;
    }
    return kernels.float32;
}

Linear::Linear(const KernelTable& kernels, ComputeType compute_type, const FeatureLayout& inputs, std::size_t outputs)
    : compute_type_(compute_type),
      kernel_(gemm_kernel_of(kernels, compute_type)),
      needs_compensation_(kernels.needs_compensation && compute_type == ComputeType::int8),
      inputs_(inputs),
      depth_(padded_width(inputs.width())),
      output_width_(padded_width(outputs)),
      data_(depth_ * output_width_ * kernel_.weight_bytes),
      scale_(output_width_),
      bias_(output_width_),
      compensation_(output_width_),
      block_params_(compute_type == ComputeType::int8_int16 ? depth_ / block_size * 2 * output_width_ : 0) {}

Linear::Linear(const Linear& other, std::size_t outputs)
    : compute_type_(other.compute_type_),
      kernel_(other.kernel_),
      needs_compensation_(other.needs_compensation_),
      inputs_(other.inputs_),
      depth_(other.depth_),
      output_width_(padded_width(outputs)),
      data_(depth_ * output_width_ * kernel_.weight_bytes),
      scale_(output_width_),
      bias_(output_width_),
      compensation_(output_width_),
      block_params_(compute_type_ == ComputeType::int8_int16 ? depth_ / block_size * 2 * output_width_ : 0) {}

std::size_t Linear::packed_index(std::size_t output, std::size_t input) const {
    std::size_t interleave = kernel_.interleave;
    return output / panel_width * panel_width * depth_ + input / interleave * interleave * panel_width +
           output % panel_width * interleave + input % interleave;
}

/// Store the weights of one output in the packed layout.
template <class Stored, class Value, class Convert>
void Linear::pack_row(std::size_t output, const Value* values, const Convert& convert) {
    auto* data = reinterpret_cast<Stored*>(data_.data());
    for (std::size_t start = 0; start < inputs_.count; start += inputs_.segment) {
        std::size_t first = inputs_.offset(start);
        for (std::size_t i = 0; i < inputs_.segment; i++) {
            data[packed_index(output, first + i)] = convert(values[start + i]);
        }
    }
}

void Linear::pack_int8_row(std::size_t output, const WeightMatrix& weight, std::size_t row, const float* values) {
    std::vector<std::int8_t> buffer;
    const std::int8_t* quantized;
    if (weight.is_quantized_by_row()) {
        quantized = weight.quantized_row(row, &scale_[output]);
    } else {
        buffer.resize(weight.columns());
        quantize_row(values, buffer.size(), buffer.data(), &scale_[output]);
        quantized = buffer.data();
    }
    std::int32_t total = 0;
    for (std::size_t i = 0; i < weight.columns(); i++) total += quantized[i];
    compensation_[output] = needs_compensation_ ? input_zero_point * total : 0;
    pack_row<std::int8_t>(output, quantized, [](std::int8_t value) { return value; });
}

std::size_t Linear::block_params_index(std::size_t output, std::size_t block) const {
    return (output / panel_width * (depth_ / block_size) + block) * 2 * panel_width + output % panel_width;
}

void Linear::pack_block(std::size_t output, std::size_t block, std::size_t count, const std::int8_t* quantized,
                        BlockParams params) {
    auto* data = reinterpret_cast<std::int8_t*>(data_.data());
    for (std::size_t i = 0; i < count; i++) data[packed_index(output, block * block_size + i)] = quantized[i];
    std::size_t index = block_params_index(output, block);
    block_params_[index] = to_float16(params.scale / scale_[output]);
    block_params_[index + panel_width] = to_float16(params.center / scale_[output]);
}

void Linear::pack_block_row(std::size_t output, const WeightMatrix& weight, std::size_t row, const float* values) {
    bool is_quantized = weight.is_quantized_by_block();
    scale_[output] = float16_unit(is_quantized ? weight.max_block_param(row) : max_magnitude(values, inputs_.count));
    for (std::size_t start = 0; start < inputs_.count; start += block_size) {
        std::size_t block = start / block_size, count = std::min(block_size, inputs_.count - start);
        if (is_quantized) {
            pack_block(output, block, count, weight.quantized_values(row) + start, weight.block_params(row, block));
        } else {
            std::int8_t quantized[block_size];
            BlockParams params = quantize_block(values + start, count, scale_[output], quantized);
            pack_block(output, block, count, quantized, params);
        }
    }
}

void Linear::add(const WeightMatrix& weight, const std::vector<float>& bias, const FeatureLayout& outputs,
                 std::size_t first) {
    std::vector<float> values(weight.columns());
    for (std::size_t row = 0; row < weight.rows(); row++) {
        std::size_t output = first + outputs.offset(row);
        if (compute_type_ != ComputeType::int8 || !weight.is_quantized_by_row()) weight.read_row(row, values.data());
        switch (compute_type_) {
            case ComputeType::int8:
                pack_int8_row(output, weight, row, values.data());
                break;
            case ComputeType::int8_int16:
                pack_block_row(output, weight, row, values.data());
                break;
            case ComputeType::bfloat16:
                pack_row<std::uint16_t>(output, values.data(), to_bfloat16);
                break;
            case ComputeType::float32:
                pack_row<float>(output, values.data(), [](float value) { return value; });
                break;
        }
        if (!bias.empty()) bias_[output] = bias[row];
    }
}

void Linear::copy_output(const Linear& other, std::size_t from, std::size_t to) {
    std::size_t interleave = kernel_.interleave, chunk = interleave * kernel_.weight_bytes,
                stride = chunk * panel_width;
    const std::byte* source = other.data_.data() + other.packed_index(from, 0) * kernel_.weight_bytes;
    std::byte* target = data_.data() + packed_index(to, 0) * kernel_.weight_bytes;
    for (std::size_t input = 0; input < depth_; input += interleave, source += stride, target += stride) {
        if (chunk == sizeof(std::uint32_t)) {
            std::memcpy(target, source, sizeof(std::uint32_t));  // a constant size compiles to one move
        } else {
            std::memcpy(target, source, chunk);
        }
    }
    scale_[to] = other.scale_[from];
    bias_[to] = other.bias_[from];
    compensation_[to] = other.compensation_[from];
    if (compute_type_ != ComputeType::int8_int16) return;
    for (std::size_t block = 0; block < depth_ / block_size; block++) {
        std::size_t source_index = other.block_params_index(from, block), index = block_params_index(to, block);
        block_params_[index] = other.block_params_[source_index];
        block_params_[index + panel_width] = other.block_params_[source_index + panel_width];
    }
}

void Linear::fill_padding_bias(float value, std::size_t first) {
    std::fill(bias_.data() + first, bias_.data() + output_width_, value);
}

PackedWeight Linear::packed_weight() const {
    return {data_.data(), scale_.data(), compensation_.data(), bias_.data(), block_params_.data(), depth_};
}

GemmInput Linear::skip_rows(const GemmInput& x, std::size_t rows) const {
    return {static_cast<const std::byte*>(x.data) + rows * kernel_.input_row_bytes(x.depth),
            x.scale == nullptr ? nullptr : x.scale + rows, x.depth};
}

void Linear::gemm_partition(const ThreadPool::Worker& worker, const GemmInput& x, std::size_t rows, float* y) const {
    std::size_t workers = static_cast<std::size_t>(worker.count), parts = 1;
    if (num_panels() < 2 * workers) parts = std::max<std::size_t>(1, std::min(2 * workers, rows / min_rows_per_item));
    auto [first, last] = worker.partition(num_panels() * parts);
    for (std::size_t item = first; item < last; item++) {
        std::size_t panel = item / parts, part = item % parts;
        std::size_t from = rows * part / parts, to = rows * (part + 1) / parts;
        if (worker.skips((to - from) * depth_ * panel_width)) return;
        gemm_panel(skip_rows(x, from), to - from, panel, y + from * output_width_ + panel * panel_width, output_width_);
    }
}

namespace {

/// Separate inner loop per number format: embedding rows are read at every step.
template <class Stored, class Index, class Convert>
void unpack_row(const std::byte* data, const FeatureLayout& inputs, const Index& index, const Convert& convert,
                float* values) {
    const auto* stored = reinterpret_cast<const Stored*>(data);
    for (std::size_t input = 0; input < inputs.count; input++) values[input] = convert(stored[index(input)]);
}

}  // namespace

void Linear::read_block_row(std::size_t output, float* values) const {
    const auto* data = reinterpret_cast<const std::int8_t*>(data_.data());
    for (std::size_t start = 0; start < inputs_.count; start += block_size) {
        std::size_t index = block_params_index(output, start / block_size);
        float scale = from_float16(block_params_[index]), center = from_float16(block_params_[index + panel_width]);
        for (std::size_t i = start; i < std::min(start + block_size, inputs_.count); i++) {
            values[i] = (static_cast<float>(data[packed_index(output, i)]) * scale + center) * scale_[output];
        }
    }
}

void Linear::read_row(std::size_t output, float* values) const {
    // The interleave is a power of two; a shift avoids a division in the loop.
    std::size_t shift = kernel_.interleave == 4 ? 2 : kernel_.interleave == 2 ? 1 : 0;
    std::size_t first = output / panel_width * panel_width * depth_ + output % panel_width * kernel_.interleave;
    auto index = [=, interleave = kernel_.interleave](std::size_t input) {
        return first + (input >> shift) * interleave * panel_width + (input & (interleave - 1));
    };
    switch (compute_type_) {
        case ComputeType::int8:
            return unpack_row<std::int8_t>(
                data_.data(), inputs_, index,
                [scale = scale_[output]](std::int8_t x) { return static_cast<float>(x) * scale; }, values);
        case ComputeType::int8_int16:
            return read_block_row(output, values);
        case ComputeType::bfloat16:
            return unpack_row<std::uint16_t>(data_.data(), inputs_, index, from_bfloat16, values);
        case ComputeType::float32:
            return unpack_row<float>(data_.data(), inputs_, index, [](float x) { return x; }, values);
    }
}

}  // namespace dragoman
