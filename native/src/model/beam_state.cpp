#include "model/beam_state.hpp"

#include <stdexcept>
#include <string>

namespace dragoman {

namespace {

std::vector<std::size_t> checked_rows(const std::vector<std::int64_t>& rows, std::size_t batch_size) {
    std::vector<std::size_t> indices;
    for (std::int64_t row : rows) {
        if (row < 0 || static_cast<std::size_t>(row) >= batch_size) {
            throw std::out_of_range("row " + std::to_string(row) + " is out of range for a batch of " +
                                    std::to_string(batch_size) + " sentences");
        }
        indices.push_back(static_cast<std::size_t>(row));
    }
    return indices;
}

template <class Item>
std::vector<Item> gather(const std::vector<Item>& items, const std::vector<std::size_t>& indices) {
    std::vector<Item> selected;
    for (std::size_t index : indices) selected.push_back(items[index]);
    return selected;
}

template <class Item>
std::vector<Item> concatenate(std::vector<Item> first, const std::vector<Item>& second) {
    first.insert(first.end(), second.begin(), second.end());
    return first;
}

}  // namespace

CacheReferences::CacheReferences(std::shared_ptr<KvCachePool> pool, std::vector<std::int32_t> entries)
    : pool_(std::move(pool)), entries_(std::move(entries)) {}

CacheReferences::~CacheReferences() {
    if (pool_ != nullptr) pool_->release(entries_);
}

CacheReferences& CacheReferences::operator=(CacheReferences&& other) noexcept {
    std::swap(pool_, other.pool_);
    std::swap(entries_, other.entries_);
    return *this;
}

CacheReferences CacheReferences::select(const std::vector<std::size_t>& indices) const {
    std::vector<std::int32_t> entries = gather(entries_, indices);
    pool_->retain(entries);
    return CacheReferences(pool_, std::move(entries));
}

State::State(CacheReferences cache, std::vector<std::size_t> lengths, std::size_t beam_size)
    : cache_(std::move(cache)), lengths_(std::move(lengths)), beam_size_(beam_size) {}

State State::reorder(const IdMatrix& parents) const {
    if (parents.rows != batch_size() || parents.columns == 0) {
        throw std::invalid_argument("parents have the shape " + std::to_string(parents.rows) + " x " +
                                    std::to_string(parents.columns) + ", and the state has " +
                                    std::to_string(batch_size()) +
                                    " sentences; give one row per sentence and at least one hypothesis");
    }
    std::vector<std::size_t> indices;
    for (std::size_t row = 0; row < parents.rows; row++) {
        for (std::size_t column = 0; column < parents.columns; column++) {
            std::int32_t parent = parents.at(row, column);
            if (parent < 0 || static_cast<std::size_t>(parent) >= beam_size_) {
                throw std::out_of_range("parent " + std::to_string(parent) + " is out of range for a beam_size of " +
                                        std::to_string(beam_size_));
            }
            indices.push_back(row * beam_size_ + static_cast<std::size_t>(parent));
        }
    }
    return State(cache_.select(indices), lengths_, parents.columns);
}

State State::select(const std::vector<std::int64_t>& rows) const {
    std::vector<std::size_t> selected = checked_rows(rows, batch_size()), indices;
    for (std::size_t row : selected) {
        for (std::size_t j = 0; j < beam_size_; j++) indices.push_back(row * beam_size_ + j);
    }
    return State(cache_.select(indices), gather(lengths_, selected), beam_size_);
}

State State::concat(const State& other) const {
    if (cache_.pool() != other.cache_.pool()) throw std::invalid_argument("the states belong to different models");
    if (beam_size_ != other.beam_size_) {
        throw std::invalid_argument("the states have a beam_size of " + std::to_string(beam_size_) + " and " +
                                    std::to_string(other.beam_size_) +
                                    "; reorder one of them to the beam size of the other");
    }
    std::vector<std::int32_t> entries = concatenate(cache_.entries(), other.cache_.entries());
    cache_.pool()->retain(entries);
    return State(CacheReferences(cache_.pool(), std::move(entries)), concatenate(lengths_, other.lengths_), beam_size_);
}

Memory::Memory(std::vector<std::shared_ptr<const EncodedSource>> sources, std::vector<std::int32_t> lengths,
               std::shared_ptr<const State> prompt_state, std::shared_ptr<KvCachePool> pool)
    : sources_(std::move(sources)),
      lengths_(std::move(lengths)),
      prompt_state_(std::move(prompt_state)),
      pool_(std::move(pool)) {}

Memory Memory::select(const std::vector<std::int64_t>& rows) const {
    std::vector<std::size_t> selected = checked_rows(rows, lengths_.size());
    std::shared_ptr<const State> state;
    if (prompt_state_ != nullptr) state = std::make_shared<const State>(prompt_state_->select(rows));
    auto sources = sources_.empty() ? sources_ : gather(sources_, selected);
    return Memory(std::move(sources), gather(lengths_, selected), std::move(state), pool_);
}

Memory Memory::concat(const Memory& other) const {
    if (pool_ != other.pool_) throw std::invalid_argument("the memories belong to different models");
    std::shared_ptr<const State> state;
    if (prompt_state_ != nullptr) state = std::make_shared<const State>(prompt_state_->concat(*other.prompt_state_));
    return Memory(concatenate(sources_, other.sources_), concatenate(lengths_, other.lengths_), std::move(state),
                  pool_);
}

}  // namespace dragoman
