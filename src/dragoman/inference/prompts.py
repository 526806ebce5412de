"""Prompts as a model reads them, and the warnings about them."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from dragoman.data.tokenizers import Tokenizer
from dragoman.errors import TextWarning, warn
from dragoman.inference.length_batches import warn_unknown
from dragoman.models.special_symbols import BOS


class GenerationWarning(TextWarning):
    """Warning about one prompt; the message names the prompt."""


@dataclass(frozen=True, slots=True)
class Prompt:
    """Prompt as the model reads it."""

    text: str
    ids: tuple[int, ...]
    """With the begin symbol, before or after the prompt."""
    context: tuple[int, ...]
    """TokenIds that form one text with the output: repetition filters look back on them, and spaces separate them."""
    truncated: bool = False
    """Whether the model does not see the beginning of the prompt."""


def encode_prompts(
    tokenizer: Tokenizer,
    prompts: Sequence[str],
    *,
    pairs: bool,
    max_length: int | None,
    kept: int | None = None,
    first: int = 0,
) -> list[Prompt]:
    """Return prompts as the model reads them, numbered from `first`; one of more than `max_length` tokens warns.

    Of a longer prompt the model sees the last `kept` tokens where the context slides.
    """
    side = tokenizer.source
    texts = [side.normalize(text) for text in prompts]
    encoded = [tuple(ids) for ids in side.encode_batch(texts)]
    warn_unknown(texts, encoded, side, category=GenerationWarning, unit="prompt", first=first + 1)
    extra = 1 if pairs or kept is not None else 0  # the begin symbol, which a search of running text may drop
    is_long = [max_length is not None and len(ids) + extra > max_length for ids in encoded]
    # When sampling, running text drops its beginning sooner or later anyway, without a warning.
    if max_length is not None and (pairs or kept is None):
        remedy = "shorten the prompt" if kept is not None else "shorten the prompt or lower max_new_tokens"
        for number, (ids, truncated) in enumerate(zip(encoded, is_long, strict=True), start=first + 1):
            if truncated:
                seen = (kept or max_length) - extra
                message = f"{len(ids)} tokens, of which the model sees the last {seen} only"
                problem = f"prompts are too long, and the model sees the last {seen} tokens of each only"
                warn(GenerationWarning("prompt", number, message, problem=problem, remedy=remedy))
    read = [_with_begin_symbol(text, ids, pairs=pairs) for text, ids in zip(texts, encoded, strict=True)]
    return [replace(prompt, truncated=truncated) for prompt, truncated in zip(read, is_long, strict=True)]


def encode_prompt(tokenizer: Tokenizer, prompt: str, *, pairs: bool) -> Prompt:
    """Return one prompt of any length as the model reads it, without a warning."""
    text = tokenizer.source.normalize(prompt)
    return _with_begin_symbol(text, tuple(tokenizer.source.encode(text)), pairs=pairs)


def _with_begin_symbol(text: str, ids: tuple[int, ...], *, pairs: bool) -> Prompt:
    return Prompt(text, (*ids, BOS), context=()) if pairs else Prompt(text, (BOS, *ids), context=ids)
