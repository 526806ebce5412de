"""Beam search as a plain loop that decodes every prefix anew: the slow twin of `dragoman.decoding`.

No cache, no tensors of hypotheses: lists, sorted. The tests hold it to give the same hypotheses; run as a program it
times both on the same sentences in the same batches, in turn, and writes JSON:

    python benchmarks/decode_twin.py RUN --source FILE --lines 1000 --beam 5 --output timings.json
"""

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from dragoman.data.readers import lines
from dragoman.decoding import Average, Gnmt, Hypothesis, Raw, SearchSettings
from dragoman.inference import Translator
from dragoman.inference.length_batches import batches_by_length
from dragoman.models.protocols import Seq2Seq
from dragoman.models.special_symbols import Symbols


@dataclass(frozen=True)
class Prefix:
    """The tokens of a hypothesis and the log-probability of each, with that of the end symbol when it is finished."""

    tokens: tuple[int, ...] = ()
    log_probs: tuple[float, ...] = ()

    @property
    def log_prob(self) -> float:
        return sum(self.log_probs)


@dataclass
class Sentence:
    """The search for one sentence."""

    limit: int
    open: list[Prefix]
    finished: list[Prefix]
    cut_off: list[Prefix]
    over: bool = False


@torch.inference_mode()
def plain_beam_search(
    model: Seq2Seq,
    source: Tensor,
    source_lengths: Tensor,
    *,
    limits: list[int],
    settings: SearchSettings,
    symbols: Symbols,
) -> list[list[Hypothesis]]:
    """What `dragoman.decoding.beam_search` returns, but never stopping before `beam` hypotheses finished."""
    sentences = [Sentence(limit, [Prefix()], [], []) for limit in limits]
    while not all(sentence.over for sentence in sentences):
        rows = [row for row, sentence in enumerate(sentences) if not sentence.over for _ in sentence.open]
        prefixes = [prefix for sentence in sentences if not sentence.over for prefix in sentence.open]
        target = torch.tensor([[symbols.begin, *prefix.tokens] for prefix in prefixes], device=source.device)
        hidden = model.hidden(source[rows], source_lengths[rows], target)[:, -1]
        log_probs = model.unembed(hidden).float().log_softmax(dim=-1)
        for row, sentence in enumerate(sentences):
            if not sentence.over:
                mine = torch.tensor([place for place, other in enumerate(rows) if other == row])
                advance(sentence, log_probs[mine], settings=settings, symbols=symbols)
    return [ranked(sentence, settings) for sentence in sentences]


def advance(sentence: Sentence, log_probs: Tensor, *, settings: SearchSettings, symbols: Symbols) -> None:
    """One step of the search for one sentence, given what may follow each open hypothesis."""
    age = len(sentence.open[0].tokens)
    never = {symbols.pad, symbols.begin}
    never |= set() if settings.allow_unknown else {symbols.unknown}
    never |= {symbols.end} if age < settings.minimum_length else set()
    values, tokens = log_probs.topk(min(2 * settings.beam + len(never), log_probs.shape[1]))
    candidates = [
        (-(prefix.log_prob + value), token, parent, Prefix((*prefix.tokens, token), (*prefix.log_probs, value)))
        for parent, prefix in enumerate(sentence.open)
        for value, token in zip(values[parent].tolist(), tokens[parent].tolist(), strict=True)
        if token not in never and value > -torch.inf
    ]
    candidates.sort(key=lambda candidate: candidate[:3])
    ended = [(parent, new) for _, token, parent, new in candidates[: settings.beam] if token == symbols.end]
    sentence.finished += [new for _, new in ended]
    longer = [new for _, token, _, new in candidates if token != symbols.end][: settings.beam]
    if age >= sentence.limit or not longer:
        parents = {parent for parent, _ in ended}
        sentence.cut_off = [prefix for parent, prefix in enumerate(sentence.open) if parent not in parents]
        sentence.over = True
    if len(sentence.finished) >= settings.beam:
        sentence.over = True
    sentence.open = longer


def ranked(sentence: Sentence, settings: SearchSettings) -> list[Hypothesis]:
    """The best hypotheses, the finished before the cut-off ones."""
    finished = [hypothesis(prefix, settings, finished=True) for prefix in sentence.finished]
    cut_off = [hypothesis(prefix, settings, finished=False) for prefix in sentence.cut_off]
    by_score = [sorted(some, key=lambda one: -one.score) for some in (finished, cut_off)]
    return [*by_score[0], *by_score[1]][: settings.best]


