"""Runs looked into: what they make of some texts as studies, and what is said of each run beside them."""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol, final, runtime_checkable

import torch
from torch import Tensor

from dragoman.data.datasets.labeled import wrap_in_bos_eos
from dragoman.data.datasets.qa import answer_tokens, make_windows
from dragoman.data.datasets.tagged import encode_words
from dragoman.data.readers.conllu import Heads
from dragoman.data.readers.qa import AnswerSpan
from dragoman.data.tokenizers import LanguageTokenizer
from dragoman.decoding import DecodingConfig
from dragoman.errors import DataError
from dragoman.inference.backends.cpu_backend import CpuBackend
from dragoman.inference.batching import BATCH_TOKENS
from dragoman.inference.classifier import Classifier
from dragoman.inference.generator import Generator
from dragoman.inference.question_answerer import QuestionAnswerer
from dragoman.inference.source_features import check_source_features
from dragoman.inference.tagger import Tagger
from dragoman.inference.translator import MAX_SEGMENT_LENGTH, Translator
from dragoman.interpret.beam_tree import SearchRecord, record_search
from dragoman.interpret.classification import explain_answer, explain_label, explain_tags
from dragoman.interpret.explanation import Explanation, explain_continuation, explain_translation
from dragoman.interpret.quantized_activations import round_activations
from dragoman.interpret.recorder import BuildFeatures, Ids, as_module
from dragoman.models.quantization import ComputeType
from dragoman.profiling.estimate import count_parameters
from dragoman.runs.folder import RunFolder
from dragoman.runs.load import load_cpu_backend, load_torch_model
from dragoman.runs.model_card import describe_model
from dragoman.typing import Float

MAX_CONTINUATION_TOKENS = 40
"""Most tokens that a continuation has, where nothing else is asked for."""


@dataclass(frozen=True)
class InspectionRequest:
    """What is to be looked at."""

    texts: Sequence[str]
    targets: Sequence[str] | None = None
    """A translation, continuation, label or answer to look at for each text, in place of the run's own."""
    questions: Sequence[str] | None = None
    """For a run that answers, one for each text."""
    source_features: Sequence[Heads] | None = None
    """Dependency heads of the words of each text, for a run with tree positions."""
    beam: int | None = None
    """Of the search, where it is not to be the run's own."""
    tokens: int = MAX_CONTINUATION_TOKENS
    """The most of a continuation."""

    def check_lengths(self) -> None:
        """Raises DataError where there are not as many of one thing as of the texts."""
        for name, given in (
            ("targets", self.targets),
            ("questions", self.questions),
            ("source features", self.source_features),
        ):
            if given is not None and len(given) != len(self.texts):
                raise DataError(f"{len(self.texts)} texts but {len(given)} {name}; give one for each")

    def target(self, number: int) -> str | None:
        """That of a text, where there is one."""
        return None if self.targets is None else self.targets[number]

    def tree(self, number: int) -> Heads | None:
        """Likewise."""
        return None if self.source_features is None else self.source_features[number]


@dataclass(frozen=True)
class InspectedRun:
    """A run with its studies; `facts` are names and values in words."""

    name: str
    facts: tuple[tuple[str, str], ...]
    explanations: tuple[Explanation, ...]
    writes: LanguageTokenizer
    """What spells the tokens of its outputs."""
    translator: Translator | None = None
    """What computes its translations, where it translates."""


@runtime_checkable
class _Inspector(Protocol):
    """A run of one task, for studies of one text after the other."""

    def explain(self, wanted: InspectionRequest, number: int) -> Explanation: ...


