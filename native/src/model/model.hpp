// Loaded model: encoding, prefill and decoding steps. Calls from several threads run one after another. The arrays of a
// call must not change meanwhile: their ids are checked once.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "model/beam_state.hpp"
#include "model/decoder.hpp"
#include "model/encoder.hpp"
#include "model/scheduler.hpp"
#include "model/top_k.hpp"
#include "runtime/call_lock.hpp"

namespace dragoman {

class Model {
public:
    /// Throw std::invalid_argument if configuration and weights do not match. This and all long calls throw
    /// `Interrupted`.
    Model(const ModelConfig& config, Weights& weights, ComputeType compute_type, int num_threads,
          const std::optional<std::string>& instruction_set);

    /// Encode sources, or prefill the cache with prompts except their last tokens.
    Memory encode(const IdMatrix& ids, const std::vector<std::int64_t>& lengths, Interruption& interruption);
    /// Encode sources with a shortlist each, which restricts `top_k`.
    Memory encode_with_shortlists(const IdMatrix& ids, const std::vector<std::int64_t>& lengths,
                                  const ShortlistTokens& shortlists, Interruption& interruption);
    State start(const Memory& memory, std::size_t beam_size) const;
    /// Compute the logits of the next tokens, one row per hypothesis.
    State step(const IdMatrix& tokens, const Memory& memory, const State& state, MatrixView<float> logits,
               Interruption& interruption);
    /// Compute the k best next tokens and their log-probabilities, and behind them in each row the log-probabilities of
    /// `extra_tokens`, which may be suppressed. Throw std::domain_error if a logit is not finite.
    State top_k(const IdMatrix& tokens, const Memory& memory, const State& state,
                const std::vector<std::int64_t>& suppress_tokens, const std::vector<std::int64_t>& extra_tokens,
                MatrixView<float> log_probs, MatrixView<std::int32_t> ids, Interruption& interruption);

    /// Append one token per source, and write the weights of a cross-attention layer: one row per source with
    /// `num_heads` times the longest source columns. What it does not write, of shorter sources, it leaves.
    State cross_attention(const IdMatrix& tokens, const Memory& memory, const State& state, std::size_t layer,
                          MatrixView<float> weights, Interruption& interruption);

    const ModelConfig& config() const { return config_; }
    const char* instruction_set() const { return kernels_.name; }
    int num_threads() const { return scheduler_->num_threads(); }
    std::size_t cache_bytes() const { return cache_->bytes(); }
    std::size_t num_cache_entries() const { return cache_->num_entries(); }

private:
    std::vector<std::shared_ptr<EncodedSource>> encode_sources(const IdMatrix& ids,
                                                               const std::vector<std::size_t>& lengths,
                                                               Interruption& interruption);
    void encode_chunk(Executor& executor, const IdMatrix& ids, const std::vector<EncodedSource*>& sources,
                      const Chunk& chunk);
    State prefill(const IdMatrix& ids, const std::vector<std::size_t>& prompt_lengths, Interruption& interruption);
    void prefill_chunk(Executor& executor, const IdMatrix& ids, const std::vector<std::size_t>& lengths,
                       const std::vector<std::int32_t>& entries, const Chunk& chunk);
    std::vector<std::int32_t> append_entries(std::vector<std::int32_t>& ends, const std::vector<std::size_t>& lengths);

    /// Run one decoding step; `finish(executor, input, first_row)` computes the outputs of each chunk.
    template <class Finish>
    State decode_step(const IdMatrix& tokens, const Memory& memory, const State& state, Interruption& interruption,
                      const Finish& finish);
    CacheReferences next_entries(const State& state);
    DecoderInput decoder_input(const IdMatrix& tokens, const Memory& memory, const State& state, const State& next,
                               const Chunk& chunk) const;
    TopKSearch top_k_search(Executor& executor, const DecoderInput& input, const std::vector<std::int32_t>& suppressed,
                            const std::vector<std::int32_t>& extra, std::size_t k) const;
    void check_step(const IdMatrix& tokens, const Memory& memory, const State& state) const;
    std::vector<std::int32_t> checked_extra(const std::vector<std::int64_t>& extra_tokens) const;
    std::vector<std::int32_t> checked_suppressed(const std::vector<std::int64_t>& suppress_tokens, std::size_t k) const;

    const ModelConfig config_;
    const ComputeType compute_type_;
    const KernelTable kernels_;
    const HeadLayout heads_;
    std::shared_ptr<KvCachePool> cache_;
    Linear output_projection_;
    std::optional<Encoder> encoder_;
    std::optional<Decoder> decoder_;
    std::optional<Scheduler> scheduler_;
    CallLock lock_;
};

}  // namespace dragoman
