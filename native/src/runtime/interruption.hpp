// Interruption of a long call, for example by Ctrl-C.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <functional>
#include <thread>

namespace dragoman {

/// Exception that ends an interrupted call.
struct Interrupted {};

/// Request to end a call early. Its threads skip their remaining work, but meet at all barriers, and the calling thread
/// throws `Interrupted` after them.
class Interruption {
public:
    /// `requested` is asked about ten times per second, by the thread that creates this object: the calling thread.
    explicit Interruption(std::function<bool()> requested);

    /// Time between two checks, also while the calling thread waits.
    static constexpr std::chrono::milliseconds interval{100};

    bool is_requested() const { return requested_.load(std::memory_order_relaxed); }

    /// Whether to skip the following `work`, a number of multiplications. The calling thread checks the clock from time
    /// to time.
    bool skips(std::size_t work) {
        if (std::this_thread::get_id() == caller_ && (work_ += work) >= work_per_check) poll();
        return is_requested();
    }
    /// Ask, if the time since the last check is long enough. Other threads than the calling one do nothing.
    void poll();
    /// Throw `Interrupted` if the call is interrupted; for the calling thread.
    void check() {
        poll();
        throw_if_requested();
    }
    void throw_if_requested() const {
        if (is_requested()) throw Interrupted();
    }

private:
    /// Less than a millisecond of fast kernels, and less than a tenth of a second of slow ones.
    static constexpr std::size_t work_per_check = std::size_t{1} << 24;

    const std::function<bool()> ask_;
    const std::thread::id caller_ = std::this_thread::get_id();
    std::chrono::steady_clock::time_point next_check_ = std::chrono::steady_clock::now() + interval;
    std::size_t work_ = 0;
    /// On a cache line that no thread writes before the interruption.
    alignas(64) std::atomic<bool> requested_{false};
};

}  // namespace dragoman
