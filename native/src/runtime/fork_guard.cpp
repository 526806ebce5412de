#include "runtime/fork_guard.hpp"

#include <pthread.h>

#include <atomic>
#include <stdexcept>

namespace dragoman {

namespace {

std::atomic<unsigned> forks{0};

/// Registered when the library is loaded, before any of its objects exists.
[[maybe_unused]] const int registered = pthread_atfork(nullptr, nullptr, [] { forks.fetch_add(1); });

}  // namespace

unsigned fork_count() { return forks.load(std::memory_order_relaxed); }

void ForkGuard::check() const {
    if (!is_forked()) return;
    throw std::runtime_error(
        "this model was loaded before the process was forked, and a fork does not copy threads; "
        "load the model again in the new process");
}

}  // namespace dragoman
