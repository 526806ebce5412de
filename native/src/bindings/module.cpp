// Python extension module: checks shapes and types of arrays, and releases the GIL during computation.
//
// Other threads of Python may change an array during a call. Ids are therefore copied before the GIL is released, and the
// library checks and uses the copy.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "bindings/cpu_ops.hpp"
#include "bindings/gil.hpp"
#include "bindings/int8_shift.hpp"
#include "kernels/dispatch.hpp"
#include "model/model.hpp"
#include "runtime/fork_guard.hpp"

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

/// Copy of an array of ids.
class Ids {
public:
    explicit Ids(const IdArray& array)
        : values_(array.data(), array.data() + array.size()), rows_(array.shape(0)), columns_(array.shape(1)) {}

    IdMatrix view() const { return {values_.data(), rows_, columns_}; }

private:
    const std::vector<std::int32_t> values_;
    const std::size_t rows_, columns_;
};

/// Model of this process. A fork copies its memory, but not its threads, one of which may have been changing it: a forked
/// process neither uses nor destroys the model.
class ModelHandle {
public:
    explicit ModelHandle(std::unique_ptr<Model> model) : model_(std::move(model)) {}
    ~ModelHandle() {
        if (guard_.is_forked()) static_cast<void>(model_.release());
    }
    ModelHandle(const ModelHandle&) = delete;
    ModelHandle& operator=(const ModelHandle&) = delete;

    Model& get() const {
        guard_.check();
        return *model_;
    }

private:
    const ForkGuard guard_;
    std::unique_ptr<Model> model_;
};

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
    if (name == "int8_int16") return ComputeType::int8_int16;
    if (name == "bfloat16") return ComputeType::bfloat16;
    if (name == "float32") return ComputeType::float32;
    throw std::invalid_argument("compute_type = " + name + " must be int8, int8_int16, bfloat16 or float32");
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

RotaryScalingKind parse_rotary_scaling(const std::string& name) {
    if (name == "none") return RotaryScalingKind::none;
    if (name == "linear") return RotaryScalingKind::linear;
    if (name == "llama3") return RotaryScalingKind::llama3;
    throw std::invalid_argument("configuration: positions.scaling.kind = " + name + " is unknown");
}

template <class Value>
void read(const nb::dict& options, const char* name, Value& value) {
    value = nb::cast<Value>(options[name]);
}

void parse_position_options(const nb::dict& options, ModelConfig& config) {
    config.positions = parse_positions(nb::cast<std::string>(options["positions"]));
    read(options, "position_offset", config.position_offset);
    read(options, "sinusoid_halves", config.sinusoid_halves);
    read(options, "sinusoid_inclusive", config.sinusoid_inclusive);
    read(options, "max_positions", config.max_positions);
    read(options, "num_buckets", config.num_buckets);
    read(options, "max_distance", config.max_distance);
    read(options, "rotary_base", config.rotary_base);
    config.rotary_scaling.kind = parse_rotary_scaling(nb::cast<std::string>(options["rotary_scaling"]));
    read(options, "scaling_factor", config.rotary_scaling.factor);
    read(options, "low_frequency_factor", config.rotary_scaling.low_frequency_factor);
    read(options, "high_frequency_factor", config.rotary_scaling.high_frequency_factor);
    read(options, "original_length", config.rotary_scaling.original_length);
}

