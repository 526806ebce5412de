// Release of the GIL during a computation.
#pragma once

#include <nanobind/nanobind.h>

#include <unistd.h>

#include "runtime/interruption.hpp"

namespace dragoman {

/// Releases the GIL in its scope.
///
/// Up to Python 3.13, a thread that takes the GIL while the interpreter ends is terminated by unwinding its stack, which
/// aborts the process at the first function that must not throw. Such a thread, a daemon, sleeps instead until the
/// process ends, as in later versions.
class GilRelease {
public:
    GilRelease() : state_(PyEval_SaveThread()) {}
    ~GilRelease() { take(); }
    GilRelease(const GilRelease&) = delete;
    GilRelease& operator=(const GilRelease&) = delete;

    /// Run the pending signal handlers of Python, if this is the main thread; return whether one raised an exception.
    bool signal_handler_raises() {
        take();
        bool raises = PyErr_CheckSignals() != 0;
        state_ = PyEval_SaveThread();
        return raises;
    }

private:
    void take() noexcept {
        try {
            PyEval_RestoreThread(state_);
        } catch (...) {  // also catches the unwinding
            for (;;) pause();
        }
    }

    PyThreadState* state_;
};

/// Call `work(interruption)` without the GIL. An exception of a signal handler, such as KeyboardInterrupt, interrupts it.
template <class Work>
auto without_gil(const Work& work) {
    using Result = decltype(work(std::declval<Interruption&>()));
    bool interrupted = false;
    try {
        GilRelease release;
        Interruption interruption([&] { return interrupted = release.signal_handler_raises(); });
        Result result = work(interruption);
        interruption.throw_if_requested();
        return result;
    } catch (...) {
        if (!interrupted) throw;
    }
    throw nanobind::python_error();
}

}  // namespace dragoman
