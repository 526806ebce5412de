"""Inspect runs: explain their outputs for some texts, and describe each run."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, final

import torch

from dragoman.data.datasets.labeled import wrap_in_bos_eos
from dragoman.data.datasets.qa import answer_tokens, make_windows
from dragoman.data.datasets.tagged import encode_words
from dragoman.data.readers.conllu import Heads
from dragoman.data.readers.qa import AnswerSpan
from dragoman.data.tokenizers import LanguageTokenizer
from dragoman.decoding import DecodingConfig, OutputStart
from dragoman.decoding.config import replace_options
from dragoman.errors import DataError, warn
from dragoman.inference.check_source_features import check_source_features
from dragoman.inference.classifier_and_tagger import Classifier, Tagger
from dragoman.inference.embedder import Embedder
from dragoman.inference.generation.generator import Generator
from dragoman.inference.generation.prompts import encode_prompt
from dragoman.inference.length_batches import BATCH_TOKENS, InputWarning
from dragoman.inference.question_answerer import QuestionAnswerer
from dragoman.inference.translator import MAX_SEGMENT_LENGTH, Translator
from dragoman.interpret.attention_recorder import Ids, as_module
from dragoman.interpret.beam_tree import SearchRecord, record_search
from dragoman.interpret.explain_task_heads import explain_answer, explain_label, explain_tags
from dragoman.interpret.explain_text import Explanation, explain_continuation, explain_translation
from dragoman.interpret.simulated_quantization import round_activations
from dragoman.models.weight_quantization import ComputeType
from dragoman.number_words import counted
from dragoman.profiling.memory_and_time_estimate import count_parameters
from dragoman.runs.folder import RunFolder
from dragoman.runs.load import load_cpu_backend, load_torch_model
from dragoman.runs.model_card import describe_model

MAX_CONTINUATION_TOKENS = 40
"""Default maximum of a continuation."""
LANGUAGES = ("source_language", "target_language")
"""Inputs for a multilingual translator."""
Explainer = Callable[["InspectionRequest", int], Explanation]
"""Function from a request and the number of a text in it to the explanation."""


@dataclass(frozen=True)
class InspectionRequest:
    """Texts whose outputs are to be explained, with optional further inputs for each text."""

    texts: Sequence[str]
    targets: Sequence[str] | None = None
    """Translations, continuations, labels or answers to explain instead of the run's own outputs."""
    questions: Sequence[str] | None = None
    source_features: Sequence[Heads] | None = None
    """Dependency heads of the words of each text, for a run with tree positions."""
    beam: int | None = None
    """Beam size; by default that of the run."""
    source_language: str | None = None
    """Language of the texts, for a multilingual model."""
    target_language: str | None = None
    """Language of the translations."""
    tokens: int = MAX_CONTINUATION_TOKENS
    """Maximum of a continuation, which also ends where the context of the model is full."""
    analyses: bool = True
    """Whether a translation has statistics, attributions and effects of heads, which take most of the time."""

    def check(self, unsupported: Sequence[str]) -> None:
        """Raise DataError if an input is no list, has another length than the texts, or does not suit the task."""
        for name in LANGUAGES:
            if getattr(self, name) is not None and name in unsupported:
                raise DataError(f"--{name.replace('_', '-')} has no effect on a run of this task. Leave it out.")
        for name in ("texts", "targets", "questions", "source_features"):
            given = getattr(self, name)
            if isinstance(given, str):
                raise DataError(f"{name} is one string. Give a list of strings.")
            option = f"--{name.removesuffix('s') if name != 'source_features' else 'source-features'}"
            if given is not None and name in unsupported:
                raise DataError(f"{option} has no effect on a run of this task. Leave it out.")
            if given is not None and len(given) != len(self.texts):
                raise DataError(
                    f"{counted(len(self.texts), 'texts')} but {len(given)} {name.replace('_', ' ')}. Give one for each."
                )

    def target(self, number: int) -> str | None:
        return None if self.targets is None else self.targets[number]

    def features(self, number: int) -> list[Heads] | None:
        return None if self.source_features is None else [self.source_features[number]]