ModelConfig parse_config(const nb::dict& options) {
    ModelConfig config;
    read(options, "decoder_only", config.decoder_only);
    read(options, "d_model", config.d_model);
    read(options, "num_heads", config.num_heads);
    read(options, "num_kv_heads", config.num_kv_heads);
    read(options, "head_size", config.head_size);
    read(options, "d_ff", config.d_ff);
    read(options, "encoder_layers", config.encoder_layers);
    read(options, "decoder_layers", config.decoder_layers);
    read(options, "source_vocabulary", config.source_vocabulary);
    read(options, "target_vocabulary", config.target_vocabulary);
    config.activation = parse_activation(nb::cast<std::string>(options["activation"]));
    read(options, "gated", config.gated);
    read(options, "rms_norm", config.rms_norm);
    read(options, "pre_norm", config.pre_norm);
    read(options, "norm_epsilon", config.norm_epsilon);
    read(options, "bias", config.bias);
    read(options, "qkv_bias", config.qkv_bias);
    read(options, "output_bias", config.output_bias);
    read(options, "scale_embedding", config.scale_embedding);
    read(options, "norm_embedding", config.norm_embedding);
    read(options, "scale_output", config.scale_output);
    read(options, "ssru", config.ssru);
    parse_position_options(options, config);
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

void init_model(ModelHandle* handle, const nb::dict& options, const nb::dict& arrays, const std::string& compute_type,
                int num_threads, const std::optional<std::string>& instruction_set) {
    std::vector<WeightArray> references;  // keep the arrays alive until they are packed
    std::map<std::string, ArrayView> views;
    for (auto [key, value] : arrays) {
        auto name = nb::cast<std::string>(key);
        references.push_back(nb::cast<WeightArray>(value));
        views[name] = weight_view(name, references.back());
    }
    ModelConfig config = parse_config(options);
    ComputeType parsed_type = parse_compute_type(compute_type);
    new (handle) ModelHandle(without_gil([&](Interruption& interruption) {
        Weights weights(interruption, views);
        return std::make_unique<Model>(config, weights, parsed_type, num_threads, instruction_set);
    }));
}

Memory encode(const ModelHandle& handle, const IdArray& ids, const Int64List& lengths) {
    Ids copy(ids);
    return without_gil(
        [&](Interruption& interruption) { return handle.get().encode(copy.view(), lengths, interruption); });
}

Memory encode_with_shortlists(const ModelHandle& handle, const IdArray& ids, const Int64List& lengths,
                              const TokenArray& tokens, const Int64List& counts) {
    Ids copy(ids);
    std::vector<std::int32_t> copied_tokens(tokens.data(), tokens.data() + tokens.size());
    return without_gil([&](Interruption& interruption) {
        return handle.get().encode_with_shortlists(
            copy.view(), lengths, {copied_tokens.data(), copied_tokens.size(), counts}, interruption);
    });
}

State reorder(const State& state, const IdArray& parents) {
    Ids copy(parents);
    GilRelease release;
    return state.reorder(copy.view());
}

State start(const ModelHandle& handle, const Memory& memory, std::size_t beam_size) {
    return handle.get().start(memory, beam_size);
}

State step(const ModelHandle& handle, const IdArray& tokens, const Memory& memory, const State& state,
           const FloatOutput& logits) {
    Ids copy(tokens);
    return without_gil([&](Interruption& interruption) {
        return handle.get().step(copy.view(), memory, state, matrix<float>(logits), interruption);
    });
}

State top_k(const ModelHandle& handle, const IdArray& tokens, const Memory& memory, const State& state,
            const Int64List& suppress_tokens, const Int64List& extra_tokens, const FloatOutput& log_probs,
            const IdOutput& ids) {
    if (log_probs.shape(1) != ids.shape(1) || log_probs.shape(0) != ids.shape(0) ||
        ids.shape(0) != tokens.shape(0) * tokens.shape(1)) {
        throw std::invalid_argument("log_probs and ids must have one row per token, and k columns and one per extra token");
    }
    Ids copy(tokens);
    return without_gil([&](Interruption& interruption) {
        return handle.get().top_k(copy.view(), memory, state, suppress_tokens, extra_tokens, matrix<float>(log_probs),
                                  matrix<std::int32_t>(ids), interruption);
    });
}

State cross_attention_step(const ModelHandle& handle, const IdArray& tokens, const Memory& memory, const State& state,
                           std::size_t layer, const FloatOutput& weights) {
    Ids copy(tokens);
    return without_gil([&](Interruption& interruption) {
        return handle.get().cross_attention(copy.view(), memory, state, layer, matrix<float>(weights), interruption);
    });
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

void quantize_blocks(const FloatArray& weight, const Int8Output& quantized, const FloatOutput& scale,
                     const FloatOutput& center) {
    std::size_t rows = weight.shape(0), columns = weight.shape(1), blocks = (columns + block_size - 1) / block_size;
    bool fits = quantized.shape(0) == rows && quantized.shape(1) == columns;
    for (const FloatOutput* params : {&scale, &center}) {
        fits = fits && params->shape(0) == rows && params->shape(1) == blocks;
    }
    if (!fits) throw std::invalid_argument("quantized must have the shape of the weight, and a row one scale per block");
    for (std::size_t row = 0; row < rows; row++) {
        float unit = float16_unit(max_magnitude(weight.data() + row * columns, columns));
        for (std::size_t block = 0; block < blocks; block++) {
            std::size_t start = block * block_size, offset = row * columns + start;
            BlockParams params = quantize_block(weight.data() + offset, std::min(block_size, columns - start), unit,
                                                quantized.data() + offset);
            scale.data()[row * blocks + block] = params.scale;
            center.data()[row * blocks + block] = params.center;
        }
    }
}

}  // namespace

NB_MODULE(_ext, module) {
    using release_gil = nb::call_guard<GilRelease>;
    nb::set_leak_warnings(false);  // training keeps its CpuOps until the process ends
    bind_cpu_ops(module);
    bind_int8_shift(module);
    module.def("instruction_sets", &instruction_sets);
    module.def("quantize", &quantize, nb::arg("weight").noconvert(), nb::arg("quantized").noconvert(),
               nb::arg("scale").noconvert());
    module.def("quantize_blocks", &quantize_blocks, nb::arg("weight").noconvert(), nb::arg("quantized").noconvert(),
               nb::arg("scale").noconvert(), nb::arg("center").noconvert());

    nb::class_<Memory>(module, "Memory")
        .def_prop_ro("lengths", &Memory::lengths)
        .def("select", &Memory::select, release_gil())
        .def("concat", &Memory::concat, release_gil());

    nb::class_<State>(module, "State")
        .def_prop_ro("beam_size", &State::beam_size)
        .def_prop_ro("lengths", &State::lengths)
        .def("reorder", &reorder, nb::arg("parents").noconvert())
        .def("select", &State::select, release_gil())
        .def("concat", &State::concat, release_gil());

    nb::class_<ModelHandle>(module, "Model")
        .def("__init__", &init_model, nb::arg("options"), nb::arg("weights"), nb::arg("compute_type"),
             nb::arg("num_threads"), nb::arg("instruction_set").none())
        .def("encode", &encode, nb::arg("ids").noconvert(), nb::arg("lengths"))
        .def("encode_with_shortlists", &encode_with_shortlists, nb::arg("ids").noconvert(), nb::arg("lengths"),
             nb::arg("tokens").noconvert(), nb::arg("counts"))
        .def("start", &start, nb::arg("memory"), nb::arg("beam_size"), release_gil())
        .def("step", &step, nb::arg("tokens").noconvert(), nb::arg("memory"), nb::arg("state"),
             nb::arg("logits").noconvert())
        .def("top_k", &top_k, nb::arg("tokens").noconvert(), nb::arg("memory"), nb::arg("state"),
             nb::arg("suppress_tokens"), nb::arg("extra_tokens"), nb::arg("log_probs").noconvert(),
             nb::arg("ids").noconvert())
        .def("cross_attention", &cross_attention_step, nb::arg("tokens").noconvert(), nb::arg("memory"), nb::arg("state"),
             nb::arg("layer"), nb::arg("weights").noconvert())
        .def_prop_ro("instruction_set", [](const ModelHandle& handle) { return handle.get().instruction_set(); })
        .def_prop_ro("num_threads", [](const ModelHandle& handle) { return handle.get().num_threads(); })
        .def_prop_ro("vocabulary", [](const ModelHandle& handle) { return handle.get().config().target_vocabulary; })
        .def_prop_ro("cache_bytes", [](const ModelHandle& handle) { return handle.get().cache_bytes(); })
        .def_prop_ro("cached_tokens", [](const ModelHandle& handle) { return handle.get().num_cache_entries(); });
}
