"""Measure time and memory of attention by length: full attention and the sparse patterns.

    python -m benchmarks.attention_length.attention_length

Only attention is measured, from queries, keys and values to outputs; the projections cost the same for all patterns.
Times are medians of alternating rounds. Memory is the peak of resident memory above the inputs, of a process of its
own (Linux). The exponent is the slope of a least-squares line through the four greatest lengths, both axes
logarithmic. Writes results.json and length.png, and prints the tables of the README.
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

from benchmarks.collect_runs import update_results
from dragoman.nn.attention import AttentionFunction, AttentionPattern, FullAttention
from dragoman.nn.attention_functions import VisibleKeys, fused_attention, reference_attention
from dragoman.nn.sparse.bigbird import BigBird, sample_random_blocks
from dragoman.nn.sparse.linformer import Linformer
from dragoman.nn.sparse.sliding_window import SlidingWindow

LABELS = {
    "full_fused": "full, fused kernels",
    "full_reference": "full, reference",
    "window": "sliding window",
    "bigbird": "BigBird",
    "linformer": "Linformer",
}
PASSES = ("forward", "forward_backward")
FITTED = 4
"""Number of greatest lengths that the exponent is fitted to."""
WARMUP_LENGTH = 512
"""Length of the warm-up before memory is measured, long enough for the sparse path of every pattern."""
COLORS = ("#1b6ca8", "#7b5ea7", "#c8553d", "#4f7942", "#b8860b")

Run = Callable[[], None]


@dataclass(frozen=True)
class Setting:
    """Sizes of the attention.

    A query attends to 2 `reach` + 1 keys in the window, (5 + `random`) `block` in BigBird, and `width` in Linformer.
    """

    size: int = 128
    heads: int = 4
    reach: int = 128
    block: int = 64
    random: int = 3
    width: int = 256
    threads: int = 2


class FusedAttention:
    """Attention by the fused kernels."""

    def __call__(self, query: Tensor, key: Tensor, value: Tensor, visible: VisibleKeys) -> Tensor:
        assert not visible.causal
        return fused_attention(query, key, value, mask=visible.mask)


class ReferenceAttention:
    """Attention by the equation, with all weights in memory."""

    def __call__(self, query: Tensor, key: Tensor, value: Tensor, visible: VisibleKeys) -> Tensor:
        assert not visible.causal
        return reference_attention(query, key, value, mask=visible.mask)


def build_pattern(kind: str, setting: Setting, length: int) -> AttentionPattern:
    """Return the pattern without a causal mask, as in an encoder."""
    match kind:
        case "full_fused" | "full_reference":
            return FullAttention(causal=False)
        case "window":
            return SlidingWindow(window=setting.reach, causal=False)
        case "bigbird":
            draw = partial(sample_random_blocks, num_random_blocks=setting.random, seed=0)
            return BigBird(block_size=setting.block, num_random_blocks=setting.random, sampler=draw)
        case "linformer":
            return Linformer(projected_length=setting.width, max_length=length)
        case _:
            raise ValueError(f"{kind}: no such kind; choose one of {', '.join(LABELS)}")


def build_runs(kind: str, setting: Setting, length: int) -> dict[str, Run]:
    """Return the timed functions: the forward pass, and the forward and backward pass."""
    generator = torch.Generator().manual_seed(0)
    shape = (1, setting.heads, length, setting.size // setting.heads)
    inputs = [torch.randn(shape, generator=generator).requires_grad_() for _ in range(3)]
    towards = torch.randn(shape, generator=generator)
    query, key, value = inputs
    pattern = build_pattern(kind, setting, length)
    attention: AttentionFunction = ReferenceAttention() if kind == "full_reference" else FusedAttention()

    leaves = [*inputs, *(pattern.parameters() if isinstance(pattern, nn.Module) else [])]

    @torch.no_grad()
    def forward() -> None:
        pattern(attention, query, key, value, None)

    def forward_backward() -> None:
        for one in leaves:
            one.grad = None
        pattern(attention, query, key, value, None).backward(towards)

    return {"forward": forward, "forward_backward": forward_backward}


def resident(name: str) -> int:
    """Return VmRSS, the resident memory of this process, or VmHWM, its peak, in bytes."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return 1024 * int(line.split()[1])
    raise RuntimeError(f"/proc/self/status names no {name}; memory is measured on Linux alone")


def peak_in_this_process(kind: str, setting: Setting, length: int, name: str) -> int:
    """Return the peak bytes of resident memory of a pass above its inputs.

    A small warm-up precedes it, so that one-time allocations do not count.
    """
    torch.set_num_threads(setting.threads)
    build_runs(kind, setting, WARMUP_LENGTH)[name]()
    run = build_runs(kind, setting, length)[name]
    gc.collect()
    Path("/proc/self/clear_refs").write_text("5")  # reset the peak
    before = resident("VmRSS")
    run()
    return max(1, resident("VmHWM") - before)


def peak(kind: str, setting: Setting, length: int, name: str) -> int:
    """Return `peak_in_this_process` of a new process, whose allocator returns memory at once."""
    order = json.dumps({"kind": kind, "setting": asdict(setting), "length": length, "name": name})
    command = [sys.executable, "-m", "benchmarks.attention_length.attention_length", "--peak", order]
    thresholds = {"MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_TRIM_THRESHOLD_": "65536"}
    answer = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=os.environ | thresholds).stdout
    return int(answer)


