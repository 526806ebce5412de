// Memory that vector instructions like: aligned, and in large pages where it is large.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <utility>

#ifdef __linux__
#include <sys/mman.h>
#endif

#include "shapes.hpp"

namespace dragoman {

/// A fixed number of plain values, zero at first.
template <class T>
class Buffer {
public:
    Buffer() = default;

    explicit Buffer(std::size_t count) : count_(count), data_(allocate(count)) {}

    T* data() { return data_.get(); }
    const T* data() const { return data_.get(); }
    std::size_t size() const { return count_; }
    T& operator[](std::size_t index) { return data_.get()[index]; }
    const T& operator[](std::size_t index) const { return data_.get()[index]; }

    /// Room for so many values, whose contents are lost where there was not enough.
    void reserve(std::size_t count) {
        if (count > count_) {
            *this = Buffer();
            *this = Buffer(count);
        }
    }

private:
    struct Free {
        void operator()(T* data) const { std::free(data); }
    };

    static T* allocate(std::size_t count) {
        constexpr std::size_t line = 64, large_page = std::size_t{1} << 21;
        std::size_t bytes = rounded_up(count * sizeof(T), line);
        if (bytes == 0) return nullptr;
        bool large = bytes >= large_page;
        void* data = nullptr;
        if (posix_memalign(&data, large ? large_page : line, bytes) != 0) throw std::bad_alloc();
#ifdef MADV_HUGEPAGE
        if (large) madvise(data, bytes, MADV_HUGEPAGE);
#endif
        std::memset(data, 0, bytes);
        return static_cast<T*>(data);
    }

    std::size_t count_ = 0;
    std::unique_ptr<T, Free> data_;
};

}  // namespace dragoman
