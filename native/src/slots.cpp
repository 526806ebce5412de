#include "slots.hpp"

namespace dragoman {

namespace {

constexpr std::size_t page_bytes = std::size_t{1} << 20;

/// Of the number of slots in a page: as many as fit, but a power of two.
std::size_t shift_of(std::size_t bytes) {
    std::size_t shift = 0;
    while ((bytes << (shift + 1)) <= page_bytes && shift < 12) shift++;
    return shift;
}

}  // namespace

Slots::Slots(std::size_t bytes)
    : bytes_(bytes), shift_(shift_of(bytes)), slots_in_page_(std::size_t{1} << shift_) {}

std::vector<std::int32_t> Slots::after(const std::vector<std::int32_t>& parents) {
    std::lock_guard<std::mutex> lock(mutex_);
    std::vector<std::int32_t> slots;
    slots.reserve(parents.size());
    for (std::int32_t parent : parents) {
        std::int32_t slot = take();
        links_[static_cast<std::size_t>(slot)] = {parent, 1};
        if (parent != none) links_[static_cast<std::size_t>(parent)].holders++;
        slots.push_back(slot);
    }
    return slots;
}

void Slots::hold(const std::vector<std::int32_t>& slots) {
    std::lock_guard<std::mutex> lock(mutex_);
    for (std::int32_t slot : slots) {
        if (slot != none) links_[static_cast<std::size_t>(slot)].holders++;
    }
}

void Slots::release(const std::vector<std::int32_t>& slots) {
    std::lock_guard<std::mutex> lock(mutex_);
    for (std::int32_t slot : slots) {
        while (slot != none && --links_[static_cast<std::size_t>(slot)].holders == 0) {
            std::int32_t parent = links_[static_cast<std::size_t>(slot)].parent;
            give_back(slot);
            slot = parent;
        }
    }
}

std::vector<std::int32_t> Slots::back(std::vector<std::int32_t> slots, const std::vector<std::size_t>& places) {
    std::lock_guard<std::mutex> lock(mutex_);
    for (std::size_t i = 0; i < slots.size(); i++) {
        for (std::size_t place = 0; place < places[i]; place++) slots[i] = before(slots[i]);
        if (slots[i] != none) links_[static_cast<std::size_t>(slots[i])].holders++;
    }
    return slots;
}

std::int32_t Slots::take() {
    if (open_.empty()) open_page();
    std::size_t number = *open_.begin();
    Page& page = pages_[number];
    std::int32_t slot = page.free.back();
    page.free.pop_back();
    empty_.erase(number);
    if (page.free.empty()) open_.erase(number);
    alive_++;
    return slot;
}

void Slots::give_back(std::int32_t slot) {
    std::size_t number = static_cast<std::size_t>(slot) / slots_in_page_;
    Page& page = pages_[number];
    page.free.push_back(slot);
    open_.insert(number);
    alive_--;
    if (page.free.size() < slots_in_page_) return;
    empty_.insert(number);
    if (empty_.size() > 1) {  // one empty page is kept, so that sentence after sentence does not ask for it anew
        std::size_t highest = *empty_.rbegin();
        pages_[highest].memory = Buffer<std::byte>();
        pages_[highest].data = nullptr;
        empty_.erase(highest);
        open_.erase(highest);
        without_memory_.insert(highest);
    }
}

void Slots::open_page() {
    Buffer<std::byte> memory(slots_in_page_ * bytes_);
    std::size_t number = pages_.size();
    if (without_memory_.empty()) {
        pages_.emplace_back();
        links_.resize(pages_.size() * slots_in_page_);
        Page& page = pages_.back();
        for (std::size_t i = slots_in_page_; i-- > 0;) {
            page.free.push_back(static_cast<std::int32_t>(number * slots_in_page_ + i));
        }
    } else {
        number = *without_memory_.begin();
        without_memory_.erase(number);
    }
    pages_[number].memory = std::move(memory);
    pages_[number].data = pages_[number].memory.data();
    open_.insert(number);
    empty_.insert(number);
}

std::size_t Slots::alive() const {
    std::lock_guard<std::mutex> lock(mutex_);
    return alive_;
}

std::size_t Slots::bytes() const {
    std::lock_guard<std::mutex> lock(mutex_);
    return (pages_.size() - without_memory_.size()) * slots_in_page_ * bytes_;
}

}  // namespace dragoman
