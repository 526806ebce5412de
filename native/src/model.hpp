// A loaded model: what may be asked of it, from any thread, one after the other.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "best.hpp"
#include "crew.hpp"
#include "decoder.hpp"
#include "encoder.hpp"
#include "hypotheses.hpp"
#include "instruction_set.hpp"

namespace dragoman {

class Model {
public:
    /// Throws std::invalid_argument where settings and weights do not make a model.
    Model(const Settings& settings, Weights& weights, Compute compute, int threads,
          const std::optional<std::string>& instruction_set);

    /// Read sources, or prompts but for their last tokens.
    Memory encode(const Ids& ids, const std::vector<std::int64_t>& lengths);
    /// Read sources for which `best` and `follow` know no other words than their candidates.
    Memory encode_for(const Ids& ids, const std::vector<std::int64_t>& lengths, const TokenLists& candidates);
    State start(const Memory& memory, std::size_t beam) const;
    /// All logits of what follows `tokens`, one row a hypothesis.
    State step(const Ids& tokens, const Memory& memory, const State& state, Table<float> logits);
    /// The k best that are not forbidden, with their log-probabilities; throws std::domain_error where logits are not
    /// finite.
    State best(const Ids& tokens, const Memory& memory, const State& state, const std::vector<std::int64_t>& forbidden,
               Table<float> log_probs, Table<std::int32_t> ids);
    /// What `best` gives after each of the first `lengths` tokens of a hypothesis' row, all in one pass: a row of results
    /// a token, sentence by sentence. Beams are of one.
    State follow(const Ids& tokens, const std::vector<std::int64_t>& lengths, const Memory& memory, const State& state,
                 const std::vector<std::int64_t>& forbidden, Table<float> log_probs, Table<std::int32_t> ids);

    const Settings& settings() const { return settings_; }
    const char* instruction_set() const { return kernels_.name; }
    int threads() const { return crews_->size(); }
    /// Bytes of keys and values that are kept for hypotheses.
    std::size_t slot_bytes() const { return slots_->bytes(); }
    std::size_t slots_alive() const { return slots_->alive(); }

private:
    std::vector<std::shared_ptr<Sentence>> encode_sources(const Ids& ids, const std::vector<std::size_t>& lengths);
    void read_sources(Crew& crew, const Ids& ids, const std::vector<Sentence*>& sentences, const Portion& portion);
    State read_prompts(const Ids& ids, const std::vector<std::size_t>& lengths);
    void read_prompts(Crew& crew, const Ids& ids, const std::vector<std::size_t>& lengths,
                      const std::vector<std::int32_t>& slots, const Portion& portion);

    /// Slots for the next places of hypotheses, one after the other; `ends` become those of the last places.
    std::vector<std::int32_t> extended(std::vector<std::int32_t>& ends, const std::vector<std::size_t>& lengths);
    Steps followed(const Ids& tokens, const Memory& memory, const State& state, const std::vector<std::int32_t>& chain,
                   const std::vector<std::size_t>& lengths, const Portion& portion) const;
    /// Of all rows of a pass, those of a sentence after each other.
    Best best_of(Crew& crew, const Steps& steps, const std::vector<std::int32_t>& forbidden, std::size_t k) const;
    std::vector<std::int32_t> checked_forbidden(const std::vector<std::int64_t>& forbidden, std::size_t k) const;
    void find(Crew& crew, const Steps& steps, Best& best, float* log_probs, std::int32_t* ids) const;

    /// Hypotheses with one more place, which `finish(crew, steps, row of the first)` is shown, some sentences at a time.
    template <class Finish>
    State go_on(const Ids& tokens, const Memory& memory, const State& state, const Finish& finish);
    Steps steps_of(const Ids& tokens, const Memory& memory, const State& next, const Portion& portion) const;
    void check_state(const Memory& memory, const State& state) const;
    void check_step(const Ids& tokens, const Memory& memory, const State& state) const;

    const Settings settings_;
    const Compute compute_;
    const Kernels kernels_;
    const Heads heads_;
    std::shared_ptr<Slots> slots_;
    Linear unembedding_;
    std::optional<Encoder> encoder_;
    std::optional<Decoder> decoder_;
    std::optional<Crews> crews_;
    std::mutex busy_;
};

}  // namespace dragoman
