// Several tokens of a hypothesis in one pass: each looks at its past and at those before it.
#include "model.hpp"
#include "portions.hpp"

namespace dragoman {

Steps Model::followed(const Ids& tokens, const Memory& memory, const State& state, const std::vector<std::int32_t>& chain,
                      const std::vector<std::size_t>& lengths, const Portion& portion) const {
    Steps steps;
    steps.paths.among_rows = true;
    std::vector<std::size_t> starts;
    std::size_t made = portion.before;
    for (std::size_t sentence = portion.first; sentence < portion.last; sentence++) {
        std::size_t age = state.ages()[sentence], start = steps.addresses.size();
        steps.addresses.resize(start + age);
        std::int32_t slot = state.held().numbers()[sentence];
        for (std::size_t place = age; place-- > 0; slot = slots_->before(slot)) {
            steps.addresses[start + place] = slots_->data(slot);
        }
        for (std::size_t place = 0; place < lengths[sentence]; place++) {
            if (!settings_.causal) steps.sentences.push_back(memory.sentences()[sentence].get());
            steps.tokens.push_back(tokens.at(sentence, place));
            steps.paths.places.push_back(age + place);
            steps.paths.own.push_back(slots_->data(chain[made++]));
            steps.addresses.push_back(steps.paths.own.back());
            starts.push_back(start);
        }
    }
    for (std::size_t start : starts) steps.paths.slots.push_back(steps.addresses.data() + start);
    return steps;
}

State Model::follow(const Ids& tokens, const std::vector<std::int64_t>& lengths, const Memory& memory, const State& state,
                    const std::vector<std::int64_t>& forbidden, Table<float> log_probs, Table<std::int32_t> ids) {
    check_state(memory, state);
    if (state.beam() != 1 || tokens.rows != state.sentences()) {
        throw std::invalid_argument("tokens of " + std::to_string(tokens.rows) + " rows for " +
                                    std::to_string(state.sentences()) + " sentences with beams of " +
                                    std::to_string(state.beam()) + "; give one row a sentence, of beams of one");
    }
    std::vector<std::size_t> added = checked_lengths(tokens, lengths, settings_.target_vocabulary), ages = state.ages();
    std::size_t k = ids.columns, rows = 0, longest = 0;
    for (std::size_t length : added) rows += length;
    if (ids.rows != rows) throw std::invalid_argument("the results need one row a token, and there are " + std::to_string(rows));
    std::vector<std::int32_t> without = checked_forbidden(forbidden, k);
    std::lock_guard<std::mutex> lock(busy_);
    for (std::size_t i = 0; i < ages.size(); i++) ages[i] += added[i];
    for (const auto& sentence : memory.sentences()) longest = std::max(longest, sentence->places);
    decoder_->reach(most(ages));
    longest = std::max(longest, most(ages));
    std::vector<std::int32_t> ends = state.held().numbers(), chain = extended(ends, added);
    State next(Held(slots_, std::move(ends)), std::move(ages), 1);
    auto count = [&](std::size_t i) { return added[i]; };
    crews_->in_portions(added.size(), count, [&](Crew& crew, const Portion& portion) {
        Steps steps = followed(tokens, memory, state, chain, added, portion);
        crew.space.reserve(steps.tokens.size(), crew.size(), longest, 0);
        Best best = best_of(crew, steps, without, k);
        find(crew, steps, best, log_probs.data + portion.before * k, ids.data + portion.before * k);
    });
    return next;
}

}  // namespace dragoman
