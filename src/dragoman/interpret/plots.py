"""Figures for notebooks and papers, by matplotlib, each on axes that the caller may give."""

from collections.abc import Iterator, Sequence
from io import BytesIO
from typing import TYPE_CHECKING, Any

import numpy as np
from torch import Tensor

from dragoman.errors import MissingExtraError
from dragoman.interpret.explanation import Contribution, Study
from dragoman.typing import Bool, Float

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Links = set[tuple[int, int]]
WEIGHTS = "Blues"
CHANGES = "RdBu"
LARGEST_LABELS = 60
"""Tokens of a side above which their names would cover one another, and are left out."""


def plot_weights(
    weights: Float[Tensor, "queries keys"],
    *,
    queries: Sequence[str],
    keys: Sequence[str],
    title: str = "",
    axes: "Axes | None" = None,
) -> "Axes":
    """One map: what each query (a row) takes of each key (a column), 0 white and 1 dark."""
    axes = _axes_for(len(keys), len(queries)) if axes is None else axes
    axes.imshow(weights.numpy(), cmap=WEIGHTS, vmin=0, vmax=1, aspect="auto", interpolation="nearest")
    _name(axes, queries=queries, keys=keys, title=title)
    return axes


def plot_mask(
    allowed: Bool[Tensor, "queries keys"],
    *,
    queries: Sequence[str],
    keys: Sequence[str],
    title: str = "",
    axes: "Axes | None" = None,
) -> "Axes":
    """What each query may see: the future, padding and what a pattern leaves out stay white."""
    return plot_weights(allowed.float() * 0.5, queries=queries, keys=keys, title=title, axes=axes)


def plot_heads(
    weights: Float[Tensor, "layers heads queries keys"],
    *,
    queries: Sequence[str] = (),
    keys: Sequence[str] = (),
    title: str = "",
) -> "Figure":
    """All heads of all layers as small maps, a row a layer."""
    layers, heads = weights.shape[:2]
    figure, grid = _pyplot().subplots(
        layers, heads, figsize=(1 + 1.8 * heads, 0.6 + 1.8 * layers), squeeze=False, layout="constrained"
    )
    for layer in range(layers):
        for head in range(heads):
            names = {"queries": queries, "keys": keys} if layers * heads == 1 else {"queries": (), "keys": ()}
            plot_weights(weights[layer, head], **names, title=f"{layer + 1}.{head + 1}", axes=grid[layer, head])
    figure.suptitle(title)
    return figure


def plot_alignment(
    links: Links,
    *,
    source: Sequence[str],
    target: Sequence[str],
    gold: Links | None = None,
    title: str = "",
    axes: "Axes | None" = None,
) -> "Axes":
    """Links of words as squares, a row a target word; those of the gold, where it is given, as rings around."""
    axes = _axes_for(len(source), len(target)) if axes is None else axes
    grid = np.zeros((len(target), len(source)))
    for at, to in links:
        grid[to, at] = 0.75
    axes.imshow(grid, cmap=WEIGHTS, vmin=0, vmax=1, aspect="auto", interpolation="nearest")
    if gold:
        columns, rows = zip(*sorted(gold), strict=True)
        axes.scatter(columns, rows, s=60, facecolors="none", edgecolors="tab:red")
    _name(axes, queries=target, keys=source, title=title)
    return axes


def plot_by_head(
    values: Float[Tensor, "layers heads"],
    *,
    title: str = "",
    largest: float | None = None,
    signed: bool = False,
    axes: "Axes | None" = None,
) -> "Axes":
    """A number for each head, written in its square: a statistic, or with `signed` a change around 0."""
    axes = _axes_for(2 * values.shape[1], 2 * values.shape[0]) if axes is None else axes
    largest = max(float(values.abs().max()), 1e-9) if largest is None else largest
    lowest = -largest if signed else 0.0
    axes.imshow(values.numpy(), cmap=CHANGES if signed else WEIGHTS, vmin=lowest, vmax=largest, aspect="auto")
    for (layer, head), value in np.ndenumerate(values.numpy()):
        shade = abs(value) / largest
        axes.text(head, layer, f"{value:.2f}", ha="center", va="center", color="white" if shade > 0.6 else "black")
    axes.set_xticks(range(values.shape[1]), [f"head {head + 1}" for head in range(values.shape[1])])
    axes.set_yticks(range(values.shape[0]), [f"layer {layer + 1}" for layer in range(values.shape[0])])
    axes.set_title(title)
    return axes


def plot_contribution(contribution: Contribution, *, title: str = "", axes: "Axes | None" = None) -> "Axes":
    """What each token or word (a column) adds to each finding (a row), in nats: blue for more, red for less."""
    values, rows, columns = contribution.values, contribution.rows, contribution.columns
    axes = _axes_for(len(columns), len(rows)) if axes is None else axes
    largest = max(float(values.abs().max()), 1e-9) if values.numel() else 1.0
    axes.imshow(values.numpy(), cmap=CHANGES, vmin=-largest, vmax=largest, aspect="auto", interpolation="nearest")
    _name(axes, queries=rows, keys=columns, title=title)
    return axes


def figures(study: Study) -> Iterator[tuple[str, "Figure"]]:
    """All figures of a study with names: the heads of each kind, alignments, attributions, what each head is worth."""
    for kind, weights in study.passed.weights.items():
        queries, keys = study.sides(kind)
        yield kind, plot_heads(weights, queries=queries, keys=keys, title=f"{kind} attention")
    source, target = study.source_words.texts, study.target_words.texts
    for one in study.alignments:
        axes = plot_alignment(set(one.links), source=source, target=target, title=f"{one.name}: {one.how}")
        yield f"alignment-{one.name.replace(' ', '-')}", _figure_of(axes)
    for name, contribution in study.attributions.items():
        axes = plot_contribution(contribution, title=f"{name}, nats")
        yield f"attribution-{name.replace('×', 'times').replace(' ', '-')}", _figure_of(axes)
    for kind, change in study.heads.items():
        axes = plot_by_head(change, title=f"{kind}: nats without the head", signed=True)
        yield f"heads-{kind}", _figure_of(axes)


def drawn(figure: "Figure") -> bytes:
    """The figure as a PNG file; it is closed with that."""
    file = BytesIO()
    figure.savefig(file, format="png", dpi=150)
    _pyplot().close(figure)
    return file.getvalue()


def _axes_for(columns: int, rows: int) -> "Axes":
    size = (1.5 + 0.28 * min(columns, LARGEST_LABELS), 1.2 + 0.28 * min(rows, LARGEST_LABELS))
    axes: Axes = _pyplot().subplots(figsize=size, layout="constrained")[1]
    return axes


def _figure_of(axes: "Axes") -> "Figure":
    figure: Any = axes.get_figure()
    return figure


def _name(axes: "Axes", *, queries: Sequence[str], keys: Sequence[str], title: str) -> None:
    """Ticks with the tokens; none where they are not given, or too many to be read."""
    axes.set_xticks(*_ticks(keys), rotation=90, parse_math=False)  # a dollar in a text begins no formula
    axes.set_yticks(*_ticks(queries), parse_math=False)
    axes.set_title(title, parse_math=False)


def _ticks(names: Sequence[str]) -> tuple[list[int], list[str]]:
    shown = list(names) if len(names) <= LARGEST_LABELS else []
    return list(range(len(shown))), shown


def _pyplot() -> Any:
    """Raises MissingExtraError where matplotlib is not there."""
    try:
        from matplotlib import pyplot
    except ImportError as error:
        raise MissingExtraError(feature="a plot", extra="plots") from error
    return pyplot
