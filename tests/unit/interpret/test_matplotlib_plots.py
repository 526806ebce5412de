"""Figures show the given numbers, and label the tokens if there is space."""

import matplotlib as mpl
import pytest
import torch

mpl.use("Agg")

from matplotlib import pyplot

from dragoman.interpret.explain_text import Contributions
from dragoman.interpret.matplotlib_plots import (
    plot_alignment,
    plot_contributions,
    plot_heads,
    plot_mask,
    plot_per_head,
    plot_weights,
    to_png,
)


@pytest.fixture(autouse=True)
def _closed():
    yield
    pyplot.close("all")


def shown(axes):
    return torch.tensor(axes.images[0].get_array().filled())


def names(axis):
    return [label.get_text() for label in axis.get_ticklabels()]


def test_weights_are_plotted_with_tokens():
    weights = torch.rand(3, 5)
    axes = plot_weights(weights, queries=["eins", "zwei", "drei"], keys=list("abcde"), title="layer 2, head 1")
    torch.testing.assert_close(shown(axes), weights)
    assert (names(axes.xaxis), names(axes.yaxis)) == (list("abcde"), ["eins", "zwei", "drei"])
    assert axes.get_title() == "layer 2, head 1"
    assert axes.images[0].get_clim() == (0.0, 1.0)


def test_long_axes_have_no_labels():
    axes = plot_weights(torch.rand(211, 199), queries=["a"] * 211, keys=["b"] * 199)
    assert names(axes.xaxis) == names(axes.yaxis) == []


def test_mask_is_white_for_forbidden_keys():
    allowed = torch.ones(5, 5).tril().bool()
    axes = plot_mask(allowed, queries=list("abcde"), keys=list("abcde"))
    assert torch.equal(shown(axes) > 0, allowed)


def test_every_head_is_plotted():
    weights = torch.rand(2, 3, 5, 7)
    figure = plot_heads(weights, title="cross")
    assert len(figure.axes) == 6
    torch.testing.assert_close(shown(figure.axes[4]), weights[1, 1])
    assert figure.axes[4].get_title() == "2.2"


def test_links_are_plotted_at_their_words():
    axes = plot_alignment(frozenset({(0, 1), (2, 0)}), source=list("abc"), target=["x", "y"], gold=frozenset({(1, 1)}))
    assert (shown(axes) > 0).nonzero().tolist() == [[0, 2], [1, 0]]
    assert axes.collections[0].get_offsets().tolist() == [[1, 1]]


def test_contributions_are_blue_and_red():
    values = torch.tensor([[0.5, -1.25, 0.0]])
    axes = plot_contributions(Contributions(values, ("good",), ("a", "fine", "film")), title="leave one out")
    torch.testing.assert_close(shown(axes), values)
    assert (names(axes.xaxis), names(axes.yaxis)) == (["a", "fine", "film"], ["good"])
    assert axes.images[0].get_clim() == (-1.25, 1.25)
    red, _, blue = axes.images[0].to_rgba(torch.tensor([[-1.25]]).numpy())[0, 0, :3]
    assert red > blue


def test_values_per_head_are_written():
    axes = plot_per_head(torch.tensor([[0.5, -1.25]]), signed=True)
    assert [text.get_text() for text in axes.texts] == ["0.50", "-1.25"]
    assert axes.images[0].get_clim() == (-1.25, 1.25)


def test_dollar_sign_starts_no_formula():
    texts = ["$5-$6", r"$\textsc{a}$", "$^$"]
    axes = plot_alignment(frozenset({(0, 1)}), source=texts, target=texts, title="$^$")
    assert names(axes.xaxis) == names(axes.yaxis) == texts
    assert to_png(axes.get_figure()).startswith(b"\x89PNG")
    labels = [*axes.get_xticklabels(), *axes.get_yticklabels(), axes.title]
    assert not any(label.get_parse_math() for label in labels)
