"""Logits that CTranslate2 itself computes, where it is installed, for the self-check of an import."""

from collections import Counter
from collections.abc import Mapping, Sequence
from importlib import import_module
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import numpy as np

from dragoman.interop.ctranslate2.vocabulary import Symbols, Vocabulary
from dragoman.interop.imported_model import Reference
from dragoman.interop.vocabulary_order import NEVER

LIBRARY: Final = "ctranslate2"


def build_reference(
    path: Path, vocabularies: Mapping[str, Vocabulary], symbols: Symbols, *, is_decoder_only: bool, gives_eos: bool
) -> Reference | None:
    """Return a function that computes logits with CTranslate2 in float32; None where it is not installed.

    `gives_eos` says whether users give the end symbol of a source. CTranslate2 adds the symbols that users do not give.
    The model is loaded at the first call.
    """
    if find_spec(LIBRARY) is None:
        return None
    source, target = vocabularies["source"], vocabularies["target"]
    models: list[Any] = []

    def compute(source_ids: Sequence[int], target_ids: Sequence[int]) -> np.ndarray:
        if not models:
            library = import_module(LIBRARY)
            kind = library.Generator if is_decoder_only else library.Translator
            models.append(kind(str(path), device="cpu", compute_type="float32", intra_threads=1))
        tokens = _tokens(target, target_ids)
        if is_decoder_only:
            logits = np.array(models[0].forward_batch([tokens]))[0]
        else:
            given = _tokens(source, source_ids[symbols.add_source_bos : None if gives_eos else -1])
            logits = _translation_logits(models[0], given, tokens, has_start=symbols.start is not None)
        found: np.ndarray = target.order.reorder(np.asarray(logits, dtype=np.float32).T).T
        found[:, sorted(target.order.silent_ids)] = NEVER
        return found

    unnamed = _repeated(source) | _repeated(target)
    return Reference(f"{LIBRARY} {version(LIBRARY)}", compute, unnamed=unnamed)


def _repeated(vocabulary: Vocabulary) -> frozenset[int]:
    """Return our ids of tokens whose name occurs several times, as `<extra_id_0>` in conversions of T5."""
    counts = Counter(vocabulary.tokens)
    repeated = [index for index, token in enumerate(vocabulary.tokens) if counts[token] > 1]
    return frozenset(vocabulary.order.our_ids[repeated].tolist())


def _tokens(vocabulary: Vocabulary, ids: Sequence[int]) -> list[str]:
    foreign = vocabulary.order.foreign_ids
    return [vocabulary.tokens[foreign[index]] for index in ids]


def _translation_logits(model: Any, source: list[str], target: list[str], *, has_start: bool) -> np.ndarray:
    """Return the logits of every step of forced decoding; the begin symbol is implicit unless users give it."""
    prefix = target[1:] if has_start else target
    steps = len(target)
    result = model.translate_batch(
        [source],
        target_prefix=[prefix],
        beam_size=1,
        min_decoding_length=0,
        max_decoding_length=steps,
        return_logits_vocab=True,
    )[0]
    return np.stack([np.array(one).reshape(-1) for one in result.logits[0][:steps]])
