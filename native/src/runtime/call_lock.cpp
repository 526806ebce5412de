#include "runtime/call_lock.hpp"

#include <stdexcept>

namespace dragoman {

void CallLock::lock(Interruption& interruption) {
    std::unique_lock<std::mutex> guard(mutex_);
    if (owner_ == std::this_thread::get_id()) {
        throw std::runtime_error("a signal handler called a model during another call of this model");
    }
    while (owner_ != std::thread::id()) {
        if (released_.wait_for(guard, Interruption::interval) == std::cv_status::no_timeout) continue;
        guard.unlock();
        interruption.check();
        guard.lock();
    }
    owner_ = std::this_thread::get_id();
}

void CallLock::unlock() {
    std::lock_guard<std::mutex> guard(mutex_);
    owner_ = std::thread::id();
    released_.notify_one();
}

}  // namespace dragoman
