#include "weights.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <stdexcept>

namespace dragoman {

namespace {

const char suffix[] = "_scale";

std::string said(const std::vector<std::size_t>& shape) {
    std::string text;
    for (std::size_t size : shape) text += (text.empty() ? "" : " x ") + std::to_string(size);
    return text.empty() ? "a single number" : text;
}

std::size_t bytes_of(NumberType type) {
    switch (type) {
        case NumberType::float32:
            return 4;
        case NumberType::bfloat16:
            return 2;
        case NumberType::int8:
            return 1;
    }
    return 0;
}

}  // namespace

std::size_t Array::count() const {
    std::size_t product = 1;
    for (std::size_t size : shape) product *= size;
    return product;
}

Matrix::Matrix(std::string name, const Array& values, const float* scales)
    : name_(std::move(name)),
      type_(values.type),
      rows_(values.shape[0]),
      columns_(values.shape[1]),
      data_(values.data),
      scales_(scales) {
    if (!quantised()) return;
    const auto* bytes = static_cast<const std::int8_t*>(data_);
    if (std::find(bytes, bytes + rows_ * columns_, std::int8_t{-128}) != bytes + rows_ * columns_) {
        throw std::invalid_argument("weights: " + name_ + " holds -128, and quantised weights go from -127 to 127");
    }
    for (std::size_t row = 0; row < rows_; row++) {
        if (!std::isfinite(scales_[row]) || scales_[row] < 0.0f) {
            throw std::invalid_argument("weights: " + name_ + suffix + " holds " + std::to_string(scales_[row]) +
                                        ", and factors are finite and not below zero");
        }
    }
}

void Matrix::read(std::size_t row, float* numbers) const {
    std::size_t start = row * columns_;
    switch (type_) {
        case NumberType::float32:
            std::memcpy(numbers, static_cast<const float*>(data_) + start, columns_ * sizeof(float));
            break;
        case NumberType::bfloat16:
            for (std::size_t i = 0; i < columns_; i++) {
                numbers[i] = from_bfloat16(static_cast<const std::uint16_t*>(data_)[start + i]);
            }
            break;
        case NumberType::int8:
            for (std::size_t i = 0; i < columns_; i++) {
                numbers[i] = static_cast<float>(static_cast<const std::int8_t*>(data_)[start + i]) * scales_[row];
            }
            break;
    }
    if (!std::all_of(numbers, numbers + columns_, [](float x) { return std::isfinite(x); })) {
        throw std::invalid_argument("weights: " + name_ + " holds a number that is not finite");
    }
}

const std::int8_t* Matrix::whole(std::size_t row, float* scale) const {
    *scale = scales_[row];
    return static_cast<const std::int8_t*>(data_) + row * columns_;
}

void Weights::add(const std::string& name, const Array& array) { arrays_[name] = array; }

const Array& Weights::taken(const std::string& name, const std::vector<std::size_t>& shape) {
    auto found = arrays_.find(name);
    if (found == arrays_.end()) throw std::invalid_argument("weights: there is no " + name);
    if (found->second.shape != shape) {
        throw std::invalid_argument("weights: " + name + " is " + said(found->second.shape) + ", and this configuration has " +
                                    said(shape) + "; use the configuration that the weights were trained with");
    }
    taken_.insert(name);
    return found->second;
}

Matrix Weights::matrix(const std::string& name, std::size_t rows, std::size_t columns) {
    const Array& values = taken(name, {rows, columns});
    if (values.type != NumberType::int8) return Matrix(name, values, nullptr);
    const Array& scales = taken(name + suffix, {rows});
    if (scales.type != NumberType::float32) {
        throw std::invalid_argument("weights: " + name + suffix + " must be float32");
    }
    return Matrix(name, values, static_cast<const float*>(scales.data));
}

std::vector<float> Weights::vector(const std::string& name, std::size_t size) {
    Array row = taken(name, {size});
    if (row.type == NumberType::int8) throw std::invalid_argument("weights: " + name + " must be float32 or bfloat16");
    row.shape = {1, size};
    std::vector<float> numbers(size);
    Matrix(name, row, nullptr).read(0, numbers.data());
    return numbers;
}

Matrix Weights::shared_matrix(const std::vector<std::string>& names, std::size_t rows, std::size_t columns) {
    const std::string* first = nullptr;
    for (const std::string& name : names) {
        if (arrays_.find(name) == arrays_.end()) continue;
        if (first == nullptr) {
            first = &name;
            continue;
        }
        Matrix other = matrix(name, rows, columns);
        const Array &one = taken(*first, {rows, columns}), &two = arrays_[name];
        bool same = one.type == two.type &&
                    (one.data == two.data || std::memcmp(one.data, two.data, one.count() * bytes_of(one.type)) == 0);
        if (!same) {
            throw std::invalid_argument("weights: " + *first + " and " + name +
                                        " differ, and this configuration ties them; leave one of them out");
        }
    }
    return matrix(first == nullptr ? names.front() : *first, rows, columns);
}

void Weights::finish() const {
    for (const auto& [name, array] : arrays_) {
        if (taken_.count(name) == 0) {
            throw std::invalid_argument("weights: " + name + " is not part of this configuration; "
                                        "use the configuration that the weights were trained with");
        }
    }
}

void quantise_row(const float* numbers, std::size_t count, std::int8_t* whole, float* scale) {
    float most = 0.0f;
    for (std::size_t i = 0; i < count; i++) most = std::max(most, std::fabs(numbers[i]));
    *scale = most / 127.0f;
    if (!(*scale > 0.0f)) *scale = 1.0f;
    // Added to a small number, this leaves no room for a fraction: rounding to the nearest, ties to even, in a loop that
    // compilers vectorise.
    constexpr float no_fraction = 12582912.0f;
    float divisor = *scale;
    for (std::size_t i = 0; i < count; i++) {
        float nearest = (numbers[i] / divisor + no_fraction) - no_fraction;
        whole[i] = static_cast<std::int8_t>(nearest > 127.0f ? 127.0f : nearest < -127.0f ? -127.0f : nearest);
    }
}

std::uint16_t to_bfloat16(float number) {
    std::uint32_t bits;
    std::memcpy(&bits, &number, sizeof(bits));
    return static_cast<std::uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

float from_bfloat16(std::uint16_t half) {
    std::uint32_t bits = static_cast<std::uint32_t>(half) << 16;
    float number;
    std::memcpy(&number, &bits, sizeof(number));
    return number;
}

}  // namespace dragoman
