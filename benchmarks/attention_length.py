"""Time and memory of attention against length: full attention, and the patterns that reach some of the keys.

    python benchmarks/attention_length.py --folder benchmarks/attention_length

Only attention is measured, from queries, keys and values to what is attended; the projections around it cost the same
for all. Times are medians of rounds in which all patterns take turns. Memory is the peak of resident memory above the
inputs, of a process of its own (Linux). The exponent of each is the slope of a least-squares line through the four
greatest lengths, both axes logarithmic. Writes results.json, a table (README.md) and a plot (length.png).
"""

import argparse
import gc
import json
import math
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from dragoman.nn.attention import Full, Look, Pattern
from dragoman.nn.functional import attend, attend_fused
from dragoman.nn.sparse import BigBird, Linformer, Window, random_plan

LABELS = {
    "full_fused": "full, fused kernels",
    "full_reference": "full, reference",
    "window": "sliding window",
    "bigbird": "BigBird",
    "linformer": "Linformer",
}
PASSES = ("forward", "forward_backward")
FITTED = 4
"""So many of the greatest lengths make the exponent."""
WARMING = 512
"""Length of the run before memory is measured: enough for every pattern to leave the road of short sequences."""
COLOURS = ("#1b6ca8", "#7b5ea7", "#c8553d", "#4f7942", "#b8860b")

Run = Callable[[], None]


@dataclass(frozen=True)
class Setting:
    """What is measured; the three patterns see 2 `reach` + 1, (5 + `random`) `block` and `width` keys a query."""

    size: int = 128
    heads: int = 4
    reach: int = 128
    block: int = 64
    random: int = 3
    width: int = 256
    threads: int = 2


class FusedLook:
    """All patterns but the reference look by the fused kernels."""

    def __call__(self, query: Tensor, key: Tensor, value: Tensor, *, allowed: Tensor | None, **place: Any) -> Tensor:
        assert not place["causal"]
        return attend_fused(query, key, value, allowed=allowed)


class ReferenceLook:
    """The equation as it is written, which holds all weights."""

    def __call__(self, query: Tensor, key: Tensor, value: Tensor, *, allowed: Tensor | None, **place: Any) -> Tensor:
        assert not place["causal"]
        return attend(query, key, value, allowed=allowed)


def pattern_of(kind: str, setting: Setting, length: int) -> Pattern:
    """All without masks of the future, as in an encoder."""
    match kind:
        case "full_fused" | "full_reference":
            return Full(causal=False)
        case "window":
            return Window(reach=setting.reach, causal=False)
        case "bigbird":
            draw = partial(random_plan, random=setting.random, seed=0)
            return BigBird(block=setting.block, random=setting.random, draw=draw)
        case "linformer":
            return Linformer(width=setting.width, length=length)
        case _:
            raise ValueError(f"{kind}: no such kind; choose one of {', '.join(LABELS)}")


