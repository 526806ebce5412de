// Python extension module: checks shapes and types of arrays, and releases the GIL during computation.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "bindings/cpu_ops.hpp"
#include "kernels/dispatch.hpp"
#include "model/model.hpp"

namespace nb = nanobind;
using namespace dragoman;

namespace {

using IdArray = nb::ndarray<const std::int32_t, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using TokenArray = nb::ndarray<const std::int32_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using FloatArray = nb::ndarray<const float, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using FloatOutput = nb::ndarray<float, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using IdOutput = nb::ndarray<std::int32_t, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using Int8Output = nb::ndarray<std::int8_t, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using ScaleOutput = nb::ndarray<float, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using WeightArray = nb::ndarray<nb::ro, nb::c_contig, nb::device::cpu>;
using Int64List = std::vector<std::int64_t>;

template <class Element, class Array>
MatrixView<Element> matrix(const Array& array) {
    return {array.data(), array.shape(0), array.shape(1)};
}
IdMatrix ids_of(const IdArray& array) { return matrix<const std::int32_t>(array); }

DataType dtype_of(const std::string& name, const WeightArray& array) {
    if (array.dtype() == nb::dtype<float>()) return DataType::float32;
    if (array.dtype() == nb::dtype<std::uint16_t>()) return DataType::bfloat16;
    if (array.dtype() == nb::dtype<std::int8_t>()) return DataType::int8;
    throw std::invalid_argument("weights: " + name + " must be float32, bfloat16 as uint16, or int8 with " + name +
                                "_scale");
}

ArrayView weight_view(const std::string& name, const WeightArray& array) {
    ArrayView weight;
    weight.dtype = dtype_of(name, array);
    for (std::size_t axis = 0; axis < array.ndim(); axis++) weight.shape.push_back(array.shape(axis));
    weight.data = array.data();
    return weight;
}

ComputeType parse_compute_type(const std::string& name) {
    if (name == "int8") return ComputeType::int8;
    if (name == "bfloat16") return ComputeType::bfloat16;
    if (name == "float32") return ComputeType::float32;
    throw std::invalid_argument("compute_type = " + name + " must be int8, bfloat16 or float32");
}

Activation parse_activation(const std::string& name) {
    if (name == "relu") return Activation::relu;
    if (name == "gelu") return Activation::gelu;
    if (name == "gelu_tanh") return Activation::gelu_tanh;
    if (name == "silu") return Activation::silu;
    throw std::invalid_argument("configuration: activation = " + name + " is unknown");
}

PositionKind parse_positions(const std::string& name) {
    if (name == "none") return PositionKind::none;
    if (name == "sinusoidal") return PositionKind::sinusoidal;
    if (name == "learned") return PositionKind::learned;
    if (name == "rotary") return PositionKind::rotary;
    if (name == "alibi") return PositionKind::alibi;
    if (name == "t5_bias") return PositionKind::t5_bias;
    throw std::invalid_argument("configuration: positions.kind = " + name + " is unknown");
}

template <class Value>
void read(const nb::dict& options, const char* name, Value& value) {
    value = nb::cast<Value>(options[name]);
}

ModelConfig parse_config(const nb::dict& options) {
    ModelConfig config;
    read(options, "decoder_only", config.decoder_only);
    read(options, "d_model", config.d_model);
    read(options, "num_heads", config.num_heads);
    read(options, "num_kv_heads", config.num_kv_heads);
    read(options, "d_ff", config.d_ff);
    read(options, "encoder_layers", config.encoder_layers);
    read(options, "decoder_layers", config.decoder_layers);
    read(options, "source_vocabulary", config.source_vocabulary);
    read(options, "target_vocabulary", config.target_vocabulary);
    config.activation = parse_activation(nb::cast<std::string>(options["activation"]));
    read(options, "gated", config.gated);
    read(options, "rms_norm", config.rms_norm);
    read(options, "pre_norm", config.pre_norm);
    read(options, "bias", config.bias);
    read(options, "scale_embedding", config.scale_embedding);
    read(options, "norm_embedding", config.norm_embedding);
    config.positions = parse_positions(nb::cast<std::string>(options["positions"]));
    read(options, "max_positions", config.max_positions);
    read(options, "num_buckets", config.num_buckets);
    read(options, "max_distance", config.max_distance);
    read(options, "rotary_base", config.rotary_base);
    read(options, "encoder_scale", config.encoder_scale);
    read(options, "decoder_scale", config.decoder_scale);
    read(options, "cross_scale", config.cross_scale);
    read(options, "encoder_kept_heads", config.encoder_kept_heads);
    read(options, "decoder_kept_heads", config.decoder_kept_heads);
    read(options, "cross_kept_heads", config.cross_kept_heads);
    read(options, "tie_source_embedding", config.tie_source_embedding);
    read(options, "tie_output_projection", config.tie_output_projection);
    return config;
}

void init_model(Model* model, const nb::dict& options, const nb::dict& arrays, const std::string& compute_type,
                int num_threads, const std::optional<std::string>& instruction_set) {
    Weights weights;
    std::vector<WeightArray> references;  // keep the arrays alive until they are packed
    for (auto [key, value] : arrays) {
        auto name = nb::cast<std::string>(key);
        references.push_back(nb::cast<WeightArray>(value));
        weights.add(name, weight_view(name, references.back()));
    }
    ModelConfig config = parse_config(options);
    nb::gil_scoped_release release;
    new (model) Model(config, weights, parse_compute_type(compute_type), num_threads, instruction_set);
}

Memory encode_with_shortlists(Model& model, const IdArray& ids, const Int64List& lengths, const TokenArray& tokens,
                              const Int64List& counts) {
    return model.encode_with_shortlists(ids_of(ids), lengths, {tokens.data(), tokens.shape(0), counts});
}

State top_k(Model& model, const IdArray& tokens, const Memory& memory, const State& state,
            const Int64List& suppress_tokens, const FloatOutput& log_probs, const IdOutput& ids) {
    if (log_probs.shape(1) != ids.shape(1) || log_probs.shape(0) != ids.shape(0) ||
        ids.shape(0) != tokens.shape(0) * tokens.shape(1)) {
        throw std::invalid_argument("log_probs and ids must have one row per token and k columns");
    }
    return model.top_k(ids_of(tokens), memory, state, suppress_tokens, matrix<float>(log_probs),
                       matrix<std::int32_t>(ids));
}

void quantize(const FloatArray& weight, const Int8Output& quantized, const ScaleOutput& scale) {
    if (quantized.shape(0) != weight.shape(0) || quantized.shape(1) != weight.shape(1) ||
        scale.shape(0) != weight.shape(0)) {
        throw std::invalid_argument("quantized must have the shape of the weight, and scale one element per row");
    }
    for (std::size_t row = 0; row < weight.shape(0); row++) {
        std::size_t offset = row * weight.shape(1);
        quantize_row(weight.data() + offset, weight.shape(1), quantized.data() + offset, scale.data() + row);
    }
}

}  // namespace

