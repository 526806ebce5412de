// Immutable values passed from step to step: the memory of the encoded sources, and the state of the hypotheses.
//
// Both are cheap handles. Memories share the keys and values of a source; a hypothesis is its last cache entry.
#pragma once

#include <memory>
#include <vector>

#include "model/kv_cache_pool.hpp"
#include "runtime/aligned_buffer.hpp"
#include "runtime/matrix_view.hpp"

namespace dragoman {

/// References to cache entries, released on destruction.
class CacheReferences {
public:
    CacheReferences() = default;
    /// Take ownership of references to `entries`.
    CacheReferences(std::shared_ptr<KvCachePool> pool, std::vector<std::int32_t> entries);
    ~CacheReferences();
    CacheReferences(CacheReferences&& other) noexcept = default;
    CacheReferences& operator=(CacheReferences&& other) noexcept;

    /// New references to the entries at these indices.
    CacheReferences select(const std::vector<std::size_t>& indices) const;

    const std::vector<std::int32_t>& entries() const { return entries_; }
    const std::shared_ptr<KvCachePool>& pool() const { return pool_; }

private:
    std::shared_ptr<KvCachePool> pool_;
    std::vector<std::int32_t> entries_;
};

/// Hypotheses, `beam_size` per sentence. `lengths` counts the tokens of the hypotheses of each sentence.
class State {
public:
    State(CacheReferences cache, std::vector<std::size_t> lengths, std::size_t beam_size);

    std::size_t batch_size() const { return lengths_.size(); }
    std::size_t beam_size() const { return beam_size_; }
    const std::vector<std::size_t>& lengths() const { return lengths_; }
    const CacheReferences& cache() const { return cache_; }

    /// Replace hypothesis j of each sentence by its hypothesis parents[j].
    State reorder(const IdMatrix& parents) const;
    State select(const std::vector<std::int64_t>& rows) const;
    State concat(const State& other) const;

private:
    CacheReferences cache_;
    std::vector<std::size_t> lengths_;
    std::size_t beam_size_;
};

struct Shortlist;

/// Cross-attention keys and values of one source for all decoder layers, and its shortlist, null for the full
/// vocabulary.
struct EncodedSource {
    std::size_t length;
    AlignedBuffer<std::byte> keys_values;
    std::shared_ptr<const Shortlist> shortlist;
};

/// Encoded sources, or the state after the prompts of a decoder-only model.
class Memory {
public:
    Memory(std::vector<std::shared_ptr<const EncodedSource>> sources, std::vector<std::int32_t> lengths,
           std::shared_ptr<const State> prompt_state, std::shared_ptr<KvCachePool> pool);

    const std::vector<std::int32_t>& lengths() const { return lengths_; }
    const std::vector<std::shared_ptr<const EncodedSource>>& sources() const { return sources_; }
    const State* prompt_state() const { return prompt_state_.get(); }
    /// Cache pool of the model, which identifies the model.
    const std::shared_ptr<KvCachePool>& pool() const { return pool_; }

    Memory select(const std::vector<std::int64_t>& rows) const;
    Memory concat(const Memory& other) const;

private:
    std::vector<std::shared_ptr<const EncodedSource>> sources_;
    std::vector<std::int32_t> lengths_;
    std::shared_ptr<const State> prompt_state_;
    std::shared_ptr<KvCachePool> pool_;
};

}  // namespace dragoman
