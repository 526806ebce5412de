// Who takes a portion of the rows, and on what memory: the whole team, or each member another portion.
//
// A team that works on the same rows fetches every weight once and waits at every product. Where there are rows enough for
// everybody, members do not wait for one another: each takes the next portion when it is through with its own.
#pragma once

#include <atomic>
#include <exception>
#include <mutex>
#include <vector>

#include "pass.hpp"
#include "portions.hpp"

namespace dragoman {

/// Those who do a task for a portion, and their memory.
class Crew {
public:
    /// The whole team.
    Crew(Team& team, Workspace& space) : space(space), team_(&team) {}
    /// One who works alone.
    explicit Crew(Workspace& space) : space(space) {}

    Workspace& space;

    std::size_t size() const { return team_ == nullptr ? 1 : static_cast<std::size_t>(team_->size()); }
    void run(const Team::Task& task) {
        if (team_ != nullptr) return team_->run(task);
        task(Team::Member(0, 1, nobody_else_));
    }

private:
    Team* team_ = nullptr;
    Barrier nobody_else_{1};
};

/// A team with memory for its passes.
class Crews {
public:
    /// `make()` gives a member's memory.
    template <class Make>
    Crews(int members, const Make& make) : team_(members) {
        for (int member = 0; member < team_.size(); member++) spaces_.push_back(make());
    }

    Team& team() { return team_; }
    int size() const { return team_.size(); }

    /// `work(crew, portion)` for all pieces, of which `rows(piece)` says how many rows each has. Throws what work throws.
    template <class Rows, class Work>
    void in_portions(std::size_t pieces, const Rows& rows, const Work& work) {
        std::size_t total = 0, members = spaces_.size();
        for (std::size_t piece = 0; piece < pieces; piece++) total += rows(piece);
        if (members == 1 || total < members * enough_alone) {
            Crew together(team_, spaces_[0]);
            for (const Portion& portion : portions_of(pieces, rows, rows_at_once)) work(together, portion);
            return;
        }
        std::size_t rounds = (total + members * rows_alone - 1) / (members * rows_alone);
        apart(portions_of(pieces, rows, (total + members * rounds - 1) / (members * rounds)), work);
    }

private:
    template <class Work>
    void apart(const std::vector<Portion>& portions, const Work& work) {
        std::atomic<std::size_t> next{0};
        std::mutex mutex;
        std::exception_ptr fault;
        team_.run([&](const Team::Member& member) {
            Crew alone(spaces_[static_cast<std::size_t>(member.number)]);
            for (std::size_t number; (number = next.fetch_add(1)) < portions.size();) {
                try {
                    work(alone, portions[number]);
                } catch (...) {
                    std::lock_guard<std::mutex> lock(mutex);
                    fault = std::current_exception();
                }
            }
        });
        if (fault) std::rethrow_exception(fault);
    }

    /// Rows of one pass: enough to make good use of a weight that was fetched, few enough to stay near the processor.
    static constexpr std::size_t rows_at_once = 512, rows_alone = 256;
    /// Rows for each member from which on they work alone.
    static constexpr std::size_t enough_alone = 64;

    Team team_;
    std::vector<Workspace> spaces_;
};

}  // namespace dragoman
