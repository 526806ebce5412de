"""Translations of a text: joined from the hypotheses of its segments, with the steps of its preparation undone."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial

from dragoman.data.document_context import count_context_tokens
from dragoman.data.tokenizers import LanguageTokenizer
from dragoman.data.tokenizers.label_text import is_in_capitals
from dragoman.decoding.config import DecodingConfig
from dragoman.decoding.constraints import PhraseAutomaton
from dragoman.decoding.hypothesis import Hypothesis, without_first
from dragoman.errors import warn
from dragoman.inference.control.inline_markup import align_ahead, markup_warning
from dragoman.inference.model_facts import ModelFacts
from dragoman.inference.quality_signals import ModelTexts
from dragoman.inference.scheduler import Request
from dragoman.inference.text_requests import TextRequests, unmet_names
from dragoman.inference.text_segmentation import Segment
from dragoman.inference.translation_result import (
    Translation,
    TranslationResult,
    TranslationWarning,
    join_blocks,
    join_translations,
)
from dragoman.inference.typography import Typography


def join_segments(
    line: TextRequests,
    found: Iterable[Sequence[Hypothesis]],
    *,
    config: DecodingConfig,
    target: LanguageTokenizer,
    typography: Typography,
    facts: ModelFacts,
) -> list[list[Translation]]:
    """Return the translations of each block of a text as the model wrote them.

    `found` are the hypotheses of each of its segments.
    """
    outputs = iter(found)
    blocks = []
    for block in line.blocks:
        layout, sentences = block.segmented
        segments = [segment for sentence in sentences for segment in sentence]
        parts = iter(
            [
                _translations(
                    target,
                    typography,
                    segment.text,
                    _sentences(next(outputs), line, config, target),
                    _constraints(request),
                    forced=0 if line.writes_context else len(request.start.forced),
                )
                for segment, request in zip(segments, block.requests, strict=True)
            ]
        )
        joined = [
            join_translations(
                [next(parts) for _ in sentence], config, join_texts=lambda some: " ".join(filter(None, some))
            )
            for sentence in sentences
        ]
        whole = join_translations(joined, config, join_texts=layout.fill)
        read = partial(
            ModelTexts, block.text.text, profile=facts.quality_profile, is_unfamiliar=_unlike(segments, facts)
        )
        blocks.append([replace(translation, model_texts=read(translation.text)) for translation in whole])
    return blocks


def _unlike(segments: Sequence[Segment], facts: ModelFacts) -> bool:
    """Return whether a segment is unlike the texts that the model was trained on."""
    familiarity = facts.familiarity
    return familiarity is not None and any(
        familiarity.is_unfamiliar((segment.alone or segment).ids) for segment in segments
    )


def restore_texts(
    lines: Sequence[tuple[TextRequests, Sequence[Sequence[Translation]]]], config: DecodingConfig
) -> list[TranslationResult]:
    """Undo the steps of texts in their translations, as `restore_text` does; their words are aligned together."""
    align_ahead(
        (block.text, translations)
        for line, blocks in lines
        for block, translations in zip(line.blocks, blocks, strict=True)
    )
    return [restore_text(line, blocks, config) for line, blocks in lines]


def restore_text(
    line: TextRequests, blocks: Sequence[Sequence[Translation]], config: DecodingConfig
) -> TranslationResult:
    """Undo the steps of a text in its translations, and warn about the best one: words it lacks, its length, tags.

    `blocks` are the translations of each of its blocks.
    """
    restored = [
        [block.text.restore(one) for one in translations]
        for block, translations in zip(line.blocks, blocks, strict=True)
    ]
    result = TranslationResult(join_blocks(restored, line.around, config))
    best, remedy = result[0], "to allow longer ones, raise max_length or max_length_ratio"
    if best.unmet:
        message = f"the translation does not meet the constraints on {' and '.join(map(repr, best.unmet))}"
        problem = "translations do not meet their constraints"
        warn(TranslationWarning("line", line.number, message, problem=problem, remedy=remedy))
    elif not best.hypothesis.finished:
        message = f"the translation was cut off at its length limit ({len(result.tokens)} tokens)"
        problem = "translations were cut off at their length limit"
        warn(TranslationWarning("line", line.number, message, problem=problem, remedy=remedy))
    if best.model_texts is not None and best.model_texts.is_unfamiliar:
        message = "the text is unlike the texts that the model was trained on"
        problem = "texts are unlike those that the model was trained on"
        warn(TranslationWarning("line", line.number, message, problem=problem, remedy="check the translation"))
    if (warning := markup_warning(best, line.number)) is not None:
        warn(warning)
    return result


def _sentences(
    found: Sequence[Hypothesis], line: TextRequests, config: DecodingConfig, target: LanguageTokenizer
) -> Sequence[Hypothesis]:
    """Return hypotheses without the translations of the sentences before, and each sentence once."""
    if not line.writes_context:
        return found
    counts = [count_context_tokens(target.ids_to_tokens(one.tokens)) for one in found]
    sentences = [without_first(one, count, config.penalty) for one, count in zip(found, counts, strict=True)]
    different: dict[tuple[int, ...], Hypothesis] = {}
    for one in sentences:
        different.setdefault(one.tokens, one)
    return list(different.values())


def _constraints(request: Request) -> PhraseAutomaton | None:
    """Return the constraints on the outputs of a request, those on its terms included."""
    return request.start.constraints if request.terms is None else request.terms.reported


def _translations(
    target: LanguageTokenizer,
    typography: Typography,
    source: str,
    hypotheses: Sequence[Hypothesis],
    constraints: PhraseAutomaton | None,
    *,
    forced: int,
) -> list[Translation]:
    """Return the translations of a segment, whose first tokens are `forced`."""
    translations = []
    for one in hypotheses:
        written = target.decode(one.tokens)
        text = typography.restore(source, written)
        checked = written if is_in_capitals(source) else text  # constraints are in ordinary case
        translations.append(
            Translation(
                text,
                one,
                tuple(target.ids_to_tokens(one.tokens)),
                unmet=unmet_names(constraints, source, checked),
                parts=((source, text),),
                free_log_probs=one.token_log_probs[forced:],
            )
        )
    return translations
