"""Figures show the numbers that they were given, and name the tokens where there is room."""

import matplotlib as mpl
import pytest
import torch

mpl.use("Agg")

from matplotlib import pyplot

from dragoman.interpret.explanation import Contribution
from dragoman.interpret.plots import (
    drawn,
    plot_alignment,
    plot_by_head,
    plot_contribution,
    plot_heads,
    plot_mask,
    plot_weights,
)


@pytest.fixture(autouse=True)
def _closed():
    yield
    pyplot.close("all")


def shown(axes):
    return torch.tensor(axes.images[0].get_array().filled())


def names(axis):
    return [label.get_text() for label in axis.get_ticklabels()]


def test_a_map_shows_its_weights_under_its_tokens():
    weights = torch.rand(3, 5)
    axes = plot_weights(weights, queries=["eins", "zwei", "drei"], keys=list("abcde"), title="layer 2, head 1")
    torch.testing.assert_close(shown(axes), weights)
    assert (names(axes.xaxis), names(axes.yaxis)) == (list("abcde"), ["eins", "zwei", "drei"])
    assert axes.get_title() == "layer 2, head 1"
    assert axes.images[0].get_clim() == (0.0, 1.0)


def test_two_hundred_tokens_are_shown_without_names():
    axes = plot_weights(torch.rand(211, 199), queries=["a"] * 211, keys=["b"] * 199)
    assert names(axes.xaxis) == names(axes.yaxis) == []


def test_a_mask_is_white_where_nothing_may_be_seen():
    allowed = torch.ones(5, 5).tril().bool()
    axes = plot_mask(allowed, queries=list("abcde"), keys=list("abcde"))
    assert torch.equal(shown(axes) > 0, allowed)


def test_every_head_has_a_map():
    weights = torch.rand(2, 3, 5, 7)
    figure = plot_heads(weights, title="cross")
    assert len(figure.axes) == 6
    torch.testing.assert_close(shown(figure.axes[4]), weights[1, 1])
    assert figure.axes[4].get_title() == "2.2"


def test_links_stand_at_their_words():
    axes = plot_alignment({(0, 1), (2, 0)}, source=list("abc"), target=["x", "y"], gold={(1, 1)})
    assert (shown(axes) > 0).nonzero().tolist() == [[0, 2], [1, 0]]
    assert axes.collections[0].get_offsets().tolist() == [[1, 1]]


def test_contributions_are_blue_for_more_and_red_for_less():
    values = torch.tensor([[0.5, -1.25, 0.0]])
    axes = plot_contribution(Contribution(values, ("good",), ("a", "fine", "film")), title="leave one out")
    torch.testing.assert_close(shown(axes), values)
    assert (names(axes.xaxis), names(axes.yaxis)) == (["a", "fine", "film"], ["good"])
    assert axes.images[0].get_clim() == (-1.25, 1.25)
    red, _, blue = axes.images[0].to_rgba(torch.tensor([[-1.25]]).numpy())[0, 0, :3]
    assert red > blue


def test_numbers_are_written_into_their_heads():
    axes = plot_by_head(torch.tensor([[0.5, -1.25]]), signed=True)
    assert [text.get_text() for text in axes.texts] == ["0.50", "-1.25"]
    assert axes.images[0].get_clim() == (-1.25, 1.25)


def test_a_dollar_begins_no_formula():
    texts = ["$5-$6", r"$\textsc{a}$", "$^$"]
    axes = plot_alignment({(0, 1)}, source=texts, target=texts, title="$^$")
    assert names(axes.xaxis) == names(axes.yaxis) == texts
    assert drawn(axes.get_figure()).startswith(b"\x89PNG")
    labels = [*axes.get_xticklabels(), *axes.get_yticklabels(), axes.title]
    assert not any(label.get_parse_math() for label in labels)
