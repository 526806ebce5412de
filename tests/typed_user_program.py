"""Program of a user, which passes `mypy --strict`: it trains, loads, translates, serves and evaluates.

`tests/unit/test_typed_api.py` checks it, and copies of it with one mistake each.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import dragoman
from dragoman import (
    Classifier,
    ConfigError,
    DecodingConfig,
    DragomanError,
    Embedder,
    Generator,
    QuestionAnswerer,
    RunError,
    Tagger,
    Translator,
)
from dragoman.evaluation import Bleu

RUNS = Path("runs")


def train_translator(source: Path, target: Path) -> dragoman.TrainingResult:
    """Train a translator, and a second one with settings of its own."""
    first = dragoman.train(source=source, target=target, output_dir=RUNS / "first", preset="tiny", max_epochs=3)
    print(first.steps, first.path.name, [score.value for score in first.scores["valid"]])
    return dragoman.train(
        {"task": "translation"},
        source=source,
        target=target,
        output_dir=RUNS / "second",
        overrides={"model.d_model": 64},
        optimizer={"kind": "adamw", "learning_rate": 0.001},
        batch_tokens="auto",
        validate_bleu=False,
    )


def load_translator(run: dragoman.TrainingResult | Path) -> Translator:
    """Load a translator from a result of training or from its folder."""
    if isinstance(run, dragoman.TrainingResult):
        return run.load(Translator, device="cpu")
    return dragoman.load(run, Translator, device="cpu", compute_type="int8", ensemble=[RUNS / "second"])


def translate(translator: Translator, lines: Iterator[str]) -> list[str]:
    """Translate one text, a list, and any number of lines."""
    one: dragoman.TranslationResult = translator.translate("Two dogs play.", beam_size=5, n_best=3)
    print(one.text.upper(), round(one.score, 2), [other.log_prob for other in one.n_best])
    many = translator.translate(["Two dogs play.", "A man sleeps."], DecodingConfig(beam_size=4), length_penalty=0.6)
    best = [result.text for result in many]
    best += [result.text for result in translator.translate_stream(lines, split="sentences", language="en")]
    scored = translator.score(["Two dogs play."], best[:1])
    return [f"{hypothesis.score:.2f}" for hypothesis in scored]


async def translate_all(translator: Translator, texts: list[str]) -> list[str]:
    """Translate texts at the same time, in one batch."""
    first = await translator.translate_async(texts[0], beam_size=2)
    others = await asyncio.gather(*(translator.translate_async(text) for text in texts[1:]))
    return [first.text, *(other.text for other in others)]


async def write(generator: Generator, prompt: str) -> AsyncIterator[str]:
    """Generate text in pieces, and then a whole one."""
    async for piece in generator.stream_text_async(prompt, max_new_tokens=20):
        yield piece
    completion = await generator.generate_async(prompt, temperature=0.7, top_k=20, stop=["\n"])
    yield completion.text if completion.finish_reason == "stop" else ""
    yield generator.chat([{"role": "user", "content": "Hello?"}], temperature=0.5).text
    yield generator.chat([dragoman.Message("user", "Hello?")]).text


def describe(path: Path) -> str:
    """Use a run of any task."""
    model = dragoman.load(path)
    match model:
        case Translator():
            return model.translate("Two dogs play.").text
        case Generator():
            return model.generate("Two dogs", max_new_tokens=5).text
        case Classifier():
            return max(model.classify("Two dogs play.").probabilities)
        case Tagger():
            return " ".join(tag.label for tags in model.tag([["Two", "dogs"]]) for tag in tags)
        case QuestionAnswerer():
            answer = model.answer("Who plays?", "Two dogs play.", dragoman.AnswerConfig())
            return "" if answer.no_answer else f"{answer.text} ({answer.probability:.0%})"
        case Embedder():
            return str(model.embed(["Two dogs play."]).shape)


def evaluate(run: Path) -> float:
    """Score a run on a test set."""
    bleu, chrf = dragoman.evaluate(run, source="test.en", reference="test.de", metrics=[Bleu(), "chrf"], beam_size=2)
    return bleu.value if bleu.higher_is_better else chrf.value


def main() -> int:
    """Return the exit code."""
    try:
        translator = load_translator(train_translator(Path("train.en"), Path("train.de")))
        print(translate(translator, iter(["A man sleeps."])), asyncio.run(translate_all(translator, ["One.", "Two."])))
    except (ConfigError, RunError) as error:
        print(f"{dragoman.__version__}: {error}")
        return 2
    except DragomanError:
        return 1
    return 0