def inspect_run(
    path: Path, wanted: InspectionRequest, *, name: str | None = None, device: str | None = None
) -> InspectedRun:
    """Study what a run makes of each text; it is called by its `name`, or as its folder is.

    Where the run is an exported model in less than float32 that the compiled core computes, translations, their beam
    and their probabilities are those of the core; all else is computed again in float32 from inputs rounded as the core
    rounds them, and `facts` say so. Raises DataError on an empty text, on one too long to be read at once, on what the
    run's task has no use for, and where something is not given for every text.
    """
    wanted.check_lengths()
    run = load_torch_model(path, device=device)
    core = _load_cpu_model(path, device)
    inspector, side = _build_inspector(run, core)
    explanations = tuple(inspector.explain(wanted, number) for number in range(len(wanted.texts)))
    facts = (*_describe_run(path, run), *_number_facts(path, core))
    computing = run if core is None else core.translator
    translator = computing if isinstance(computing, Translator) else None
    return InspectedRun(name or path.name, facts, explanations, side, translator)


def cross_score(systems: Sequence[InspectedRun], wanted: InspectionRequest) -> list[list[list[float]]] | None:
    """Of each text, the log-probability of every system's translation (a row) by every system, where all translate."""
    translators = [one.translator for one in systems if one.translator is not None]
    if len(systems) < 2 or len(translators) < len(systems):
        return None
    tables = []
    for number, text in enumerate(wanted.texts):
        outputs = [one.explanations[number].target_text for one in systems]
        columns = [_score_outputs(one, text, outputs, wanted.tree(number)) for one in translators]
        tables.append([list(row) for row in zip(*columns, strict=True)])
    return tables


def _score_outputs(translator: Translator, text: str, outputs: list[str], tree: Heads | None) -> list[float]:
    source_features = [tree] * len(outputs) if tree is not None else None
    return [one.log_prob for one in translator.score([text] * len(outputs), outputs, source_features=source_features)]


@dataclass(frozen=True)
class _CpuModel:
    """The compiled core with an exported model, and the numbers that it multiplies."""

    translator: Translator
    compute: ComputeType

    @property
    def network(self) -> CpuBackend:
        network: CpuBackend = self.translator.model
        return network


def _number_facts(path: Path, core: _CpuModel | None) -> Iterator[tuple[str, str]]:
    """Which numbers the studies of an exported model show."""
    stored = RunFolder(path).read_export().get("compute_type", "float32")
    if core is not None:
        yield "translation, beam and probabilities", f"of the compiled core in {stored}"
        yield "all else", f"computed again in float32 from inputs rounded to {stored}, as the core rounds them"
    elif stored != "float32":
        yield "all numbers", f"of the {stored} weights, computed in float32"


def _load_cpu_model(path: Path, device: str | None) -> _CpuModel | None:
    """Where it computes an exported translator in less than float32."""
    folder = RunFolder(path)
    stored: ComputeType = folder.read_export().get("compute_type", "float32")
    if stored == "float32":
        return None
    found = load_cpu_backend(folder, device=device, compute_type="auto", batch_tokens=BATCH_TOKENS)
    return _CpuModel(found, stored) if isinstance(found, Translator) else None


def _build_inspector(run: object, core: _CpuModel | None) -> tuple[_Inspector, LanguageTokenizer]:
    match run:
        case Translator():
            return _TranslationInspector(run, core), run.tokenizer.target
        case Generator():
            return _ContinuationInspector(run), run.tokenizer.target
        case Classifier():
            return _LabelInspector(run), run.tokenizer
        case Tagger():
            return _TagInspector(run), run.tokenizer
        case QuestionAnswerer():
            return _AnswerInspector(run), run.tokenizer
        case _:
            raise AssertionError(f"a run is loaded as what its task is used by, not as {type(run).__name__}")


