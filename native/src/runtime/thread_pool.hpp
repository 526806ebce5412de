// Thread pool whose workers run a whole decoding step together. Barriers separate the operations of a step, which is
// cheaper than a fork and join for each operation.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "runtime/interruption.hpp"
#include "runtime/partition.hpp"

namespace dragoman {

/// Barrier that spins first, because an operation takes microseconds, and then sleeps.
class Barrier {
public:
    /// Threads poll `pauses` times before they yield their core between polls, and then sleep.
    explicit Barrier(int count, int pauses = 0, int yields = 0) : count_(count), pauses_(pauses), polls_(pauses + yields) {}

    /// Block until all `count` threads have called `wait`. A calling thread polls its interruption meanwhile.
    void wait(Interruption* interruption = nullptr);

private:
    const int count_, pauses_, polls_;
    alignas(64) std::atomic<int> arrived_{0};
    alignas(64) std::atomic<std::uint32_t> generation_{0};
    std::atomic<int> sleepers_{0};
    std::mutex mutex_;
    std::condition_variable wake_;
};

/// Time between two runs of a pool: a search in C++ takes microseconds, and one in Python milliseconds, in which idle
/// threads sleep instead of using a core.
enum class Gap { short_, long_ };

class ThreadPool {
public:
    /// One of the threads that run a task.
    class Worker {
    public:
        Worker(int index, int count, Barrier& barrier, Interruption& interruption)
            : index(index), count(count), barrier_(barrier), interruption_(interruption) {}

        const int index, count;

        /// Block until all workers have reached this point.
        void wait() const { barrier_.wait(&interruption_); }

        /// Whether to skip the following `work` (multiplications), because the call is interrupted.
        bool skips(std::size_t work) const { return interruption_.skips(work); }

        /// Contiguous share of `items` work items.
        Range partition(std::size_t items) const {
            return dragoman::partition(items, static_cast<std::size_t>(index), static_cast<std::size_t>(count));
        }

    private:
        Barrier& barrier_;
        Interruption& interruption_;
    };

    using Task = std::function<void(const Worker&)>;

    /// Start `size - 1` threads, or fewer if the system refuses; the caller of `run` is the first worker.
    explicit ThreadPool(int size, Gap gap = Gap::short_);
    ~ThreadPool();
    ThreadPool(const ThreadPool&) = delete;
    ThreadPool& operator=(const ThreadPool&) = delete;

    int size() const { return size_; }

    /// Run the task on every worker, and return when all have finished, or throw `Interrupted`. The task must not throw.
    void run(const Task& task, Interruption& interruption);

private:
    void worker_loop(int index);

    struct Barriers {
        Barriers(int count, Gap gap);
        Barrier start, within, end;
    };

    int size_ = 1;
    std::mutex startup_mutex_;
    std::unique_ptr<Barriers> barriers_;
    const Task* task_ = nullptr;
    Interruption* interruption_ = nullptr;
    std::vector<std::thread> threads_;
};

/// Number of cores available to this process, within the CPU quota of its container.
int available_cores();

}  // namespace dragoman
