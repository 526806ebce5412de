// Contiguous shares of work items.
#pragma once

#include <cstddef>

namespace dragoman {

/// Items from `first` to before `last`.
struct Range {
    std::size_t first, last;
};

/// Share of thread `index` of `count` threads.
inline Range partition(std::size_t items, std::size_t index, std::size_t count) {
    return {items * index / count, items * (index + 1) / count};
}

}  // namespace dragoman
