// Named weight arrays, with checks of names, shapes and number formats.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "model/block_quantization.hpp"
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

/// Arrays that turn stored integers into floats: one scale per row, or one scale and one center per block of 32 columns.
struct QuantizationParams {
    const float* scales = nullptr;
    const float* centers = nullptr;
};

/// Matrix of any number format whose rows are read as floats.
class WeightMatrix {
public:
    WeightMatrix(std::string name, const ArrayView& values, const QuantizationParams& params);

    std::size_t rows() const { return rows_; }
    std::size_t columns() const { return columns_; }
    bool is_quantized_by_row() const { return dtype_ == DataType::int8 && params_.centers == nullptr; }
    bool is_quantized_by_block() const { return dtype_ == DataType::int8 && params_.centers != nullptr; }

    /// Read a row; throw std::invalid_argument if it holds NaN or infinity.
    void read_row(std::size_t row, float* values) const;
    /// Stored integers of a row; for quantized matrices.
    const std::int8_t* quantized_values(std::size_t row) const;
    /// Stored integers of a row and its scale; for matrices that are quantized by row.
    const std::int8_t* quantized_row(std::size_t row, float* scale) const;
    /// Parameters of one block; for matrices that are quantized by block.
    BlockParams block_params(std::size_t row, std::size_t block) const;
    /// Greatest magnitude of the scales and centers of a row; for matrices that are quantized by block.
    float max_block_param(std::size_t row) const;

private:
    void check_row_quantization() const;
    void check_block_quantization() const;
    std::size_t blocks() const { return (columns_ + block_size - 1) / block_size; }

    std::string name_;
    DataType dtype_;
    std::size_t rows_, columns_;
    const void* data_;
    QuantizationParams params_;
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
    const float* take_floats(const std::string& name, const std::vector<std::size_t>& shape);

    Interruption& interruption_;
    std::map<std::string, ArrayView> arrays_;
    std::set<std::string> used_;
};

float max_magnitude(const float* values, std::size_t count);

/// Symmetric quantization: scale = max |w| / 127 (1 for a row of zeros), q = round(w / scale), ties to even.
void quantize_row(const float* values, std::size_t count, std::int8_t* quantized, float* scale);

/// Nearest bfloat16, ties to even.
std::uint16_t to_bfloat16(float value);
float from_bfloat16(std::uint16_t bits);

}  // namespace dragoman
