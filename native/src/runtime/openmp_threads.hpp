// Threads of the OpenMP runtime that PyTorch has loaded.
//
// A pool of our own would compete for the cores with PyTorch's threads, which spin between two operations. The runtime is
// looked up among the loaded libraries and is no dependency; without it, the calling thread computes alone.
#pragma once

#include <cstddef>

#include "runtime/partition.hpp"

#ifdef __SANITIZE_THREAD__
extern "C" void __tsan_acquire(void* address);
extern "C" void __tsan_release(void* address);
#endif

namespace dragoman {

/// Tell the thread sanitizer, which does not see the barriers of OpenMP, that what happened before `release(address)` in
/// one thread happened before `acquire(address)` in another.
struct BarrierAnnotation {
#ifdef __SANITIZE_THREAD__
    static void acquire(void* address) { __tsan_acquire(address); }
    static void release(void* address) { __tsan_release(address); }
#else
    static void acquire(void*) {}
    static void release(void*) {}
#endif
};

class OpenMpThreads {
public:
    OpenMpThreads();

    /// Number of threads for `work` units of about a quarter of a nanosecond: at most as many as OpenMP gives the calling
    /// thread. It is 1 in a forked process: OpenMP would wait for threads that were not copied.
    std::size_t count_for(std::size_t work) const;

    /// Call `work(range, thread)` for `count` shares of the items, each on one thread. `work` must not throw.
    template <class Work>
    void for_each_share(std::size_t items, std::size_t count, const Work& work) const {
        if (count <= 1 || items == 0) return work(Range{0, items}, std::size_t{0});
        Region<Work> region{this, items, work};
        BarrierAnnotation::release(&region);
        parallel_(&Region<Work>::run, &region, static_cast<unsigned>(count), 0);
        BarrierAnnotation::acquire(&region);
    }

private:
    template <class Work>
    struct Region {
        const OpenMpThreads* threads;
        std::size_t items;
        const Work& work;

        static void run(void* data) {
            BarrierAnnotation::acquire(data);
            const Region& region = *static_cast<const Region*>(data);
            // The runtime may start fewer threads than requested.
            auto thread = static_cast<std::size_t>(region.threads->thread_index_());
            auto count = static_cast<std::size_t>(region.threads->num_threads_());
            region.work(partition(region.items, thread, count), thread);
            BarrierAnnotation::release(data);
        }
    };

    int (*max_threads_)() = nullptr;
    int (*num_threads_)() = nullptr;
    int (*thread_index_)() = nullptr;
    /// Entry point of a parallel region in the interface of GCC, which LLVM's and Intel's runtimes have too.
    void (*parallel_)(void (*)(void*), void*, unsigned, unsigned) = nullptr;
};

}  // namespace dragoman
