"""Records what the code before the renaming computes, bit for bit: references/old/<name> (runs), references/expected/<name>.json.

    OMP_NUM_THREADS=1 before/.venv/bin/python references/record_old.py [--out DIR] [--expected DIR] [--only NAME ...]

Parts: helpers that make numbers exact; `train_run`; one `record_*` function for each call that is recorded; `SUITES`,
which says what is recorded of which run; `main`. All calls of the project are in the middle parts, one short function each,
so that another script can hold the same calls in other words against the same files.
"""

import os

os.environ["OMP_NUM_THREADS"] = "1"
os.environ["DRAGOMAN_THREADS"] = "1"
os.environ.setdefault("DRAGOMAN_CACHE", "references/cache_old")

import argparse
import dataclasses
import hashlib
import json
import math
import platform
import shutil
import time
import warnings
from collections.abc import Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from threading import Thread

import numpy as np
import torch
import yaml

ROOT = Path("references")
CORPORA, CONFIGS = ROOT / "corpora", ROOT / "configs"
torch.set_num_threads(1)
warnings.simplefilter("ignore")


# Numbers made exact -------------------------------------------------------------------------------------------------


def exact(value):
    """JSON with every float as its hexadecimal digits, tensors as digests, tuples as lists, objects as their fields."""
    if isinstance(value, bool | None | str | int):
        return value
    if isinstance(value, float):
        return value.hex()
    if isinstance(value, np.floating):
        return float(value).hex()
    if isinstance(value, np.integer):
        return int(value)
    if isinstance(value, torch.Tensor | np.ndarray):
        return digest(value)
    if dataclasses.is_dataclass(value):
        return {field.name: exact(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(key): exact(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [exact(one) for one in value]
    raise TypeError(type(value))


def digest(array):
    """Shape, kind of numbers, the first four of them, and the SHA-256 of all."""
    if isinstance(array, torch.Tensor):
        tensor = array.detach().cpu().contiguous()
        kind = str(tensor.dtype).removeprefix("torch.")
        raw = (
            tensor.view(torch.uint8).numpy().tobytes()
            if tensor.numel() and tensor.ndim
            else tensor.reshape(-1).view(torch.uint8).numpy().tobytes()
        )
        first = tensor.reshape(-1)[:4].tolist()
    else:
        contiguous = np.ascontiguousarray(array)
        kind, raw, first = str(contiguous.dtype), contiguous.tobytes(), contiguous.reshape(-1)[:4].tolist()
    return {"shape": list(array.shape), "kind": kind, "first": exact(first), "sha256": hashlib.sha256(raw).hexdigest()}


def digest_weights(tensors):
    """Of each tensor by its name; `together` holds whatever the names and their order, `in_order` with the names' order."""
    by_name = {name: digest(tensor) for name, tensor in sorted(tensors.items())}
    hashes = [one["sha256"] for one in by_name.values()]
    return {
        "together": hashlib.sha256("".join(sorted(hashes)).encode()).hexdigest(),
        "in_order": hashlib.sha256("".join(hashes).encode()).hexdigest(),
        "numbers": sum(math.prod(one["shape"]) for one in by_name.values()),
        "by_name": by_name,
    }


def bag(value):
    """Digests of all tensors and floats inside of nested objects, without names: sorted, so that only numbers matter."""
    found = []

    def walk(one):
        if isinstance(one, torch.Tensor | np.ndarray):
            found.append(digest(one)["sha256"])
        elif isinstance(one, float):
            found.append(one.hex())
        elif dataclasses.is_dataclass(one):
            for field in dataclasses.fields(one):
                walk(getattr(one, field.name))
        elif isinstance(one, Mapping):
            for inner in one.values():
                walk(inner)
        elif isinstance(one, list | tuple | set | frozenset):
            for inner in one:
                walk(inner)

    walk(value)
    return {"count": len(found), "sha256": hashlib.sha256("\n".join(sorted(found)).encode()).hexdigest()}


# What is asked about ------------------------------------------------------------------------------------------------


def lines(name):
    return (CORPORA / name).read_text(encoding="utf-8").splitlines()


def test_pairs(corpus, count=16):
    return lines(f"{corpus}.test.en")[:count], lines(f"{corpus}.test.de")[:count]


def test_trees(count=16):
    """The heads of the words of each text of short.test.conllu."""
    trees, heads = [], []
    for line in lines("short.test.conllu"):
        if line.strip():
            heads.append(int(line.split("\t")[6]))
        else:
            trees.append(heads)
            heads = []
    return trees[:count]


SEARCHES = {
    "greedy": {"beam": 1},
    "beam_4_all": {"beam": 4, "best": 4},
    "gnmt": {"beam": 4, "best": 2, "normalisation": {"kind": "gnmt", "alpha": 0.6}},
    "average_1.4": {"beam": 5, "best": 2, "normalisation": {"kind": "average", "alpha": 1.4}},
    "raw_at_least_4": {"beam": 3, "best": 3, "normalisation": {"kind": "raw"}, "minimum_length": 4},
    "cut_short": {"beam": 4, "maximum_length": {"factor": 0.3, "offset": 2}},
    "minimum_bayes_risk": {"beam": 8, "best": 3, "choice": {"kind": "minimum_bayes_risk", "temperature": 1.5}},
    "nothing_unknown": {"beam": 4, "allow_unknown": False},
}
FEW = ("greedy", "beam_4_all")
DRAWS = {
    "plain": {"seed": 7},
    "top_p": {"seed": 7, "temperature": 0.8, "top_p": 0.9},
    "top_k": {"seed": 8, "top_k": 5},
    "min_p": {"seed": 9, "min_p": 0.1, "minimum_length": 5},
    "typical": {"seed": 10, "typical": 0.7},
    "repetition": {"seed": 11, "repetition_penalty": 1.3, "no_repeat_ngram": 2},
    "likeliest": {"temperature": 0},
}
PROMPTS = ["The", "In the game", "", "She said that it was", "= = Reception"]


# Training -----------------------------------------------------------------------------------------------------------


def settings_of(name, runs):
    """The configuration file of a run, with corpora and other runs where they lie."""
    from dragoman.experiment.config import in_folder, to_experiment
    from dragoman.experiment.starting import with_start

    tree = in_folder(yaml.safe_load((CONFIGS / f"{name}.yaml").read_text(encoding="utf-8")), CORPORA)
    if tree.get("data", {}).get("train", {}).get("kind") == "prepared":
        tree["data"]["train"]["folder"] = str(runs / "prepared")
    if "start" in tree:
        tree["start"] = str(runs / tree["start"])
    objective = tree.get("training", {}).get("objective", {})
    if "teacher" in objective:
        objective["teacher"] = str(runs / objective["teacher"])
        objective["beside"] = [str(runs / one) for one in objective["beside"]]
    return to_experiment(with_start(tree), where=name)


def prepare_corpus(runs):
    """`dragoman data prepare` in blocks of 1,000 pairs; the ids, cleaned texts and counts that come of it."""
    from dragoman.data.blockwise import Single
    from dragoman.data.tokenizer import Tokenizer
    from dragoman.experiment.config import in_folder
    from dragoman.experiment.preparation import Preparation, asked_for, prepare_folder

    tree = {
        "data": {
            "train": {"kind": "files", "source": "short.train.en", "target": "short.train.de"},
            "valid": {"kind": "files", "source": "short.valid.en", "target": "short.valid.de"},
            "test": {"kind": "files", "source": "short.test.en", "target": "short.test.de"},
            "beside": [{"corpus": {"kind": "tsv", "path": "more.tsv"}, "times": 0.5}],
        },
        "tokenizer": {"kind": "bpe", "vocabulary": 900},
    }
    experiment, _ = asked_for(in_folder(tree, CORPORA), complete=True)
    written = prepare_folder(Preparation(experiment, Single(), size=1000), runs / "prepared", tell=lambda _: None)
    tokenizer = Tokenizer.load(runs / "prepared" / "tokenizer.json")
    numbers = {"pairs": written.pairs, "valid": written.valid, "test": written.test, "shards": written.shards}
    numbers |= {"left_out": written.left_out, "vocabulary": written.vocabulary, "report": written.report.to_json()}
    return {**numbers, "tokenizer": pieces_of(tokenizer)}


def train_run(name, runs):
    """Train as the configuration says; every loss, every validation, the last checkpoint and the chosen weights."""
    from dragoman.experiment.build import task_of
    from dragoman.experiment.estimate import blueprint, training_flops
    from dragoman.experiment.fit import fit, told_to_workers
    from dragoman.experiment.run import RunFolder
    from dragoman.experiment.workers import team_of
    from dragoman.training.events import Chosen, Updated, Validated

    experiment, device = settings_of(name, runs), torch.device("cpu")
    folder, events = RunFolder(runs / name), []
    folder.begin()
    folder.write_config(experiment)
    with folder.claimed(), team_of(int(experiment.training.workers), told=told_to_workers(folder, device)) as team:
        materials = task_of(experiment).gather(folder, tell=lambda _: None)
        outcome = fit(
            experiment,
            folder,
            materials,
            device=device,
            observers=[events.append],
            interrupted=lambda: False,
            team=team,
        )
    updated = [event for event in events if isinstance(event, Updated)]
    report = None if materials.report is None else materials.report.to_json()
    return {
        "losses": [one.loss.hex() for one in updated],
        "negative_log_likelihoods": [one.negative_log_likelihood.hex() for one in updated],
        "gradient_norms": [one.gradient_norm.hex() for one in updated],
        "learning_rates": [one.learning_rate.hex() for one in updated],
        "validations": [[one.update, exact(one.scores)] for one in events if isinstance(one, Validated)],
        "candidates": exact(next(one.candidates for one in events if isinstance(one, Chosen))),
        "chosen": outcome.chosen,
        "updates": outcome.updates,
        "tokens": outcome.tokens,
        "scores": {part: [[one.metric, one.value.hex(), one.signature] for one in scores] for part, scores in outcome.scores.items()},
        "cleaning": report,
        "flops_a_token": float(training_flops(blueprint(experiment, folder))).hex(),
        "weights": record_weights(folder),
        "checkpoint": record_checkpoint(folder, outcome.updates),
    }  # fmt: skip


def record_weights(folder):
    from dragoman.models.weights import load_tensors

    return digest_weights(load_tensors(folder.weights))


def record_checkpoint(folder, update):
    """The last one: weights, the optimiser's memory and the moving average, as they are on disk."""
    from dragoman.models.weights import load_tensors

    place = folder.checkpoints / f"{update:09d}"
    return {path.stem: digest_weights(load_tensors(path)) for path in sorted(place.glob("*.safetensors"))}


# Tokenizers ---------------------------------------------------------------------------------------------------------

STRANGE = ["Two dogs  play.", "naïve Übung №5 ﬁn — 12,345.67!", "東京 🙂 \t tab", "", "UPPER lower 3½ I'm"]


def pieces_of(tokenizer):
    """Both vocabularies, in order, and the ids of strange texts with the texts that come back."""
    found = {}
    for name in ("source", "target"):
        side = getattr(tokenizer, name)
        pieces = "\n".join(side.segmentation.pieces)
        ids = [side.encode(text) for text in STRANGE]
        found[name] = {
            "size": len(side),
            "sha256": hashlib.sha256(pieces.encode()).hexdigest(),
            "ids": [list(map(int, one)) for one in ids],
            "texts": [side.decode(one) for one in ids],
            "tokens": [list(side.tokens(one)) for one in ids],
        }
    return found


def record_tokenizer(path):
    from dragoman.experiment.run import RunFolder

    return pieces_of(RunFolder(path).read_tokenizer())


# Translation --------------------------------------------------------------------------------------------------------


def in_pytorch(path):
    from dragoman.experiment.load import load_in_pytorch

    return load_in_pytorch(path, device="cpu")


def by_the_core(path, compute="auto", **more):
    from dragoman.experiment.load import load

    return load(path, device="cpu", compute=compute, **more)


def row_of(hypothesis):
    return {
        "ids": list(map(int, hypothesis.tokens)),
        "log_prob": float(hypothesis.log_prob).hex(),
        "score": float(hypothesis.score).hex(),
        "token_log_probs": [float(one).hex() for one in hypothesis.token_log_probs],
        "finished": hypothesis.finished,
    }


def rows_of(found):
    """Of each text, its translations or completions: text, readable tokens and numbers."""
    return [
        [{"text": one.text, "tokens": list(one.tokens), **row_of(one.hypothesis)} for one in some] for some in found
    ]


def record_searches(translator, sources, *, names=tuple(SEARCHES), **trees):
    """What each search finds for texts together, and that the first alone is the same."""
    from dragoman.decoding import SearchSettings

    found = {}
    for name in names:
        settings = SearchSettings.model_validate(SEARCHES[name])
        found[name] = rows_of(translator.hypotheses(sources, settings, **trees))
    return found


def record_translate(translator, sources, **trees):
    """The plain call, with the settings of the run."""
    return translator.translate(sources, **trees)


def record_scores(translator, sources, targets, **trees):
    from dragoman.decoding import Gnmt

    plain = [row_of(one) for one in translator.score(sources, targets, **trees)]
    return {
        "plain": plain,
        "gnmt": [row_of(one) for one in translator.score(sources, targets, normalisation=Gnmt(), **trees)],
    }


def record_stream(translator, sources, **trees):
    """The same lines as a stream, five at a time, with an empty one among them; scores likewise."""
    from dragoman.decoding import SearchSettings

    given = [*sources[:7], "", *sources[7:]]
    if trees:
        trees = {"trees": iter([*trees["trees"][:7], [], *trees["trees"][7:]])}
    return rows_of(translator.stream(iter(given), SearchSettings(beam=3, best=2), chunk=5, **trees))


def record_score_stream(translator, sources, targets):
    return [row_of(one) for one in translator.score_stream(zip(sources, targets), chunk=5)]


def record_shared(translator, sources):
    """Four threads that ask one translator at once, each for every fourth text."""
    found = {}

    def ask(shared, first):
        found[first] = shared.translate(sources[first::4], beam=2)

    with translator.shared() as shared:
        threads = [Thread(target=ask, args=(shared, first)) for first in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    return [found[first] for first in range(4)]


def record_sentences(translator, sources):
    """Texts of several sentences, with white space that is kept, split into sentences."""
    from dragoman.decoding import SearchSettings

    texts = ["  ".join(sources[:3]), "\n\n".join(sources[3:6]), f"  {sources[6]}\n", ""]
    return rows_of(translator.hypotheses(texts, SearchSettings(beam=2, best=2), split="sentences", language="en"))


def record_long(path, load, sources):
    """Texts longer than what is read at once: in pieces of at most eight tokens."""
    from dragoman.runtime.translator import Translator

    from dragoman.decoding import SearchSettings

    whole = load(path)
    pieces = Translator(whole.model, whole.tokenizer, longest_piece=8, settings=whole.settings)
    return rows_of(pieces.hypotheses([" ".join(sources[:4]), sources[4]], SearchSettings(beam=2, best=2)))


def record_translation_logits(path, sources, targets, trees=None):
    """PyTorch: logits of all places in parallel, and of three cached steps of two beams, for a padded batch."""
    translator = in_pytorch(path)
    model, tokenizer = translator.model.eval(), translator.tokenizer
    pad, begin, end = symbols()
    source, lengths = padded([[*tokenizer.source.encode(one), end] for one in sources], pad)
    target, _ = padded([[begin, *tokenizer.target.encode(one)] for one in targets], pad)
    with torch.inference_mode():
        asked = translator.network.reading([tokenizer.source.encode(one) for one in sources], trees) if trees else model
        memory = asked.encode(source, lengths)
        state, steps = model.start(memory, beam=2), []
        for place in range(3):
            logits, state = model.step(target[:, place, None].repeat(1, 2), memory, state)
            steps.append(digest(logits))
        return {"parallel": digest(model.unembed(asked.hidden(source, lengths, target))), "steps": steps}


def record_core_logits(path, compute, sources, targets):
    """The compiled core: log-probabilities of every token at every step of given outputs, one pair after the other."""
    translator = by_the_core(path, compute)
    encode = translator.tokenizer.source.encode, translator.tokenizer.target.encode
    network = translator.network
    return [digest(network.log_probs(encode[0](s), encode[1](t))) for s, t in zip(sources[:4], targets[:4])]


def symbols():
    from dragoman.models.symbols import Symbols

    return Symbols().pad, Symbols().begin, Symbols().end


def padded(rows, pad):
    width = max(map(len, rows))
    return torch.tensor([[*row, *[pad] * (width - len(row))] for row in rows]), torch.tensor(list(map(len, rows)))


def export_run(path, out, compute, *, shortlist=False):
    from dragoman.experiment.exporting import export
    from dragoman.models.arrays import read_arrays

    from dragoman.data.shortlist import ShortlistSettings

    asked = ShortlistSettings(frequent=60, each=8) if shortlist else None
    exported = export(path, out, compute=compute, shortlist=asked)
    lists = {}
    if shortlist:
        lists = {"shortlist": digest_weights(read_arrays(out / "shortlist.safetensors"))}
    return {"pairs": exported.pairs, "weights": digest_weights(read_arrays(out / "model.safetensors")), **lists}


# Decoder-only models ------------------------------------------------------------------------------------------------


def completions_of(found):
    return [
        [
            {
                "prompt": one.prompt,
                "text": one.text,
                "tokens": list(one.tokens),
                "ending": one.ending,
                **row_of(one.hypothesis),
            }
            for one in some
        ]
        for some in found
    ]


def record_draws(generator, prompts, names=tuple(DRAWS)):
    from dragoman.decoding import SamplingSettings

    found = {}
    for name in names:
        settings = SamplingSettings.model_validate(DRAWS[name])
        samples = 1 if settings.temperature == 0 else 2
        found[name] = completions_of(generator.completions(prompts, settings, samples=samples, tokens=24))
    return found


def record_beyond_context(generator, prompt):
    """More tokens than the network looks back on, and a stop string."""
    from dragoman.decoding import SamplingSettings

    settings = SamplingSettings(seed=3, top_k=20)
    found = generator.completions([prompt], settings, tokens=generator.context + 40)
    return completions_of([*found, *generator.completions([prompt], settings, tokens=40, stop=["e"])])


def record_generation_search(generator, prompts):
    from dragoman.decoding import SearchSettings

    settings = SearchSettings(beam=4, best=3, allow_unknown=False)
    return completions_of(generator.completions(prompts, settings, tokens=12))


def record_generation_streams(generator, prompts):
    from dragoman.decoding import SamplingSettings

    settings = SamplingSettings(seed=5, temperature=0.9)
    pieces = [list(generator.stream(one, settings, tokens=20)) for one in prompts[:3]]
    return {
        "pieces": pieces,
        "many": completions_of(generator.completions_of_many(iter(prompts), settings, tokens=10, chunk=2)),
    }


def record_perplexity(generator, texts, prompts=None):
    found = {}
    for overlap in (0, 8):
        one = generator.perplexity(texts, prompts=prompts, overlap=overlap)
        numbers = [one.nats, one.nats_per_token, one.perplexity, one.bits_per_byte]
        scores = [row_of(row) for row in generator.score(texts, prompts=prompts, overlap=overlap)]
        found[f"overlap_{overlap}"] = {
            "numbers": exact(numbers),
            "tokens": one.tokens,
            "bytes": one.bytes,
            "scores": scores,
        }
    return found


def record_chat(generator):
    from dragoman.runtime import Message

    from dragoman.decoding import SamplingSettings

    messages = [Message("user", "Where are you?"), Message("assistant", "Hier."), Message("user", "Why?")]
    return completions_of([[generator.chat(messages, SamplingSettings(seed=2), tokens=20)]])


def record_causal_logits(path, texts):
    """PyTorch: all places of padded rows in parallel, and three cached steps after prompts."""
    generator = in_pytorch(path)
    model, tokenizer = generator.model.eval(), generator.tokenizer
    pad, begin, _ = symbols()
    rows = [[begin, *tokenizer.target.encode(one)][: generator.context] for one in texts]
    tokens, lengths = padded(rows, pad)
    with torch.inference_mode():
        memory = model.encode(tokens, lengths)
        state, steps = model.start(memory, beam=1), []
        last = torch.tensor([[row[-1]] for row in rows])
        for _ in range(3):
            if generator.context <= max(map(len, rows)) + len(steps):
                break
            logits, state = model.step(last, memory, state)
            last = logits.argmax(dim=-1)
            steps.append(digest(logits))
        return {"parallel": digest(model.unembed(model.hidden(tokens))), "steps": steps}


# Models that read ---------------------------------------------------------------------------------------------------


def record_classes(path, texts):
    classifier = in_pytorch(path)
    found = [[one.label, one.probability.hex(), exact(one.probabilities)] for one in classifier.classify(texts)]
    stream = [one.label for one in classifier.stream(iter(texts), chunk=7)]
    return {"found": found, "stream": stream, "logits": headed_logits(classifier, classifier.side, texts)}


def headed_logits(user, side, texts):
    """The head's logits for padded rows between the begin and the end symbol."""
    pad, begin, end = symbols()
    rows = [[begin, *side.encode(one)[:40], end] for one in texts[:6]]
    with torch.inference_mode():
        return digest(user.model.eval()(*padded(rows, pad)))


def record_tags(path, sentences):
    tagger = in_pytorch(path)
    found = [[[one.word, one.label, one.probability.hex()] for one in some] for some in tagger.tag(sentences)]
    stream = [[one.label for one in some] for some in tagger.stream(iter(sentences), chunk=7)]
    long = [one.label for one in tagger.tag([[word for some in sentences[:12] for word in some]])[0]]
    texts = [" ".join(words) for words in sentences]
    return {"found": found, "stream": stream, "long": long, "logits": headed_logits(tagger, tagger.side, texts)}


def record_answers(path, asked):
    from dragoman.runtime import AnswerSettings

    answerer = in_pytorch(path)
    settings = {
        "own": None,
        "best_5": AnswerSettings(best=5, longest_answer=8),
        "threshold": AnswerSettings(best=2, threshold=-1.0),
    }
    found = {name: exact(answerer.answers(asked, one)) for name, one in settings.items()}
    found["stream"] = exact(list(answerer.stream(iter(asked), chunk=3)))
    return found


def record_masked(path, texts):
    """Of an encoder with masked words: logits of all places of padded rows."""
    from dragoman.experiment.build import task_of
    from dragoman.experiment.run import RunFolder
    from dragoman.experiment.work import with_weights

    folder = RunFolder(path)
    model = with_weights(task_of(folder.read_config()).network(folder, device=torch.device("cpu")), folder).eval()
    side, (pad, begin, end) = folder.read_tokenizer().source, symbols()
    tokens, lengths = padded([[begin, *side.encode(one)[:40], end] for one in texts], pad)
    with torch.inference_mode():
        return {
            "hidden": digest(model.hidden(tokens, lengths)),
            "logits": digest(model.unembed(model.hidden(tokens, lengths))),
        }


# Looking inside, and evaluation --------------------------------------------------------------------------------------


def record_inspection(path, texts, **wanted):
    """All numbers of the studies of some texts, without their names."""
    from dragoman.experiment.inspecting import Wanted, inspect_run

    return [bag(one) for one in inspect_run(path, Wanted(texts=texts, **wanted), device="cpu").studies]


def record_pruning(path, out, sources, targets):
    from dragoman.experiment.pruning import prune_run

    from dragoman.models.weights import load_tensors

    found = prune_run(path, in_pytorch(path), out, share=0.25, pairs=list(zip(sources, targets)))
    weights = digest_weights(load_tensors(out / "model.safetensors"))
    return {
        "heads": list(found.heads),
        "parameters": list(found.parameters),
        "left": exact(found.left),
        "weights": weights,
    }


def record_evaluation(first, second, references, sources):
    """Every metric, both tests of significance, and the analysis of outputs."""
    from dragoman.evaluation.analysis import analyse

    from dragoman.evaluation import (
        Bleu,
        Chrf,
        ChrfPlusPlus,
        ExactMatch,
        Rouge,
        Ter,
        compare,
        corpus_score,
        sentence_scores,
    )

    metrics = [Bleu(), Bleu(lowercase=True), Chrf(), ChrfPlusPlus(), Ter(), ExactMatch(), Rouge()]
    return {
        "corpus": [[one.metric, one.value.hex(), one.signature] for one in (corpus_score(first, [references], metric) for metric in metrics)],
        "sentences": [[one.value.hex() for one in sentence_scores(first, [references], metric)] for metric in metrics[:4]],
        "compared": exact(compare({"one": first, "other": second}, [references], [Bleu(), Chrf()], resamples=200, trials=500)),
        "analysed": bag(analyse("one", first, sources=sources, references=references, frequencies=None, worst=3)),
    }  # fmt: skip


# What is recorded of which run ---------------------------------------------------------------------------------------


@contextmanager
def instructions(name):
    """Inside, the compiled core computes with these instructions."""
    before = os.environ.get("DRAGOMAN_INSTRUCTION_SET")
    os.environ["DRAGOMAN_INSTRUCTION_SET"] = name
    try:
        yield
    finally:
        os.environ.pop("DRAGOMAN_INSTRUCTION_SET")
        if before is not None:
            os.environ["DRAGOMAN_INSTRUCTION_SET"] = before


def fresh(path):
    shutil.rmtree(path, ignore_errors=True)
    return path


def translation_suite(path, *, corpus="short", names=FEW, computes=(), trees=None):
    """PyTorch always; the core for each of `computes`: as exported, and float32 as the run itself is loaded."""
    sources, targets = test_pairs(corpus)
    more = {} if trees is None else {"trees": trees}
    translator = in_pytorch(path)
    found = {
        "tokenizer": record_tokenizer(path),
        "logits": record_translation_logits(path, sources[:6], targets[:6], None if trees is None else trees[:6]),
        "torch": {
            "searches": record_searches(translator, sources, names=names, **more),
            "translate": record_translate(translator, sources, **more),
            "scores": record_scores(translator, sources, targets, **more),
            "stream": record_stream(translator, sources, **more),
        },
    }
    if computes:
        found["core_of_run"] = core_suite(path, "auto", sources, targets, names)
    for compute in computes:
        out = fresh(path.with_name(f"{path.name}.{compute}"))
        found[f"export_{compute}"] = export_run(path, out, compute)
        found[f"core_{compute}"] = core_suite(out, "auto", sources, targets, names)
        found[f"torch_{compute}"] = record_searches(in_pytorch(out), sources, names=FEW)
    return found


def core_suite(path, compute, sources, targets, names):
    translator = by_the_core(path, compute)
    return {
        "searches": record_searches(translator, sources, names=names),
        "translate": record_translate(translator, sources),
        "scores": record_scores(translator, sources, targets),
        "stream": record_stream(translator, sources),
        "log_probs": record_core_logits(path, compute, sources, targets),
    }


ALL = ("float32", "bfloat16", "int8")


def whole_translation_suite(path):
    """Everything that a translator can be asked, once by PyTorch and once by the core."""
    runs = path.parent
    sources, targets = test_pairs("short")
    found = translation_suite(path, names=tuple(SEARCHES), computes=ALL)
    other = runs / "mt_second_seed"
    out = fresh(runs / "mt_sinusoidal.shortlist")
    found["export_shortlist"] = export_run(path, out, "int8", shortlist=True)
    found["shortlist_core"] = record_searches(by_the_core(out, shortlist=True), sources)
    found["shortlist_core_scores"] = record_scores(by_the_core(out, shortlist=True), sources, targets)
    found["shortlist_torch"] = record_searches(shortlisted_in_pytorch(out), sources)
    found["ensemble_core"] = record_searches(by_the_core(path, beside=[other]), sources)
    found["ensemble_core_scores"] = record_scores(by_the_core(path, beside=[other]), sources, targets)
    found["ensemble_torch"] = record_searches(together_in_pytorch([path, other]), sources)
    found["ensemble_torch_scores"] = record_scores(together_in_pytorch([path, other]), sources, targets)
    found["int8_when_loaded"] = core_suite(path, "int8", sources, targets, FEW)
    found["bfloat16_when_loaded"] = core_suite(path, "bfloat16", sources, targets, FEW)
    for name, load in (("torch", in_pytorch), ("core", by_the_core)):
        found[name] = found.get(name, {})
        found[name]["score_stream"] = record_score_stream(load(path), sources, targets)
        found[name]["shared"] = record_shared(load(path), sources)
        found[name]["sentences"] = record_sentences(load(path), sources)
        found[name]["long"] = record_long(path, load, sources)
    found["instruction_sets"] = other_instructions(path, sources, targets)
    found["inspection"] = record_inspection(path, sources[:2])
    found["inspection_int8"] = record_inspection(runs / "mt_sinusoidal.int8", sources[:1])
    pruned = fresh(runs / "mt_sinusoidal.pruned")
    found["pruning"] = record_pruning(path, pruned, sources, targets)
    found["pruned"] = translation_suite(pruned, computes=("int8",))
    outputs = by_the_core(path).translate(lines("short.test.en")), by_the_core(other).translate(lines("short.test.en"))
    found["evaluation"] = record_evaluation(*outputs, lines("short.test.de"), lines("short.test.en"))
    return found


def other_instructions(path, sources, targets):
    from dragoman.runtime.compiled import instruction_sets

    found = {}
    for name in instruction_sets():
        with instructions(name):
            found[name] = {compute: core_suite(path, compute, sources, targets, FEW) for compute in ALL}
    return found


def shortlisted_in_pytorch(path):
    from dragoman.experiment.quickening import with_shortlist
    from dragoman.experiment.run import RunFolder

    return with_shortlist(in_pytorch(path), RunFolder(path))


def together_in_pytorch(paths):
    from dragoman.experiment.together import asked_together

    return asked_together(paths, [in_pytorch(path) for path in paths])


def generation_suite(path, *, prompts=PROMPTS, texts, of_pairs=None, computes=()):
    found = {
        "tokenizer": record_tokenizer(path),
        "logits": record_causal_logits(path, texts[:4]),
        "torch": generator_suite(in_pytorch(path), prompts, texts, of_pairs),
    }
    if computes:
        found["core_of_run"] = generator_suite(by_the_core(path), prompts, texts, of_pairs)
    for compute in computes:
        out = fresh(path.with_name(f"{path.name}.{compute}"))
        found[f"export_{compute}"] = export_run(path, out, compute)
        found[f"core_{compute}"] = generator_suite(by_the_core(out), prompts, texts, of_pairs)
        found[f"torch_{compute}"] = record_draws(in_pytorch(out), prompts, names=("plain",))
    found["inspection"] = record_inspection(path, prompts[:2], tokens=8)
    return found


def generator_suite(generator, prompts, texts, of_pairs):
    found = {
        "draws": record_draws(generator, prompts),
        "beyond_context": record_beyond_context(generator, prompts[0]),
        "search": record_generation_search(generator, prompts[:3]),
        "streams": record_generation_streams(generator, prompts),
        "perplexity": record_perplexity(generator, texts, of_pairs),
    }
    return found if of_pairs is None else {**found, "chat": record_chat(generator)}


def classification_suite(path, texts):
    return {
        "tokenizer": record_tokenizer(path),
        **record_classes(path, texts),
        "inspection": record_inspection(path, texts[:1]),
    }


def tagging_suite(path):
    text = (CORPORA / "tags.test.tsv").read_text(encoding="utf-8")
    sentences = [[row.split("\t")[0] for row in one.split("\n")] for one in text.strip().split("\n\n")]
    return {
        "tokenizer": record_tokenizer(path),
        **record_tags(path, sentences[:16]),
        "inspection": record_inspection(path, [" ".join(sentences[0])]),
    }


def answering_suite(path):
    rows = [json.loads(line) for line in lines("unanswerable.jsonl")][:8]
    asked = [(one["question"], one["context"]) for one in rows]
    article = json.loads((CORPORA / "squad.json").read_text(encoding="utf-8"))["data"][0]
    asked += [(paragraph["qas"][0]["question"], paragraph["context"]) for paragraph in article["paragraphs"][:6]]
    return {"tokenizer": record_tokenizer(path), "answers": record_answers(path, asked)}


def questions():
    text = (CORPORA / "questions.test.txt").read_text(encoding="latin-1")
    return [line.split(" ", 1)[1] for line in text.splitlines()[:20]]


def sentiment():
    return [json.loads(line)["text"] for line in lines("sentiment.dev.jsonl")[:20]]


def wiki():
    return [line for line in lines("wiki.valid.txt") if len(line) > 40][:8]


def plays():
    text = (CORPORA / "plays.txt").read_text(encoding="utf-8")
    return [text[start : start + 300] for start in (0, 1000, 5000, 20000)]


PLAYS = ["First", "ROMEO:", "", "My lord,\n", "What is"]
captions = partial(translation_suite, corpus="captions")
SUITES = {
    "sixty_adamw": partial(translation_suite, computes=("int8",)),
    "sixty_muon_rdrop": partial(translation_suite, computes=ALL),
    "sixty_lstm": translation_suite,
    "sixty_lm": lambda path: generation_suite(path, prompts=PLAYS, texts=plays(), computes=ALL),
    "sixty_classification": lambda path: classification_suite(path, questions()),
    "mt_sinusoidal": whole_translation_suite,
    "mt_second_seed": translation_suite,
    "mt_toy": partial(translation_suite, corpus="toy", names=tuple(SEARCHES), computes=ALL),
    "mt_rotary_swiglu": partial(translation_suite, names=tuple(SEARCHES), computes=ALL),
    "mt_t5_two_vocabularies": partial(translation_suite, computes=ALL),
    "mt_alibi_words": partial(translation_suite, computes=ALL, names=(*FEW, "nothing_unknown")),
    "mt_structural": lambda path: translation_suite(path, trees=test_trees()),
    "mt_bigbird_window": captions,
    "mt_linformer": captions,
    "mt_window_relative": captions,
    "mt_lora": partial(captions, computes=("int8",)),
    "mt_extended": partial(captions, computes=("int8",)),
    "mt_lstm": partial(translation_suite, names=tuple(SEARCHES)),
    "lm_text": lambda path: generation_suite(path, texts=wiki(), computes=ALL),
    "lm_window": lambda path: generation_suite(path, prompts=PLAYS, texts=plays()),
    "lm_prompts": lambda path: generation_suite(
        path,
        prompts=test_pairs("short")[0][:5],
        texts=test_pairs("short")[1],
        of_pairs=test_pairs("short")[0],
        computes=ALL,
    ),
    "mlm": lambda path: {"tokenizer": record_tokenizer(path), **record_masked(path, wiki()[:4])},
    "classification_from_mlm": lambda path: classification_suite(path, sentiment()),
    "classification_causal": lambda path: classification_suite(path, sentiment()),
    "tagging": tagging_suite,
    "tagging_from_mlm": tagging_suite,
    "answering": answering_suite,
    "answering_from_mlm": answering_suite,
}  # all other runs: translation_suite


def machine():
    """What the bits depend on besides the code."""
    from dragoman.runtime.compiled import instruction_sets

    processor = next(
        (
            line.split(":")[1].strip()
            for line in Path("/proc/cpuinfo").read_text().splitlines()
            if line.startswith("model name")
        ),
        "",
    )
    return {"processor": processor, "instruction_sets": list(instruction_sets()), "torch": torch.__version__, "numpy": np.__version__,
            "python": platform.python_version(), "threads": torch.get_num_threads(), "bfloat16": bool(torch.cpu._is_avx512_bf16_supported())}  # fmt: skip


def write(expected, name, found):
    expected.mkdir(parents=True, exist_ok=True)
    (expected / f"{name}.json").write_text(json.dumps(found, ensure_ascii=False, indent=1), encoding="utf-8")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=Path, default=ROOT / "old", help="folder of the runs")
    parser.add_argument("--expected", type=Path, default=ROOT / "expected")
    parser.add_argument("--only", nargs="*", help="names of runs; others are left alone")
    parser.add_argument("--keep-runs", action="store_true", help="record again what is trained already")
    given = parser.parse_args()
    runs = given.out.absolute()
    chosen = given.only or [*(CONFIGS / "ORDER").read_text().split()]
    write(given.expected, "_machine", machine())
    if not given.only or "prepared" in given.only:
        fresh(runs / "prepared")
        runs.mkdir(parents=True, exist_ok=True)
        write(given.expected, "_prepared", prepare_corpus(runs))
    for name in (one for one in chosen if one != "prepared"):
        began, path = time.perf_counter(), runs / name
        known = given.expected / f"{name}.json"
        if given.keep_runs and path.exists() and known.exists():
            trained = json.loads(known.read_text(encoding="utf-8"))["train"]
        else:
            fresh(path)
            trained = train_run(name, runs)
        between = time.perf_counter()
        write(given.expected, name, {"train": trained, **SUITES.get(name, translation_suite)(path)})
        print(
            f"{name}: trained {between - began:.1f} s, recorded {time.perf_counter() - between:.1f} s, loss {float.fromhex(trained['losses'][0]):.3f} -> {float.fromhex(trained['losses'][-1]):.3f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
