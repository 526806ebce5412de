// The door to Python: shapes and types are checked here, the GIL is released while the core works.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "bind_learning.hpp"
#include "model.hpp"

namespace nb = nanobind;
using namespace dragoman;

namespace {

using IdArray = nb::ndarray<const std::int32_t, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using FloatTable = nb::ndarray<float, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using IdTable = nb::ndarray<std::int32_t, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using FloatArray = nb::ndarray<const float, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using WeightArray = nb::ndarray<nb::ro, nb::c_contig, nb::device::cpu>;
using Rows = std::vector<std::int64_t>;
using TokenArray = nb::ndarray<const std::int32_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

template <class Number, class Array>
Table<Number> table(const Array& array) {
    return {array.data(), array.shape(0), array.shape(1)};
}

NumberType type_of(const std::string& name, const WeightArray& array) {
    if (array.dtype() == nb::dtype<float>()) return NumberType::float32;
    if (array.dtype() == nb::dtype<std::uint16_t>()) return NumberType::bfloat16;
    if (array.dtype() == nb::dtype<std::int8_t>()) return NumberType::int8;
    throw std::invalid_argument("weights: " + name + " must be float32, bfloat16 as uint16, or int8 with its " + name + "_scale");
}

Array weight_of(const std::string& name, const WeightArray& array) {
    Array weight;
    weight.type = type_of(name, array);
    for (std::size_t axis = 0; axis < array.ndim(); axis++) weight.shape.push_back(array.shape(axis));
    weight.data = array.data();
    return weight;
}

Compute compute_of(const std::string& name) {
    if (name == "int8") return Compute::int8;
    if (name == "bfloat16") return Compute::bfloat16;
    if (name == "float32") return Compute::float32;
    throw std::invalid_argument("compute = " + name + " must be int8, bfloat16 or float32");
}

Activation activation_of(const std::string& name) {
    if (name == "relu") return Activation::relu;
    if (name == "gelu") return Activation::gelu;
    if (name == "gelu_tanh") return Activation::gelu_tanh;
    if (name == "silu") return Activation::silu;
    throw std::invalid_argument("configuration: there is no activation " + name);
}

PositionKind positions_of(const std::string& name) {
    if (name == "none") return PositionKind::none;
    if (name == "sinusoidal") return PositionKind::sinusoidal;
    if (name == "learned") return PositionKind::learned;
    if (name == "rotary") return PositionKind::rotary;
    if (name == "alibi") return PositionKind::alibi;
    if (name == "bucketed") return PositionKind::bucketed;
    throw std::invalid_argument("configuration: there are no positions of kind " + name);
}

template <class Value>
Value setting(const nb::dict& settings, const char* name) {
    return nb::cast<Value>(settings[name]);
}

Settings settings_of(const nb::dict& given) {
    Settings settings;
    settings.causal = setting<bool>(given, "causal");
    settings.size = setting<std::size_t>(given, "size");
    settings.heads = setting<std::size_t>(given, "heads");
    settings.key_value_heads = setting<std::size_t>(given, "key_value_heads");
    settings.feed_forward = setting<std::size_t>(given, "feed_forward");
    settings.encoder_layers = setting<std::size_t>(given, "encoder_layers");
    settings.decoder_layers = setting<std::size_t>(given, "decoder_layers");
    settings.source_vocabulary = setting<std::size_t>(given, "source_vocabulary");
    settings.target_vocabulary = setting<std::size_t>(given, "target_vocabulary");
    settings.activation = activation_of(setting<std::string>(given, "activation"));
    settings.gated = setting<bool>(given, "gated");
    settings.rms_norm = setting<bool>(given, "rms_norm");
    settings.pre_norm = setting<bool>(given, "pre_norm");
    settings.bias = setting<bool>(given, "bias");
    settings.scale_embedding = setting<bool>(given, "scale_embedding");
    settings.norm_embedding = setting<bool>(given, "norm_embedding");
    settings.positions = positions_of(setting<std::string>(given, "positions"));
    settings.places = setting<std::size_t>(given, "places");
    settings.buckets = setting<std::size_t>(given, "buckets");
    settings.furthest = setting<std::size_t>(given, "furthest");
    settings.rotary_base = setting<double>(given, "rotary_base");
    settings.encoder_scale = setting<float>(given, "encoder_scale");
    settings.decoder_scale = setting<float>(given, "decoder_scale");
    settings.cross_scale = setting<float>(given, "cross_scale");
    settings.encoder_kept = setting<Kept>(given, "encoder_kept");
    settings.decoder_kept = setting<Kept>(given, "decoder_kept");
    settings.cross_kept = setting<Kept>(given, "cross_kept");
    settings.tie_source = setting<bool>(given, "tie_source");
    settings.tie_unembedding = setting<bool>(given, "tie_unembedding");
    return settings;
}

void load(Model* model, const nb::dict& given, const nb::dict& weights, const std::string& compute, int threads,
          const std::optional<std::string>& instruction_set) {
    Weights all;
    std::vector<WeightArray> kept;  // alive until they are packed
    for (auto [name, value] : weights) {
        auto key = nb::cast<std::string>(name);
        kept.push_back(nb::cast<WeightArray>(value));
        all.add(key, weight_of(key, kept.back()));
    }
    Settings settings = settings_of(given);
    nb::gil_scoped_release released;
    new (model) Model(settings, all, compute_of(compute), threads, instruction_set);
}

void quantise(const FloatArray& weight, const nb::ndarray<std::int8_t, nb::ndim<2>, nb::c_contig>& whole,
              const nb::ndarray<float, nb::ndim<1>, nb::c_contig>& scale) {
    if (whole.shape(0) != weight.shape(0) || whole.shape(1) != weight.shape(1) || scale.shape(0) != weight.shape(0)) {
        throw std::invalid_argument("the result needs the shape of the weight, and one factor a row");
    }
    for (std::size_t row = 0; row < weight.shape(0); row++) {
        std::size_t at = row * weight.shape(1);
        quantise_row(weight.data() + at, weight.shape(1), whole.data() + at, scale.data() + row);
    }
}

}  // namespace

