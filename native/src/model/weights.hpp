// Named weight arrays, with checks of names, shapes and number formats.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "runtime/interruption.hpp"

namespace dragoman {

enum class DataType { float32, bfloat16, int8 };

/// Array that belongs to the caller.
struct ArrayView {
    DataType dtype = DataType::float32;
    std::vector<std::size_t> shape;
    const void* data = nullptr;

    std::size_t count() const;
};

/// Matrix of any number format whose rows are read as floats. Int8 rows have a scale each.
class WeightMatrix {
public:
    WeightMatrix(std::string name, const ArrayView& values, const float* scales);

    std::size_t rows() const { return rows_; }
    std::size_t columns() const { return columns_; }
    bool is_quantized() const { return dtype_ == DataType::int8; }

    /// Read a row; throw std::invalid_argument if it holds NaN or infinity.
    void read_row(std::size_t row, float* values) const;
    /// Stored integers of a row and its scale; for quantized matrices.
    const std::int8_t* quantized_row(std::size_t row, float* scale) const;

private:
    std::string name_;
    DataType dtype_;
    std::size_t rows_, columns_;
    const void* data_;
    const float* scales_;
};

/// State dict of a model. Taking a weight checks its shape, and whether loading is interrupted; `check_all_used` refuses
/// weights that were not taken.
class Weights {
public:
    Weights(Interruption& interruption, std::map<std::string, ArrayView> arrays)
        : interruption_(interruption), arrays_(std::move(arrays)) {}

    WeightMatrix matrix(const std::string& name, std::size_t rows, std::size_t columns);
    std::vector<float> vector(const std::string& name, std::size_t size);
    /// Tied weight: the first existing one of these names, all of which must hold the same values.
    WeightMatrix tied_matrix(const std::vector<std::string>& names, std::size_t rows, std::size_t columns);

    void check_all_used() const;

private:
    const ArrayView& take(const std::string& name, const std::vector<std::size_t>& shape);

    Interruption& interruption_;
    std::map<std::string, ArrayView> arrays_;
    std::set<std::string> used_;
};

/// Symmetric quantization: scale = max |w| / 127 (1 for a row of zeros), q = round(w / scale), ties to even.
void quantize_row(const float* values, std::size_t count, std::int8_t* quantized, float* scale);

/// Nearest bfloat16, ties to even.
std::uint16_t to_bfloat16(float value);
float from_bfloat16(std::uint16_t bits);

}  // namespace dragoman
