#include "team.hpp"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <stdexcept>
#include <system_error>

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

Team::Team(int members) : process_(static_cast<int>(getpid())) {
    std::lock_guard<std::mutex> lock(gathering_);
    threads_.reserve(static_cast<std::size_t>(members - 1));
    try {
        for (int number = 1; number < members; number++) {
            threads_.emplace_back([this, number] { follow(number); });
        }
    } catch (const std::system_error&) {
        // Those that are there do the work of all: what is computed does not depend on how many they are.
    }
    members_ = static_cast<int>(threads_.size()) + 1;
    barriers_ = std::make_unique<Barriers>(members_);
}

Team::~Team() {
    if (static_cast<int>(getpid()) == process_) {
        task_ = nullptr;
        if (members_ > 1) barriers_->start.wait();
        for (std::thread& thread : threads_) thread.join();
        return;
    }
    // After a fork there are no threads any more to wait for, and a barrier's end would wait for those who sleep at it.
    for (std::thread& thread : threads_) thread.detach();
    static_cast<void>(barriers_.release());
}

void Team::run(const Task& task) {
    Member first(0, members_, barriers_->within);
    if (members_ == 1) return task(first);
    if (static_cast<int>(getpid()) != process_) {
        throw std::runtime_error("this model was loaded before the process was forked, and threads do not follow a fork; "
                                 "load it again in the new process");
    }
    task_ = &task;
    barriers_->start.wait();
    task(first);
    barriers_->end.wait();
}

void Team::follow(int number) {
    { std::lock_guard<std::mutex> lock(gathering_); }  // until it is known how many there are
    Member member(number, members_, barriers_->within);
    for (;;) {
        barriers_->start.wait();
        if (task_ == nullptr) return;
        (*task_)(member);
        barriers_->end.wait();
    }
}

int usable_cores() {
    int cores = static_cast<int>(std::thread::hardware_concurrency());
#ifdef __linux__
    cpu_set_t allowed;
    if (sched_getaffinity(0, sizeof(allowed), &allowed) == 0) cores = CPU_COUNT(&allowed);
    // A container may see all cores and be stopped for most of the time: members who wait for one another would be lost.
    std::ifstream limit("/sys/fs/cgroup/cpu.max");
    double quota = 0, period = 0;
    if (limit >> quota >> period && period > 0) cores = std::min(cores, static_cast<int>(std::ceil(quota / period)));
#endif
    return std::max(1, cores);
}

}  // namespace dragoman
