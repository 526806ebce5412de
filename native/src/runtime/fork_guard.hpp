// Detection of a fork, which copies the memory of a process but only the calling one of its threads.
#pragma once

namespace dragoman {

/// Number of forks between the process that loaded this library and this one.
unsigned fork_count();

/// Remembers the process that created it, without a system call per question.
class ForkGuard {
public:
    /// Whether this process is a fork: locks may be held, and data half written, by threads that it does not have.
    bool is_forked() const { return fork_count() != created_; }

    /// Throw std::runtime_error in a forked process.
    void check() const;

private:
    const unsigned created_ = fork_count();
};

}  // namespace dragoman