@dataclass(frozen=True)
class InspectedRun:
    """Run with the explanations of its outputs; `facts` are names and values in words."""

    name: str
    facts: tuple[tuple[str, str], ...]
    explanations: tuple[Explanation, ...]
    writes: LanguageTokenizer
    """Tokenizer of the outputs."""
    translator: Translator | None = None
    """Translator whose outputs are explained; None for other tasks."""


def inspect_run(
    path: str | Path, request: InspectionRequest, *, name: str | None = None, device: str | None = None
) -> InspectedRun:
    """Explain the outputs of a run for each text; the default `name` is that of its folder.

    For an exported translator with a compute type below float32 that the CPU backend supports, the translation, its
    beam and its probabilities are those of the CPU backend. All other numbers are computed in float32 from inputs
    rounded like those of the CPU backend, which `facts` say. Raises DataError on an empty or overlong text, and on
    inputs that the task does not support or that are missing for some texts.
    """
    loaded = InspectableRun(path, device=device)
    name = name or loaded.folder.path.name
    try:
        explanations = tuple(loaded.explain(request))
    except DataError as error:  # of several runs, one may accept the texts and another not
        raise DataError(f"{name}: {error}") from error
    facts = loaded.describe()
    for warning in _unknown_units(loaded.run, request.texts, name=name):
        warn(warning)
        facts.append(("note", str(warning)))
    return InspectedRun(name, tuple(facts), explanations, loaded.writes, loaded.translator)


@final
class InspectableRun:
    """Run loaded to explain its outputs. Several threads may not use it at once."""

    def __init__(self, path: str | Path, *, device: str | None = None) -> None:
        """Load a run. Raises RunError and ConfigError where that is not possible, DataError where it has no output."""
        self.folder = RunFolder(Path(path))
        self.run = load_torch_model(path, device=device)
        self.compute_type: ComputeType = self.folder.read_export().get("compute_type", "float32")
        cpu: Any = None
        if self.compute_type != "float32" and isinstance(self.run, Translator):
            cpu = load_cpu_backend(self.folder, device=device, compute_type="auto", batch_tokens=BATCH_TOKENS)
        self._cpu: Translator | None = cpu
        self._explain, self.writes, self._unsupported = _explainer(self.run, cpu, self.compute_type)

    @property
    def translator(self) -> Translator | None:
        """Translator whose outputs are explained; None for other tasks."""
        return self._cpu or (self.run if isinstance(self.run, Translator) else None)

    def explain(self, request: InspectionRequest) -> Iterator[Explanation]:
        """Yield the explanation of each text. Raises DataError on inputs that do not suit the run."""
        request.check(self._unsupported)
        return (self._explain(request, number) for number in range(len(request.texts)))

    def describe(self) -> list[tuple[str, str]]:
        """Return names and values of facts about the run, in words."""
        return [*_describe_run(self.folder, self.run, self.compute_type, on_cpu_backend=self._cpu is not None)]


def cross_score(systems: Sequence[InspectedRun], request: InspectionRequest) -> list[list[list[float]]] | None:
    """Return, per text, the log-probability of every system's translation (row) under every system (column).

    Returns None for a single system, or if one of them is no translator.
    """
    translators = [one.translator for one in systems if one.translator is not None]
    if len(systems) < 2 or len(translators) < len(systems):
        return None
    tables = []
    for number, text in enumerate(request.texts):
        outputs = [one.explanations[number].target_text for one in systems]
        features = request.features(number)
        options: Any = {"source_features": None if features is None else features * len(outputs)}
        options |= {"source_language": request.source_language, "target_language": request.target_language}
        columns = [one.score([text] * len(outputs), outputs, **options) for one in translators]
        tables.append([[score.log_prob for score in row] for row in zip(*columns, strict=True)])
    return tables


