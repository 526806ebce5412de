"""Ids of the special symbols."""

from dataclasses import dataclass

PAD, UNK, BOS, EOS = 0, 1, 2, 3


@dataclass(frozen=True)
class SpecialSymbols:
    """Ids of padding, unknown token, beginning and end of a sequence."""

    pad: int = PAD
    unk: int = UNK
    bos: int = BOS
    eos: int = EOS
