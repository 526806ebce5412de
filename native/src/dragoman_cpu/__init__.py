"""The compiled CPU core of dragoman: Transformers that decode, in numbers of int8, bfloat16 or float32.

It knows arrays and nothing else: weights by name and a configuration in, token ids in, logits or the best continuations
out. The layout is that of `dragoman.models.protocols`: `(batch, beam)`, a beam shares its sentence's memory, and state
is handed over. A number has the same bits whatever is computed beside it, and by however many threads.
"""

from dragoman_cpu._core import Learning
from dragoman_cpu.configuration import accepts
from dragoman_cpu.hypotheses import Memory, State
from dragoman_cpu.model import Compute, Model, instruction_sets, quantise

__all__ = ["Compute", "Learning", "Memory", "Model", "State", "accepts", "instruction_sets", "quantise"]
