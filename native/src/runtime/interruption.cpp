#include "runtime/interruption.hpp"

namespace dragoman {

Interruption::Interruption(std::function<bool()> requested) : ask_(std::move(requested)) {}

void Interruption::poll() {
    if (std::this_thread::get_id() != caller_) return;
    work_ = 0;
    auto now = std::chrono::steady_clock::now();
    if (now < next_check_ || is_requested()) return;
    if (ask_()) requested_.store(true, std::memory_order_relaxed);
    next_check_ = std::chrono::steady_clock::now() + interval;
}

}  // namespace dragoman
