"""CPU library of dragoman: Transformer inference in 8, 16 and 32 bits, and fused training operations.

The library knows arrays only. Inputs are weights by name, a configuration and token ids; outputs are logits or top-k
tokens. Arrays have the layout `(batch, beam)`: the hypotheses of a sentence share its memory, and states are passed
from step to step. Results are bit-identical for any batch and any number of threads.
"""

from dragoman_cpu._ext import CpuOps, Int8ShiftModel
from dragoman_cpu.config import unsupported_reason
from dragoman_cpu.model import ComputeType, Model, instruction_sets, quantize, quantize_blocks
from dragoman_cpu.state import Memory, State

API_VERSION = 6
"""Version of this interface, which the dragoman package compares with the one it needs."""

__all__ = [
    "API_VERSION",
    "ComputeType",
    "CpuOps",
    "Int8ShiftModel",
    "Memory",
    "Model",
    "State",
    "instruction_sets",
    "quantize",
    "quantize_blocks",
    "unsupported_reason",
]