def measure_peaks(
    kind: str, setting: Setting, lengths: Sequence[int], limit: int, say: Callable[[str], None]
) -> dict[int, dict[str, int]]:
    """Return peaks by length, until full attention may need more than the limit if memory grows with the square."""
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


def measure_times(kinds: Sequence[str], setting: Setting, length: int, rounds: int) -> dict[str, dict[str, float]]:
    """Return the median seconds of each kind and pass at one length, alternating."""
    torch.set_num_threads(setting.threads)
    runs = {(kind, name): run for kind in kinds for name, run in build_runs(kind, setting, length).items()}
    seconds: dict[tuple[str, str], list[float]] = {key: [] for key in runs}
    for round_number in range(rounds + 1):
        for key, run in runs.items():
            start = time.perf_counter()
            run()
            if round_number > 0:  # the first round is a warm-up
                seconds[key].append(time.perf_counter() - start)
    return {kind: {name: statistics.median(seconds[kind, name]) for name in PASSES} for kind in kinds}


def exponent(lengths: Sequence[int], values: Sequence[float]) -> float:
    """Return the slope of the least-squares line through the greatest lengths, in logarithms."""
    points = [(math.log(length), math.log(value)) for length, value in zip(lengths, values, strict=True)][-FITTED:]
    middle_x = statistics.fmean(x for x, _ in points)
    middle_y = statistics.fmean(y for _, y in points)
    spread = sum((x - middle_x) ** 2 for x, _ in points)
    return sum((x - middle_x) * (y - middle_y) for x, y in points) / spread


def measure(kinds: Sequence[str], setting: Setting, lengths: Sequence[int], rounds: int, limit: int) -> dict[str, Any]:
    """Return the contents of results.json."""

    def say(line: str) -> None:
        print(line, file=sys.stderr, flush=True)

    memory = {kind: measure_peaks(kind, setting, lengths, limit, say) for kind in kinds}
    results: dict[str, Any] = {kind: {"lengths": sorted(memory[kind])} for kind in kinds}
    for name in PASSES:
        for kind in kinds:
            results[kind][name] = {
                "seconds": [],
                "bytes": [memory[kind][length][name] for length in sorted(memory[kind])],
            }
    for length in lengths:
        present = [kind for kind in kinds if length in memory[kind]]
        for kind, seconds in measure_times(present, setting, length, rounds).items():
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


def format_row(cells: Sequence[object]) -> str:
    return "| " + " | ".join(str(cell) for cell in cells) + " |"


def format_table(results: dict[str, Any], lengths: Sequence[int], name: str, unit: str, scale: float) -> str:
    """Format one row per kind, one column per length, and the exponent."""
    lines = [format_row(["", *lengths, "exponent"]), format_row(["---", *["---:"] * (len(lengths) + 1)])]
    for kind, result in results.items():
        found = dict(zip(result["lengths"], result[name][unit], strict=True))
        cells = [f"{found[length] * scale:.3g}" if length in found else "–" for length in lengths]
        lines.append(format_row([LABELS[kind], *cells, f"{result[name][f'exponent_of_{unit}']:.2f}"]))
    return "\n".join(lines)


def print_tables(results: dict[str, Any], lengths: Sequence[int]) -> None:
    """Print the tables of the README."""
    units = (("seconds", 1e3, "Milliseconds"), ("bytes", 2**-20, "Peak memory in MiB"))
    for unit, scale, title in units:
        for name in reversed(PASSES):
            print(f"## {title}, {name.replace('_', ' and ')}\n\n{format_table(results, lengths, name, unit, scale)}\n")


def plot(results: dict[str, Any], into: Path) -> None:
    """Plot time and memory of forward and backward, both axes logarithmic."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 2, figsize=(10, 4.2), layout="constrained")
    for side, unit, scale in zip(axes, ("seconds", "bytes"), (1e3, 2**-20), strict=True):
        for (kind, result), color in zip(results.items(), COLORS, strict=False):
            measured = result["forward_backward"]
            label = f"{LABELS[kind]}: {measured[f'exponent_of_{unit}']:.2f}"
            values = [value * scale for value in measured[unit]]
            side.loglog(result["lengths"], values, color=color, marker="o", markersize=3, label=label)
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


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, default=Path(__file__).parent)
    parser.add_argument("--lengths", type=int, nargs="+", default=[512, 1024, 2048, 4096, 8192, 16384])
    parser.add_argument("--kinds", nargs="+", choices=list(LABELS), default=list(LABELS))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--memory", type=float, default=6.0, help="GiB that full attention may need")
    for name, default in asdict(Setting()).items():
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--peak", help=argparse.SUPPRESS)
    return parser.parse_args()


def main() -> None:
    """Measure, write and plot; with --peak, measure the memory of this process."""
    options = parse_arguments()
    if options.peak is not None:
        order = json.loads(options.peak)
        setting = Setting(**order["setting"])
        print(peak_in_this_process(order["kind"], setting, order["length"], order["name"]))
        return
    setting = Setting(**{name: getattr(options, name) for name in asdict(Setting())})
    lengths, limit = sorted(set(options.lengths)), int(options.memory * 2**30)
    if len(lengths) < 2:
        sys.exit("--lengths: an exponent needs two lengths or more")
    results = measure(options.kinds, setting, lengths, options.rounds, limit)
    report = {**machine(setting), "rounds": options.rounds, "memory_limit": limit, "results": results}
    options.folder.mkdir(parents=True, exist_ok=True)
    update_results(options.folder / "results.json", report)
    print_tables(results, lengths)
    plot(results, options.folder / "length.png")


if __name__ == "__main__":
    main()
