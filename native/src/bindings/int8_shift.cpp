#include "bindings/int8_shift.hpp"

#include <nanobind/ndarray.h>
#include <nanobind/stl/vector.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <algorithm>
#include <stdexcept>
#include <string>

#include "bindings/gil.hpp"
#include "int8_shift/model.hpp"
#include "runtime/call_lock.hpp"
#include "runtime/fork_guard.hpp"
#include "runtime/thread_pool.hpp"

namespace nb = nanobind;

namespace dragoman {

namespace {

using namespace int8_shift;

template <class Element, int axes>
using Array = nb::ndarray<const Element, nb::ndim<axes>, nb::c_contig, nb::device::cpu>;
template <int axes>
using Output = nb::ndarray<float, nb::ndim<axes>, nb::c_contig, nb::device::cpu>;
using Matrix = Array<std::int8_t, 2>;
using Floats = Array<float, 1>;
using Ids = std::vector<std::int32_t>;

void check(bool holds, const char* message) {
    if (!holds) throw std::invalid_argument(message);
}

Ids copy(const Array<std::int32_t, 1>& ids) { return {ids.data(), ids.data() + ids.size()}; }

std::vector<float> floats(const Floats& values, std::size_t size) {
    check(values.size() == size, "weights: a vector has another size than its layer");
    return {values.data(), values.data() + values.size()};
}

/// Reads weights in the order of the layers, which their names in Python have too.
class Reader {
public:
    explicit Reader(const nb::dict& weights) : weights_(weights) {}

    Product product(const std::string& name, std::size_t inputs, std::size_t outputs) const {
        auto part = nb::cast<nb::tuple>(weights_[name.c_str()]);
        auto values = nb::cast<Matrix>(part[0]);
        check(values.shape(0) == inputs && values.shape(1) == outputs, "weights: a matrix has another shape");
        auto bias = floats(nb::cast<Floats>(part[3]), outputs);
        return Product(values.data(), inputs, outputs, nb::cast<float>(part[1]), nb::cast<float>(part[2]), bias.data());
    }

    std::vector<float> vector(const std::string& name, std::size_t size) const {
        return floats(nb::cast<Floats>(weights_[name.c_str()]), size);
    }

    Norm norm(const std::string& name, std::size_t size) const {
        return {vector(name + ".norm.weight", size), vector(name + ".norm.bias", size)};
    }

    Attention attention(const std::string& name, std::size_t size) const {
        return {product(name + ".query", size, size), product(name + ".key", size, size),
                product(name + ".value", size, size), product(name + ".output", size, size),
                norm(name + "_residual", size)};
    }

    FeedForward feed_forward(const std::string& name, std::size_t size, std::size_t hidden) const {
        return {product(name + ".inner", size, hidden), product(name + ".outer", hidden, size),
                norm(name + "_residual", size)};
    }

    Vocabulary vocabulary(std::size_t size) const {
        auto part = nb::cast<nb::tuple>(weights_["vocabulary"]);
        auto values = nb::cast<Matrix>(part[0]);
        check(values.shape(1) == size && values.shape(0) > 0, "weights: the embedding has another shape");
        Vocabulary found;
        found.values.assign(values.data(), values.data() + values.size());
        found.unit = nb::cast<float>(part[1]);
        found.factor = nb::cast<float>(part[2]);
        found.activation = nb::cast<float>(part[3]);
        found.scale = nb::cast<float>(part[4]);
        found.bias = floats(nb::cast<Floats>(part[5]), values.shape(0));
        return found;
    }

private:
    const nb::dict& weights_;
};

class Int8ShiftModel {
public:
    Int8ShiftModel(const nb::dict& weights, std::size_t size, std::size_t hidden, std::size_t heads,
                   std::size_t encoder_layers, std::size_t decoder_layers, const Array<float, 2>& positions,
                   int num_threads, const std::string& instruction_set)
        : functions_(select_functions(instruction_set)),
          threads_(num_threads == 0 ? available_cores() : num_threads, Gap::long_) {
        check(heads > 0 && size > 0 && size % (16 * heads) == 0 && hidden > 0 && hidden % 16 == 0 &&
                  positions.shape(1) == size,
              "configuration: sizes must be multiples of 16");
        Reader reader(weights);
        network_.size = size;
        network_.heads = heads;
        network_.vocabulary = reader.vocabulary(size);
        for (std::size_t layer = 0; layer < encoder_layers; layer++) {
            std::string name = "encoder." + std::to_string(layer);
            network_.encoder.push_back({reader.attention(name + ".attention", size),
                                        reader.feed_forward(name + ".feed_forward", size, hidden)});
        }
        for (std::size_t layer = 0; layer < decoder_layers; layer++) {
            std::string name = "decoder." + std::to_string(layer);
            network_.decoder.push_back({reader.product(name + ".ssru.input", size, size),
                                        reader.product(name + ".ssru.forget_gate", size, size),
                                        reader.norm(name + ".attention_residual", size),
                                        reader.attention(name + ".cross_attention", size),
                                        reader.feed_forward(name + ".feed_forward", size, hidden)});
        }
        network_.positions.assign(positions.data(), positions.data() + positions.size());
    }

    void encode(const Array<std::int32_t, 1>& array, const std::vector<Output<1>>& memories) {
        Ids tokens = copy(array);
        std::vector<std::size_t> starts{0};
        std::size_t share = 2 * network_.decoder.size() * network_.size;
        for (const auto& memory : memories) {
            check(memory.size() > 0 && memory.size() % share == 0, "a memory has another size than its source");
            starts.push_back(starts.back() + memory.size() / share);
            check(memory.size() / share <= max_length(), "a source is longer than the table of positions");
        }
        check(starts.back() == tokens.size(), "memories have another size than their sources");
        for (auto token : tokens) check(token >= 0 && token < vocabulary(), "a token is outside of the vocabulary");
        run(memories.size(), [&](std::size_t item) {
            functions_.encode(network_, &tokens[starts[item]], starts[item + 1] - starts[item], memories[item].data());
        });
    }

