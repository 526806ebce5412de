// Pool of key-value cache entries for all hypotheses of a model.
//
// An entry holds the keys and values of all layers at one position, and links to the entry of the previous position.
// Hypotheses with a common prefix share its entries. Selecting, dropping and joining hypotheses copies no keys or
// values: it changes reference counts. An entry is written once and freed with its last reference, so states are
// immutable.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <set>
#include <vector>

#include "runtime/aligned_buffer.hpp"
#include "runtime/fork_guard.hpp"

namespace dragoman {

class KvCachePool {
public:
    static constexpr std::int32_t no_entry = -1;

    explicit KvCachePool(std::size_t entry_bytes);

    /// Allocate one entry after each parent, with one reference each. Their memory is not initialized.
    std::vector<std::int32_t> append(const std::vector<std::int32_t>& parents);
    /// Throw std::runtime_error in a forked process, whose copy of the pool may be locked and half written.
    void retain(const std::vector<std::int32_t>& entries);
    /// Free the entries without other references; does nothing in a forked process.
    void release(const std::vector<std::int32_t>& entries);

    /// Memory of an entry. Safe for referenced entries while other threads retain and release, but not while they
    /// append.
    std::byte* data(std::int32_t entry) const {
        auto index = static_cast<std::size_t>(entry);
        return pages_[index >> page_shift_].data + (index & (entries_per_page_ - 1)) * entry_bytes_;
    }
    std::int32_t parent(std::int32_t entry) const { return links_[static_cast<std::size_t>(entry)].parent; }

    /// Number of referenced entries.
    std::size_t num_entries() const;
    /// Allocated memory, free entries included.
    std::size_t bytes() const;

private:
    struct Link {
        std::int32_t parent, references;
    };
    struct Page {
        AlignedBuffer<std::byte> memory;
        std::byte* data = nullptr;
        std::vector<std::int32_t> free;
    };

    std::int32_t allocate();
    void free_entry(std::int32_t entry);
    void add_page();

    /// The number of entries per page is a power of two.
    const std::size_t entry_bytes_, page_shift_, entries_per_page_;
    const ForkGuard fork_guard_;
    mutable std::mutex mutex_;
    std::vector<Page> pages_;
    std::vector<Link> links_;
    /// Pages with free entries. The lowest page is filled first, so that the highest ones become empty.
    std::set<std::size_t> available_pages_;
    std::set<std::size_t> empty_pages_, released_pages_;
    std::size_t num_entries_ = 0;
};

}  // namespace dragoman
