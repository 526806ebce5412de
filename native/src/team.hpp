// Threads that work through a whole step together, with barriers in between instead of a fork for each operation.
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

namespace dragoman {

/// Where members wait for one another: awake for a moment, because a step's pieces take microseconds, then asleep.
class Barrier {
public:
    explicit Barrier(int members) : members_(members) {}

    /// Returns when all members have come.
    void wait();

private:
    const int members_;
    alignas(64) std::atomic<int> arrived_{0};
    alignas(64) std::atomic<std::uint32_t> round_{0};
    std::atomic<int> sleepers_{0};
    std::mutex mutex_;
    std::condition_variable wake_;
};

class Team {
public:
    /// One of those that work on a task.
    class Member {
    public:
        Member(int number, int count, Barrier& barrier) : number(number), count(count), barrier_(barrier) {}

        const int number, count;

        /// Until all members have come this far.
        void wait() const { barrier_.wait(); }

        struct Range {
            std::size_t first, last;
        };
        /// This member's part of so many pieces of work, all in one stretch.
        Range share(std::size_t pieces) const {
            return {pieces * static_cast<std::size_t>(number) / static_cast<std::size_t>(count),
                    pieces * static_cast<std::size_t>(number + 1) / static_cast<std::size_t>(count)};
        }

    private:
        Barrier& barrier_;
    };

    using Task = std::function<void(const Member&)>;

    /// Fewer than asked for where the system gives no more threads.
    explicit Team(int members);
    ~Team();
    Team(const Team&) = delete;
    Team& operator=(const Team&) = delete;

    int size() const { return members_; }

    /// Every member does the task, the caller as the first; returns when all have. The task must not throw.
    void run(const Task& task);

private:
    void follow(int number);

    struct Barriers {
        explicit Barriers(int members) : start(members), within(members), end(members) {}
        Barrier start, within, end;
    };

    int members_ = 1;
    const int process_;
    std::mutex gathering_;
    std::unique_ptr<Barriers> barriers_;
    const Task* task_ = nullptr;
    std::vector<std::thread> threads_;
};

/// The cores that this process may use, or as many as a container lets it have the time of.
int usable_cores();

}  // namespace dragoman