    void decode(const Array<std::int32_t, 1>& tokens, const Array<std::int32_t, 1>& positions,
                const std::vector<Array<float, 1>>& memories, const Array<float, 3>& before, const Output<3>& after,
                const Output<2>& hidden, const std::vector<Output<1>>& weights) {
        Ids ids = copy(tokens), places = copy(positions);
        std::size_t rows = ids.size(), layers = network_.decoder.size(), size = network_.size;
        check(rows > 0 && places.size() == rows && memories.size() == rows && hidden.shape(0) == rows &&
                  hidden.shape(1) == size,
              "a step needs one position, memory and hidden state per token");
        check(before.shape(0) == rows && before.shape(1) == layers && before.shape(2) == size &&
                  after.shape(0) == rows && after.shape(1) == layers && after.shape(2) == size,
              "cells have another shape");
        for (auto token : ids) check(token >= -1 && token < vocabulary(), "a token is outside of the vocabulary");
        for (auto place : places) {
            check(place >= 0 && static_cast<std::size_t>(place) < max_length(), "a position is outside of the table");
        }
        for (const auto& memory : memories) check(memory.size() % (2 * layers * size) == 0, "a memory has another size");
        check(weights.empty() || weights.size() == rows, "a step needs no weights, or those of each token");
        for (std::size_t row = 0; row < weights.size(); row++) {
            check(weights[row].size() == memories[row].size() / (2 * layers * size), "weights have another size");
        }
        std::size_t parts = std::min(rows, static_cast<std::size_t>(threads_.size()));
        run(parts, [&](std::size_t part) {
            Range range = partition(rows, part, parts);
            Step step;
            for (std::size_t row = range.first; row < range.last; row++) {
                step.tokens.push_back(ids[row]);
                step.positions.push_back(places[row]);
                step.memories.push_back(memories[row].data());
                step.lengths.push_back(memories[row].size() / (2 * layers * size));
                if (!weights.empty()) step.weights.push_back(weights[row].data());
            }
            step.before = before.data() + range.first * layers * size;
            step.after = after.data() + range.first * layers * size;
            functions_.decode(network_, step, hidden.data() + range.first * size);
        });
    }

    void logits(const Array<float, 2>& hidden, const std::vector<Array<std::int32_t, 1>>& candidates,
                const std::vector<Output<1>>& results) {
        std::size_t rows = hidden.shape(0);
        check(hidden.shape(1) == network_.size && candidates.size() == rows && results.size() == rows,
              "logits need one list of candidates per hidden state");
        for (std::size_t row = 0; row < rows; row++) {
            check(candidates[row].size() == results[row].size(), "logits need one number per candidate");
        }
        std::vector<Ids> ids;
        for (const auto& one : candidates) {
            if (ids.empty() || one.data() != candidates[ids.size() - 1].data()) ids.push_back(copy(one));
            else ids.push_back(ids.back());
            for (auto token : ids.back()) check(token >= 0 && token < vocabulary(), "a candidate is no token");
        }
        run(rows, [&](std::size_t row) {
            functions_.logits(network_, hidden.data() + row * network_.size, ids[row].data(), ids[row].size(),
                              results[row].data());
        });
    }

    int num_threads() const { return threads_.size(); }

private:
    std::size_t max_length() const { return network_.positions.size() / network_.size; }
    std::int32_t vocabulary() const { return static_cast<std::int32_t>(network_.vocabulary.bias.size()); }

    template <class Work>
    void run(std::size_t items, const Work& work) {
        guard_.check();
        without_gil([&](Interruption& interruption) {
            CallTurn turn(lock_, interruption);
            if (items <= 1) {  // other threads would only wait
                for (std::size_t item = 0; item < items; item++) work(item);
                return true;
            }
            threads_.run(
                [&](const ThreadPool::Worker& worker) {
                    auto [first, last] = worker.partition(items);
                    for (std::size_t item = first; item < last && !worker.skips(std::size_t{1} << 20); item++) work(item);
                },
                interruption);
            return true;
        });
    }

    const ForkGuard guard_;
    const Functions functions_;
    Network network_;
    ThreadPool threads_;
    CallLock lock_;
};

}  // namespace

void bind_int8_shift(nb::module_& module) {
    nb::class_<Int8ShiftModel>(module, "Int8ShiftModel")
        .def(nb::init<const nb::dict&, std::size_t, std::size_t, std::size_t, std::size_t, std::size_t,
                      const Array<float, 2>&, int, const std::string&>(),
             nb::arg("weights"), nb::arg("size"), nb::arg("hidden"), nb::arg("heads"), nb::arg("encoder_layers"),
             nb::arg("decoder_layers"), nb::arg("positions"), nb::arg("num_threads"), nb::arg("instruction_set"))
        .def("encode", &Int8ShiftModel::encode, nb::arg("tokens"), nb::arg("memories"))
        .def("decode", &Int8ShiftModel::decode, nb::arg("tokens"), nb::arg("positions"), nb::arg("memories"),
             nb::arg("before"), nb::arg("after"), nb::arg("hidden"), nb::arg("weights") = std::vector<Output<1>>())
        .def("logits", &Int8ShiftModel::logits, nb::arg("hidden"), nb::arg("candidates"), nb::arg("results"))
        .def_prop_ro("num_threads", &Int8ShiftModel::num_threads);
}

}  // namespace dragoman
