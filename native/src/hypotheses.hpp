// What is handed from step to step: the memory of the sources and the state of the hypotheses.
//
// Both are cheap handles. A sentence's keys and values are made once and shared by all memories that it is part of; a
// hypothesis is the number of its last slot.
#pragma once

#include <memory>
#include <vector>

#include "buffer.hpp"
#include "slots.hpp"

namespace dragoman {

/// A table of numbers that belongs to the caller.
template <class Number>
struct Table {
    Number* data;
    std::size_t rows, columns;

    Number& at(std::size_t row, std::size_t column) const { return data[row * columns + column]; }
};

using Ids = Table<const std::int32_t>;

/// Slots that are held as long as this lives.
class Held {
public:
    Held() = default;
    /// Takes over slots that are held already.
    Held(std::shared_ptr<Slots> slots, std::vector<std::int32_t> numbers);
    ~Held();
    Held(Held&& other) noexcept = default;
    Held& operator=(Held&& other) noexcept;

    /// Some of these once more, by their index.
    Held again(const std::vector<std::size_t>& indices) const;

    const std::vector<std::int32_t>& numbers() const { return numbers_; }
    const std::shared_ptr<Slots>& slots() const { return slots_; }

private:
    std::shared_ptr<Slots> slots_;
    std::vector<std::int32_t> numbers_;
};

/// Hypotheses, `beam` for each sentence; `ages` says how many places the hypotheses of each sentence have.
class State {
public:
    State(Held held, std::vector<std::size_t> ages, std::size_t beam);

    std::size_t sentences() const { return ages_.size(); }
    std::size_t beam() const { return beam_; }
    const std::vector<std::size_t>& ages() const { return ages_; }
    const Held& held() const { return held_; }

    /// Hypothesis j of a sentence goes on from its hypothesis parents[j].
    State select(const Ids& parents) const;
    State keep(const std::vector<std::int64_t>& rows) const;
    State join(const State& other) const;
    /// The state that it was so many places ago, sentence by sentence.
    State back(const std::vector<std::int64_t>& places) const;

private:
    Held held_;
    std::vector<std::size_t> ages_;
    std::size_t beam_;
};

struct Candidates;

/// The keys and values of one source for all decoder layers, and what alone may be written for it, or nothing: all words.
struct Sentence {
    std::size_t places;
    Buffer<std::byte> keys_values;
    std::shared_ptr<const Candidates> candidates;
};

/// What was read: sources, or the prompts of a decoder-only model, of which there is a state.
class Memory {
public:
    Memory(std::vector<std::shared_ptr<const Sentence>> sentences, std::vector<std::int32_t> lengths,
           std::shared_ptr<const State> read, std::shared_ptr<Slots> model);

    const std::vector<std::int32_t>& lengths() const { return lengths_; }
    const std::vector<std::shared_ptr<const Sentence>>& sentences() const { return sentences_; }
    const State* read() const { return read_.get(); }
    /// Which model it is of.
    const std::shared_ptr<Slots>& model() const { return model_; }

    Memory keep(const std::vector<std::int64_t>& rows) const;
    Memory join(const Memory& other) const;

private:
    std::vector<std::shared_ptr<const Sentence>> sentences_;
    std::vector<std::int32_t> lengths_;
    std::shared_ptr<const State> read_;
    std::shared_ptr<Slots> model_;
};

}  // namespace dragoman
