#include "model/model.hpp"

#include <algorithm>
#include <stdexcept>

#include "kernels/dispatch.hpp"
#include "model/input_checks.hpp"

namespace dragoman {

namespace {

constexpr std::size_t max_beam_size = std::size_t{1} << 20;
constexpr int max_threads = 1024;

int checked_threads(int num_threads) {
    if (num_threads < 0 || num_threads > max_threads) {
        throw std::invalid_argument("num_threads = " + std::to_string(num_threads) + " must be from 0 (all cores) to " +
                                    std::to_string(max_threads));
    }
    return num_threads == 0 ? available_cores() : num_threads;
}

const ModelConfig& validated(const ModelConfig& config) {
    config.validate();
    return config;
}

/// Look up weights of the last blocks before allocating memory: a wrong configuration may ask for too much.
void check_last_blocks(const ModelConfig& config, Weights& weights) {
    auto check = [&](const std::string& blocks, std::size_t layers) {
        weights.matrix(blocks + std::to_string(layers - 1) + ".feed_forward.inner.weight", config.d_ff, config.d_model);
    };
    check(config.decoder_only ? "blocks." : "decoder.", config.decoder_layers);
    if (!config.decoder_only) check("encoder.", config.encoder_layers);
}

Workspace make_workspace(const ModelConfig& config, const HeadLayout& heads, std::size_t cross_kv_width) {
    Workspace workspace;
    std::size_t hidden = padded_width(config.d_ff), queries = padded_width(heads.query_width());
    workspace.width = padded_width(config.d_model);
    workspace.attention_width = queries;
    workspace.max_input_width = std::max({workspace.width, hidden, queries});
    workspace.max_output_width = std::max({padded_width(heads.query_width() + 2 * heads.kv_width()), 2 * workspace.width,
                                           config.gated ? 2 * hidden : hidden, cross_kv_width});
    return workspace;
}

/// Keys and values of one position, or the state of a recurrent decoder.
std::size_t cache_entry_bytes(const ModelConfig& config, const HeadLayout& heads) {
    if (config.ssru) return config.decoder_layers * padded_width(config.d_model) * sizeof(float);
    std::size_t kv_heads = config.total_kv_heads(config.decoder_kept_heads, config.decoder_layers);
    return kv_heads * 2 * heads.head_width * heads.element_bytes();
}

}  // namespace

Model::Model(const ModelConfig& config, Weights& weights, ComputeType compute_type, int num_threads,
             const std::optional<std::string>& instruction_set)
    : config_(validated(config)),
      compute_type_(compute_type),
      kernels_(select_kernels(instruction_set)),
      heads_(config_, compute_type),
      cache_(std::make_shared<KvCachePool>(cache_entry_bytes(config_, heads_))) {
    int threads = checked_threads(num_threads);
    check_last_blocks(config_, weights);
    LoadContext context{config_, kernels_, compute_type, weights};
    output_projection_ = load_output_projection(context);
    if (!config_.decoder_only) encoder_.emplace(context, output_projection_);
    decoder_.emplace(context, output_projection_);
    weights.check_all_used();
    std::size_t cross_kv_width = encoder_ ? encoder_->cross_kv_width() : 0;
    scheduler_.emplace(threads, [&] { return make_workspace(config_, heads_, cross_kv_width); });
}

Memory Model::encode(const IdMatrix& ids, const std::vector<std::int64_t>& lengths, Interruption& interruption) {
    std::size_t vocabulary = config_.decoder_only ? config_.target_vocabulary : config_.source_vocabulary;
    std::vector<std::size_t> checked = checked_lengths(ids, lengths, vocabulary);
    std::vector<std::int32_t> memory_lengths(lengths.begin(), lengths.end());
    CallTurn turn(lock_, interruption);
    if (!config_.decoder_only) {
        auto sources = encode_sources(ids, checked, interruption);
        return Memory({sources.begin(), sources.end()}, std::move(memory_lengths), nullptr, cache_);
    }
    auto prompt_state = std::make_shared<const State>(prefill(ids, checked, interruption));
    return Memory({}, std::move(memory_lengths), std::move(prompt_state), cache_);
}

Memory Model::encode_with_shortlists(const IdMatrix& ids, const std::vector<std::int64_t>& lengths,
                                     const ShortlistTokens& tokens, Interruption& interruption) {
    if (config_.decoder_only) {
        throw std::invalid_argument("shortlists belong to sources, and a decoder-only model has no sources");
    }
    std::vector<std::size_t> checked = checked_lengths(ids, lengths, config_.source_vocabulary);
    CallTurn turn(lock_, interruption);
    auto shortlists = build_shortlists(tokens, checked.size(), output_projection_, config_.target_vocabulary,
                                       scheduler_->threads(), interruption);
    auto sources = encode_sources(ids, checked, interruption);
    for (std::size_t i = 0; i < sources.size(); i++) sources[i]->shortlist = std::move(shortlists[i]);
    return Memory({sources.begin(), sources.end()}, {lengths.begin(), lengths.end()}, nullptr, cache_);
}

std::vector<std::shared_ptr<EncodedSource>> Model::encode_sources(const IdMatrix& ids,
                                                                  const std::vector<std::size_t>& lengths,
                                                                  Interruption& interruption) {
    std::vector<std::shared_ptr<EncodedSource>> sources;
    std::vector<EncodedSource*> targets;
    std::size_t kv_heads = config_.total_kv_heads(config_.cross_kept_heads, config_.decoder_layers);
    for (std::size_t length : lengths) {
        interruption.check();
        std::size_t bytes = kv_heads * heads_.cross_kv_size(length) * heads_.element_bytes();
        auto source = std::make_shared<EncodedSource>(EncodedSource{length, AlignedBuffer<std::byte>(bytes), {}});
        targets.push_back(source.get());
        sources.push_back(std::move(source));
    }
    encoder_->extend_to(max_of(lengths));
    scheduler_->for_each_chunk(
        lengths.size(), [&](std::size_t i) { return lengths[i]; }, interruption,
        [&](Executor& executor, const Chunk& chunk) { encode_chunk(executor, ids, targets, chunk); });
    return sources;
}

void Model::encode_chunk(Executor& executor, const IdMatrix& ids, const std::vector<EncodedSource*>& sources,
                         const Chunk& chunk) {
    std::vector<std::int32_t> tokens;
    std::vector<SourceRows> rows;
    std::size_t longest = 0;
    for (std::size_t index = chunk.first; index < chunk.last; index++) {
        std::size_t length = sources[index]->length;
        rows.push_back({tokens.size(), length});
        longest = std::max(longest, length);
        tokens.insert(tokens.end(), ids.row(index), ids.row(index) + length);
    }
    std::vector<EncodedSource*> chunk_sources(sources.begin() + static_cast<std::ptrdiff_t>(chunk.first),
                                              sources.begin() + static_cast<std::ptrdiff_t>(chunk.last));
    executor.workspace.reserve(tokens.size(), executor.size(), longest,
                               round_up(longest, simd_width) * heads_.head_dim);
    executor.run([&](const ThreadPool::Worker& worker) {
        ForwardPass pass(config_, kernels_, compute_type_, executor.workspace, worker, tokens.size());
        encoder_->forward(pass, tokens, rows, chunk_sources);
    });
}

/// Append a chain of `lengths[row]` entries to each end. Returns all entries, row after row, and updates `ends`.
std::vector<std::int32_t> Model::append_entries(std::vector<std::int32_t>& ends,
                                                const std::vector<std::size_t>& lengths) {
    std::vector<std::size_t> offsets;
    std::size_t total = 0;
    for (std::size_t length : lengths) {
        offsets.push_back(total);
        total += length;
    }
    std::vector<std::int32_t> entries(total, KvCachePool::no_entry);
    for (std::size_t position = 0; position < max_of(lengths); position++) {
        std::vector<std::int32_t> parents;
        std::vector<std::size_t> rows;
        for (std::size_t row = 0; row < lengths.size(); row++) {
            if (position >= lengths[row]) continue;
            rows.push_back(row);
            parents.push_back(ends[row]);
        }
        std::vector<std::int32_t> added = cache_->append(parents);
        // The next entries reference these parents; the first parents belong to the caller.
        if (position > 0) cache_->release(parents);
        for (std::size_t i = 0; i < rows.size(); i++) {
            entries[offsets[rows[i]] + position] = ends[rows[i]] = added[i];
        }
    }
    return entries;
}

State Model::prefill(const IdMatrix& ids, const std::vector<std::size_t>& prompt_lengths, Interruption& interruption) {
    std::vector<std::size_t> lengths;
    for (std::size_t length : prompt_lengths) lengths.push_back(length - 1);
    decoder_->extend_to(max_of(lengths));
    std::vector<std::int32_t> ends(lengths.size(), KvCachePool::no_entry), entries = append_entries(ends, lengths);
    State state(CacheReferences(cache_, ends), lengths, 1);
    scheduler_->for_each_chunk(
        lengths.size(), [&](std::size_t i) { return lengths[i]; }, interruption,
        [&](Executor& executor, const Chunk& chunk) { prefill_chunk(executor, ids, lengths, entries, chunk); });
    return state;
}

void Model::prefill_chunk(Executor& executor, const IdMatrix& ids, const std::vector<std::size_t>& lengths,
                          const std::vector<std::int32_t>& entries, const Chunk& chunk) {
    std::size_t longest = 0;
    DecoderInput input;
    input.caches.rows_depend = true;
    std::vector<std::size_t> starts;
    for (std::size_t row = chunk.first; row < chunk.last; row++) {
        std::size_t start = input.tokens.size();
        longest = std::max(longest, lengths[row]);
        for (std::size_t position = 0; position < lengths[row]; position++) {
            input.tokens.push_back(ids.at(row, position));
            input.caches.positions.push_back(position);
            input.caches.current.push_back(cache_->data(entries[chunk.first_row + start + position]));
            input.addresses.push_back(input.caches.current.back());
            starts.push_back(start);
        }
    }
    if (input.tokens.empty()) return;
    for (std::size_t start : starts) input.caches.history.push_back(input.addresses.data() + start);
    executor.workspace.reserve(input.tokens.size(), executor.size(), longest, 0);
    executor.run([&](const ThreadPool::Worker& worker) {
        ForwardPass pass(config_, kernels_, compute_type_, executor.workspace, worker, input.tokens.size());
        decoder_->forward(pass, input);
    });
}

State Model::start(const Memory& memory, std::size_t beam_size) const {
    if (beam_size < 1 || beam_size > max_beam_size) {
        throw std::invalid_argument("beam_size = " + std::to_string(beam_size) + " must be from 1 to " +
                                    std::to_string(max_beam_size));
    }
    if (memory.pool() != cache_) throw std::invalid_argument("the memory belongs to another model");
    std::size_t batch_size = memory.lengths().size();
    if (memory.prompt_state() != nullptr) {
        std::vector<std::int32_t> parents(batch_size * beam_size, 0);
        return memory.prompt_state()->reorder({parents.data(), batch_size, beam_size});
    }
    std::vector<std::int32_t> entries(batch_size * beam_size, KvCachePool::no_entry);
    return State(CacheReferences(cache_, std::move(entries)), std::vector<std::size_t>(batch_size, 0), beam_size);
}

void Model::check_step(const IdMatrix& tokens, const Memory& memory, const State& state) const {
    if (memory.pool() != cache_ || state.cache().pool() != cache_) {
        throw std::invalid_argument("memory and state must belong to this model");
    }
    if (memory.lengths().size() != state.batch_size()) {
        throw std::invalid_argument("the memory holds " + std::to_string(memory.lengths().size()) +
                                    " sentences, and the state " + std::to_string(state.batch_size()));
    }
    if (tokens.rows != state.batch_size() || tokens.columns != state.beam_size()) {
        throw std::invalid_argument("tokens have the shape " + std::to_string(tokens.rows) + " x " +
                                    std::to_string(tokens.columns) + ", and the state has " +
                                    std::to_string(state.batch_size()) + " sentences with a beam_size of " +
                                    std::to_string(state.beam_size()));
    }
    for (std::size_t i = 0; i < tokens.size(); i++) check_token(tokens.data[i], config_.target_vocabulary);
}

/// Allocate the next entry of each hypothesis. A recurrent state replaces the previous one, so it keeps no link to it.
CacheReferences Model::next_entries(const State& state) {
    std::vector<std::int32_t> parents = state.cache().entries();
    if (config_.ssru) std::fill(parents.begin(), parents.end(), KvCachePool::no_entry);
    return CacheReferences(cache_, cache_->append(parents));
}

DecoderInput Model::decoder_input(const IdMatrix& tokens, const Memory& memory, const State& state, const State& next,
                                  const Chunk& chunk) const {
    DecoderInput input;
    std::size_t beam_size = next.beam_size();
    input.beam_size = beam_size;
    std::vector<std::size_t> starts;
    for (std::size_t sentence = chunk.first; sentence < chunk.last; sentence++) {
        std::size_t length = next.lengths()[sentence];
        if (!config_.decoder_only) input.sources.push_back(memory.sources()[sentence].get());
        for (std::size_t row = sentence * beam_size; row < (sentence + 1) * beam_size; row++) {
            std::int32_t entry = next.cache().entries()[row];
            input.tokens.push_back(tokens.data[row]);
            input.caches.positions.push_back(length - 1);
            input.caches.current.push_back(cache_->data(entry));
            if (config_.ssru) {
                std::int32_t previous = state.cache().entries()[row];
                input.caches.previous.push_back(previous == KvCachePool::no_entry ? nullptr : cache_->data(previous));
                continue;
            }
            starts.push_back(input.addresses.size());
            input.addresses.resize(input.addresses.size() + length);
            for (std::size_t position = length; position-- > 0; entry = cache_->parent(entry)) {
                input.addresses[starts.back() + position] = cache_->data(entry);
            }
        }
    }
    for (std::size_t start : starts) input.caches.history.push_back(input.addresses.data() + start);
    return input;
}

template <class Finish>
State Model::decode_step(const IdMatrix& tokens, const Memory& memory, const State& state, Interruption& interruption,
                         const Finish& finish) {
    check_step(tokens, memory, state);
    CallTurn turn(lock_, interruption);
    std::vector<std::size_t> lengths = state.lengths();
    std::size_t longest_target = 0, longest_source = 0, beam_size = state.beam_size();
    for (std::size_t& length : lengths) longest_target = std::max(longest_target, ++length);
    for (const auto& source : memory.sources()) longest_source = std::max(longest_source, source->length);
    decoder_->extend_to(longest_target);
    State next(next_entries(state), std::move(lengths), beam_size);
    auto rows = [&](std::size_t) { return beam_size; };
    scheduler_->for_each_chunk(state.batch_size(), rows, interruption, [&](Executor& executor, const Chunk& chunk) {
        DecoderInput input = decoder_input(tokens, memory, state, next, chunk);
        executor.workspace.reserve(input.tokens.size(), executor.size(), std::max(longest_target, longest_source), 0);
        finish(executor, input, chunk.first_row);
    });
    return next;
}

State Model::step(const IdMatrix& tokens, const Memory& memory, const State& state, MatrixView<float> logits,
                  Interruption& interruption) {
    if (logits.rows != tokens.size() || logits.columns != config_.target_vocabulary) {
        throw std::invalid_argument("logits must have one row per token and one column per vocabulary entry");
    }
    return decode_step(
        tokens, memory, state, interruption,
        [&](Executor& executor, const DecoderInput& input, std::size_t first_row) {
            std::size_t rows = input.tokens.size();
            executor.workspace.logits.reserve(executor.size() * rows * panel_width);
            executor.run([&](const ThreadPool::Worker& worker) {
                ForwardPass pass(config_, kernels_, compute_type_, executor.workspace, worker, rows);
                decoder_->forward(pass, input);
                float* buffer =
                    executor.workspace.logits.data() + static_cast<std::size_t>(worker.index) * rows * panel_width;
                auto [first, last] = worker.partition(output_projection_.num_panels());
                for (std::size_t panel = first; panel < last; panel++) {
                    if (worker.skips(rows * output_projection_.depth() * panel_width)) return;
                    output_projection_.gemm_panel(pass.input(output_projection_.depth()), rows, panel, buffer,
                                                  panel_width);
                    std::size_t columns = std::min(panel_width, logits.columns - panel * panel_width);
                    for (std::size_t row = 0; row < rows; row++) {
                        std::copy_n(buffer + row * panel_width, columns,
                                    &logits.at(first_row + row, panel * panel_width));
                    }
                }
            });
        });
}

State Model::cross_attention(const IdMatrix& tokens, const Memory& memory, const State& state, std::size_t layer,
                             MatrixView<float> weights, Interruption& interruption) {
    if (config_.decoder_only || layer >= config_.decoder_layers) {
        throw std::invalid_argument("layer = " + std::to_string(layer) + " is no layer with cross-attention");
    }
    if (state.beam_size() != 1) throw std::invalid_argument("attention weights are those of a beam_size of 1");
    std::size_t longest = 0;
    for (const auto& source : memory.sources()) longest = std::max(longest, source->length);
    if (weights.rows != tokens.size() || weights.columns != config_.num_heads * longest) {
        throw std::invalid_argument("weights must have one row per token and one column per head and source position");
    }
    return decode_step(tokens, memory, state, interruption,
                       [&](Executor& executor, DecoderInput& input, std::size_t first_row) {
                           std::size_t rows = input.tokens.size();
                           RecordedWeights recorded = {layer, longest, {weights.row(first_row), rows, weights.columns}};
                           input.recorded = &recorded;
                           executor.run([&](const ThreadPool::Worker& worker) {
                               ForwardPass pass(config_, kernels_, compute_type_, executor.workspace, worker, rows);
                               decoder_->forward(pass, input);
                           });
                       });
}

std::vector<std::int32_t> Model::checked_extra(const std::vector<std::int64_t>& extra_tokens) const {
    std::vector<std::int32_t> extra;
    for (std::int64_t token : extra_tokens) {
        check_token(token, config_.target_vocabulary, "extra token");
        extra.push_back(static_cast<std::int32_t>(token));
    }
    return extra;
}

std::vector<std::int32_t> Model::checked_suppressed(const std::vector<std::int64_t>& suppress_tokens,
                                                    std::size_t k) const {
    std::vector<std::int32_t> suppressed;
    for (std::int64_t token : suppress_tokens) {
        check_token(token, config_.target_vocabulary, "suppressed token");
        suppressed.push_back(static_cast<std::int32_t>(token));
    }
    std::sort(suppressed.begin(), suppressed.end());
    suppressed.erase(std::unique(suppressed.begin(), suppressed.end()), suppressed.end());
    std::size_t allowed = config_.target_vocabulary - suppressed.size();
    if (k < 1 || k > allowed) {
        throw std::invalid_argument("k = " + std::to_string(k) + " must be from 1 to the " + std::to_string(allowed) +
                                    " tokens that are not suppressed");
    }
    return suppressed;
}

/// Group the rows by shortlist; the rows of a source are consecutive.
TopKSearch Model::top_k_search(Executor& executor, const DecoderInput& input,
                               const std::vector<std::int32_t>& suppressed, const std::vector<std::int32_t>& extra,
                               std::size_t k) const {
    std::vector<RowGroup> groups;
    const Shortlist* previous = nullptr;
    for (std::size_t row = 0; row < input.tokens.size(); row += input.beam_size) {
        const Shortlist* shortlist =
            config_.decoder_only ? nullptr : input.sources[row / input.beam_size]->shortlist.get();
        if (groups.empty() || shortlist != previous) {
            groups.push_back({shortlist == nullptr ? &output_projection_ : &shortlist->projection,
                              shortlist == nullptr ? nullptr : &shortlist->tokens, row, 0});
        }
        groups.back().rows += input.beam_size;
        previous = shortlist;
    }
    return TopKSearch(std::move(groups), executor.workspace, config_.target_vocabulary, k, suppressed, extra,
                      executor.size());
}

State Model::top_k(const IdMatrix& tokens, const Memory& memory, const State& state,
                   const std::vector<std::int64_t>& suppress_tokens, const std::vector<std::int64_t>& extra_tokens,
                   MatrixView<float> log_probs, MatrixView<std::int32_t> ids, Interruption& interruption) {
    std::vector<std::int32_t> extra = checked_extra(extra_tokens);
    if (ids.columns < extra.size()) throw std::invalid_argument("there are fewer columns than extra tokens");
    std::size_t k = ids.columns - extra.size();
    std::vector<std::int32_t> suppressed = checked_suppressed(suppress_tokens, k);
    return decode_step(
        tokens, memory, state, interruption,
        [&](Executor& executor, const DecoderInput& input, std::size_t first_row) {
            TopKSearch search = top_k_search(executor, input, suppressed, extra, k);
            executor.run([&](const ThreadPool::Worker& worker) {
                ForwardPass pass(config_, kernels_, compute_type_, executor.workspace, worker, input.tokens.size());
                decoder_->forward(pass, input);
                search.run(pass, kernels_, log_probs.row(first_row), ids.row(first_row));
            });
            if (search.found_non_finite()) {
                throw std::domain_error("a logit is not finite; the weights hold values that are too large");
            }
        });
}

}  // namespace dragoman
