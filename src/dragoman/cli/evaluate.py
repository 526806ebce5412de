"""`dragoman evaluate`: score translations against references."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from dragoman.cli import messages, text_io
from dragoman.cli.load_run import load_as, warn_of_exchanged_sides
from dragoman.cli.options import (
    DECODING,
    LANGUAGES,
    LOADING,
    ContextOption,
    PairsOption,
    SourceFeaturesOption,
    config_options,
    given,
    refuse,
    shared_options,
)
from dragoman.cli.table_output import PlainConsole, build_table, print_whole
from dragoman.cli.verb_command import Outcome
from dragoman.config import parse
from dragoman.data.augmentation.noise import Perturbation, perturb_text
from dragoman.data.chat_template import SOURCE_FIELD, PromptFormat
from dragoman.data.readers.line_reader import SAMPLE, ReadWarnings, tabs_note
from dragoman.decoding.config import DecodingConfig, replace_options
from dragoman.errors import ConfigError, DataError, quote
from dragoman.number_words import counted

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dragoman.evaluation import Metric, Score
    from dragoman.inference import Generator
    from dragoman.inference.translation_options import LanguageOptions


class MetricName(StrEnum):
    """Metrics of `--metric`."""

    BLEU = "bleu"
    CHRF = "chrf"
    CHRF_PLUS_PLUS = "chrf++"
    TER = "ter"
    EXACT = "exact"
    ROUGE_1 = "rouge1"
    ROUGE_2 = "rouge2"
    ROUGE_L = "rougeL"


Perturb = Annotated[
    Perturbation | None, typer.Option(help="Perturb the sources: all capitals, no final punctuation or a typing error.")
]
MetricNames = Annotated[list[MetricName], typer.Option("--metric", "-m", help="Metric (repeatable).")]
Tokenize = Annotated[
    str | None,
    typer.Option(
        parser=str.lower, help="Tokenizer: 13a, none, intl, char, zh, ja-mecab, ko-mecab, flores101, flores200."
    ),
]
References = Annotated[
    list[str] | None, typer.Option("--reference", "-r", help="File of references (repeatable).", show_default=False)
]
Stemmer = Annotated[bool, typer.Option("--stemmer", help="ROUGE: compare stems of English words.")]
Lowercase = Annotated[bool, typer.Option("--lowercase", help="Ignore case.")]
Prompt = Annotated[
    str | None,
    typer.Option(help=f"Prompt of a language model, with the source for {SOURCE_FIELD}.", show_default="of the run"),
]
Chat = Annotated[
    bool, typer.Option("--chat", help="Write the prompts of a language model by its chat template.", show_default=False)
]
MaxNewTokens = Annotated[int | None, typer.Option(min=1, help="Maximum number of tokens of a language model's output.")]
DEFAULT_METRICS = [MetricName.BLEU, MetricName.CHRF]


@shared_options(LOADING, into="loading")
@config_options(DecodingConfig, DECODING, into="decoding")
@shared_options(LANGUAGES, into="languages")
def evaluate(
    run: Annotated[Path | None, typer.Argument(help="Run folder that translates --source.")] = None,
    *,
    reference: References = None,
    hypothesis: Annotated[str | None, typer.Option(help="File of translations; - is standard input.")] = None,
    source: Annotated[str | None, typer.Option(help="Source side of the test set.")] = None,
    pairs: PairsOption = None,
    source_features: SourceFeaturesOption = None,
    languages: dict[str, str],
    context: ContextOption = None,
    loading: dict[str, Any],
    decoding: dict[str, Any],
    output: Annotated[str | None, typer.Option("--output", "-o", help="File for the translations of the run.")] = None,
    perturb: Perturb = None,
    prompt: Prompt = None,
    chat: Chat = False,
    max_new_tokens: MaxNewTokens = None,
    metric: MetricNames = DEFAULT_METRICS,
    tokenize: Tokenize = None,
    lowercase: Lowercase = False,
    stemmer: Stemmer = False,
    sentence: Annotated[bool, typer.Option("--sentence", help="Also print the scores of each sentence.")] = False,
) -> Outcome:
    """Score translations, or a run on a test set, against references.

    Prints each score with its sacreBLEU signature.
    """
    from dragoman.evaluation import corpus_score, sentence_rows, sentence_scores
    from dragoman.evaluation.useful_scores import reasons_against

    metrics = metric_configs(metric, tokenize=tokenize, lowercase=lowercase, stemmer=stemmer)
    options = {**loading, "source_features": source_features, "perturb": perturb, "output": output, **decoding}
    prompting = {"prompt": prompt, "chat": chat or None, "max_new_tokens": max_new_tokens}
    options |= languages | prompting | {"context": context}
    _check_test_set(run, source, reference, pairs, hypothesis)
    name = _input_name(run, pairs if source is None and hypothesis is None else source, hypothesis, given(**options))
    fingerprints = dict[str, str]()
    sentences, references = _read_texts(name, reference or [], pairs, fingerprints)
    outputs, made_with = sentences, dict[str, Any]()
    if run is not None:
        if source is not None and reference:
            warn_of_exchanged_sides(run, source, reference[0])
        _note_training_data(run, name, fingerprints)
        features = None if source_features is None else (source_features, name)
        how: Any = {"loading": loading, "decoding": decoding, "languages": languages, "prompting": given(**prompting)}
        how["context"] = None if context == "none" else context
        outputs, made_with = _translate(run, sentences, perturb=perturb, features=features, **how)
        if output is not None:
            text_io.write_lines(map(text_io.one_line, outputs), output, ReadWarnings())
    scores = [corpus_score(outputs, references, one) for one in metrics]
    columns = [sentence_scores(outputs, references, one) for one in metrics] if sentence else []
    if reasons := reasons_against(scores):
        messages.say(f"note: the scores are not good enough for useful translations. {'; '.join(reasons)}")
    facts = {"scores": [one.to_dict() for one in scores], **made_with}
    facts |= {"sentences": sentence_rows(columns)} if columns else {}
    return Outcome(lambda: facts, lambda: _print_scores(scores, columns))


def _translate(
    run: Path,
    sentences: Sequence[str],
    *,
    loading: Mapping[str, Any],
    decoding: Mapping[str, Any],
    languages: LanguageOptions,
    prompting: Mapping[str, Any],
    perturb: Perturbation | None,
    features: tuple[Path, str] | None,
    context: Literal["previous"] | None,
) -> tuple[list[str], dict[str, Any]]:
    """Return the translations of a run, or the answers of a language model, and what reproduces them.

    `features` are the file of the dependency heads and the name of the sources.
    """
    from dragoman.data.readers.conllu import read_heads
    from dragoman.inference import Generator, Translator
    from dragoman.inference.backends.protocol import describe_backend

    if perturb is not None:
        given_sentences = sentences
        sentences = [perturb_text(text, perturb, number=number) for number, text in enumerate(given_sentences)]
        changed = sum(one != other for one, other in zip(sentences, given_sentences, strict=True))
        messages.say(f"{perturb}: changed {changed:,} of {counted(len(sentences), 'sentences')} before the translation")
    loaded: Any = load_as((Translator, Generator), run, **loading)
    if isinstance(loaded, Generator):
        refuse({"source_features": features, "context": context, **languages}, "with a language model")
        config: DecodingConfig = replace_options(DecodingConfig(allow_unk=False), decoding, where="evaluate")
        outputs = _answer(loaded, sentences, config, **prompting)
    else:
        refuse(prompting, "with a translator, which has no prompts")
        heads = None if features is None else list(read_heads(sentences, features[0], name=features[1]))
        config = replace_options(loaded.config, decoding, where="evaluate")
        found = loaded.translate(sentences, config, source_features=heads, context=context, **languages)
        outputs = [best.text for best, *_ in found]
    messages.summarize_warnings(len(outputs))
    model = describe_backend(loaded.backend)
    messages.say(f"decoding: {config.describe()}; model: {model}")
    made_with = {"run": str(run), "model": model, "decoding": config.model_dump(mode="json")}
    ensemble = list(map(str, loading.get("ensemble") or ())) or None
    return outputs, made_with | given(ensemble=ensemble, perturb=perturb, context=context, **languages, **prompting)


def _answer(
    generator: Generator,
    sources: Sequence[str],
    config: DecodingConfig,
    *,
    prompt: str | None = None,
    chat: bool = False,
    max_new_tokens: int | None = None,
) -> list[str]:
    """Return the answers of a language model to prompts made of the sources, without the white space around them."""
    form = generator.prompt_format
    if prompt is not None:
        form = parse(PromptFormat, {"text": prompt, "chat": chat}, where="--prompt")
    elif chat:
        form = form.model_copy(update={"chat": True})
    prompts = [generator.build_prompt(source, form) for source in sources]
    stop = generator.chat_stop if form.chat else ()
    return [one.text.strip() for one in generator.generate(prompts, config, max_new_tokens=max_new_tokens, stop=stop)]


def metric_configs(
    names: Sequence[MetricName], *, tokenize: str | None, lowercase: bool, stemmer: bool = False
) -> list[Metric]:
    """Return the metric configurations, each once. Raises ConfigError on options without effect."""
    from dragoman.evaluation import Bleu, Chrf, ChrfPlusPlus, ExactMatch, Rouge, Ter, require_metrics

    if MetricName.BLEU not in names:
        refuse({"tokenize": tokenize}, "without --metric bleu, because only BLEU splits words")
    if not any(name.startswith("rouge") for name in names):
        refuse({"stemmer": stemmer or None}, "without --metric rouge1, rouge2 or rougeL")
    kinds = {"bleu": Bleu, "chrf": Chrf, "chrf++": ChrfPlusPlus, "ter": Ter, "exact": ExactMatch}
    found: list[Metric] = []
    for name in dict.fromkeys(names):
        kind: Any = kinds.get(name, Rouge)
        options = {"tokenize": tokenize, "lowercase": lowercase or None, "stemmer": stemmer or None}
        options["variant"] = name.removeprefix("rouge")
        found.append(parse(kind, {key: value for key, value in given(**options).items() if key in kind.model_fields}))
    require_metrics(found)
    return found


def _input_name(run: Path | None, source: str | None, hypothesis: str | None, options: Mapping[str, Any]) -> str:
    """Return the file to read: translations, or sources. Raises ConfigError on neither, both, or useless options."""
    if hypothesis is not None:
        if run is not None or source is not None:
            raise ConfigError("evaluate takes --hypothesis, or a run and --source, not both. Leave one out.")
        refuse(options, "with --hypothesis, which needs no run")
        return hypothesis
    assert run is not None
    assert source is not None, "checked by `_check_test_set`"
    if "source_features" in options:
        refuse({"perturb": options.get("perturb")}, "with --source-features, whose words it would change")
    return source


def _check_test_set(
    run: Path | None, source: str | None, reference: list[str] | None, pairs: str | None, hypothesis: str | None
) -> None:
    """Raise ConfigError, which names all options that are needed, unless there are translations and references."""
    if pairs is not None:
        refuse({"source": source, "reference": reference}, "with --pairs, which contains both sides")
    if hypothesis is None and run is None:
        raise ConfigError(
            "evaluate needs translations and references. Give --hypothesis FILE and --reference FILE, or a run folder "
            "with --source FILE and --reference FILE, or with --pairs FILE."
        )
    needed = {"--source FILE": source or hypothesis, "--reference FILE": reference}
    missing = [option for option, value in needed.items() if not value]
    if missing and pairs is None:
        raise ConfigError(
            f"evaluate needs translations and references. Give {' and '.join(missing)}, or --pairs FILE with sources "
            "and references."
        )


def _read_texts(
    name: str, reference: list[str], pairs: str | None, fingerprints: dict[str, str]
) -> tuple[list[str], list[list[str]]]:
    """Return the texts to translate or to score, and their references. Raises DataError if their numbers differ.

    `fingerprints` receives the SHA-256 of each file, by path.
    """
    from dragoman.evaluation import check_aligned

    sources = None
    if pairs is None:
        references = [text_io.read_all(one, columns=True, fingerprints=fingerprints) for one in reference]
    else:
        sources, references = text_io.read_test_set(pairs, fingerprints=fingerprints)
    expected = len(references[0])
    texts = sources if name == pairs else None
    if not texts:
        texts = text_io.read_all(name, expected=expected, columns=True, fingerprints=fingerprints)
    names = [name, *(reference if pairs is None else [pairs] * len(references))]
    check_aligned(texts, references, names=names)
    _check_columns([texts, *references], names)
    return texts, references


def _check_columns(sides: Sequence[Sequence[str]], names: Sequence[str]) -> None:
    """Raise DataError if some of the texts that belong together have several columns, and others have not."""
    notes = [tabs_note(name, side[:SAMPLE]) for name, side in zip(names, sides, strict=True)]
    if not all(notes):
        for name, note in zip(names, notes, strict=True):
            if note is not None:
                raise DataError(
                    f"{note}. Give a file with one column, such as that of cut -f1 {quote(name)}, or a file of sources "
                    "and references with --pairs."
                )


def _note_training_data(run: Path, name: str, fingerprints: Mapping[str, str]) -> None:
    """Print a note if the run was trained on a test set."""
    from dragoman.runs.folder import RunFolder

    if fingerprints.get(str(Path(name))) in RunFolder(run).training_fingerprints():
        messages.say(
            f"note: {run} was trained on {name}, so these scores say nothing about new texts. Evaluate it on other "
            "texts."
        )


def _print_scores(scores: Sequence[Score], columns: Sequence[Sequence[Score]]) -> None:
    """Print the sentence scores as tab-separated lines, then the corpus scores as a table."""
    if columns:
        print("\t".join(["line", *(score.metric for score in scores)]))
        for line, row in enumerate(zip(*columns, strict=True), start=1):
            print("\t".join([str(line), *(f"{score.value:z.2f}" for score in row)]))
        print()
    rows = [(score.metric, f"{score.value:z.2f}", score.signature) for score in scores]
    print_whole(PlainConsole(), build_table(("metric", "score", "signature"), rows, right=("score",)))
