#include "model/kv_cache_pool.hpp"

namespace dragoman {

namespace {

constexpr std::size_t page_bytes = std::size_t{1} << 20;

/// Logarithm of the entries per page: as many as fit, at most 4096.
std::size_t page_shift(std::size_t entry_bytes) {
    std::size_t shift = 0;
    while ((entry_bytes << (shift + 1)) <= page_bytes && shift < 12) shift++;
    return shift;
}

}  // namespace

KvCachePool::KvCachePool(std::size_t entry_bytes)
    : entry_bytes_(entry_bytes),
      page_shift_(page_shift(entry_bytes)),
      entries_per_page_(std::size_t{1} << page_shift_) {}

std::vector<std::int32_t> KvCachePool::append(const std::vector<std::int32_t>& parents) {
    std::lock_guard<std::mutex> lock(mutex_);
    std::vector<std::int32_t> entries;
    entries.reserve(parents.size());
    for (std::int32_t parent : parents) {
        std::int32_t entry = allocate();
        links_[static_cast<std::size_t>(entry)] = {parent, 1};
        if (parent != no_entry) links_[static_cast<std::size_t>(parent)].references++;
        entries.push_back(entry);
    }
    return entries;
}

void KvCachePool::retain(const std::vector<std::int32_t>& entries) {
    fork_guard_.check();
    std::lock_guard<std::mutex> lock(mutex_);
    for (std::int32_t entry : entries) {
        if (entry != no_entry) links_[static_cast<std::size_t>(entry)].references++;
    }
}

void KvCachePool::release(const std::vector<std::int32_t>& entries) {
    if (fork_guard_.is_forked()) return;
    std::lock_guard<std::mutex> lock(mutex_);
    for (std::int32_t entry : entries) {
        while (entry != no_entry && --links_[static_cast<std::size_t>(entry)].references == 0) {
            std::int32_t parent = links_[static_cast<std::size_t>(entry)].parent;
            free_entry(entry);
            entry = parent;
        }
    }
}

std::int32_t KvCachePool::allocate() {
    if (available_pages_.empty()) add_page();
    std::size_t number = *available_pages_.begin();
    Page& page = pages_[number];
    std::int32_t entry = page.free.back();
    page.free.pop_back();
    empty_pages_.erase(number);
    if (page.free.empty()) available_pages_.erase(number);
    num_entries_++;
    return entry;
}

void KvCachePool::free_entry(std::int32_t entry) {
    std::size_t number = static_cast<std::size_t>(entry) / entries_per_page_;
    Page& page = pages_[number];
    page.free.push_back(entry);
    available_pages_.insert(number);
    num_entries_--;
    if (page.free.size() < entries_per_page_) return;
    empty_pages_.insert(number);
    if (empty_pages_.size() > 1) {  // one empty page is kept, so that successive sentences do not reallocate it
        std::size_t highest = *empty_pages_.rbegin();
        pages_[highest].memory = AlignedBuffer<std::byte>();
        pages_[highest].data = nullptr;
        empty_pages_.erase(highest);
        available_pages_.erase(highest);
        released_pages_.insert(highest);
    }
}

void KvCachePool::add_page() {
    AlignedBuffer<std::byte> memory(entries_per_page_ * entry_bytes_);
    std::size_t number = pages_.size();
    if (released_pages_.empty()) {
        pages_.emplace_back();
        links_.resize(pages_.size() * entries_per_page_);
        Page& page = pages_.back();
        for (std::size_t i = entries_per_page_; i-- > 0;) {
            page.free.push_back(static_cast<std::int32_t>(number * entries_per_page_ + i));
        }
    } else {
        number = *released_pages_.begin();
        released_pages_.erase(number);
    }
    pages_[number].memory = std::move(memory);
    pages_[number].data = pages_[number].memory.data();
    available_pages_.insert(number);
    empty_pages_.insert(number);
}

std::size_t KvCachePool::num_entries() const {
    std::lock_guard<std::mutex> lock(mutex_);
    return num_entries_;
}

std::size_t KvCachePool::bytes() const {
    std::lock_guard<std::mutex> lock(mutex_);
    return (pages_.size() - released_pages_.size()) * entries_per_page_ * entry_bytes_;
}

}  // namespace dragoman
