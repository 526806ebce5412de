#include "hypotheses.hpp"

#include <stdexcept>
#include <string>

namespace dragoman {

namespace {

std::vector<std::size_t> checked(const std::vector<std::int64_t>& rows, std::size_t sentences) {
    std::vector<std::size_t> indices;
    for (std::int64_t row : rows) {
        if (row < 0 || static_cast<std::size_t>(row) >= sentences) {
            throw std::out_of_range("row " + std::to_string(row) + " of " + std::to_string(sentences) + " sentences");
        }
        indices.push_back(static_cast<std::size_t>(row));
    }
    return indices;
}

template <class Thing>
std::vector<Thing> some(const std::vector<Thing>& all, const std::vector<std::size_t>& indices) {
    std::vector<Thing> chosen;
    for (std::size_t index : indices) chosen.push_back(all[index]);
    return chosen;
}

template <class Thing>
std::vector<Thing> both(std::vector<Thing> one, const std::vector<Thing>& other) {
    one.insert(one.end(), other.begin(), other.end());
    return one;
}

}  // namespace

Held::Held(std::shared_ptr<Slots> slots, std::vector<std::int32_t> numbers)
    : slots_(std::move(slots)), numbers_(std::move(numbers)) {}

Held::~Held() {
    if (slots_ != nullptr) slots_->release(numbers_);
}

Held& Held::operator=(Held&& other) noexcept {
    std::swap(slots_, other.slots_);
    std::swap(numbers_, other.numbers_);
    return *this;
}

Held Held::again(const std::vector<std::size_t>& indices) const {
    std::vector<std::int32_t> numbers = some(numbers_, indices);
    slots_->hold(numbers);
    return Held(slots_, std::move(numbers));
}

State::State(Held held, std::vector<std::size_t> ages, std::size_t beam)
    : held_(std::move(held)), ages_(std::move(ages)), beam_(beam) {}

State State::select(const Ids& parents) const {
    if (parents.rows != sentences() || parents.columns == 0) {
        throw std::invalid_argument("parents are " + std::to_string(parents.rows) + " x " + std::to_string(parents.columns) +
                                    ", and the state has " + std::to_string(sentences()) +
                                    " sentences; give one row a sentence and one hypothesis at least");
    }
    std::vector<std::size_t> indices;
    for (std::size_t row = 0; row < parents.rows; row++) {
        for (std::size_t column = 0; column < parents.columns; column++) {
            std::int32_t parent = parents.at(row, column);
            if (parent < 0 || static_cast<std::size_t>(parent) >= beam_) {
                throw std::out_of_range("parent " + std::to_string(parent) + " of a beam of " + std::to_string(beam_));
            }
            indices.push_back(row * beam_ + static_cast<std::size_t>(parent));
        }
    }
    return State(held_.again(indices), ages_, parents.columns);
}

State State::keep(const std::vector<std::int64_t>& rows) const {
    std::vector<std::size_t> kept = checked(rows, sentences()), indices;
    for (std::size_t row : kept) {
        for (std::size_t j = 0; j < beam_; j++) indices.push_back(row * beam_ + j);
    }
    return State(held_.again(indices), some(ages_, kept), beam_);
}

State State::join(const State& other) const {
    if (held_.slots() != other.held_.slots()) throw std::invalid_argument("the states are of different models");
    if (beam_ != other.beam_) {
        throw std::invalid_argument("the states have beams of " + std::to_string(beam_) + " and " +
                                    std::to_string(other.beam_) + "; select as many hypotheses in both first");
    }
    std::vector<std::int32_t> numbers = both(held_.numbers(), other.held_.numbers());
    held_.slots()->hold(numbers);
    return State(Held(held_.slots(), std::move(numbers)), both(ages_, other.ages_), beam_);
}

State State::back(const std::vector<std::int64_t>& places) const {
    if (places.size() != sentences()) {
        throw std::invalid_argument(std::to_string(places.size()) + " numbers of places for " + std::to_string(sentences()) +
                                    " sentences");
    }
    std::vector<std::size_t> ages = ages_, by_row;
    for (std::size_t sentence = 0; sentence < sentences(); sentence++) {
        if (places[sentence] < 0 || static_cast<std::uint64_t>(places[sentence]) > ages[sentence]) {
            throw std::out_of_range("sentence " + std::to_string(sentence) + " has " + std::to_string(ages[sentence]) +
                                    " places, and cannot go " + std::to_string(places[sentence]) + " back");
        }
        ages[sentence] -= static_cast<std::size_t>(places[sentence]);
        by_row.insert(by_row.end(), beam_, static_cast<std::size_t>(places[sentence]));
    }
    return State(Held(held_.slots(), held_.slots()->back(held_.numbers(), by_row)), std::move(ages), beam_);
}

Memory::Memory(std::vector<std::shared_ptr<const Sentence>> sentences, std::vector<std::int32_t> lengths,
               std::shared_ptr<const State> read, std::shared_ptr<Slots> model)
    : sentences_(std::move(sentences)), lengths_(std::move(lengths)), read_(std::move(read)), model_(std::move(model)) {}

Memory Memory::keep(const std::vector<std::int64_t>& rows) const {
    std::vector<std::size_t> kept = checked(rows, lengths_.size());
    std::shared_ptr<const State> read = read_ == nullptr ? nullptr : std::make_shared<const State>(read_->keep(rows));
    auto sentences = sentences_.empty() ? sentences_ : some(sentences_, kept);
    return Memory(std::move(sentences), some(lengths_, kept), std::move(read), model_);
}

Memory Memory::join(const Memory& other) const {
    if (model_ != other.model_) throw std::invalid_argument("the memories are of different models");
    std::shared_ptr<const State> read = read_ == nullptr ? nullptr : std::make_shared<const State>(read_->join(*other.read_));
    return Memory(both(sentences_, other.sentences_), both(lengths_, other.lengths_), std::move(read), model_);
}

}  // namespace dragoman
