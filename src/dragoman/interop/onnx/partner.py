"""Writes a model as ONNX graphs (https://onnx.ai/onnx/repo-docs/IR.html, opset 18).

A graph holds its weights. `encoder.onnx`, or `prompt.onnx` of a decoder-only model, runs once for a source or prompt,
`decoder.onnx` for every token. `docs/how-to/onnx.md` describes inputs and outputs.
"""

import io
import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from pathlib import Path

import torch
from torch.utils._pytree import tree_map

from dragoman.atomic_files import write_atomically
from dragoman.errors import ConfigError
from dragoman.interop.imported_model import ExportedModel, NetworkConfig, build_network
from dragoman.interop.onnx.compare_graph import compare_graph, describe_differences
from dragoman.interop.onnx.graph_modules import EncoderGraph, PromptGraph, StepGraph
from dragoman.models.config import DecoderOnlyConfig, EncoderDecoderConfig, SelfAttentionConfig
from dragoman.models.decoder_only import DecoderOnlyTransformer
from dragoman.models.encoder_decoder import EncoderDecoderTransformer
from dragoman.models.weight_storage import set_weights

OPSET = 18
MAX_LENGTH = "max_length"
"""Key of the metadata with the longest sequence that the positions allow."""
_PATTERNS_IN_BLOCKS = ("sliding_window", "bigbird")
MAX_BYTES = 2**31 - 2**20
"""Bytes of weights that fit into a file of Protocol Buffers, which has at most 2 GiB."""


def write(model: ExportedModel, folder: Path) -> str | None:
    """Write the graphs of a model, and return what their comparison with PyTorch found.

    Raises ConfigError if the model has a part that the graphs lack, and DataError if a graph computes other numbers.
    """
    return write_graphs(_network(model), folder)


def write_graphs(network: EncoderDecoderTransformer | DecoderOnlyTransformer, folder: Path) -> str | None:
    """Write the graphs of a network, with its weights, into a folder; compare and raise as `write` does."""
    first: EncoderGraph | PromptGraph
    if isinstance(network, EncoderDecoderTransformer):
        name, first = "encoder.onnx", EncoderGraph(network)
    else:
        name, first = "prompt.onnx", PromptGraph(network)
    graphs: dict[str, EncoderGraph | PromptGraph | StepGraph] = {name: first, "decoder.onnx": StepGraph(network)}
    differences = []
    for name, module in graphs.items():
        content = export_graph(module)
        differences.append(compare_graph(module, content, name=name))
        write_atomically(folder / name, content)
    return describe_differences(differences)


def _network(model: ExportedModel) -> EncoderDecoderTransformer | DecoderOnlyTransformer:
    """Return the network with its weights. Raises ConfigError if no graph computes it."""
    if model.compute_type != "float32":
        raise ConfigError(f"compute_type = {model.compute_type}: graphs of ONNX have float32 weights. Leave it out.")
    if sum(one.nbytes for one in model.weights.values()) > MAX_BYTES:
        raise ConfigError(
            "The model has more than 2 GiB of weights, and a file of ONNX holds less. Export it as a run."
        )
    _check_network(model.network)
    tokenizer = model.tokenizer
    network = build_network(
        model.network, source_vocabulary=len(tokenizer.source), target_vocabulary=len(tokenizer.target)
    )
    assert isinstance(network, EncoderDecoderTransformer | DecoderOnlyTransformer), "checked"
    set_weights(network, {name: torch.from_numpy(array) for name, array in model.weights.items()})
    return network


def _check_network(config: NetworkConfig) -> None:
    """Raise ConfigError if no graph computes a network of this configuration."""
    if not isinstance(config, EncoderDecoderConfig | DecoderOnlyConfig):
        raise ConfigError(f"A model of kind {config.kind} has no decoder of a Transformer. Export it as a run.")
    if config.positions.kind == "tree":
        raise ConfigError("model.positions = tree needs dependency trees, which graphs lack. Export it as a run.")
    for role in config.attentions():
        if isinstance(role.config, SelfAttentionConfig) and role.config.pattern.kind in _PATTERNS_IN_BLOCKS:
            raise ConfigError(
                f"model.{role.key}.pattern.kind = {role.config.pattern.kind} computes blocks, whose number depends on "
                "the length of a text, but the operators of a graph are fixed. Export it as a run."
            )


def export_graph(module: EncoderGraph | PromptGraph | StepGraph) -> bytes:
    """Return the file of a graph, whose sizes and order of inputs are those of `module`."""
    example = module.example()
    names = iter(module.inputs().values())
    shapes = tree_map(lambda _: next(names), example)
    with _quietly(), torch.no_grad():
        program = torch.onnx.export(
            module.eval(),
            example,
            dynamo=True,
            verbose=False,
            opset_version=OPSET,
            input_names=list(module.inputs()),
            output_names=module.outputs(),
            dynamic_shapes=shapes,
        )
    assert program is not None, "the exporter of torch.export returns a program"
    if (longest := module.model.max_length) is not None:
        program.model.metadata_props[MAX_LENGTH] = str(longest)
    for node in program.model.graph:
        node.metadata_props.clear()  # lines of this program, with paths of this machine
    content: bytes = program.model_proto.SerializeToString()
    return content


@contextmanager
def _quietly() -> Iterator[None]:
    """Hide what the exporter of PyTorch prints and logs about its own steps."""
    level = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings(), redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(level)
