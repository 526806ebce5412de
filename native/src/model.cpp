#include "model.hpp"

#include <algorithm>
#include <stdexcept>

#include "portions.hpp"

namespace dragoman {

namespace {

constexpr std::size_t largest_beam = std::size_t{1} << 20;
constexpr int most_threads = 1024;

int checked_threads(int threads) {
    if (threads < 0 || threads > most_threads) {
        throw std::invalid_argument("threads = " + std::to_string(threads) + " must be from 0 (all cores) to " +
                                    std::to_string(most_threads));
    }
    return threads == 0 ? usable_cores() : threads;
}

const Settings& checked(const Settings& settings) {
    settings.check();
    return settings;
}

/// The last blocks, before memory is asked for: a configuration may promise more than there is.
void check_there(const Settings& settings, Weights& weights) {
    auto last = [&](const std::string& blocks, std::size_t layers) {
        weights.matrix(blocks + std::to_string(layers - 1) + ".feed_forward.inner.weight", settings.feed_forward, settings.size);
    };
    last(settings.causal ? "blocks." : "decoder.", settings.decoder_layers);
    if (!settings.causal) last("encoder.", settings.encoder_layers);
}

Workspace workspace(const Settings& settings, const Heads& heads, std::size_t memory_width) {
    Workspace space;
    std::size_t hidden = padded(settings.feed_forward), queries = padded(heads.query_width());
    space.width = padded(settings.size);
    space.attended_width = queries;
    space.widest_operand = std::max({space.width, hidden, queries});
    space.widest_product = std::max({padded(heads.query_width() + 2 * heads.key_width()),
                                     settings.gated ? 2 * hidden : hidden, memory_width});
    return space;
}

}  // namespace

Model::Model(const Settings& settings, Weights& weights, Compute compute, int threads,
             const std::optional<std::string>& instruction_set)
    : settings_(checked(settings)),
      compute_(compute),
      kernels_(kernels_of(instruction_set)),
      heads_(settings_, compute),
      slots_(std::make_shared<Slots>(settings_.keys_in(settings_.decoder_kept, settings_.decoder_layers) * 2 * heads_.width *
                                     heads_.number_bytes())) {
    int members = checked_threads(threads);
    check_there(settings_, weights);
    Loading loading{settings_, kernels_, compute, weights};
    unembedding_ = unembedding_of(loading);
    if (!settings_.causal) encoder_.emplace(loading, unembedding_);
    decoder_.emplace(loading, unembedding_);
    weights.finish();
    std::size_t memory = encoder_ ? encoder_->memory_width() : 0;
    crews_.emplace(members, [&] { return workspace(settings_, heads_, memory); });
}

Memory Model::encode(const Ids& ids, const std::vector<std::int64_t>& lengths) {
    std::size_t vocabulary = settings_.causal ? settings_.target_vocabulary : settings_.source_vocabulary;
    std::vector<std::size_t> checked = checked_lengths(ids, lengths, vocabulary);
    std::vector<std::int32_t> told(lengths.begin(), lengths.end());
    std::lock_guard<std::mutex> lock(busy_);
    if (!settings_.causal) {
        auto sentences = encode_sources(ids, checked);
        return Memory({sentences.begin(), sentences.end()}, std::move(told), nullptr, slots_);
    }
    auto read = std::make_shared<const State>(read_prompts(ids, checked));
    return Memory({}, std::move(told), std::move(read), slots_);
}

Memory Model::encode_for(const Ids& ids, const std::vector<std::int64_t>& lengths, const TokenLists& candidates) {
    if (settings_.causal) throw std::invalid_argument("candidates are those of sources, and a causal model has none");
    std::vector<std::size_t> checked = checked_lengths(ids, lengths, settings_.source_vocabulary);
    std::lock_guard<std::mutex> lock(busy_);
    auto words = candidates_of(candidates, checked.size(), unembedding_, settings_.target_vocabulary, crews_->team());
    auto sentences = encode_sources(ids, checked);
    for (std::size_t i = 0; i < sentences.size(); i++) sentences[i]->candidates = std::move(words[i]);
    return Memory({sentences.begin(), sentences.end()}, {lengths.begin(), lengths.end()}, nullptr, slots_);
}

std::vector<std::shared_ptr<Sentence>> Model::encode_sources(const Ids& ids, const std::vector<std::size_t>& lengths) {
    std::vector<std::shared_ptr<Sentence>> sentences;
    std::vector<Sentence*> written;
    std::size_t keys = settings_.keys_in(settings_.cross_kept, settings_.decoder_layers);
    for (std::size_t places : lengths) {
        std::size_t numbers = keys * heads_.memory_head(places);
        auto sentence = std::make_shared<Sentence>(Sentence{places, Buffer<std::byte>(numbers * heads_.number_bytes()), {}});
        written.push_back(sentence.get());
        sentences.push_back(std::move(sentence));
    }
    encoder_->reach(most(lengths));
    crews_->in_portions(lengths.size(), [&](std::size_t i) { return lengths[i]; },
                        [&](Crew& crew, const Portion& portion) { read_sources(crew, ids, written, portion); });
    return sentences;
}

void Model::read_sources(Crew& crew, const Ids& ids, const std::vector<Sentence*>& sentences, const Portion& portion) {
    std::vector<std::int32_t> tokens;
    std::vector<Stretch> stretches;
    std::size_t longest = 0;
    for (std::size_t number = portion.first; number < portion.last; number++) {
        std::size_t places = sentences[number]->places;
        stretches.push_back({tokens.size(), places});
        longest = std::max(longest, places);
        tokens.insert(tokens.end(), &ids.at(number, 0), &ids.at(number, 0) + places);
    }
    std::vector<Sentence*> some(sentences.begin() + static_cast<std::ptrdiff_t>(portion.first),
                                sentences.begin() + static_cast<std::ptrdiff_t>(portion.last));
    crew.space.reserve(tokens.size(), crew.size(), longest, rounded_up(longest, lanes) * heads_.size);
    crew.run([&](const Team::Member& member) {
        Pass pass(settings_, kernels_, compute_, crew.space, member, tokens.size());
        encoder_->read(pass, tokens, stretches, some);
    });
}

std::vector<std::int32_t> Model::extended(std::vector<std::int32_t>& ends, const std::vector<std::size_t>& lengths) {
    // A chain of slots for each, place by place: what one `after` makes is the next one's past.
    std::vector<std::size_t> firsts;
    std::size_t total = 0;
    for (std::size_t length : lengths) {
        firsts.push_back(total);
        total += length;
    }
    std::vector<std::int32_t> chain(total, Slots::none);
    for (std::size_t place = 0; place < most(lengths); place++) {
        std::vector<std::int32_t> parents;
        std::vector<std::size_t> rows;
        for (std::size_t row = 0; row < lengths.size(); row++) {
            if (place >= lengths[row]) continue;
            rows.push_back(row);
            parents.push_back(ends[row]);
        }
        std::vector<std::int32_t> made = slots_->after(parents);
        if (place > 0) slots_->release(parents);  // each is held by the next; the first are others'
        for (std::size_t i = 0; i < rows.size(); i++) chain[firsts[rows[i]] + place] = ends[rows[i]] = made[i];
    }
    return chain;
}

State Model::read_prompts(const Ids& ids, const std::vector<std::size_t>& lengths) {
    std::vector<std::size_t> ages;
    for (std::size_t length : lengths) ages.push_back(length - 1);
    decoder_->reach(most(ages));
    std::vector<std::int32_t> ends(lengths.size(), Slots::none), chain = extended(ends, ages);
    State read(Held(slots_, ends), ages, 1);
    crews_->in_portions(ages.size(), [&](std::size_t i) { return ages[i]; },
                        [&](Crew& crew, const Portion& portion) { read_prompts(crew, ids, ages, chain, portion); });
    return read;
}

void Model::read_prompts(Crew& crew, const Ids& ids, const std::vector<std::size_t>& ages,
                         const std::vector<std::int32_t>& chain, const Portion& portion) {
    std::size_t longest = 0;
    Steps steps;
    steps.paths.among_rows = true;
    std::vector<std::size_t> starts;
    for (std::size_t row = portion.first; row < portion.last; row++) {
        std::size_t start = steps.tokens.size();
        longest = std::max(longest, ages[row]);
        for (std::size_t place = 0; place < ages[row]; place++) {
            steps.tokens.push_back(ids.at(row, place));
            steps.paths.places.push_back(place);
            steps.paths.own.push_back(slots_->data(chain[portion.before + start + place]));
            steps.addresses.push_back(steps.paths.own.back());
            starts.push_back(start);
        }
    }
    if (steps.tokens.empty()) return;
    for (std::size_t start : starts) steps.paths.slots.push_back(steps.addresses.data() + start);
    crew.space.reserve(steps.tokens.size(), crew.size(), longest, 0);
    crew.run([&](const Team::Member& member) {
        Pass pass(settings_, kernels_, compute_, crew.space, member, steps.tokens.size());
        decoder_->go_on(pass, steps);
    });
}

State Model::start(const Memory& memory, std::size_t beam) const {
    if (beam < 1 || beam > largest_beam) {
        throw std::invalid_argument("beam = " + std::to_string(beam) + " must be from 1 to " + std::to_string(largest_beam));
    }
    if (memory.model() != slots_) throw std::invalid_argument("the memory is of another model");
    if (memory.read() != nullptr) {
        std::vector<std::int32_t> same(memory.lengths().size() * beam, 0);
        return memory.read()->select({same.data(), memory.lengths().size(), beam});
    }
    std::vector<std::int32_t> nowhere(memory.lengths().size() * beam, Slots::none);
    return State(Held(slots_, std::move(nowhere)), std::vector<std::size_t>(memory.lengths().size(), 0), beam);
}

void Model::check_state(const Memory& memory, const State& state) const {
    if (memory.model() != slots_ || state.held().slots() != slots_) {
        throw std::invalid_argument("memory and state must be of this model");
    }
    if (memory.lengths().size() != state.sentences()) {
        throw std::invalid_argument("the memory holds " + std::to_string(memory.lengths().size()) +
                                    " sentences, and the state " + std::to_string(state.sentences()));
    }
}

void Model::check_step(const Ids& tokens, const Memory& memory, const State& state) const {
    check_state(memory, state);
    if (tokens.rows != state.sentences() || tokens.columns != state.beam()) {
        throw std::invalid_argument("tokens are " + std::to_string(tokens.rows) + " x " + std::to_string(tokens.columns) +
                                    ", and the state has " + std::to_string(state.sentences()) + " sentences with beams of " +
                                    std::to_string(state.beam()));
    }
    for (std::size_t i = 0; i < tokens.rows * tokens.columns; i++) checked_token(tokens.data[i], settings_.target_vocabulary);
}

Steps Model::steps_of(const Ids& tokens, const Memory& memory, const State& next, const Portion& portion) const {
    Steps steps;
    std::size_t beam = next.beam();
    steps.beam = beam;
    std::vector<std::size_t> starts;
    for (std::size_t sentence = portion.first; sentence < portion.last; sentence++) {
        std::size_t age = next.ages()[sentence];
        if (!settings_.causal) steps.sentences.push_back(memory.sentences()[sentence].get());
        for (std::size_t row = sentence * beam; row < (sentence + 1) * beam; row++) {
            std::int32_t slot = next.held().numbers()[row];
            steps.tokens.push_back(tokens.data[row]);
            steps.paths.places.push_back(age - 1);
            steps.paths.own.push_back(slots_->data(slot));
            starts.push_back(steps.addresses.size());
            steps.addresses.resize(steps.addresses.size() + age);
            for (std::size_t place = age; place-- > 0; slot = slots_->before(slot)) {
                steps.addresses[starts.back() + place] = slots_->data(slot);
            }
        }
    }
    for (std::size_t start : starts) steps.paths.slots.push_back(steps.addresses.data() + start);
    return steps;
}

template <class Finish>
State Model::go_on(const Ids& tokens, const Memory& memory, const State& state, const Finish& finish) {
    check_step(tokens, memory, state);
    std::lock_guard<std::mutex> lock(busy_);
    std::vector<std::size_t> ages = state.ages();
    std::size_t oldest = 0, longest = 0, beam = state.beam();
    for (std::size_t& age : ages) oldest = std::max(oldest, ++age);
    for (const auto& sentence : memory.sentences()) longest = std::max(longest, sentence->places);
    decoder_->reach(oldest);
    State next(Held(slots_, slots_->after(state.held().numbers())), std::move(ages), beam);
    auto rows = [&](std::size_t) { return beam; };
    crews_->in_portions(state.sentences(), rows, [&](Crew& crew, const Portion& portion) {
        Steps steps = steps_of(tokens, memory, next, portion);
        crew.space.reserve(steps.tokens.size(), crew.size(), std::max(oldest, longest), 0);
        finish(crew, steps, portion.before);
    });
    return next;
}

State Model::step(const Ids& tokens, const Memory& memory, const State& state, Table<float> logits) {
    if (logits.rows != tokens.rows * tokens.columns || logits.columns != settings_.target_vocabulary) {
        throw std::invalid_argument("the logits need one row a token, of the vocabulary's size");
    }
    return go_on(tokens, memory, state, [&](Crew& crew, const Steps& steps, std::size_t before) {
        std::size_t rows = steps.tokens.size();
        crew.space.logits.reserve(crew.size() * rows * group);
        crew.run([&](const Team::Member& member) {
            Pass pass(settings_, kernels_, compute_, crew.space, member, rows);
            decoder_->go_on(pass, steps);
            float* mine = crew.space.logits.data() + static_cast<std::size_t>(member.number) * rows * group;
            auto [first, last] = member.share(unembedding_.groups());
            for (std::size_t number = first; number < last; number++) {
                unembedding_.group_product(pass.operand(unembedding_.depth()), rows, number, mine, group);
                std::size_t here = std::min(group, logits.columns - number * group);
                for (std::size_t row = 0; row < rows; row++) {
                    std::copy_n(mine + row * group, here, &logits.at(before + row, number * group));
                }
            }
        });
    });
}

std::vector<std::int32_t> Model::checked_forbidden(const std::vector<std::int64_t>& forbidden, std::size_t k) const {
    std::vector<std::int32_t> without;
    for (std::int64_t token : forbidden) {
        if (token < 0 || static_cast<std::size_t>(token) >= settings_.target_vocabulary) {
            throw std::out_of_range("forbidden token " + std::to_string(token) + " is not in a vocabulary of " +
                                    std::to_string(settings_.target_vocabulary));
        }
        without.push_back(static_cast<std::int32_t>(token));
    }
    std::sort(without.begin(), without.end());
    without.erase(std::unique(without.begin(), without.end()), without.end());
    std::size_t allowed = settings_.target_vocabulary - without.size();
    if (k < 1 || k > allowed) {
        throw std::invalid_argument("k = " + std::to_string(k) + " must be from 1 to the " + std::to_string(allowed) +
                                    " tokens that are allowed");
    }
    return without;
}

Best Model::best_of(Crew& crew, const Steps& steps, const std::vector<std::int32_t>& forbidden, std::size_t k) const {
    std::vector<Scope> scopes;
    const Candidates* last = nullptr;
    for (std::size_t first = 0; first < steps.tokens.size(); first += steps.beam) {
        const Candidates* own = settings_.causal ? nullptr : steps.sentences[first / steps.beam]->candidates.get();
        if (scopes.empty() || own != last) {
            scopes.push_back({own == nullptr ? &unembedding_ : &own->words, own == nullptr ? nullptr : &own->tokens, first, 0});
        }
        scopes.back().rows += steps.beam;
        last = own;
    }
    return Best(std::move(scopes), crew.space, settings_.target_vocabulary, k, forbidden, crew.size());
}

void Model::find(Crew& crew, const Steps& steps, Best& best, float* log_probs, std::int32_t* ids) const {
    crew.run([&](const Team::Member& member) {
        Pass pass(settings_, kernels_, compute_, crew.space, member, steps.tokens.size());
        decoder_->go_on(pass, steps);
        best.find(pass, kernels_, log_probs, ids);
    });
    if (best.broken()) throw std::domain_error("a logit is not finite; the weights hold numbers that are too large");
}

State Model::best(const Ids& tokens, const Memory& memory, const State& state, const std::vector<std::int64_t>& forbidden,
                  Table<float> log_probs, Table<std::int32_t> ids) {
    std::size_t k = ids.columns;
    std::vector<std::int32_t> without = checked_forbidden(forbidden, k);
    return go_on(tokens, memory, state, [&](Crew& crew, const Steps& steps, std::size_t before) {
        Best best = best_of(crew, steps, without, k);
        find(crew, steps, best, log_probs.data + before * k, ids.data + before * k);
    });
}

}  // namespace dragoman
