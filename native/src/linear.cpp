#include "linear.hpp"

#include <algorithm>

namespace dragoman {

namespace {

constexpr std::int32_t operand_offset = 128;
/// Rows that make it worth while to divide them too, where there are fewer groups of columns than hands.
constexpr std::size_t rows_in_a_piece = 24;

}  // namespace

const Arithmetic& arithmetic_of(const Kernels& kernels, Compute compute) {
    switch (compute) {
        case Compute::int8:
            return kernels.int8;
        case Compute::bfloat16:
            return kernels.bfloat16;
        case Compute::float32:
            return kernels.float32;
    }
    return kernels.float32;
}

Linear::Linear(const Kernels& kernels, Compute compute, const Layout& inputs, std::size_t outputs)
    : compute_(compute),
      arithmetic_(arithmetic_of(kernels, compute)),
      offset_stays_(kernels.offset_stays && compute == Compute::int8),
      inputs_(inputs),
      depth_(padded(inputs.width())),
      width_(padded(outputs)),
      data_(depth_ * width_ * arithmetic_.bytes),
      scale_(width_),
      bias_(width_),
      compensation_(width_) {}

Linear::Linear(const Linear& other, std::size_t outputs)
    : compute_(other.compute_),
      arithmetic_(other.arithmetic_),
      offset_stays_(other.offset_stays_),
      inputs_(other.inputs_),
      depth_(other.depth_),
      width_(padded(outputs)),
      data_(depth_ * width_ * arithmetic_.bytes),
      scale_(width_),
      bias_(width_),
      compensation_(width_) {}

std::size_t Linear::place(std::size_t output, std::size_t input) const {
    std::size_t side = arithmetic_.interleave;
    return output / group * group * depth_ + input / side * side * group + output % group * side + input % side;
}

/// One output's weights at their places.
template <class Stored, class Number, class Convert>
void Linear::put(std::size_t output, const Number* numbers, const Convert& convert) {
    auto* data = reinterpret_cast<Stored*>(data_.data());
    for (std::size_t start = 0; start < inputs_.count; start += inputs_.stretch) {
        std::size_t first = inputs_.place(start);
        for (std::size_t i = 0; i < inputs_.stretch; i++) data[place(output, first + i)] = convert(numbers[start + i]);
    }
}

void Linear::put_int8(std::size_t output, const Matrix& weight, std::size_t row, const float* numbers) {
    std::vector<std::int8_t> made;
    const std::int8_t* whole;
    if (weight.quantised()) {
        whole = weight.whole(row, &scale_[output]);
    } else {
        made.resize(weight.columns());
        quantise_row(numbers, made.size(), made.data(), &scale_[output]);
        whole = made.data();
    }
    std::int32_t total = 0;
    for (std::size_t i = 0; i < weight.columns(); i++) total += whole[i];
    compensation_[output] = offset_stays_ ? operand_offset * total : 0;
    put<std::int8_t>(output, whole, [](std::int8_t number) { return number; });
}

void Linear::add(const Matrix& weight, const std::vector<float>& bias, const Layout& layout, std::size_t first) {
    std::vector<float> numbers(weight.columns());
    for (std::size_t row = 0; row < weight.rows(); row++) {
        std::size_t output = first + layout.place(row);
        if (compute_ != Compute::int8 || !weight.quantised()) weight.read(row, numbers.data());
        switch (compute_) {
            case Compute::int8:
                put_int8(output, weight, row, numbers.data());
                break;
            case Compute::bfloat16:
                put<std::uint16_t>(output, numbers.data(), to_bfloat16);
                break;
            case Compute::float32:
                put<float>(output, numbers.data(), [](float number) { return number; });
                break;
        }
        if (!bias.empty()) bias_[output] = bias[row];
    }
}

void Linear::copy_output(const Linear& other, std::size_t from, std::size_t to) {
    std::size_t side = arithmetic_.interleave, unit = side * arithmetic_.bytes, stride = unit * group;
    const std::byte* theirs = other.data_.data() + other.place(from, 0) * arithmetic_.bytes;
    std::byte* own = data_.data() + place(to, 0) * arithmetic_.bytes;
    for (std::size_t input = 0; input < depth_; input += side, theirs += stride, own += stride) {
        if (unit == sizeof(std::uint32_t)) {
            std::memcpy(own, theirs, sizeof(std::uint32_t));
        } else {
            std::memcpy(own, theirs, unit);
        }
    }
    scale_[to] = other.scale_[from];
    bias_[to] = other.bias_[from];
    compensation_[to] = other.compensation_[from];
}

void Linear::fill_unused(float value, std::size_t first) { std::fill(bias_.data() + first, bias_.data() + width_, value); }

std::size_t Linear::bytes() const {
    return data_.size() + (scale_.size() + bias_.size() + compensation_.size()) * sizeof(float);
}

Packed Linear::packed() const { return {data_.data(), scale_.data(), compensation_.data(), bias_.data(), depth_}; }

Operand Linear::rows_from(const Operand& x, std::size_t row) const {
    return {static_cast<const std::byte*>(x.data) + row * x.depth * arithmetic_.bytes,
            x.scale == nullptr ? nullptr : x.scale + row, x.depth};
}

void Linear::share_product(const Team::Member& member, const Operand& x, std::size_t rows, float* y) const {
    std::size_t hands = static_cast<std::size_t>(member.count), pieces = 1;
    if (groups() < 2 * hands) pieces = std::max<std::size_t>(1, std::min(2 * hands, rows / rows_in_a_piece));
    auto [first, last] = member.share(groups() * pieces);
    for (std::size_t piece = first; piece < last; piece++) {
        std::size_t number = piece / pieces, part = piece % pieces;
        std::size_t from = rows * part / pieces, to = rows * (part + 1) / pieces;
        group_product(rows_from(x, from), to - from, number, y + from * width_ + number * group, width_);
    }
}

namespace {

/// An inner loop for each way of storing: rows of an embedding are read at every step.
template <class Stored, class Place, class Convert>
void read_stored(const std::byte* data, const Layout& inputs, const Place& place, const Convert& convert, float* numbers) {
    const auto* stored = reinterpret_cast<const Stored*>(data);
    for (std::size_t input = 0; input < inputs.count; input++) numbers[input] = convert(stored[place(input)]);
}

}  // namespace

void Linear::read_row(std::size_t output, float* numbers) const {
    // A power of two, so that no division is left in the loop.
    std::size_t shift = arithmetic_.interleave == 4 ? 2 : arithmetic_.interleave == 2 ? 1 : 0;
    std::size_t first = output / group * group * depth_ + output % group * arithmetic_.interleave;
    auto place = [=, side = arithmetic_.interleave](std::size_t input) {
        return first + (input >> shift) * side * group + (input & (side - 1));
    };
    switch (compute_) {
        case Compute::int8:
            return read_stored<std::int8_t>(data_.data(), inputs_, place,
                                            [scale = scale_[output]](std::int8_t x) { return static_cast<float>(x) * scale; },
                                            numbers);
        case Compute::bfloat16:
            return read_stored<std::uint16_t>(data_.data(), inputs_, place, from_bfloat16, numbers);
        case Compute::float32:
            return read_stored<float>(data_.data(), inputs_, place, [](float x) { return x; }, numbers);
    }
}

}  // namespace dragoman
