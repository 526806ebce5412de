#include "linear.hpp"

#include <algorithm>
#include <cstring>

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

std::size_t Linear::place(std::size_t output, std::size_t input) const {
    std::size_t side = arithmetic_.interleave;
    return output / group * group * depth_ + input / side * side * group + output % group * side + input % side;
}

void Linear::put(std::size_t output, std::size_t input, float number) {
    std::size_t at = place(output, input);
    switch (compute_) {
        case Compute::int8:
            reinterpret_cast<std::int8_t*>(data_.data())[at] = static_cast<std::int8_t>(number);
            break;
        case Compute::bfloat16:
            reinterpret_cast<std::uint16_t*>(data_.data())[at] = to_bfloat16(number);
            break;
        case Compute::float32:
            reinterpret_cast<float*>(data_.data())[at] = number;
            break;
    }
}

void Linear::add(const Matrix& weight, const std::vector<float>& bias, const Layout& layout, std::size_t first) {
    std::vector<float> numbers(weight.columns());
    std::vector<std::int8_t> whole(weight.columns());
    for (std::size_t row = 0; row < weight.rows(); row++) {
        std::size_t output = first + layout.place(row);
        weight.read(row, numbers.data());
        if (compute_ == Compute::int8) {
            if (weight.quantised()) {
                std::memcpy(whole.data(), weight.whole(row, &scale_[output]), whole.size());
            } else {
                quantise_row(numbers.data(), numbers.size(), whole.data(), &scale_[output]);
            }
            std::int32_t total = 0;
            for (std::size_t input = 0; input < whole.size(); input++) {
                numbers[input] = whole[input];
                total += whole[input];
            }
            compensation_[output] = offset_stays_ ? operand_offset * total : 0;
        }
        for (std::size_t input = 0; input < numbers.size(); input++) put(output, inputs_.place(input), numbers[input]);
        if (!bias.empty()) bias_[output] = bias[row];
    }
}

void Linear::fill_unused(float value, std::size_t first) { std::fill(bias_.data() + first, bias_.data() + width_, value); }

std::size_t Linear::bytes() const {
    return data_.size() + (scale_.size() + bias_.size() + compensation_.size()) * sizeof(float);
}

Packed Linear::packed() const { return {data_.data(), scale_.data(), compensation_.data(), bias_.data(), depth_}; }

void Linear::share_product(const Team::Member& member, const Operand& x, std::size_t rows, float* y) const {
    std::size_t hands = static_cast<std::size_t>(member.count), pieces = 1;
    if (groups() < 2 * hands) pieces = std::max<std::size_t>(1, std::min(2 * hands, rows / rows_in_a_piece));
    auto [first, last] = member.share(groups() * pieces);
    for (std::size_t piece = first; piece < last; piece++) {
        std::size_t number = piece / pieces, part = piece % pieces;
        std::size_t from = rows * part / pieces, to = rows * (part + 1) / pieces;
        Operand some = x;
        some.data = static_cast<const std::byte*>(x.data) + from * x.depth * arithmetic_.bytes;
        some.scale = x.scale == nullptr ? nullptr : x.scale + from;
        group_product(some, to - from, number, y + from * width_ + number * group, width_);
    }
}

void Linear::read_row(std::size_t output, float* numbers) const {
    for (std::size_t input = 0; input < inputs_.count; input++) {
        std::size_t at = place(output, inputs_.place(input));
        switch (compute_) {
            case Compute::int8:
                numbers[input] = static_cast<float>(reinterpret_cast<const std::int8_t*>(data_.data())[at]) * scale_[output];
                break;
            case Compute::bfloat16:
                numbers[input] = from_bfloat16(reinterpret_cast<const std::uint16_t*>(data_.data())[at]);
                break;
            case Compute::float32:
                numbers[input] = reinterpret_cast<const float*>(data_.data())[at];
                break;
        }
    }
}

}  // namespace dragoman