def runs_of(kind: str, setting: Setting, length: int) -> dict[str, Run]:
    """What is timed: the forward pass, and the forward and backward pass."""
    generator = torch.Generator().manual_seed(0)
    shape = (1, setting.heads, length, setting.size // setting.heads)
    inputs = [torch.randn(shape, generator=generator).requires_grad_() for _ in range(3)]
    towards = torch.randn(shape, generator=generator)
    query, key, value = inputs
    pattern = pattern_of(kind, setting, length)
    look: Look = ReferenceLook() if kind == "full_reference" else FusedLook()

    leaves = [*inputs, *(pattern.parameters() if isinstance(pattern, nn.Module) else [])]

    @torch.no_grad()
    def forward() -> None:
        pattern(look, query, key, value, None)

    def forward_backward() -> None:
        for one in leaves:
            one.grad = None
        pattern(look, query, key, value, None).backward(towards)

    return {"forward": forward, "forward_backward": forward_backward}


def resident(name: str) -> int:
    """VmRSS, the resident memory of this process now, or VmHWM, its peak; bytes."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return 1024 * int(line.split()[1])
    raise RuntimeError(f"/proc/self/status names no {name}; memory is measured on Linux alone")


def peak_in_this_process(kind: str, setting: Setting, length: int, name: str) -> int:
    """Bytes of resident memory that a pass needs at its peak, above the inputs.

    A small run goes before, so that what every first call brings into memory does not count.
    """
    torch.set_num_threads(setting.threads)
    runs_of(kind, setting, WARMING)[name]()
    run = runs_of(kind, setting, length)[name]
    gc.collect()
    Path("/proc/self/clear_refs").write_text("5")  # the peak starts anew
    before = resident("VmRSS")
    run()
    return max(1, resident("VmHWM") - before)


def peak(kind: str, setting: Setting, length: int, name: str) -> int:
    """`peak_in_this_process` of a new one, whose allocator gives memory back at once instead of keeping it."""
    order = json.dumps({"kind": kind, "setting": asdict(setting), "length": length, "name": name})
    command = [sys.executable, str(Path(__file__).resolve()), "--peak", order]
    thresholds = {"MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_TRIM_THRESHOLD_": "65536"}
    answer = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=os.environ | thresholds).stdout
    return int(answer)


def measured_peaks(
    kind: str, setting: Setting, lengths: Sequence[int], limit: int, say: Callable[[str], None]
) -> dict[int, dict[str, int]]:
    """By length, until full attention's next may need more than the limit, were memory to grow with the square."""
    found: dict[int, dict[str, int]] = {}
    for length in lengths:
        if found and kind.startswith("full"):
            shorter = max(found)
            if found[shorter]["forward_backward"] * (length / shorter) ** 2 > limit:
                say(f"{LABELS[kind]}: stopped before {length}, which may need more than {limit / 2**30:.0f} GiB")
                break
        found[length] = {name: peak(kind, setting, length, name) for name in PASSES}
        say(f"{LABELS[kind]}, {length}: {found[length]['forward_backward'] / 2**20:.1f} MiB")
    return found


def measured_times(kinds: Sequence[str], setting: Setting, length: int, rounds: int) -> dict[str, dict[str, float]]:
    """Median seconds of each kind and pass at one length; all take turns in every round."""
    torch.set_num_threads(setting.threads)
    runs = {(kind, name): run for kind in kinds for name, run in runs_of(kind, setting, length).items()}
    seconds: dict[tuple[str, str], list[float]] = {key: [] for key in runs}
    for round_number in range(rounds + 1):
        for key, run in runs.items():
            start = time.perf_counter()
            run()
            if round_number > 0:  # the first is for warming up
                seconds[key].append(time.perf_counter() - start)
    return {kind: {name: statistics.median(seconds[kind, name]) for name in PASSES} for kind in kinds}


def exponent(lengths: Sequence[int], values: Sequence[float]) -> float:
    """The slope of the least-squares line through the greatest lengths, in logarithms of both."""
    points = [(math.log(length), math.log(value)) for length, value in zip(lengths, values, strict=True)][-FITTED:]
    middle_x = statistics.fmean(x for x, _ in points)
    middle_y = statistics.fmean(y for _, y in points)
    spread = sum((x - middle_x) ** 2 for x, _ in points)
    return sum((x - middle_x) * (y - middle_y) for x, y in points) / spread


def measure(kinds: Sequence[str], setting: Setting, lengths: Sequence[int], rounds: int, limit: int) -> dict[str, Any]:
    """Everything, as it is written to results.json."""

    def say(line: str) -> None:
        print(line, file=sys.stderr, flush=True)

    memory = {kind: measured_peaks(kind, setting, lengths, limit, say) for kind in kinds}
    results: dict[str, Any] = {kind: {"lengths": sorted(memory[kind])} for kind in kinds}
    for name in PASSES:
        for kind in kinds:
            results[kind][name] = {
                "seconds": [],
                "bytes": [memory[kind][length][name] for length in sorted(memory[kind])],
            }
    for length in lengths:
        present = [kind for kind in kinds if length in memory[kind]]
        for kind, seconds in measured_times(present, setting, length, rounds).items():
            say(f"{LABELS[kind]}, {length}: {' and '.join(f'{1e3 * seconds[name]:.1f} ms {name}' for name in PASSES)}")
            for name in PASSES:
                results[kind][name]["seconds"].append(seconds[name])
    for result in results.values():
        for name in PASSES:
            for unit in ("seconds", "bytes"):
                slope = exponent(result["lengths"], result[name][unit])
                result[name][f"exponent_of_{unit}"] = round(slope, 2)
    return results


def machine(setting: Setting) -> dict[str, Any]:
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, {setting.threads} threads",
        "torch": torch.__version__,
        "load_average": os.getloadavg(),
        "setting": asdict(setting),
    }


def row(cells: Sequence[object]) -> str:
    return "| " + " | ".join(str(cell) for cell in cells) + " |"


