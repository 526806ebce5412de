"""`dragoman info`: describe a run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich.text import Text

from dragoman.cli.options import RunArgument
from dragoman.cli.table_output import PlainConsole, build_table
from dragoman.cli.verb_command import Outcome
from dragoman.config import parse
from dragoman.decoding.config import DecodingConfig
from dragoman.number_words import counted

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dragoman.runs.compare import ModelSummary
    from dragoman.runs.folder import RunFolder

FLOAT32_BYTES = 4


def info(run: RunArgument) -> Outcome:
    """Describe a run: model, data, scores.

    Prints the parameters by part, the operations per token, the memory and the scores.
    """
    from dragoman.runs.compare import read_model_summary
    from dragoman.runs.folder import RunFolder, scoring_command

    folder = RunFolder(run)
    settings, tokenizer, exported = folder.read_complete_config(), folder.read_tokenizer(), folder.read_export()
    model, result, origin = read_model_summary(folder), folder.read_scores(), folder.read_origin()
    sizes = [file.stat().st_size for file in folder.weight_files()]
    weight_bytes = sum(sizes) if exported else FLOAT32_BYTES * model.parameters
    decoding = None
    if "decoding" in settings:
        decoding = parse(DecodingConfig, settings["decoding"], where=f"{folder.config}: decoding").describe()
    facts: dict[str, Any] = {
        "run": run.name,
        "task": settings.get("task", "translation"),
        "imported_from": {key: origin.get(key) for key in ("format", "family", "license", "url")} if origin else None,
        "compute_type": exported.get("compute_type", "float32"),
        "trained": bool(sizes),
        "unfinished": None if folder.is_finished() else _describe_progress(folder, settings["training"]),
        "model": settings["model"],
        "vocabulary": {"source": len(tokenizer.source), "target": len(tokenizer.target), "shared": tokenizer.shared},
        "languages": list(tokenizer.prefixes.languages),
        "parameters": {**model.parts, "total": model.parameters},
        "flops_per_token": model.flops,
        "bytes": {"weights": weight_bytes, "cache_per_token": model.cache_bytes},
        "decoding": decoding,
        "result": {key: value for key, value in result.items() if key != "model"},
    }

    note, stored = None, facts["compute_type"]
    if stored != "float32" and result.get("scores"):
        command = scoring_command(facts["task"], run)
        remedy = f". Score the {stored} weights with: {command}" if command else ""
        note = f"note: these are the scores of the float32 weights, not of the {stored} weights{remedy}"

    def show() -> None:
        _print(facts, model)
        _print_result(result, unit=model.loss_unit)
        if decoding is not None and result.get("scores"):
            print(f"decoding: {decoding}")
        if note is not None:
            print(note)

    return Outcome(lambda: facts, show)


def _describe_progress(folder: RunFolder, training: Mapping[str, Any]) -> str:
    """Return how long an unfinished training is and what is saved of it, and the commands that finish it."""
    limits = {"steps": training.get("max_steps"), "epochs": training.get("max_epochs")}
    length = " or ".join(counted(limit, unit) for unit, limit in limits.items() if limit is not None)
    steps = f"{counted(folder.last_step() or 0, 'steps')} of {length or 'the training'} are done and saved"
    return f"{steps}. {folder.how_to_finish()}"


def _print(facts: dict[str, Any], model: ModelSummary) -> None:
    console = PlainConsole()
    state = "" if facts["trained"] else ", not trained to the end"
    sides = facts["vocabulary"]
    vocabulary = f"{sides['target']:,}" if sides["shared"] else f"{sides['source']:,} and {sides['target']:,}"
    heading = f"{model.noun}: {model.description}"
    console.print(Text.assemble((facts["run"], "bold"), f"{state}, {heading}; vocabulary {vocabulary}"), soft_wrap=True)
    rows = [(f"  {name}", f"{count:,}" if count else "shared") for name, count in model.parts.items()]
    rows += [
        ("parameters", f"{model.parameters:,}"),
        ("weights", f"{facts['bytes']['weights'] / 2**20:.1f} MiB in {facts['compute_type']}"),
    ]
    if model.cache_bytes:
        rows.append(("cache", f"{model.cache_bytes / 1024:.1f} KiB per generated token and hypothesis"))
    for number, (name, flops) in enumerate(model.flops.items()):
        unit = "source token" if name == "encode" else "generated token and hypothesis"
        rows.append(("" if number else "cost", f"{flops / 1e6:.2f} MFLOP per {unit}"))
    console.print(build_table(("name", "value"), rows, right=("value",), header=False))
    if (origin := facts["imported_from"]) is not None:
        family = f" ({origin['family']})" if origin["family"] else ""
        source = f", {origin['url']}" if origin["url"] else ""
        terms = origin["license"] or "not named"
        console.print(f"imported from {origin['format']}{family}{source}; license: {terms}", soft_wrap=True)
    if facts["languages"]:
        console.print(f"languages: {', '.join(facts['languages'])}", soft_wrap=True)
    if facts["unfinished"]:
        console.print(facts["unfinished"], soft_wrap=True)


def _print_result(result: dict[str, Any], *, unit: str) -> None:
    console = PlainConsole()
    if result:
        console.print(
            f"trained {counted(result['steps'], 'steps')} on {counted(result['tokens'], unit)} in "
            f"{result['seconds'] / 60:.1f} min; "
            f"weights: {result['weights']}"
        )
    for name, scores in result.get("scores", {}).items():
        for score in scores:
            text = f"{name}: {score['metric']} {score['value']:z.2f}  "
            console.print(Text.assemble(text, (str(score["signature"]), "dim")), soft_wrap=True)