@final
@dataclass(frozen=True)
class _TranslationInspector:
    translator: Translator
    core: _CpuModel | None

    def explain(self, wanted: InspectionRequest, number: int) -> Explanation:
        _refuse_option("question", wanted.questions)
        text, tokenizer = wanted.texts[number], self.translator.tokenizer
        ids, source_features = _encode(tokenizer.source, text), self._features(wanted, number)
        seen, target = None, wanted.target(number)
        if target is None:
            seen = self._search(ids, source_features, self.translator.decoding_config(beam_size=wanted.beam))
            output: Ids = list(seen.best.tokens)
        else:
            output = tokenizer.target.encode(target)
        with self._rounded():
            found = explain_translation(
                self.translator.model,
                tokenizer,
                ids,
                output,
                source_text=text,
                source_features=self._build_features(source_features),
                log_probs=self._log_probs(ids, output),
            )
        return replace(found, search=seen)

    def _search(self, ids: Ids, source_features: Sequence[Heads], settings: DecodingConfig) -> SearchRecord:
        """What the run itself makes of a source, with the search that found it."""
        network: Any = self.translator.backend if self.core is None else self.core.network
        places, limit = network.max_length, settings.output_limit(len(ids))
        with network.inference_mode():
            return record_search(
                network,
                network.encode([ids], source_features),
                config=settings,
                limit=limit if places is None else min(limit, places - 1),
            )

    def _features(self, wanted: InspectionRequest, number: int) -> list[Heads]:
        """The tree of the text, which is checked, where the network reads one."""
        tree = wanted.tree(number)
        given = None if tree is None else [tree]
        needs_source_features = self.translator.backend.needs_source_features
        found = check_source_features(
            [wanted.texts[number]], given, number + 1, needs_source_features=needs_source_features
        )
        return [heads for heads in found if heads is not None]

    def _build_features(self, heads: Sequence[Heads]) -> BuildFeatures | None:
        backend: Any = self.translator.backend
        return (lambda sources: backend.build_features(sources, [*heads] * len(sources))) if heads else None

    def _rounded(self) -> AbstractContextManager[None]:
        if self.core is None:
            return nullcontext()
        return round_activations(as_module(self.translator.model), self.core.compute)

    def _log_probs(self, ids: Ids, output: Ids) -> Float[Tensor, "steps vocabulary"] | None:
        return None if self.core is None else torch.from_numpy(self.core.network.log_probs(ids, output))


@final
@dataclass(frozen=True)
class _ContinuationInspector:
    generator: Generator

    def explain(self, wanted: InspectionRequest, number: int) -> Explanation:
        _refuse_option("question", wanted.questions)
        _refuse_option("source-features", wanted.source_features)
        generator, seen, target = self.generator, None, wanted.target(number)
        # A prompt makes room for what might be written; beside what was, it has to fit whole.
        room = max(1, generator.context - wanted.tokens) if target is None else None
        (prompt,) = generator.encode_prompts([wanted.texts[number]], room=room)
        ids = list(prompt.ids) if room is None else list(prompt.ids[-room:])
        if target is None:
            seen = self._search(ids, wanted)
            output, ended = list(seen.best.tokens), seen.best.finished
        else:
            output, ended = generator.tokenizer.target.encode(target), True
            if len(ids) + len(output) >= generator.context:
                raise DataError(
                    f"prompt and continuation have {len(ids) + len(output)} tokens, and the network looks at "
                    f"{generator.context} at most; shorten one of them"
                )
        found = explain_continuation(
            generator.model, generator.tokenizer.target, ids, output, prompt_text=prompt.text, finished=ended
        )
        return replace(found, search=seen)

    def _search(self, ids: Ids, wanted: InspectionRequest) -> SearchRecord:
        generator = self.generator
        with generator.backend.inference_mode():
            return record_search(
                generator.backend,
                generator.backend.encode([ids]),
                config=DecodingConfig() if wanted.beam is None else DecodingConfig(beam_size=wanted.beam),
                limit=min(wanted.tokens, generator.context - len(ids)),
                start_token=ids[-1],
            )


@final
@dataclass(frozen=True)
class _LabelInspector:
    classifier: Classifier

    def explain(self, wanted: InspectionRequest, number: int) -> Explanation:
        _refuse_option("question", wanted.questions)
        _refuse_option("source-features", wanted.source_features)
        one, text = self.classifier, wanted.texts[number]
        ids = _encode_with_symbols(one.tokenizer, text, one.max_length)
        return explain_label(
            _model_with_head(one), one.tokenizer, one.labels.names, text, ids=ids, label=wanted.target(number)
        )