def table(results: dict[str, Any], lengths: Sequence[int], name: str, unit: str, scale: float) -> str:
    """One line a kind, one column a length, and the exponent."""
    lines = [row(["", *lengths, "exponent"]), row(["---", *["---:"] * (len(lengths) + 1)])]
    for kind, result in results.items():
        found = dict(zip(result["lengths"], result[name][unit], strict=True))
        cells = [f"{found[length] * scale:.3g}" if length in found else "–" for length in lengths]
        lines.append(row([LABELS[kind], *cells, f"{result[name][f'exponent_of_{unit}']:.2f}"]))
    return "\n".join(lines)


def page(report: dict[str, Any], lengths: Sequence[int]) -> str:
    """The tables as a page of Markdown."""
    setting, results = Setting(**report["setting"]), report["results"]
    return f"""# Attention against length

Attention alone, batch of 1, {setting.heads} heads, size {setting.size}, single precision, {setting.threads} threads.
A query sees {2 * setting.reach + 1} keys in the window, {(5 + setting.random) * setting.block} in BigBird \
({setting.block} a block, {setting.random} blocks at random) and {setting.width} mixtures
in Linformer. Full attention stops where its memory may pass {report["memory_limit"] / 2**30:.0f} GiB. Time or memory \
grows with the power of the length
that the exponent says; it is fitted to the last {FITTED} lengths measured.

![time and memory against length](length.png)

## Milliseconds, forward and backward

{table(results, lengths, "forward_backward", "seconds", 1e3)}

## Milliseconds, forward

{table(results, lengths, "forward", "seconds", 1e3)}

## Peak memory in MiB, forward and backward

{table(results, lengths, "forward_backward", "bytes", 2**-20)}

## Peak memory in MiB, forward

{table(results, lengths, "forward", "bytes", 2**-20)}

Resident memory of a process of its own, above the inputs.

```sh
python benchmarks/attention_length.py --lengths {" ".join(map(str, lengths))} --folder benchmarks/attention_length
```

Measured {report["date"][:10]} on {report["machine"]}, PyTorch {report["torch"]};
every figure is in [results.json](results.json).
"""


def plot(results: dict[str, Any], into: Path) -> None:
    """Time and memory of forward and backward, both axes logarithmic, the exponent beside each name."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 2, figsize=(10, 4.2), layout="constrained")
    for side, unit, scale in zip(axes, ("seconds", "bytes"), (1e3, 2**-20), strict=True):
        for (kind, result), colour in zip(results.items(), COLOURS, strict=False):
            measured = result["forward_backward"]
            label = f"{LABELS[kind]}: {measured[f'exponent_of_{unit}']:.2f}"
            values = [value * scale for value in measured[unit]]
            side.loglog(result["lengths"], values, color=colour, marker="o", markersize=3, label=label)
        ticks = sorted({length for result in results.values() for length in result["lengths"]})
        side.set_xticks(ticks, [str(tick) for tick in ticks])
        side.minorticks_off()
        side.grid(alpha=0.25)
        side.spines[["top", "right"]].set_visible(False)
        side.legend(frameon=False, title="exponent")
    axes[0].set(xlabel="length", ylabel="milliseconds, forward and backward")
    axes[1].set(xlabel="length", ylabel="MiB above the inputs, at the peak")
    figure.savefig(into, dpi=130)
    plt.close(figure)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, default=Path(__file__).parent / "attention_length")
    parser.add_argument("--lengths", type=int, nargs="+", default=[512, 1024, 2048, 4096, 8192, 16384])
    parser.add_argument("--kinds", nargs="+", choices=list(LABELS), default=list(LABELS))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--memory", type=float, default=6.0, help="GiB that full attention may need")
    for name, default in asdict(Setting()).items():
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--peak", help=argparse.SUPPRESS)
    return parser.parse_args()


def main() -> None:
    """Measure, write and plot; with --peak, be the process whose memory is measured."""
    asked = arguments()
    if asked.peak is not None:
        order = json.loads(asked.peak)
        setting = Setting(**order["setting"])
        print(peak_in_this_process(order["kind"], setting, order["length"], order["name"]))
        return
    setting = Setting(**{name: getattr(asked, name) for name in asdict(Setting())})
    lengths, limit = sorted(set(asked.lengths)), int(asked.memory * 2**30)
    if len(lengths) < 2:
        sys.exit("--lengths: an exponent needs two lengths or more")
    results = measure(asked.kinds, setting, lengths, asked.rounds, limit)
    report = {**machine(setting), "rounds": asked.rounds, "memory_limit": limit, "results": results}
    asked.folder.mkdir(parents=True, exist_ok=True)
    (asked.folder / "results.json").write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
    (asked.folder / "README.md").write_text(page(report, lengths), encoding="utf-8")
    plot(results, asked.folder / "length.png")


if __name__ == "__main__":
    main()
