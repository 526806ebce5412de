// Weights packed once for the products that a model asks for at every step.
#pragma once

#include <string>
#include <vector>

#include "buffer.hpp"
#include "kernels.hpp"
#include "team.hpp"
#include "weights.hpp"

namespace dragoman {

enum class Compute { int8, bfloat16, float32 };

const Arithmetic& arithmetic_of(const Kernels& kernels, Compute compute);

/// Where the numbers of a row stand: in stretches (the heads of an attention), each padded by itself.
struct Layout {
    std::size_t count, stretch, stride;

    std::size_t place(std::size_t number) const { return number / stretch * stride + number % stretch; }
    /// The numbers in one stretch.
    static Layout plain(std::size_t count) { return {count, count, count}; }
    /// So many heads, each padded to whole lanes.
    static Layout heads(std::size_t heads, std::size_t head_size) {
        return {heads * head_size, head_size, rounded_up(head_size, lanes)};
    }
    std::size_t width() const { return count / stretch * stride; }
};

/// y = x W + b, of one weight or of several beside each other.
class Linear {
public:
    Linear() = default;
    Linear(const Kernels& kernels, Compute compute, const Layout& inputs, std::size_t outputs);
    /// Room for so many outputs of another one.
    Linear(const Linear& other, std::size_t outputs);

    /// Outputs of `weight` (outputs x inputs) at `layout` from column `first` on; an empty bias is none.
    void add(const Matrix& weight, const std::vector<float>& bias, const Layout& layout, std::size_t first);
    /// An output of another one of the same inputs, as output `to`.
    void copy_output(const Linear& other, std::size_t from, std::size_t to);
    /// What the outputs that nothing was added for give.
    void fill_unused(float value, std::size_t first);

    /// Numbers in a row of the operand, without and with padding, and in one of the result.
    std::size_t inputs() const { return inputs_.width(); }
    std::size_t depth() const { return depth_; }
    std::size_t width() const { return width_; }
    std::size_t groups() const { return width_ / group; }
    std::size_t bytes() const;

    /// The rows of an operand from this one on.
    Operand rows_from(const Operand& x, std::size_t row) const;
    /// One group of 64 outputs of all rows.
    void group_product(const Operand& x, std::size_t rows, std::size_t number, float* y, std::size_t y_stride) const {
        arithmetic_.product(x, rows, packed(), number, y, y_stride);
    }
    /// This member's part of the product; rows of the result are `width()` apart.
    void share_product(const Team::Member& member, const Operand& x, std::size_t rows, float* y) const;

    /// The numbers of one output's weights, as they are used: an embedding that is tied to the unembedding.
    void read_row(std::size_t output, float* numbers) const;

private:
    Packed packed() const;
    std::size_t place(std::size_t output, std::size_t input) const;
    template <class Stored, class Number, class Convert>
    void put(std::size_t output, const Number* numbers, const Convert& convert);
    void put_int8(std::size_t output, const Matrix& weight, std::size_t row, const float* numbers);

    Compute compute_ = Compute::float32;
    Arithmetic arithmetic_{};
    bool offset_stays_ = false;
    Layout inputs_{};
    std::size_t depth_ = 0, width_ = 0;
    Buffer<std::byte> data_;
    Buffer<float> scale_, bias_;
    Buffer<std::int32_t> compensation_;
};

}  // namespace dragoman