def _explainer(
    run: object, cpu: Translator | None, compute_type: ComputeType
) -> tuple[Explainer, LanguageTokenizer, Sequence[str]]:
    """Return the function that explains outputs of a run, their tokenizer, and the unsupported inputs."""
    match run:
        case Translator():
            return partial(_explain_translation, run, cpu, compute_type), run.tokenizer.target, ("questions",)
        case Generator():
            return (
                partial(_explain_continuation, run),
                run.tokenizer.target,
                ("questions", "source_features", *LANGUAGES),
            )
        case Classifier():
            return partial(_explain_label, run), run.tokenizer, ("questions", "source_features", *LANGUAGES)
        case Tagger():
            return partial(_explain_tags, run), run.tokenizer, ("targets", "questions", "source_features", *LANGUAGES)
        case QuestionAnswerer():
            return partial(_explain_answer, run), run.tokenizer, ("source_features", *LANGUAGES)
        case Embedder():
            raise DataError("The run embeds texts, and has no output to explain. Inspect a run that starts from it.")
        case _:
            raise AssertionError(f"{type(run).__name__} is not the result of loading a run")


def _explain_translation(
    translator: Translator, cpu: Translator | None, compute_type: ComputeType, request: InspectionRequest, number: int
) -> Explanation:
    backend: Any = translator.backend
    text, tokenizer = request.texts[number], translator.tokenizer
    direction = tokenizer.prefixes.resolve(request.source_language, request.target_language)
    ids = _encode(partial(direction.encode_sources, tokenizer.source), text, MAX_SEGMENT_LENGTH)
    checked = check_source_features(
        [text], request.features(number), number + 1, needs_source_features=backend.needs_source_features
    )
    heads = [one for one in checked if one is not None]
    search, target = None, request.target(number)
    if target is None:
        config = replace_options(translator.config, {"beam_size": request.beam})
        search = _search_translation((cpu or translator).backend, ids, heads, config, direction.target)
        output: Ids = list(search.best.tokens)
    else:
        [output] = direction.encode_targets(tokenizer.target, [target])
    features: Any = (lambda sources: backend.build_features(sources, heads * len(sources))) if heads else None
    with nullcontext() if cpu is None else round_activations(as_module(translator.model), compute_type):
        explanation = explain_translation(
            translator.model,
            tokenizer,
            ids,
            output,
            source_text=text,
            source_features=features,
            log_probs=None if cpu is None else torch.from_numpy(cpu.model.log_probs(ids, output)),
            analyses=request.analyses,
        )
    return replace(explanation, search=search)


def _search_translation(
    backend: Any, ids: Ids, heads: Sequence[Heads], config: DecodingConfig, forced: tuple[int, ...]
) -> SearchRecord:
    limit = len(forced) + config.output_limit(len(ids))
    if backend.max_length is not None:
        limit = min(limit, backend.max_length - 1)
    with backend.inference_mode():
        start = OutputStart(forced=forced)
        return record_search(backend, backend.encode([ids], heads), config=config, limit=limit, start=start)


def _explain_continuation(generator: Generator, request: InspectionRequest, number: int) -> Explanation:
    search, target = None, request.target(number)
    prompt = encode_prompt(generator.tokenizer, request.texts[number], pairs=generator.pairs)
    ids = list(prompt.ids)
    _check_length(prompt.text, len(ids), generator.context - 1)
    if target is None:
        with generator.backend.inference_mode():
            search = record_search(
                generator.backend,
                generator.backend.encode([ids]),
                config=DecodingConfig() if request.beam is None else DecodingConfig(beam_size=request.beam),
                limit=min(request.tokens, generator.context - len(ids)),
                start=OutputStart(ids[-1]),
            )
        output, finished = list(search.best.tokens), search.best.finished
    else:
        output, finished = generator.tokenizer.target.encode(target), True
        if len(ids) + len(output) >= generator.context:
            raise DataError(
                f"Prompt and continuation have {len(ids) + len(output)} tokens, and the context of the model is "
                f"{generator.context}. Shorten one of them."
            )
    explanation = explain_continuation(
        generator.model, generator.tokenizer.target, ids, output, prompt_text=prompt.text, finished=finished
    )
    return replace(explanation, search=search)


def _explain_label(classifier: Classifier, request: InspectionRequest, number: int) -> Explanation:
    text, limit = request.texts[number], classifier.max_length
    ids = wrap_in_bos_eos(_encode(classifier.tokenizer.encode_batch, text, limit - 2), max_length=limit)
    model: Any = as_module(classifier.model)
    labels, target = classifier.labels.names, request.target(number)
    return explain_label(model, classifier.tokenizer, labels, text, ids=ids, label=target)