def hypothesis(prefix: Prefix, settings: SearchSettings, *, finished: bool) -> Hypothesis:
    """A prefix as what searches return."""
    tokens = prefix.tokens[:-1] if finished else prefix.tokens
    length = max(1, len(prefix.tokens))
    match settings.normalisation:
        case Average(alpha=alpha):
            score = prefix.log_prob / length**alpha
        case Gnmt(alpha=alpha):
            score = prefix.log_prob / ((5 + length) / 6) ** alpha
        case Raw():
            score = prefix.log_prob
    return Hypothesis(tokens, prefix.log_prob, score, prefix.log_probs, finished)


def plain_translations(translator: Translator, texts: list[str], settings: SearchSettings) -> list[Hypothesis]:
    """The best hypothesis for each text by the plain loop, in the batches that the translator makes."""
    symbols = Symbols()
    ids = translator.tokenizer.source.encode_batch(texts)
    best: dict[int, Hypothesis] = {}
    for rows in batches_by_length([len(row) + 1 for row in ids], budget=translator.batch_tokens):
        sources = [torch.tensor([*ids[row], symbols.end]) for row in rows]
        found = plain_beam_search(
            translator.model,
            pad_sequence(sources, batch_first=True, padding_value=symbols.pad).to(translator.device),
            torch.tensor([len(source) for source in sources], device=translator.device),
            limits=[settings.limit(len(ids[row])) for row in rows],
            settings=settings,
            symbols=symbols,
        )
        best |= {row: hypotheses[0] for row, hypotheses in zip(rows, found, strict=True)}
    return [best[row] for row in range(len(texts))]


def timed(task: Callable[[], list[Hypothesis]]) -> tuple[float, list[Hypothesis]]:
    """Seconds, and what the task returned."""
    start = time.perf_counter()
    result = task()
    return time.perf_counter() - start, result


def timed_command(run: Path, texts: list[str], beam: int, device: str | None) -> float:
    """Seconds of `dragoman translate` as a process of its own, from the start of Python to the last line on disk."""
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "source.txt"
        source.write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")
        command = [sys.executable, "-m", "dragoman", "translate", str(run), "--input", str(source)]
        command += ["--output", str(Path(folder) / "target.txt"), "--beam", str(beam), "--length-penalty", "1"]
        command += [] if device is None else ["--device", device]
        start = time.perf_counter()
        subprocess.run(command, check=True)
        return time.perf_counter() - start


def row(seconds: list[float], hypotheses: list[Hypothesis]) -> dict[str, object]:
    """The result of one road: the seconds of every round, and the tokens a second of the fastest."""
    tokens = sum(one.length for one in hypotheses)
    return {
        "seconds": [round(one, 3) for one in seconds],
        "tokens": tokens,
        "tokens_per_second": round(tokens / min(seconds)),
    }


def main() -> None:
    """Time both roads on the same sentences, in turn, and print or write the result."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("--source", type=Path, required=True)
    parser.add_argument("--lines", type=int, default=1000)
    parser.add_argument("--beam", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--device")
    parser.add_argument("--output", type=Path)
    asked = parser.parse_args()

    from dragoman.runs.load import load_in_pytorch

    translator = load_in_pytorch(asked.run, device=asked.device)
    settings = SearchSettings(beam=asked.beam)
    texts = [text for _, text in islice(lines(asked.source), asked.lines) if text.strip()]
    roads = {
        "cached": lambda: [found[0].hypothesis for found in translator.hypotheses(texts, settings)],
        "plain": lambda: plain_translations(translator, texts, settings),
    }
    translator.translate(texts[:17], beam=asked.beam)  # the first call of each kernel is slower
    seconds: dict[str, list[float]] = {"cached": [], "plain": [], "command": []}
    hypotheses: dict[str, list[Hypothesis]] = {}
    for _ in range(asked.rounds):
        for name, road in roads.items():
            took, hypotheses[name] = timed(road)
            seconds[name].append(took)
        seconds["command"].append(timed_command(asked.run, texts, asked.beam, asked.device))
    same = sum(a.tokens == b.tokens for a, b in zip(hypotheses["cached"], hypotheses["plain"], strict=True))
    result = {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, {torch.get_num_threads()} threads",
        "device": str(translator.device),
        "torch": torch.__version__,
        "load_average": os.getloadavg(),
        "sentences": len(texts),
        "beam": asked.beam,
        "same_output": same,
        "cached": row(seconds["cached"], hypotheses["cached"]),
        "plain": row(seconds["plain"], hypotheses["plain"]),
        "command": row(seconds["command"], hypotheses["cached"]),
        "times_faster": round(min(seconds["plain"]) / min(seconds["cached"]), 2),
    }
    text = json.dumps(result, indent=2)
    print(text)
    if asked.output is not None:
        asked.output.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
