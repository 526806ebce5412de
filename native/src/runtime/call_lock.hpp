// Lock under which calls from several threads run one after another.
#pragma once

#include <condition_variable>
#include <mutex>
#include <thread>

#include "runtime/interruption.hpp"

namespace dragoman {

/// Lock whose waiting threads can be interrupted.
class CallLock {
public:
    /// Throw `Interrupted`, or std::runtime_error if this thread holds the lock: a signal handler called the model.
    void lock(Interruption& interruption);
    void unlock();

private:
    std::mutex mutex_;
    std::condition_variable released_;
    std::thread::id owner_;
};

/// Holds a `CallLock` in its scope.
class CallTurn {
public:
    CallTurn(CallLock& lock, Interruption& interruption) : lock_(lock) { lock_.lock(interruption); }
    ~CallTurn() { lock_.unlock(); }
    CallTurn(const CallTurn&) = delete;
    CallTurn& operator=(const CallTurn&) = delete;

private:
    CallLock& lock_;
};

}  // namespace dragoman
