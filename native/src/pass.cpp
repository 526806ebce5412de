#include "pass.hpp"

#include <algorithm>

namespace dragoman {

void Workspace::reserve(std::size_t rows, std::size_t members, std::size_t places, std::size_t scratch_per_member) {
    std::size_t copies = few(rows) ? members * rows : rows;
    stream.reserve(copies * width);
    normed.reserve(copies * width);
    hidden.reserve(copies * widest_operand);
    operand.reserve(copies * widest_operand * sizeof(float));
    operand_scale.reserve(copies);
    projected.reserve(rows * widest_product);
    attended.reserve(rows * attended_width);
    update.reserve(rows * width);
    scores = rounded_up(queries_together * rounded_up(places, lanes) + scratch_per_member, lanes);
    scratch.reserve(members * scores);
}

Pass::Pass(const Settings& settings, const Kernels& kernels, Compute compute, Workspace& space, const Team::Member& member,
           std::size_t rows)
    : settings_(settings),
      kernels_(kernels),
      arithmetic_(arithmetic_of(kernels, compute)),
      space_(space),
      member_(member),
      rows_(rows),
      replicated_(Workspace::few(rows)),
      copy_(replicated_ ? static_cast<std::size_t>(member.number) * rows : 0) {}

void Pass::prepare(std::size_t row, const float* x, std::size_t count) const {
    std::byte* place = space_.operand.data() + copy_ * space_.widest_operand * sizeof(float) + row * count * arithmetic_.bytes;
    arithmetic_.prepare(x, count, place, space_.operand_scale.data() + copy_ + row);
}

Operand Pass::operand(std::size_t depth) const {
    return {space_.operand.data() + copy_ * space_.widest_operand * sizeof(float), space_.operand_scale.data() + copy_, depth};
}

void Pass::multiply(const Linear& linear, float* result) {
    settle();
    linear.share_product(member_, operand(linear.depth()), rows_, result);
    member_.wait();
}

void Pass::feed_forward(const FeedForward& network) {
    multiply(network.inner, space_.projected.data());
    std::size_t width = network.outer.depth();
    own_rows([&](std::size_t row) {
        const float* inner = space_.projected.data() + row * network.inner.width();
        float* hidden = space_.hidden.data() + (copy_ + row) * space_.widest_operand;
        kernels_.activate(settings_.activation, inner, settings_.gated ? inner + width : nullptr, width, hidden);
        prepare(row, hidden, width);
    });
    multiply(network.outer, space_.update.data());
}

void Pass::gather(const Linear& output) {
    auto [first, last] = member_.share(rows_);
    for (std::size_t row = first; row < last; row++) {  // where layers with more heads than this one have left theirs
        std::fill(attended(row) + output.inputs(), attended(row) + output.depth(), 0.0f);
    }
    member_.wait();
    own_rows([&](std::size_t row) { prepare(row, attended(row), output.depth()); });
    multiply(output, space_.update.data());
}

}  // namespace dragoman
