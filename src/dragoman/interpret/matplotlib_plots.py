"""Figures with matplotlib, on new axes or on axes that the caller gives."""

from collections.abc import Iterator, Sequence
from io import BytesIO
from typing import TYPE_CHECKING, Any

import numpy as np
from torch import Tensor

from dragoman.array_types import Bool, Float
from dragoman.errors import MissingExtraError
from dragoman.evaluation.alignment_error_rate import Links
from dragoman.interpret.explain_text import Contributions, Explanation

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WEIGHT_COLORS = "Blues"
SIGNED_COLORS = "RdBu"
MAX_TICK_LABELS = 60
"""Tokens on an axis above which their names would overlap, and are left out."""


def plot_weights(
    weights: Float[Tensor, "queries keys"],
    *,
    queries: Sequence[str],
    keys: Sequence[str],
    title: str = "",
    axes: "Axes | None" = None,
) -> "Axes":
    """Plot attention weights: rows are queries, columns are keys, from 0 (white) to 1 (dark)."""
    return _show(axes, weights, rows=queries, columns=keys, title=title, limits=(0.0, 1.0))


def plot_mask(
    mask: Bool[Tensor, "queries keys"],
    *,
    queries: Sequence[str],
    keys: Sequence[str],
    title: str = "",
    axes: "Axes | None" = None,
) -> "Axes":
    """Plot an attention mask; keys that a query may not attend to are white."""
    return plot_weights(mask.float() * 0.5, queries=queries, keys=keys, title=title, axes=axes)


def plot_heads(
    weights: Float[Tensor, "layers heads queries keys"],
    *,
    queries: Sequence[str] = (),
    keys: Sequence[str] = (),
    title: str = "",
) -> "Figure":
    """Plot the weights of all heads as small maps, one row per layer."""
    layers, heads = weights.shape[:2]
    figure, grid = _pyplot().subplots(
        layers, heads, figsize=(1 + 1.8 * heads, 0.6 + 1.8 * layers), squeeze=False, layout="constrained"
    )
    for layer, head in np.ndindex(layers, heads):
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
    """Plot links of words as squares, one row per target word, and gold links as circles."""
    grid = np.zeros((len(target), len(source)))
    for source_word, target_word in links:
        grid[target_word, source_word] = 0.75
    axes = _show(axes, grid, rows=target, columns=source, title=title, limits=(0.0, 1.0))
    if gold:
        columns, rows = zip(*sorted(gold), strict=True)
        axes.scatter(columns, rows, s=60, facecolors="none", edgecolors="tab:red")
    return axes


def plot_per_head(
    values: Float[Tensor, "layers heads"],
    *,
    title: str = "",
    largest: float | None = None,
    signed: bool = False,
    axes: "Axes | None" = None,
) -> "Axes":
    """Plot a number per head; `signed` centers the colors at 0."""
    layers, heads = (
        [f"{name} {n + 1}" for n in range(size)] for name, size in zip(("layer", "head"), values.shape, strict=True)
    )
    axes = axes or _new_axes(2 * len(heads), 2 * len(layers))
    largest = max(float(values.abs().max()), 1e-9) if largest is None else largest
    limits = (-largest if signed else 0.0, largest)
    _show(axes, values, rows=layers, columns=heads, title=title, limits=limits)
    for (layer, head), value in np.ndenumerate(values.numpy()):
        color = "white" if abs(value) / largest > 0.6 else "black"
        axes.text(head, layer, f"{value:z.2f}", ha="center", va="center", color=color)
    axes.tick_params(axis="x", rotation=0)
    return axes


def plot_contributions(contributions: Contributions, *, title: str = "", axes: "Axes | None" = None) -> "Axes":
    """Plot contributions in nats: rows are predictions, columns are tokens or words; blue raises, red lowers."""
    values, rows, columns = contributions.values, contributions.rows, contributions.columns
    largest = max(float(values.abs().max()), 1e-9) if values.numel() else 1.0
    return _show(axes, values, rows=rows, columns=columns, title=title, limits=(-largest, largest))


def figures(explanation: Explanation) -> Iterator[tuple[str, "Figure"]]:
    """Yield names and figures: heads of each kind, alignments, attributions and the effect of each head."""
    for kind, weights in explanation.forward_pass.weights.items():
        queries, keys = explanation.axes(kind)
        yield kind, plot_heads(weights, queries=queries, keys=keys, title=f"{kind} attention")
    source, target = explanation.source_words.texts, explanation.target_words.texts
    for one in explanation.alignments:
        axes = plot_alignment(one.links, source=source, target=target, title=f"{one.name}: {one.description}")
        yield f"alignment-{one.name.replace(' ', '-')}", _figure(axes)
    for name, contributions in explanation.attributions.items():
        axes = plot_contributions(contributions, title=f"{name}, nats")
        yield f"attribution-{name.replace('×', 'times').replace(' ', '-')}", _figure(axes)
    for kind, effects in explanation.head_effects.items():
        axes = plot_per_head(effects, title=f"{kind}: change without the head, nats", signed=True)
        yield f"heads-{kind}", _figure(axes)


def to_png(figure: "Figure") -> bytes:
    """Return a figure as PNG, and close it."""
    file = BytesIO()
    figure.savefig(file, format="png", dpi=150)
    _pyplot().close(figure)
    return file.getvalue()


def _show(
    axes: "Axes | None",
    values: Any,
    *,
    rows: Sequence[str],
    columns: Sequence[str],
    title: str,
    limits: tuple[float, float],
) -> "Axes":
    """Draw a matrix with labels, unless there are too many; negative limits select diverging colors."""
    axes = axes or _new_axes(len(columns), len(rows))
    colors, (low, high) = SIGNED_COLORS if limits[0] < 0 else WEIGHT_COLORS, limits
    axes.imshow(np.asarray(values), cmap=colors, vmin=low, vmax=high, aspect="auto", interpolation="nearest")
    x_labels, y_labels = (names if len(names) <= MAX_TICK_LABELS else () for names in (columns, rows))
    # A dollar sign starts no formula.
    axes.set_xticks(range(len(x_labels)), x_labels, rotation=90, parse_math=False)
    axes.set_yticks(range(len(y_labels)), y_labels, parse_math=False)
    axes.set_title(title, parse_math=False)
    return axes


def _new_axes(columns: int, rows: int) -> "Axes":
    size = (1.5 + 0.28 * min(columns, MAX_TICK_LABELS), 1.2 + 0.28 * min(rows, MAX_TICK_LABELS))
    axes: Axes = _pyplot().subplots(figsize=size, layout="constrained")[1]
    return axes


def _figure(axes: "Axes") -> "Figure":
    figure: Any = axes.get_figure()
    return figure


def _pyplot() -> Any:
    """Import matplotlib. Raises MissingExtraError if it is not installed."""
    try:
        from matplotlib import pyplot
    except ImportError as error:
        raise MissingExtraError(feature="a plot", extra="plots") from error
    return pyplot