@final
@dataclass(frozen=True)
class _TagInspector:
    tagger: Tagger

    def explain(self, wanted: InspectionRequest, number: int) -> Explanation:
        _refuse_option("question", wanted.questions)
        _refuse_option("source-features", wanted.source_features)
        _refuse_option("target", wanted.targets)
        one, words = self.tagger, wanted.texts[number].split()
        if not words:
            raise DataError("an empty text gives nothing to look at; give a text with a word in it")
        aligned = encode_words(one.tokenizer, words)
        _check_length(wanted.texts[number], len(aligned.ids) + 2, one.max_length)
        ids = wrap_in_bos_eos(aligned.ids, max_length=one.max_length)
        firsts = [first + 1 for first in aligned.first_tokens]  # after BEGIN
        return explain_tags(_model_with_head(one), one.tokenizer, one.labels.names, words, ids=ids, first_tokens=firsts)


@final
@dataclass(frozen=True)
class _AnswerInspector:
    answerer: QuestionAnswerer

    def explain(self, wanted: InspectionRequest, number: int) -> Explanation:
        _refuse_option("source-features", wanted.source_features)
        if wanted.questions is None:
            raise DataError("this run answers questions about texts; give one for each text by --question")
        one, text, question = self.answerer, wanted.texts[number], wanted.questions[number]
        ids, spans = one.tokenizer.encode_with_offsets(text)
        laid = make_windows(one.tokenizer.encode(question), ids, one.windows)
        if not ids or len(laid) > 1:
            raise DataError(
                f"{text[:40]!r}…: {len(ids)} tokens, and 1 to {laid[0].num_context_tokens} are read at once beside this question; "
                "give a text of such a length"
            )
        (window,) = laid
        answer = self._located(question, text, wanted.target(number))
        tokens = None if answer is None else answer_tokens(answer, spans)
        places = (0, 0) if tokens is None else window.locate(*tokens)
        told = f"{question} {text}"
        return explain_answer(
            _model_with_head(one),
            one.tokenizer,
            told,
            ids=window.tokens,
            context_start=window.context_start,
            answer=places,
        )

    def _located(self, question: str, text: str, target: str | None) -> AnswerSpan | None:
        """The answer that is looked at: the given one, or what is found, which may be none."""
        if target is not None:
            if target not in text:
                raise DataError(f"{target!r} does not stand in the text; give a part of it as the answer")
            return AnswerSpan(target, text.index(target))
        found = self.answerer.answer(question, text)
        return None if found.no_answer else AnswerSpan(found.text, found.start)


def _model_with_head(run: Classifier | Tagger | QuestionAnswerer) -> Any:
    return as_module(run.model)


def _encode_with_symbols(side: LanguageTokenizer, text: str, longest: int) -> list[int]:
    ids = side.encode(text)
    if not ids:
        raise DataError("an empty text gives nothing to look at; give a text with a word in it")
    _check_length(text, len(ids) + 2, longest)
    return wrap_in_bos_eos(ids, max_length=longest)


def _refuse_option(option: str, given: object) -> None:
    """Raises DataError on what this run has no use for."""
    if given is not None:
        raise DataError(f"--{option} has no effect on a run of this task; leave it out")


def _encode(side: LanguageTokenizer, text: str) -> list[int]:
    ids = side.encode(text)
    if not ids:
        raise DataError("an empty text gives nothing to look at; give a text with a word in it")
    _check_length(text, len(ids), MAX_SEGMENT_LENGTH)
    return ids


def _check_length(text: str, tokens: int, longest: int) -> None:
    if tokens > longest:
        raise DataError(
            f"{text[:40]!r}…: {tokens} tokens are too long to be looked at at once (at most {longest}); "
            "give a sentence or a paragraph"
        )


def _describe_run(path: Path, run: Any) -> tuple[tuple[str, str], ...]:
    folder = RunFolder(path)
    parameters = count_parameters(as_module(run.model))
    facts = [("network", describe_model(folder.read_config().model)), ("parameters", f"{parameters:,}")]
    for part, scores in folder.read_scores().get("scores", {}).items():
        facts += [(f"{score['metric']} ({part})", f"{score['value']:.1f}") for score in scores[:1]]
    return tuple(facts)
