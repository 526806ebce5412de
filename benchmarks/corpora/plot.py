"""Draw the memory of preparing and of reading a large corpus over time.

python benchmarks/corpora/plot.py benchmarks/corpora
"""

import json
import sys
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("agg")
import matplotlib.pyplot as plt


def draw(place: Any, samples: list[dict[str, float]], label: str, color: str) -> None:
    """What a process holds, and with pages of mapped files."""
    seconds = [one["seconds"] for one in samples]
    place.plot(seconds, [one["anon"] for one in samples], color=color, label=f"{label}: its own")
    both = [one["anon"] + one["file"] for one in samples]
    place.plot(seconds, both, color=color, linestyle=":", label=f"{label}: with pages of mapped files")


def main() -> None:
    folder = Path(sys.argv[1])
    parts, whole, made = (
        json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))
        for name in ("read_parts", "read_whole", "prepare_memory")
    )
    figure, places = plt.subplots(1, 2, figsize=(10, 3.8), layout="constrained")
    draw(places[0], parts["samples"], "in parts", "tab:blue")
    draw(places[0], whole["samples"], "planned whole", "tab:orange")
    places[0].set_title(f"reading batches of {parts['pairs'] / 1e6:.1f} million pairs")
    draw(places[1], made["samples"], "data prepare", "tab:green")
    places[1].set_title("preparing 10 million lines")
    for place in places:
        place.set(xlabel="seconds", ylabel="MB")
        place.set_ylim(0, 1.4 * place.get_ylim()[1])  # room for the legend
        place.grid(alpha=0.3)
        place.legend(fontsize=8, loc="upper right")
    figure.savefig(folder / "memory.png", dpi=110)


if __name__ == "__main__":
    main()
