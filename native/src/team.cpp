#include "team.hpp"

#include <algorithm>
#include <stdexcept>

#include <unistd.h>

#ifdef __linux__
#include <sched.h>
#endif

namespace dragoman {

namespace {

/// Looks at a barrier before going to sleep. Some tens of microseconds without letting go of the core, longer than any
/// piece of a small step; then, for longer than a search takes between two steps, only where nobody else wants it.
constexpr int eager = 4000, patience = 5000;

inline void breathe() {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("yield");
#endif
}

}  // namespace

void Barrier::wait() {
    std::uint32_t round = round_.load(std::memory_order_acquire);
    if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 == members_) {
        arrived_.store(0, std::memory_order_relaxed);
        // In one total order with the sleepers' count: either a sleeper sees the new round, or we see the sleeper.
        round_.store(round + 1, std::memory_order_seq_cst);
        if (sleepers_.load(std::memory_order_seq_cst) > 0) {
            std::lock_guard<std::mutex> lock(mutex_);
            wake_.notify_all();
        }
        return;
    }
    for (int looks = 0; looks < patience; looks++) {
        if (round_.load(std::memory_order_acquire) != round) return;
        if (looks < eager) {
            breathe();
        } else {
            std::this_thread::yield();
        }
    }
    std::unique_lock<std::mutex> lock(mutex_);
    sleepers_.fetch_add(1, std::memory_order_seq_cst);
    wake_.wait(lock, [&] { return round_.load(std::memory_order_seq_cst) != round; });
    sleepers_.fetch_sub(1, std::memory_order_relaxed);
}

Team::Team(int members)
    : members_(members), process_(static_cast<int>(getpid())), start_(members), within_(members), end_(members) {
    for (int number = 1; number < members; number++) {
        threads_.emplace_back([this, number] { follow(number); });
    }
}

Team::~Team() {
    if (members_ > 1 && static_cast<int>(getpid()) == process_) {
        task_ = nullptr;
        start_.wait();
    }
    for (std::thread& thread : threads_) {
        // After a fork there are no threads any more to wait for.
        if (static_cast<int>(getpid()) == process_) {
            thread.join();
        } else {
            thread.detach();
        }
    }
}

void Team::run(const Task& task) {
    Member first(0, members_, within_);
    if (members_ == 1) return task(first);
    if (static_cast<int>(getpid()) != process_) {
        throw std::runtime_error("this model was loaded before the process was forked, and threads do not follow a fork; "
                                 "load it again in the new process");
    }
    task_ = &task;
    start_.wait();
    task(first);
    end_.wait();
}

void Team::follow(int number) {
    Member member(number, members_, within_);
    for (;;) {
        start_.wait();
        if (task_ == nullptr) return;
        (*task_)(member);
        end_.wait();
    }
}

int usable_cores() {
#ifdef __linux__
    cpu_set_t cores;
    if (sched_getaffinity(0, sizeof(cores), &cores) == 0) return std::max(1, CPU_COUNT(&cores));
#endif
    return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

}  // namespace dragoman
