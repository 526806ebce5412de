// Heap memory aligned for SIMD, in huge pages if it is large.
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

#include "kernels/data_layout.hpp"

namespace dragoman {

/// Array of trivial values, initially zero.
template <class T>
class AlignedBuffer {
public:
    AlignedBuffer() = default;

    explicit AlignedBuffer(std::size_t count) : count_(count), data_(allocate(count)) {}

    T* data() { return data_.get(); }
    const T* data() const { return data_.get(); }
    std::size_t size() const { return count_; }
    T& operator[](std::size_t index) { return data_.get()[index]; }
    const T& operator[](std::size_t index) const { return data_.get()[index]; }

    /// Ensure a capacity of `count` values; growing discards the contents.
    void reserve(std::size_t count) {
        if (count > count_) {
            *this = AlignedBuffer();
            *this = AlignedBuffer(count);
        }
    }

private:
    struct Free {
        void operator()(T* data) const { std::free(data); }
    };

    static T* allocate(std::size_t count) {
        constexpr std::size_t cache_line = 64, huge_page = std::size_t{1} << 21;
        std::size_t bytes = round_up(count * sizeof(T), cache_line);
        if (bytes == 0) return nullptr;
        bool large = bytes >= huge_page;
        void* data = nullptr;
        if (posix_memalign(&data, large ? huge_page : cache_line, bytes) != 0) throw std::bad_alloc();
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
