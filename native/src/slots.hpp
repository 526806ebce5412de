// Keys and values of what was decoded so far: one slot a hypothesis and place, linked to the slot of the place before.
//
// Hypotheses that share a beginning share its slots, and choosing, dropping and joining hypotheses moves no keys and values:
// it counts who still needs a slot. A slot is written once; what nobody needs any more is free at once. So every state
// stays what it was, whatever becomes of others.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <set>
#include <vector>

#include "buffer.hpp"

namespace dragoman {

class Slots {
public:
    static constexpr std::int32_t none = -1;

    explicit Slots(std::size_t bytes);

    /// New slots after these, each with one holder. They are not written.
    std::vector<std::int32_t> after(const std::vector<std::int32_t>& parents);
    void hold(const std::vector<std::int32_t>& slots);
    void release(const std::vector<std::int32_t>& slots);
    /// The slots so many places before these, each with one holder more.
    std::vector<std::int32_t> back(std::vector<std::int32_t> slots, const std::vector<std::size_t>& places);

    /// Where a slot's numbers are. Safe for slots that are held, while others come and go on other threads; new ones
    /// must not be made meanwhile.
    std::byte* data(std::int32_t slot) const {
        auto number = static_cast<std::size_t>(slot);
        return pages_[number >> shift_].data + (number & (slots_in_page_ - 1)) * bytes_;
    }
    std::int32_t before(std::int32_t slot) const { return links_[static_cast<std::size_t>(slot)].parent; }

    /// Slots that are held, and the bytes that all take.
    std::size_t alive() const;
    std::size_t bytes() const;

private:
    struct Link {
        std::int32_t parent, holders;
    };
    struct Page {
        Buffer<std::byte> memory;
        std::byte* data = nullptr;
        std::vector<std::int32_t> free;
    };

    std::int32_t take();
    void give_back(std::int32_t slot);
    void open_page();

    /// A page has a power of two of slots.
    const std::size_t bytes_, shift_, slots_in_page_;
    mutable std::mutex mutex_;
    std::vector<Page> pages_;
    std::vector<Link> links_;
    /// Pages with room; the lowest are filled first, so that the highest become empty.
    std::set<std::size_t> open_;
    std::set<std::size_t> empty_, without_memory_;
    std::size_t alive_ = 0;
};

}  // namespace dragoman
