#include "model/top_k.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

namespace dragoman {

namespace {

constexpr float minus_infinity = -std::numeric_limits<float>::infinity();

std::size_t total_rows(const std::vector<RowGroup>& groups) {
    return groups.empty() ? 0 : groups.back().first_row + groups.back().rows;
}

}  // namespace

TopKSearch::TopKSearch(std::vector<RowGroup> groups, Workspace& workspace, std::size_t vocabulary, std::size_t k,
                       std::vector<std::int32_t> suppressed, const std::vector<std::int32_t>& extra,
                       std::size_t threads)
    : groups_(std::move(groups)),
      workspace_(workspace),
      vocabulary_(vocabulary),
      k_(k),
      capacity_(round_up(k, keys_per_vector)),
      rows_(total_rows(groups_)),
      suppressed_(std::move(suppressed)),
      num_extra_(extra.size()),
      keys_(rows_ * threads * capacity_),
      thresholds_(rows_ * threads, minus_infinity) {
    std::size_t stats = 0;
    for (const RowGroup& group : groups_) stats += group.rows * group.projection->num_panels();
    workspace_.panel_stats.reserve(stats);
    workspace_.logits.reserve(threads * rows_ * panel_width);
    extra_.resize(groups_.size());
    for (std::size_t group = 0; group < groups_.size(); group++) {
        for (std::size_t place = 0; place < extra.size(); place++) {
            std::size_t output = groups_[group].output_of(extra[place]);
            if (output != RowGroup::no_output) extra_[group].push_back({output, place});
        }
        std::sort(extra_[group].begin(), extra_[group].end(),
                  [](const ExtraOutput& a, const ExtraOutput& b) { return a.output < b.output; });
    }
}

void TopKSearch::run(const ForwardPass& pass, const KernelTable& kernels, float* log_probs, std::int32_t* tokens) {
    const ThreadPool::Worker& worker = pass.worker();
    auto thread = static_cast<std::size_t>(worker.index);
    std::size_t items = 0;
    for (const RowGroup& group : groups_) items += group.projection->num_panels();
    auto [first, last] = worker.partition(items);
    std::size_t previous = 0, columns = k_ + num_extra_;
    PanelStats* stats = workspace_.panel_stats.data();
    for (std::size_t number = 0; number < groups_.size(); number++) {
        const RowGroup& group = groups_[number];
        std::size_t panels = group.projection->num_panels();
        GemmInput x = group.projection->skip_rows(pass.input(group.projection->depth()), group.first_row);
        for (std::size_t item = std::max(first, previous); item < std::min(last, previous + panels); item++) {
            if (worker.skips(group.rows * group.projection->depth() * panel_width)) break;
            search_panel(number, item - previous, x, kernels, workspace_.logits.data() + thread * rows_ * panel_width,
                         stats, thread, log_probs);
        }
        previous += panels;
        stats += group.rows * panels;
    }
    worker.wait();
    auto [from, to] = worker.partition(rows_);
    stats = workspace_.panel_stats.data();
    for (const RowGroup& group : groups_) {
        std::size_t panels = group.projection->num_panels(), results = num_results(group);
        for (std::size_t row = std::max(from, group.first_row); row < std::min(to, group.first_row + group.rows);
             row++) {
            float log_normalizer = kernels.log_sum_exp(stats + (row - group.first_row) * panels, panels);
            float* own = log_probs + row * columns;
            if (!merge(row, static_cast<std::size_t>(worker.count), results, log_normalizer, own,
                       tokens + row * columns)) {
                found_non_finite_.store(true);
            }
            for (std::size_t i = k_; i < columns; i++) own[i] -= log_normalizer;
        }
        stats += group.rows * panels;
    }
}

/// Compute and search one panel of logits for the rows of a group.
void TopKSearch::search_panel(std::size_t number, std::size_t panel, const GemmInput& x, const KernelTable& kernels,
                              float* logits, PanelStats* stats, std::size_t thread, float* log_probs) {
    const RowGroup& group = groups_[number];
    std::size_t panels = group.projection->num_panels();
    group.projection->gemm_panel(x, group.rows, panel, logits, panel_width);
    kernels.panel_stats(logits, group.rows, stats + panel, panels);
    keep_extra(number, panel, logits, log_probs);
    suppress(group, panel, logits);
    float* thresholds = thresholds_.data() + thread * rows_ + group.first_row;
    for (std::size_t row = 0; row < group.rows; row++) {
        if (stats[row * panels + panel].max > thresholds[row]) {
            insert(group, kernels, logits + row * panel_width, panel, keys_of(thread, group.first_row + row),
                   thresholds + row);
        }
    }
}

/// Write the logits of the extra tokens in a panel.
void TopKSearch::keep_extra(std::size_t number, std::size_t panel, const float* logits, float* log_probs) const {
    const std::vector<ExtraOutput>& extra = extra_[number];
    auto first = std::lower_bound(extra.begin(), extra.end(), panel * panel_width,
                                  [](const ExtraOutput& one, std::size_t output) { return one.output < output; });
    for (; first != extra.end() && first->output / panel_width == panel; ++first) {
        float* results = log_probs + groups_[number].first_row * (k_ + num_extra_) + k_ + first->place;
        for (std::size_t row = 0; row < groups_[number].rows; row++) {
            results[row * (k_ + num_extra_)] = logits[row * panel_width + first->output % panel_width];
        }
    }
}

/// Exclude tokens from the search, after they have contributed to the normalizer.
void TopKSearch::suppress(const RowGroup& group, std::size_t panel, float* logits) const {
    for (std::int32_t token : suppressed_) {
        std::size_t output = group.output_of(token);
        if (output == RowGroup::no_output || output / panel_width != panel) continue;
        for (std::size_t row = 0; row < group.rows; row++) {
            logits[row * panel_width + output % panel_width] = minus_infinity;
        }
    }
}

/// Tokens come in ascending order, so a token that equals the k-th best is worse and need not be inserted.
void TopKSearch::insert(const RowGroup& group, const KernelTable& kernels, const float* logits, std::size_t panel,
                        SortKey* keys, float* threshold) const {
    std::size_t columns = std::min(panel_width, num_tokens(group) - panel * panel_width);
    std::uint64_t mask = ~std::uint64_t{0} >> (panel_width - columns) & kernels.panel_greater_mask(logits, *threshold);
    kernels.insert_top_k(logits, mask, group.tokens_from(panel * panel_width), keys, capacity_);
    if (keys[k_ - 1] != 0) *threshold = logit_of(keys[k_ - 1]);
}

/// Number of results of a row: k, or fewer if its shortlist is smaller.
std::size_t TopKSearch::num_results(const RowGroup& group) const {
    if (group.tokens == nullptr) return k_;
    std::size_t allowed = group.tokens->size();
    for (std::int32_t token : suppressed_) {
        if (std::binary_search(group.tokens->begin(), group.tokens->end(), token)) allowed--;
    }
    return std::min(k_, allowed);
}

/// Merge the lists of all threads; return false if a logit was not finite.
bool TopKSearch::merge(std::size_t row, std::size_t threads, std::size_t results, float log_normalizer,
                       float* log_probs, std::int32_t* tokens) {
    std::vector<SortKey> keys;
    keys.reserve(threads * k_);
    for (std::size_t thread = 0; thread < threads; thread++) {
        const SortKey* list = keys_of(thread, row);
        for (std::size_t i = 0; i < k_ && list[i] != 0; i++) keys.push_back(list[i]);
    }
    if (!std::isfinite(log_normalizer) || keys.size() < results) return false;
    std::partial_sort(keys.begin(), keys.begin() + static_cast<std::ptrdiff_t>(results), keys.end(), std::greater<>());
    for (std::size_t i = 0; i < k_; i++) {
        log_probs[i] = i < results ? logit_of(keys[i]) - log_normalizer : minus_infinity;
        tokens[i] = i < results ? token_of(keys[i]) : 0;
    }
    return true;
}

}  // namespace dragoman
