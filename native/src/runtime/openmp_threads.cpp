#include "runtime/openmp_threads.hpp"

#include <algorithm>

#include <dlfcn.h>

#include "runtime/fork_guard.hpp"

namespace dragoman {

namespace {

/// Units of work that take about ten microseconds, some times longer than the start of a parallel region.
constexpr std::size_t min_work_per_thread = 32768;

template <class Function>
void find(const char* name, Function*& function) {
    function = reinterpret_cast<Function*>(dlsym(RTLD_DEFAULT, name));
}

}  // namespace

OpenMpThreads::OpenMpThreads() {
    find("omp_get_max_threads", max_threads_);
    find("omp_get_num_threads", num_threads_);
    find("omp_get_thread_num", thread_index_);
    find("GOMP_parallel", parallel_);
}

std::size_t OpenMpThreads::count_for(std::size_t work) const {
    bool found = max_threads_ != nullptr && num_threads_ != nullptr && thread_index_ != nullptr && parallel_ != nullptr;
    std::size_t worthwhile = work / min_work_per_thread;
    if (!found || worthwhile <= 1 || fork_count() > 0) return 1;
    return std::min(worthwhile, static_cast<std::size_t>(std::max(1, max_threads_())));
}

}  // namespace dragoman
