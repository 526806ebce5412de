#include "model/weights.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <stdexcept>

namespace dragoman {

namespace {

const char scale_suffix[] = "_scale", center_suffix[] = "_center";

std::string shape_text(const std::vector<std::size_t>& shape) {
    std::string text;
    for (std::size_t size : shape) text += (text.empty() ? "" : " x ") + std::to_string(size);
    return text.empty() ? "a scalar" : text;
}

std::size_t element_bytes(DataType dtype) {
    switch (dtype) {
        case DataType::float32:
            return 4;
        case DataType::bfloat16:
            return 2;
        case DataType::int8:
            return 1;
    }
    return 0;
}

}  // namespace

std::size_t ArrayView::count() const {
    std::size_t product = 1;
    for (std::size_t size : shape) product *= size;
    return product;
}

WeightMatrix::WeightMatrix(std::string name, const ArrayView& values, const QuantizationParams& params)
    : name_(std::move(name)),
      dtype_(values.dtype),
      rows_(values.shape[0]),
      columns_(values.shape[1]),
      data_(values.data),
      params_(params) {
    if (is_quantized_by_row()) check_row_quantization();
    if (is_quantized_by_block()) check_block_quantization();
}

void WeightMatrix::check_row_quantization() const {
    const auto* bytes = static_cast<const std::int8_t*>(data_);
    if (std::find(bytes, bytes + rows_ * columns_, std::int8_t{-128}) != bytes + rows_ * columns_) {
        throw std::invalid_argument("weights: " + name_ + " holds -128, and quantized weights range from -127 to 127");
    }
    for (std::size_t row = 0; row < rows_; row++) {
        if (!std::isfinite(params_.scales[row]) || params_.scales[row] < 0.0f) {
            throw std::invalid_argument("weights: " + name_ + scale_suffix + " holds " +
                                        std::to_string(params_.scales[row]) +
                                        ", and scales must be finite and not negative");
        }
    }
}

void WeightMatrix::check_block_quantization() const {
    for (std::size_t i = 0; i < rows_ * blocks(); i++) {
        float scale = params_.scales[i], center = params_.centers[i];
        if (!std::isfinite(scale) || scale < 0.0f || !std::isfinite(center)) {
            throw std::invalid_argument("weights: " + name_ + " has a block with the scale " + std::to_string(scale) +
                                        " and the center " + std::to_string(center) +
                                        "; both must be finite, and scales not negative");
        }
    }
}

void WeightMatrix::read_row(std::size_t row, float* values) const {
    std::size_t start = row * columns_;
    switch (dtype_) {
        case DataType::float32:
            std::memcpy(values, static_cast<const float*>(data_) + start, columns_ * sizeof(float));
            break;
        case DataType::bfloat16:
            for (std::size_t i = 0; i < columns_; i++) {
                values[i] = from_bfloat16(static_cast<const std::uint16_t*>(data_)[start + i]);
            }
            break;
        case DataType::int8:
            for (std::size_t i = 0; i < columns_; i++) {
                auto [scale, center] = is_quantized_by_row() ? BlockParams{params_.scales[row], 0.0f}
                                                             : block_params(row, i / block_size);
                values[i] = static_cast<float>(quantized_values(row)[i]) * scale + center;
            }
            break;
    }
    if (!std::all_of(values, values + columns_, [](float x) { return std::isfinite(x); })) {
        throw std::invalid_argument("weights: " + name_ + " holds a value that is not finite");
    }
}

const std::int8_t* WeightMatrix::quantized_values(std::size_t row) const {
    return static_cast<const std::int8_t*>(data_) + row * columns_;
}

const std::int8_t* WeightMatrix::quantized_row(std::size_t row, float* scale) const {
    *scale = params_.scales[row];
    return quantized_values(row);
}

BlockParams WeightMatrix::block_params(std::size_t row, std::size_t block) const {
    std::size_t index = row * blocks() + block;
    return {params_.scales[index], params_.centers[index]};
}

float WeightMatrix::max_block_param(std::size_t row) const {
    std::size_t start = row * blocks();
    return std::max(max_magnitude(params_.scales + start, blocks()), max_magnitude(params_.centers + start, blocks()));
}

const ArrayView& Weights::take(const std::string& name, const std::vector<std::size_t>& shape) {
    interruption_.check();
    auto found = arrays_.find(name);
    if (found == arrays_.end()) throw std::invalid_argument("weights: there is no " + name);
    if (found->second.shape != shape) {
        throw std::invalid_argument("weights: " + name + " is " + shape_text(found->second.shape) +
                                    ", and the configuration needs " + shape_text(shape) +
                                    "; use the configuration that the weights were trained with");
    }
    used_.insert(name);
    return found->second;
}

const float* Weights::take_floats(const std::string& name, const std::vector<std::size_t>& shape) {
    const ArrayView& array = take(name, shape);
    if (array.dtype != DataType::float32) throw std::invalid_argument("weights: " + name + " must be float32");
    return static_cast<const float*>(array.data);
}

WeightMatrix Weights::matrix(const std::string& name, std::size_t rows, std::size_t columns) {
    const ArrayView& values = take(name, {rows, columns});
    if (values.dtype != DataType::int8) return WeightMatrix(name, values, {});
    if (arrays_.count(name + center_suffix) == 0) {
        return WeightMatrix(name, values, {take_floats(name + scale_suffix, {rows}), nullptr});
    }
    std::vector<std::size_t> shape = {rows, (columns + block_size - 1) / block_size};
    return WeightMatrix(name, values,
                        {take_floats(name + scale_suffix, shape), take_floats(name + center_suffix, shape)});
}

std::vector<float> Weights::vector(const std::string& name, std::size_t size) {
    ArrayView row = take(name, {size});
    if (row.dtype == DataType::int8) throw std::invalid_argument("weights: " + name + " must be float32 or bfloat16");
    row.shape = {1, size};
    std::vector<float> values(size);
    WeightMatrix(name, row, {}).read_row(0, values.data());
    return values;
}

WeightMatrix Weights::tied_matrix(const std::vector<std::string>& names, std::size_t rows, std::size_t columns) {
    const std::string* first = nullptr;
    for (const std::string& name : names) {
        if (arrays_.find(name) == arrays_.end()) continue;
        if (first == nullptr) {
            first = &name;
            continue;
        }
        WeightMatrix other = matrix(name, rows, columns);
        const ArrayView &one = take(*first, {rows, columns}), &two = arrays_[name];
        bool same =
            one.dtype == two.dtype &&
            (one.data == two.data || std::memcmp(one.data, two.data, one.count() * element_bytes(one.dtype)) == 0);
        if (!same) {
            throw std::invalid_argument("weights: " + *first + " and " + name +
                                        " differ, and the configuration ties them; leave one of them out");
        }
    }
    return matrix(first == nullptr ? names.front() : *first, rows, columns);
}

void Weights::check_all_used() const {
    for (const auto& [name, array] : arrays_) {
        if (used_.count(name) == 0) {
            throw std::invalid_argument("weights: " + name +
                                        " is not part of this configuration; "
                                        "use the configuration that the weights were trained with");
        }
    }
}

float max_magnitude(const float* values, std::size_t count) {
    float largest = 0.0f;
    for (std::size_t i = 0; i < count; i++) largest = std::max(largest, std::fabs(values[i]));
    return largest;
}

void quantize_row(const float* values, std::size_t count, std::int8_t* quantized, float* scale) {
    *scale = max_magnitude(values, count) / 127.0f;
    if (!(*scale > 0.0f)) *scale = 1.0f;
    // 1.5 * 2^23. Adding and subtracting it rounds to nearest, ties to even, in a loop that compilers vectorize.
    constexpr float round_magic = 12582912.0f;
    float divisor = *scale;
    for (std::size_t i = 0; i < count; i++) {
        float nearest = (values[i] / divisor + round_magic) - round_magic;
        quantized[i] = static_cast<std::int8_t>(nearest > 127.0f ? 127.0f : nearest < -127.0f ? -127.0f : nearest);
    }
}

std::uint16_t to_bfloat16(float value) {
    std::uint32_t bits;
    std::memcpy(&bits, &value, sizeof(bits));
    return static_cast<std::uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

float from_bfloat16(std::uint16_t half) {
    std::uint32_t bits = static_cast<std::uint32_t>(half) << 16;
    float value;
    std::memcpy(&value, &bits, sizeof(value));
    return value;
}

}  // namespace dragoman
