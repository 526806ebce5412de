// Scheduler that splits a batch into chunks of rows and assigns each chunk to all threads or to one thread.
//
// Threads that share a chunk read every weight once, but wait for each other after every GEMM. If there are enough rows
// for all threads, each thread computes chunks of its own without synchronization.
#pragma once

#include <atomic>
#include <exception>
#include <mutex>
#include <vector>

#include "model/forward_pass.hpp"

namespace dragoman {

/// Batch items from `first` to before `last` that are computed together; `first_row` counts the rows of earlier chunks.
struct Chunk {
    std::size_t first, last, first_row;
};

/// Split items into chunks of at most `max_rows` rows, or of one item. `rows(item)` counts the rows of an item.
template <class Rows>
std::vector<Chunk> split_into_chunks(std::size_t items, const Rows& rows, std::size_t max_rows) {
    std::vector<Chunk> chunks;
    std::size_t first_row = 0;
    for (std::size_t first = 0, last = 0; first < items; first = last) {
        std::size_t chunk_rows = 0;
        while (last < items && (last == first || chunk_rows + rows(last) <= max_rows)) chunk_rows += rows(last++);
        chunks.push_back({first, last, first_row});
        first_row += chunk_rows;
    }
    return chunks;
}

/// Threads that compute one chunk, and their workspace.
class Executor {
public:
    /// All threads of a pool.
    Executor(ThreadPool& threads, Workspace& workspace, Interruption& interruption)
        : workspace(workspace), threads_(&threads), interruption_(interruption) {}
    /// The current thread only.
    Executor(Workspace& workspace, Interruption& interruption) : workspace(workspace), interruption_(interruption) {}

    Workspace& workspace;

    std::size_t size() const { return threads_ == nullptr ? 1 : static_cast<std::size_t>(threads_->size()); }
    /// Run the task on these threads, or throw `Interrupted`.
    void run(const ThreadPool::Task& task) {
        if (threads_ != nullptr) return threads_->run(task, interruption_);
        task(ThreadPool::Worker(0, 1, barrier_, interruption_));
        interruption_.throw_if_requested();
    }

private:
    ThreadPool* threads_ = nullptr;
    Interruption& interruption_;
    Barrier barrier_{1};
};

class Scheduler {
public:
    /// `make_workspace()` creates the workspace of one thread.
    template <class MakeWorkspace>
    Scheduler(int threads, const MakeWorkspace& make_workspace) : threads_(threads) {
        for (int thread = 0; thread < threads_.size(); thread++) workspaces_.push_back(make_workspace());
    }

    ThreadPool& threads() { return threads_; }
    int num_threads() const { return threads_.size(); }

    /// Call `work(executor, chunk)` for all items, and rethrow its exceptions. `rows(item)` counts the rows of an item.
    template <class Rows, class Work>
    void for_each_chunk(std::size_t items, const Rows& rows, Interruption& interruption, const Work& work) {
        std::size_t total = 0, threads = workspaces_.size();
        for (std::size_t item = 0; item < items; item++) total += rows(item);
        if (threads == 1 || total < threads * min_rows_per_thread) {
            Executor all_threads(threads_, workspaces_[0], interruption);
            for (const Chunk& chunk : split_into_chunks(items, rows, max_shared_rows)) work(all_threads, chunk);
            return;
        }
        std::size_t rounds = (total + threads * max_rows_per_thread - 1) / (threads * max_rows_per_thread);
        std::size_t max_rows = (total + threads * rounds - 1) / (threads * rounds);
        run_in_parallel(split_into_chunks(items, rows, max_rows), interruption, work);
    }

private:
    template <class Work>
    void run_in_parallel(const std::vector<Chunk>& chunks, Interruption& interruption, const Work& work) {
        std::atomic<std::size_t> next{0};
        std::mutex mutex;
        std::exception_ptr error;
        auto run_chunks = [&](const ThreadPool::Worker& worker) {
            Executor one_thread(workspaces_[static_cast<std::size_t>(worker.index)], interruption);
            for (std::size_t index; (index = next.fetch_add(1)) < chunks.size();) {
                try {
                    work(one_thread, chunks[index]);
                } catch (...) {
                    std::lock_guard<std::mutex> lock(mutex);
                    error = std::current_exception();
                    next.store(chunks.size());
                }
            }
        };
        threads_.run(run_chunks, interruption);
        if (error) std::rethrow_exception(error);
    }

    /// Rows of a chunk: enough to reuse each weight that was read, and few enough for activations to stay in the cache.
    static constexpr std::size_t max_shared_rows = 512, max_rows_per_thread = 256;
    /// Rows per thread from which threads compute separate chunks.
    static constexpr std::size_t min_rows_per_thread = 64;

    ThreadPool threads_;
    std::vector<Workspace> workspaces_;
};

}  // namespace dragoman
