"""The ids that have a meaning for every network."""

from dataclasses import dataclass

PAD, UNK, BOS, EOS = 0, 1, 2, 3


@dataclass(frozen=True)
class SpecialSymbols:
    """The ids that have a meaning for a network: padding, unknown word, begin and end of a sequence."""

    pad: int = PAD
    unk: int = UNK
    bos: int = BOS
    eos: int = EOS