NB_MODULE(_ext, module) {
    using release_gil = nb::call_guard<nb::gil_scoped_release>;
    nb::set_leak_warnings(false);  // training keeps its CpuOps until the process ends
    bind_cpu_ops(module);
    module.def("instruction_sets", &instruction_sets);
    module.def("quantize", &quantize, nb::arg("weight").noconvert(), nb::arg("quantized").noconvert(),
               nb::arg("scale").noconvert());

    nb::class_<Memory>(module, "Memory")
        .def_prop_ro("lengths", &Memory::lengths)
        .def("select", &Memory::select, release_gil())
        .def("concat", &Memory::concat, release_gil());

    nb::class_<State>(module, "State")
        .def_prop_ro("beam_size", &State::beam_size)
        .def_prop_ro("lengths", &State::lengths)
        .def(
            "reorder", [](const State& state, const IdArray& parents) { return state.reorder(ids_of(parents)); },
            nb::arg("parents").noconvert(), release_gil())
        .def("select", &State::select, release_gil())
        .def("concat", &State::concat, release_gil());

    nb::class_<Model>(module, "Model")
        .def("__init__", &init_model, nb::arg("options"), nb::arg("weights"), nb::arg("compute_type"),
             nb::arg("num_threads"), nb::arg("instruction_set").none())
        .def(
            "encode",
            [](Model& model, const IdArray& ids, const Int64List& lengths) {
                return model.encode(ids_of(ids), lengths);
            },
            nb::arg("ids").noconvert(), nb::arg("lengths"), release_gil())
        .def("encode_with_shortlists", &encode_with_shortlists, nb::arg("ids").noconvert(), nb::arg("lengths"),
             nb::arg("tokens").noconvert(), nb::arg("counts"), release_gil())
        .def("start", &Model::start, nb::arg("memory"), nb::arg("beam_size"), release_gil())
        .def(
            "step",
            [](Model& model, const IdArray& tokens, const Memory& memory, const State& state,
               const FloatOutput& logits) { return model.step(ids_of(tokens), memory, state, matrix<float>(logits)); },
            nb::arg("tokens").noconvert(), nb::arg("memory"), nb::arg("state"), nb::arg("logits").noconvert(),
            release_gil())
        .def("top_k", &top_k, nb::arg("tokens").noconvert(), nb::arg("memory"), nb::arg("state"),
             nb::arg("suppress_tokens"), nb::arg("log_probs").noconvert(), nb::arg("ids").noconvert(), release_gil())
        .def_prop_ro("instruction_set", &Model::instruction_set)
        .def_prop_ro("num_threads", &Model::num_threads)
        .def_prop_ro("vocabulary", [](const Model& model) { return model.config().target_vocabulary; })
        .def_prop_ro("cache_bytes", &Model::cache_bytes)
        .def_prop_ro("cached_tokens", &Model::num_cache_entries);
}
