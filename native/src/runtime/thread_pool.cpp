#include "runtime/thread_pool.hpp"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <system_error>

#ifdef __linux__
#include <sched.h>
#endif

namespace dragoman {

namespace {

/// Polls of a barrier before sleeping. Pauses keep the core, some tens of microseconds, longer than any operation of a
/// small step. Yields give it away, for longer than a search in C++ takes between two steps.
constexpr int pauses = 4000, yields = 1000;
/// Pauses before a long gap, which is longer than a thread takes to wake up.
constexpr int pauses_before_long_gap = 100;

inline void cpu_pause() {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("yield");
#endif
}

}  // namespace

void Barrier::wait(Interruption* interruption) {
    std::uint32_t generation = generation_.load(std::memory_order_acquire);
    if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 == count_) {
        arrived_.store(0, std::memory_order_relaxed);
        // Sequentially consistent with `sleepers_`: a sleeper sees the new generation, or this thread sees the sleeper.
        generation_.store(generation + 1, std::memory_order_seq_cst);
        if (sleepers_.load(std::memory_order_seq_cst) > 0) {
            std::lock_guard<std::mutex> lock(mutex_);
            wake_.notify_all();
        }
        return;
    }
    for (int poll = 0; poll < polls_; poll++) {
        if (generation_.load(std::memory_order_acquire) != generation) return;
        if (poll < pauses_) {
            cpu_pause();
        } else {
            std::this_thread::yield();
        }
    }
    std::unique_lock<std::mutex> lock(mutex_);
    sleepers_.fetch_add(1, std::memory_order_seq_cst);
    auto passed = [&] { return generation_.load(std::memory_order_seq_cst) != generation; };
    while (interruption != nullptr && !wake_.wait_for(lock, Interruption::interval, passed)) {
        lock.unlock();
        interruption->poll();
        lock.lock();
    }
    wake_.wait(lock, passed);
    sleepers_.fetch_sub(1, std::memory_order_relaxed);
}

ThreadPool::Barriers::Barriers(int count, Gap gap)
    : start(count, gap == Gap::short_ ? pauses : pauses_before_long_gap, gap == Gap::short_ ? yields : 0),
      within(count, pauses, yields),
      end(count, gap == Gap::short_ ? pauses : pauses_before_long_gap, gap == Gap::short_ ? yields : 0) {}

ThreadPool::ThreadPool(int size, Gap gap) {
    std::lock_guard<std::mutex> lock(startup_mutex_);
    threads_.reserve(static_cast<std::size_t>(size - 1));
    try {
        for (int index = 1; index < size; index++) {
            threads_.emplace_back([this, index] { worker_loop(index); });
        }
    } catch (const std::system_error&) {
        // The threads that exist do all the work; results do not depend on their number.
    }
    size_ = static_cast<int>(threads_.size()) + 1;
    barriers_ = std::make_unique<Barriers>(size_, gap);
}

ThreadPool::~ThreadPool() {
    task_ = nullptr;
    if (size_ > 1) barriers_->start.wait();
    for (std::thread& thread : threads_) thread.join();
}

void ThreadPool::run(const Task& task, Interruption& interruption) {
    task_ = &task;
    interruption_ = &interruption;
    if (size_ > 1) barriers_->start.wait();
    task(Worker(0, size_, barriers_->within, interruption));
    if (size_ > 1) barriers_->end.wait(&interruption);
    interruption.throw_if_requested();
}

void ThreadPool::worker_loop(int index) {
    {
        std::lock_guard<std::mutex> lock(startup_mutex_);
    }  // until the constructor knows the number of workers
    for (;;) {
        barriers_->start.wait();
        if (task_ == nullptr) return;
        (*task_)(Worker(index, size_, barriers_->within, *interruption_));
        barriers_->end.wait();
    }
}

int available_cores() {
    int cores = static_cast<int>(std::thread::hardware_concurrency());
#ifdef __linux__
    cpu_set_t allowed;
    if (sched_getaffinity(0, sizeof(allowed), &allowed) == 0) cores = CPU_COUNT(&allowed);
    // A container may show all cores but throttle their use, which stalls every barrier.
    std::ifstream limit("/sys/fs/cgroup/cpu.max");
    double quota = 0, period = 0;
    if (limit >> quota >> period && period > 0) cores = std::min(cores, static_cast<int>(std::ceil(quota / period)));
#endif
    return std::max(1, cores);
}

}  // namespace dragoman
