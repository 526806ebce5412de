// Named arrays as they are on disk, checked as they are taken.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace dragoman {

enum class NumberType { float32, bfloat16, int8 };

/// An array of somebody else.
struct Array {
    NumberType type = NumberType::float32;
    std::vector<std::size_t> shape;
    const void* data = nullptr;

    std::size_t count() const;
};

/// A matrix whose rows can be read as numbers; int8 rows have a factor each.
class Matrix {
public:
    Matrix(std::string name, const Array& values, const float* scales);

    std::size_t rows() const { return rows_; }
    std::size_t columns() const { return columns_; }
    bool quantised() const { return type_ == NumberType::int8; }

    /// Throws std::invalid_argument where a number is not finite.
    void read(std::size_t row, float* numbers) const;
    /// The row as it is stored, and its factor; for quantised matrices.
    const std::int8_t* whole(std::size_t row, float* scale) const;

private:
    std::string name_;
    NumberType type_;
    std::size_t rows_, columns_;
    const void* data_;
    const float* scales_;
};

/// The weights of a model. Taking one checks its shape; `finish` refuses those that nothing asked for.
class Weights {
public:
    void add(const std::string& name, const Array& array);

    Matrix matrix(const std::string& name, std::size_t rows, std::size_t columns);
    std::vector<float> vector(const std::string& name, std::size_t size);
    /// The first of these names that is there; all of them that are must be the same.
    Matrix shared_matrix(const std::vector<std::string>& names, std::size_t rows, std::size_t columns);

    void finish() const;

private:
    const Array& taken(const std::string& name, const std::vector<std::size_t>& shape);

    std::map<std::string, Array> arrays_;
    std::set<std::string> taken_;
};

/// scale = max |w| / 127 (1 for a row of zeros) and q = round(w / scale), ties to even.
void quantise_row(const float* numbers, std::size_t count, std::int8_t* whole, float* scale);

/// The nearest bfloat16, ties to even.
std::uint16_t to_bfloat16(float number);
float from_bfloat16(std::uint16_t bits);

}  // namespace dragoman