def _explain_tags(tagger: Tagger, request: InspectionRequest, number: int) -> Explanation:
    words = request.texts[number].split()
    aligned = encode_words(tagger.tokenizer, words)
    _check_length(request.texts[number], len(aligned.ids), tagger.max_length - 2)
    ids = wrap_in_bos_eos(aligned.ids, max_length=tagger.max_length)
    first_tokens = [first + 1 for first in aligned.first_tokens]  # after BOS
    model: Any = as_module(tagger.model)
    return explain_tags(model, tagger.tokenizer, tagger.labels.names, words, ids=ids, first_tokens=first_tokens)


def _explain_answer(answerer: QuestionAnswerer, request: InspectionRequest, number: int) -> Explanation:
    if request.questions is None:
        raise DataError("The run answers questions about texts. Give one --question for each text.")
    tokenizer, text, question = answerer.tokenizer, request.texts[number], request.questions[number]
    ids, spans = tokenizer.encode_with_offsets(text)
    windows = make_windows(tokenizer.encode(question), ids, answerer.windows)
    if not ids or len(windows) > 1:
        raise DataError(
            f"{text[:40]!r}…: has {len(ids)} tokens, and a window with this question has space for 1 to "
            f"{windows[0].num_context_tokens}. Give a text of such a length."
        )
    (window,) = windows
    answer = _locate_answer(answerer, question, text, request.target(number))
    tokens = None if answer is None else answer_tokens(answer, spans)
    model: Any = as_module(answerer.model)
    return explain_answer(
        model,
        tokenizer,
        f"{question} {text}",
        ids=window.tokens,
        context_start=window.context_start,
        answer=(0, 0) if tokens is None else window.locate(*tokens),
    )


def _locate_answer(answerer: QuestionAnswerer, question: str, text: str, target: str | None) -> AnswerSpan | None:
    """Return the span of the given answer, or of the run's own, which may be None."""
    if target is not None:
        if target not in text:
            raise DataError(f"{target!r} is not a part of the text. Give a part of it as the answer.")
        return AnswerSpan(target, text.index(target))
    found = answerer.answer(question, text)
    return None if found.no_answer else AnswerSpan(found.text, found.start)


def _unknown_units(run: Any, texts: Sequence[str], *, name: str) -> Iterator[InputWarning]:
    """Yield a warning for each text with characters, or words, that are not in the vocabulary of the run."""
    side: LanguageTokenizer = getattr(run.tokenizer, "source", run.tokenizer)
    for number, (text, ids) in enumerate(zip(texts, side.encode_batch(texts), strict=True), start=1):
        if missing := side.missing_units(text, ids):
            message = f"{side.unit}s that are not in the vocabulary"
            problem = f"texts have {message} of {name}"
            yield InputWarning(f"{name}, text", number, message, problem=problem, examples=missing)


def _encode(encode: Callable[[list[str]], list[list[int]]], text: str, limit: int) -> list[int]:
    [ids] = encode([text])
    _check_length(text, len(ids), limit)
    return ids


def _check_length(text: str, tokens: int, limit: int) -> None:
    if not tokens:
        raise DataError("An empty text has no output to explain. Give a text with at least one word.")
    if tokens > limit:
        raise DataError(
            f"{text[:40]!r}…: has {tokens} tokens, and at most {limit} are explained at once. Give a sentence or a "
            "paragraph."
        )


def _describe_run(
    folder: RunFolder, run: Any, stored: ComputeType, *, on_cpu_backend: bool
) -> Iterator[tuple[str, str]]:
    """Describe model, scores and, for an exported model, the number formats behind the explanations."""
    yield "model", describe_model(folder.read_config().model)
    yield "parameters", f"{count_parameters(as_module(run.model)):,}"
    for name, scores in folder.read_scores().get("scores", {}).items():
        yield from ((f"{score['metric']} ({name})", f"{score['value']:z.1f}") for score in scores[:1])
    if on_cpu_backend:
        yield "translation, beam and probabilities", f"computed by the CPU backend in {stored}"
        yield "other numbers", f"computed in float32 from inputs rounded to {stored} like those of the CPU backend"
    elif stored != "float32":
        yield "all numbers", f"computed in float32 from {stored} weights"