NB_MODULE(_core, module) {
    using released = nb::call_guard<nb::gil_scoped_release>;
    nb::set_leak_warnings(false);  // training keeps its functions for as long as the process lives
    bind_learning(module);
    module.def("instruction_sets", &instruction_sets);
    module.def("quantise", &quantise, nb::arg("weight").noconvert(), nb::arg("whole").noconvert(),
               nb::arg("scale").noconvert());

    nb::class_<Memory>(module, "Memory")
        .def_prop_ro("lengths", &Memory::lengths)
        .def("keep", &Memory::keep, released())
        .def("join", &Memory::join, released());

    nb::class_<State>(module, "State")
        .def_prop_ro("beam", &State::beam)
        .def_prop_ro("ages", &State::ages)
        .def("select", [](const State& state, const IdArray& parents) { return state.select(table<const std::int32_t>(parents)); },
             nb::arg("parents").noconvert(), released())
        .def("keep", &State::keep, released())
        .def("join", &State::join, released())
        .def("back", &State::back, released());

    nb::class_<Model>(module, "Model")
        .def("__init__", &load, nb::arg("settings"), nb::arg("weights"), nb::arg("compute"), nb::arg("threads"),
             nb::arg("instruction_set").none())
        .def("encode",
             [](Model& model, const IdArray& ids, const Rows& lengths) {
                 return model.encode(table<const std::int32_t>(ids), lengths);
             },
             nb::arg("ids").noconvert(), nb::arg("lengths"), released())
        .def("encode_for",
             [](Model& model, const IdArray& ids, const Rows& lengths, const TokenArray& candidates, const Rows& counts) {
                 return model.encode_for(table<const std::int32_t>(ids), lengths,
                                         {candidates.data(), candidates.shape(0), counts});
             },
             nb::arg("ids").noconvert(), nb::arg("lengths"), nb::arg("candidates").noconvert(), nb::arg("counts"), released())
        .def("start", &Model::start, nb::arg("memory"), nb::arg("beam"), released())
        .def("step",
             [](Model& model, const IdArray& tokens, const Memory& memory, const State& state, const FloatTable& logits) {
                 return model.step(table<const std::int32_t>(tokens), memory, state, table<float>(logits));
             },
             nb::arg("tokens").noconvert(), nb::arg("memory"), nb::arg("state"), nb::arg("logits").noconvert(), released())
        .def("best",
             [](Model& model, const IdArray& tokens, const Memory& memory, const State& state, const Rows& forbidden,
                const FloatTable& log_probs, const IdTable& ids) {
                 if (log_probs.shape(1) != ids.shape(1) || log_probs.shape(0) != ids.shape(0) ||
                     ids.shape(0) != tokens.shape(0) * tokens.shape(1)) {
                     throw std::invalid_argument("the results need one row a token and k columns");
                 }
                 return model.best(table<const std::int32_t>(tokens), memory, state, forbidden, table<float>(log_probs),
                                   table<std::int32_t>(ids));
             },
             nb::arg("tokens").noconvert(), nb::arg("memory"), nb::arg("state"), nb::arg("forbidden"),
             nb::arg("log_probs").noconvert(), nb::arg("ids").noconvert(), released())
        .def("follow",
             [](Model& model, const IdArray& tokens, const Rows& lengths, const Memory& memory, const State& state,
                const Rows& forbidden, const FloatTable& log_probs, const IdTable& ids) {
                 if (log_probs.shape(0) != ids.shape(0) || log_probs.shape(1) != ids.shape(1)) {
                     throw std::invalid_argument("the results need one row a token and k columns");
                 }
                 return model.follow(table<const std::int32_t>(tokens), lengths, memory, state, forbidden,
                                     table<float>(log_probs), table<std::int32_t>(ids));
             },
             nb::arg("tokens").noconvert(), nb::arg("lengths"), nb::arg("memory"), nb::arg("state"), nb::arg("forbidden"),
             nb::arg("log_probs").noconvert(), nb::arg("ids").noconvert(), released())
        .def_prop_ro("instruction_set", &Model::instruction_set)
        .def_prop_ro("threads", &Model::threads)
        .def_prop_ro("vocabulary", [](const Model& model) { return model.settings().target_vocabulary; })
        .def_prop_ro("cache_bytes", &Model::slot_bytes)
        .def_prop_ro("cached_places", &Model::slots_alive);
}
