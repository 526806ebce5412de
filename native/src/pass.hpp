// What one member of the team does while rows (places of sentences, or hypotheses) go through a stack of blocks.
//
// Work on single rows (sums, norms, making ready for a product) is divided by rows. Where there are very few rows it is not
// divided at all: every member does all of it on a copy of its own, which is cheaper than waiting for one another.
#pragma once

#include "layers.hpp"
#include "team.hpp"

namespace dragoman {

/// Memory for the passes of a model, grown as needed and used again.
struct Workspace {
    std::size_t width = 0, widest_product = 0, widest_operand = 0, attended_width = 0, scores = 0;
    Buffer<float> stream, normed, hidden, projected, attended, update, operand_scale, scratch;
    Buffer<std::byte> operand;
    /// Of the vocabulary: what each member's current group gives, and what is kept of all groups.
    Buffer<float> logits;
    Buffer<GroupSummary> summaries;

    /// Before a pass of so many rows by so many members, in which no query sees more than `places` keys.
    void reserve(std::size_t rows, std::size_t members, std::size_t places, std::size_t scratch_per_member);
    static bool few(std::size_t rows) { return rows <= few_rows; }

private:
    static constexpr std::size_t few_rows = 4;
};

class Pass {
public:
    Pass(const Settings& settings, const Kernels& kernels, Compute compute, Workspace& space, const Team::Member& member,
         std::size_t rows);

    const Team::Member& member() const { return member_; }
    std::size_t rows() const { return rows_; }

    /// `work(row)` for the rows that this member looks after.
    template <class Work>
    void own_rows(const Work& work) const {
        auto [first, last] = replicated_ ? Team::Member::Range{0, rows_} : member_.share(rows_);
        for (std::size_t row = first; row < last; row++) work(row);
    }

    /// The residual stream: what goes through the stack.
    float* stream(std::size_t row) const { return space_.stream.data() + (copy_ + row) * space_.width; }

    /// x + f(norm(x)) or norm(x + f(x)); `sublayer` reads the operand and leaves its result to `finish`.
    template <class Sublayer>
    void residual(const NormLayer& norm, const Sublayer& sublayer) {
        own_rows([&](std::size_t row) {
            const float* x = stream(row);
            if (settings_.pre_norm) {
                norm(x, normed(row));
                x = normed(row);
            }
            prepare(row, x, space_.width);
        });
        sublayer();
        own_rows([&](std::size_t row) {
            kernels_.add(stream(row), space_.update.data() + row * space_.width, space_.width);
            if (!settings_.pre_norm) norm(stream(row), stream(row));
        });
    }

    /// The operand times a linear map, by all members; everybody may read the result afterwards.
    void multiply(const Linear& linear, float* result);
    /// The inner and outer map of a feed-forward network.
    void feed_forward(const FeedForward& network);
    /// What the heads found, through the output map.
    void gather(const Linear& output);

    /// The operand of later products: this row of `count` numbers.
    void prepare(std::size_t row, const float* x, std::size_t count) const;
    Operand operand(std::size_t depth) const;

    float* normed(std::size_t row) const { return space_.normed.data() + (copy_ + row) * space_.width; }
    float* projected() const { return space_.projected.data(); }
    float* attended(std::size_t row) const { return space_.attended.data() + row * space_.attended_width; }
    /// For this member alone.
    float* scratch() const { return space_.scratch.data() + member_.number * space_.scores; }

    /// Others may read what this member wrote for its rows.
    void settle() const {
        if (!replicated_) member_.wait();
    }

private:
    const Settings& settings_;
    const Kernels& kernels_;
    const Arithmetic& arithmetic_;
    Workspace& space_;
    const Team::Member& member_;
    const std::size_t rows_;
    const bool replicated_;
    /// The first row of this member's copy.
    const std::size_t copy_;
};

}  // namespace dragoman
