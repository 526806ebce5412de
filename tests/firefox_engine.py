"""Arithmetic of Firefox's engine (fxtranslate 0.5, on processors with AVX2), bit by bit, in NumPy.

All products have 8-bit factors: inputs are rounded with a fixed multiplier, shifted by 127 to 0 to 254, and multiplied
by the integers of the file. AVX2 adds pairs of products in 16 bits, which saturate. Other numbers are float32, and
sums run from the first to the last number: another order changes roundings, and in the end the words of every fourth
sentence. The search is greedy, over the candidates of a lexical shortlist.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import final

import numpy as np

from dragoman.interop.marian.binary_format import Int8Matrix, MarianTensor
from dragoman.interop.marian.shortlist_format import MarianShortlist

F = np.float32
EOS = 0
MAX_LENGTH = 256


def running_sum(values: np.ndarray, axis: int = -1) -> np.ndarray:
    """Sum float32 numbers one by one."""
    return np.take(np.add.accumulate(values, axis=axis, dtype=F), -1, axis=axis)


def exact(function: np.ufunc, values: np.ndarray) -> np.ndarray:
    """Return a function of float32 numbers, correctly rounded."""
    return function(values.astype(np.float64)).astype(F)


@final
class Product:
    """Product with a matrix (inputs, outputs) in 8 bits, saturating in 16 bits if `saturates`."""

    def __init__(self, matrix: Int8Matrix, activation: float, bias: np.ndarray | None, *, saturates: bool) -> None:
        values = matrix.values.astype(np.int32)
        self.activation = F(activation)
        self.scale = F(1) / (self.activation * F(matrix.multiplier))
        shift = -(F(127) * self.scale * values.sum(axis=0).astype(F))
        self.bias = shift if bias is None else shift + bias.reshape(-1)
        self.values = values.astype(np.float64)
        even, odd = values[0::2], values[1::2]
        highest = 254 * (np.maximum(even, 0) + np.maximum(odd, 0))
        lowest = 254 * (np.minimum(even, 0) + np.minimum(odd, 0))
        self.pairs, self.columns = np.nonzero(saturates & ((highest > 32767) | (lowest < -32768)))
        self.factors = even[self.pairs, self.columns], odd[self.pairs, self.columns]

    def __call__(self, inputs: np.ndarray) -> np.ndarray:
        rounded = np.clip(np.rint(inputs * self.activation), -127, 127).astype(np.int32) + 127
        sums = (rounded.astype(np.float64) @ self.values).astype(np.int64)
        wide = rounded[:, 2 * self.pairs] * self.factors[0] + rounded[:, 2 * self.pairs + 1] * self.factors[1]
        for row, excess in zip(sums, np.clip(wide, -32768, 32767) - wide, strict=True):
            np.add.at(row, self.columns, excess)
        return self.scale * sums.astype(F) + self.bias


@final
@dataclass(frozen=True)
class FirefoxEngine:
    """Engine with the tensors of a file whose embedding serves source, target and output layer."""

    tensors: Mapping[str, MarianTensor]
    shortlist: MarianShortlist
    heads: int
    encoder_layers: int
    decoder_layers: int
    products: dict[str, Product] = field(default_factory=dict)
    """Prepared products by the name of their matrix."""

    def translate(self, source: Sequence[int]) -> list[int]:
        """Return the ids of a translation, without the end symbol; that of the source is its last id."""
        context = self._encode(source)
        memories = [self._memory(f"decoder_l{layer + 1}_context", context) for layer in range(self.decoder_layers)]
        cells = [np.zeros((1, self._size), F)] * self.decoder_layers
        candidates = np.array(sorted(self.shortlist.candidates(source)))
        project = self._output_layer(candidates)
        found: list[int] = []
        while len(found) < min(2 * len(source) + 4, MAX_LENGTH):
            before = self._embed(found[-1:]) if found else np.zeros((1, self._size), F)
            hidden = before + self._positions(len(found), 1)
            for layer in range(self.decoder_layers):
                hidden, cells[layer] = self._decode(layer, hidden, cells[layer], memories[layer])
            best = int(candidates[int(project(hidden)[0].argmax())])
            if best == EOS:
                break
            found.append(best)
        return found

    @property
    def _size(self) -> int:
        return self._matrix("Wemb").values.shape[1]

    def _matrix(self, name: str) -> Int8Matrix:
        found = self.tensors[name]
        assert isinstance(found, Int8Matrix)
        return found

    def _array(self, name: str) -> np.ndarray:
        found = self.tensors[name]
        assert isinstance(found, np.ndarray)
        return found.reshape(-1)

    def _embed(self, tokens: Sequence[int]) -> np.ndarray:
        table = self._matrix("Wemb")
        rows = table.values[list(tokens)].astype(F) * (F(1) / F(table.multiplier))
        return F(np.sqrt(self._size)) * rows

    def _positions(self, start: int, count: int) -> np.ndarray:
        half = self._size // 2
        exponents = np.arange(half).astype(F) / F(half - 1)
        rates = exact(np.exp, np.log(np.float64(F(1e-4))) * exponents.astype(np.float64))
        angles = np.arange(start, start + count, dtype=F)[:, None] * rates
        return exact(np.sin, np.concatenate([angles, angles + F(np.pi / 2)], axis=1))

    def _product(self, name: str, bias: str | None, inputs: np.ndarray) -> np.ndarray:
        if name not in self.products:
            offset = None if bias is None else self._array(bias)
            activation = float(self._array(f"{name}_QuantMultA")[0])
            self.products[name] = Product(self._matrix(name), activation, offset, saturates=True)
        return self.products[name](inputs)

    def _output_layer(self, candidates: np.ndarray) -> Product:
        """Return the product with the embeddings of candidates, which is computed without vector instructions."""
        table = self._matrix("Wemb")
        rows = Int8Matrix(table.values[candidates].T, table.multiplier)
        bias = self._array("decoder_ff_logit_out_b")[candidates]
        return Product(rows, float(self._array("none_QuantMultA")[0]), bias, saturates=False)

    def _norm(self, inputs: np.ndarray, name: str) -> np.ndarray:
        size = F(self._size)
        centered = inputs - (running_sum(inputs) / size)[:, None]
        deviation = np.sqrt(running_sum(centered * centered)[:, None] / size + F(1e-6))
        return self._array(f"{name}_ln_scale") * (centered / deviation) + self._array(f"{name}_ln_bias")

    def _memory(self, name: str, inputs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        keys, values = (self._product(f"{name}_W{one}", f"{name}_b{one}", inputs) for one in "kv")
        return keys, values

    def _attend(self, name: str, inputs: np.ndarray, memory: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
        """Return the norm of inputs and attention."""
        queries = self._product(f"{name}_Wq", f"{name}_bq", inputs)
        joined = np.empty_like(queries)
        width = self._size // self.heads
        for start in range(0, self._size, width):
            part = slice(start, start + width)
            keys, values = memory[0][:, part], memory[1][:, part]
            scores = running_sum(queries[:, None, part] * keys[None]) * (F(1) / np.sqrt(F(width)))
            weights = exact(np.exp, scores - scores.max(axis=1, keepdims=True))
            weights = weights / running_sum(weights)[:, None]
            joined[:, part] = running_sum(weights[:, :, None] * values[None], axis=1)
        return self._norm(self._product(f"{name}_Wo", f"{name}_bo", joined) + inputs, f"{name}_Wo")

    def _feed_forward(self, name: str, inputs: np.ndarray) -> np.ndarray:
        hidden = np.maximum(self._product(f"{name}_W1", f"{name}_b1", inputs), F(0))
        return self._norm(self._product(f"{name}_W2", f"{name}_b2", hidden) + inputs, f"{name}_ffn")

    def _encode(self, source: Sequence[int]) -> np.ndarray:
        hidden = self._embed(source) + self._positions(0, len(source))
        for layer in range(1, self.encoder_layers + 1):
            name = f"encoder_l{layer}"
            hidden = self._attend(f"{name}_self", hidden, self._memory(f"{name}_self", hidden))
            hidden = self._feed_forward(f"{name}_ffn", hidden)
        return hidden

    def _decode(
        self, layer: int, inputs: np.ndarray, cell: np.ndarray, memory: tuple[np.ndarray, np.ndarray]
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return output and cell of a decoder layer."""
        name = f"decoder_l{layer + 1}"
        new = self._product(f"{name}_rnn_W", None, inputs)
        gate = self._product(f"{name}_rnn_Wf", f"{name}_rnn_bf", inputs)
        forget = F(1) / (F(1) + exact(np.exp, -gate))
        cell = forget * cell + (F(1) - forget) * new
        hidden = self._norm(np.maximum(cell, F(0)) + inputs, f"{name}_rnn_ffn")
        hidden = self._attend(f"{name}_context", hidden, memory)
        return self._feed_forward(f"{name}_ffn", hidden), cell
