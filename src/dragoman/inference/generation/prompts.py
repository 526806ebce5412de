"""Prompts as a model reads them, and the warnings about them."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from dragoman.data.tokenizers import ImportedTokenizerConfig, Tokenizer
from dragoman.errors import TextWarning, warn
from dragoman.inference.length_batches import require_iterable, text_list, warn_unknown
from dragoman.models.special_symbols import BOS


class GenerationWarning(TextWarning):
    """Warning about one prompt; the message names the prompt."""


@dataclass(frozen=True, slots=True)
class Prompt:
    """Prompt as the model reads it."""

    text: str
    ids: tuple[int, ...]
    """With the begin symbol, before or after the prompt; some imported models have none."""
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
    has_bos = pairs or begins_with_bos(tokenizer)
    extra = int(pairs or (has_bos and kept is not None))  # a search of running text may drop the begin symbol
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
    read = [
        _with_begin_symbol(text, ids, pairs=pairs, has_bos=has_bos) for text, ids in zip(texts, encoded, strict=True)
    ]
    return [replace(prompt, truncated=truncated) for prompt, truncated in zip(read, is_long, strict=True)]


def encode_prompt(tokenizer: Tokenizer, prompt: str | Sequence[int], *, pairs: bool) -> Prompt:
    """Return one prompt of any length, a text or ids, as the model reads it, without a warning.

    Ids are read by `LanguageTokenizer.read_ids`; a begin symbol before them is that of the model. Raises DataError if
    an id is not in the vocabulary.
    """
    side = tokenizer.source
    if isinstance(prompt, str):
        text = side.normalize(prompt)
        ids = tuple(side.encode(text))
    else:
        ids = tuple(side.read_ids(prompt))
        ids = ids[1:] if ids[:1] == (BOS,) else ids
        text = side.decode(ids)
    return _with_begin_symbol(text, ids, pairs=pairs, has_bos=begins_with_bos(tokenizer))


def prompt_list(prompts: str | Prompt | Iterable[str | Prompt]) -> list[str] | list[Prompt]:
    """Return one prompt, or several, as a list. Raises TypeError where they are neither all texts nor all read."""
    if isinstance(prompts, str | Prompt):
        prompts = [prompts]
    given = list(require_iterable(prompts, name="prompts", expected="a string or a list of strings"))
    read = [one for one in given if isinstance(one, Prompt)]
    texts = [one for one in given if not isinstance(one, Prompt)]
    if read and texts:
        raise TypeError("prompts has texts and prompts that were read. Give all in one form.")
    return read or text_list(texts, name="prompts")


def begins_with_bos(tokenizer: Tokenizer) -> bool:
    """Return whether the begin symbol precedes the running text of a model; some imported ones have none."""
    return not isinstance(tokenizer.config, ImportedTokenizerConfig) or tokenizer.config.bos


def _with_begin_symbol(text: str, ids: tuple[int, ...], *, pairs: bool, has_bos: bool) -> Prompt:
    if pairs:
        return Prompt(text, (*ids, BOS), context=())
    return Prompt(text, (BOS, *ids) if has_bos or not ids else ids, context=ids)
