"""Configuration: validation, errors, overrides, and writing as YAML."""

import inspect
import pickle
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import Field, PositiveInt, ValidationError, model_validator

from dragoman.config import MAX_NUMBER, Config, override, parse
from dragoman.config_keys import alternatives, kinds_of
from dragoman.config_trees import get_value, merge
from dragoman.errors import ConfigError, shorten_text
from dragoman.yaml_files import read_yaml, to_yaml


class Constant(Config):
    kind: Literal["constant"] = "constant"
    rate: float | Literal["auto"] = "auto"


class Cosine(Config):
    kind: Literal["cosine"] = "cosine"
    rate: float = 0.1
    steps: PositiveInt = 100


Schedule = Annotated[Constant | Cosine, Field(discriminator="kind")]


class Layer(Config):
    heads: PositiveInt = 4
    size: PositiveInt = 8
    dropout: dict[str, float] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _fits(self) -> "Layer":
        if self.size % self.heads:
            raise ValueError(f"heads = {self.heads} does not divide size = {self.size}; choose a divisor")
        return self


class Training(Config):
    schedule: Schedule = Constant()
    second: Schedule | None = None
    phases: list[Schedule] = Field(default_factory=list)
    warmup: int = 0
    out: Path | None = None


class Whole(Config):
    name: str
    training: Training = Training()
    layers: list[Layer] = Field(default_factory=list)
    seed: int = 1


def complaints(tree: dict, where: str = "") -> list[str]:
    with pytest.raises(ConfigError) as caught:
        parse(Whole, {"name": "x"} | tree, where=where)
    return str(caught.value).splitlines()


def test_tree_becomes_frozen_types():
    whole = parse(
        Whole,
        {
            "name": "x",
            "training": {"schedule": {"kind": "cosine", "steps": 7}, "phases": [{"kind": "constant"}]},
            "layers": [{"heads": 2}],
        },
    )
    assert whole.training.schedule == Cosine(rate=0.1, steps=7)
    assert whole.training.phases == [Constant()]
    assert whole.layers == [Layer(heads=2, size=8)]
    with pytest.raises(ValidationError):
        whole.seed = 2


class File(Config):
    kind: Literal["text"] = "text"
    path: Path


class Words(Config):
    color: Literal["dark-red", "blue"] | None = None
    rate: float | Literal["auto"] = "auto"
    name: str | Literal["auto"] = "auto"
    schedules: list[Schedule] = Field(default_factory=list)
    second: Schedule | None = None
    file: Annotated[File | Constant | None, Field(discriminator="kind")] = None


def test_words_are_read_without_regard_to_case():
    tree = {"color": "Dark_Red", "rate": "AUTO", "name": "AUTO", "schedules": ["Cosine", {"kind": "COSINE"}]}
    found = parse(Words, tree | {"second": {"kind": "Constant", "rate": "Auto"}})
    assert (found.color, found.rate, found.name) == ("dark-red", "auto", "AUTO")
    assert found.schedules == [Cosine(), Cosine()]
    assert found.second == Constant()
    assert parse(Words, {"second": "CONSTANT", "schedules": "Cosine"}).second == Constant()
    assert merge({"a": {"kind": "x", "b": 1}}, {"a": {"kind": "X"}}) == {"a": {"kind": "X", "b": 1}}


def test_path_in_place_of_a_file_is_answered_with_its_keys():
    with pytest.raises(ConfigError) as caught:
        parse(Words, {"file": "texts/train.text"})
    assert str(caught.value) == (
        "file = 'texts/train.text': a file needs its format. Set file.kind=text and file.path=texts/train.text."
    )


@pytest.mark.parametrize(
    ("tree", "expected"),
    [
        ({"sed": 3}, "sed: no such key. Did you mean seed?"),
        ({"training": {"warmpu": 3}}, "training.warmpu: no such key. Did you mean training.warmup?"),
        ({"warmup": 3}, "warmup: no such key. Did you mean training.warmup?"),
        ({"steps": 3}, "steps: no such key. Did you mean training.schedule.steps or training.second.steps?"),
        ({"stepz": 3}, "stepz: no such key. Did you mean training.schedule.steps or training.second.steps?"),
        ({"zzz": 3}, "zzz: no such key. Known: layers, name, seed, training."),
        ({"kind": "x"}, "kind: no such key. Known: layers, name, seed, training."),
        ({"layers": [{}, {"haeds": 2}]}, "layers.1.haeds: no such key. Did you mean layers.1.heads?"),
        (
            {"training": {"schedule": {"kind": "constant", "steps": 3}}},
            "training.schedule.steps: no such key. It belongs to kind cosine, and this is kind constant.",
        ),
        (
            {"training": {"phases": [{"kind": "cosine", "stepz": 3}]}},
            "training.phases.0.stepz: no such key. Did you mean training.phases.0.steps?",
        ),
        (
            {"training": {"second": {"kind": "cosine", "rat": 3}}},
            "training.second.rat: no such key. Did you mean training.second.rate?",
        ),
    ],
)
def test_unknown_key_suggests_the_nearest(tree, expected):
    assert complaints(tree) == [expected]


@pytest.mark.parametrize(
    ("tree", "expected"),
    [
        (
            {"kind": "cosin"},
            "training.schedule.kind = 'cosin': no such kind. Did you mean cosine? Known: constant, cosine.",
        ),
        (
            {"kind": "COSINUS"},
            "training.schedule.kind = 'COSINUS': no such kind. Did you mean cosine? Known: constant, cosine.",
        ),
        ({"kind": "polynomial"}, "training.schedule.kind = 'polynomial': no such kind. Known: constant, cosine."),
        ({"kind": 3}, "training.schedule.kind = 3: no such kind. Known: constant, cosine."),
        ("cosin", "training.schedule.kind = 'cosin': no such kind. Did you mean cosine? Known: constant, cosine."),
        (
            ["cosine"],
            "training.schedule = ['cosine']: expected one of constant, cosine, or a mapping, such as {kind: constant}",
        ),
    ],
)
def test_unknown_kind_lists_the_known(tree, expected):
    assert complaints({"training": {"schedule": tree}}) == [expected]


@pytest.mark.parametrize(
    ("tree", "expected"),
    [
        ({"seed": "many"}, "seed = 'many': must be an integer"),
        ({"seed": ["x" * 99]}, f"seed = ['{'x' * 55}...: must be an integer"),
        (
            {"training": 3},
            "training = 3: is a group of settings. Set one of its keys: training.schedule, training.second, "
            "training.phases, training.warmup, training.out.",
        ),
        ({"layers": {"0": {}}}, "layers = {'0': {}}: must be a list"),
        ({"layers": [{"heads": 0}]}, "layers.0.heads = 0: must be at least 1"),
        (
            {"layers": [{"dropout": {"a": "b"}}]},
            "layers.0.dropout.a = 'b': must be a number",
        ),
        ({"layers": [{"heads": 3}]}, "layers.0: heads = 3 does not divide size = 8; choose a divisor"),
        (
            {"training": {"schedule": {"kind": "cosine", "rate": float("nan")}}},
            "training.schedule.rate = nan: must be a finite number",
        ),
        (
            {"training": {"schedule": {"kind": "constant", "rate": "x"}}},
            "training.schedule.rate = 'x': must be a number or 'auto'",
        ),
        ({"name": None}, "name = None: must be text"),
    ],
)
def test_wrong_value_is_named_with_its_key(tree, expected):
    assert complaints(tree) == [expected]


def test_missing_kind_is_that_of_the_default():
    whole = parse(Whole, {"name": "x", "training": {"schedule": {"rate": 3}}})
    assert whole.training.schedule == Constant(rate=3)
    assert complaints({"training": {"schedule": {"zz": 3}}}) == [
        "training.schedule.zz: no such key. Known: kind, rate."
    ]


def test_kind_without_default_is_required():
    expected = "kind: is required and not given; choose one of constant, cosine"
    assert complaints({"training": {"second": {"rate": 3}}}) == [f"training.second.{expected}"]
    assert complaints({"training": {"phases": [{}]}}) == [f"training.phases.0.{expected}"]


def test_each_error_has_a_line_with_its_location():
    tree = {"sed": 1, "layers": [{"heads": "x"}, {"size": -1}], "training": {"schedule": {"kind": "none"}}}
    lines = complaints(tree, where="runs/x/config.yaml")
    assert len(lines) == 3
    assert all(line.startswith("runs/x/config.yaml: ") for line in lines)
    assert lines[-1] == "runs/x/config.yaml: 2 more errors. Correct these first."


def test_missing_key_is_named():
    with pytest.raises(ConfigError, match=r"^name: is required and not given$"):
        parse(Whole, {})


def test_error_of_the_root_has_no_key():
    with pytest.raises(ConfigError, match=r"^heads = 3 does not divide size = 8; choose a divisor$"):
        parse(Layer, {"heads": 3})


def test_invalid_members_do_not_make_a_list_too_short():
    class Scores(Config):
        thresholds: tuple[int, ...] = Field((1,), min_length=1)

    with pytest.raises(ConfigError, match=r"^thresholds\.0 = 'x': must be an integer$"):
        parse(Scores, {"thresholds": ["x"]})
    with pytest.raises(ConfigError, match=r"^thresholds = \[\]: has 0 entries and needs at least 1$"):
        parse(Scores, {"thresholds": []})


def test_error_of_several_keys_names_its_group_once():
    class Model(Config):
        layer: Layer = Layer()

        @model_validator(mode="after")
        def _fits(self) -> "Model":
            if self.layer.size == 7:
                raise ValueError("model.layer.size = 7 is not even")
            return self

    class Run(Config):
        model: Model = Model()

    with pytest.raises(ConfigError, match=r"^model\.layer\.size = 7 is not even$"):
        parse(Run, {"model": {"layer": {"size": 7, "heads": 1}}})


def test_key_that_is_no_word_is_refused():
    assert "the key True is not a word" in complaints({"training": {True: 3}})[0]


def test_merge_overrides_and_keeps_keys():
    base = {"a": {"b": 1, "c": {"d": 2}}, "e": [1, 2]}
    assert merge(base, {"a": {"c": {"d": 3, "f": 4}}, "e": [5]}) == {"a": {"b": 1, "c": {"d": 3, "f": 4}}, "e": [5]}
    assert base == {"a": {"b": 1, "c": {"d": 2}}, "e": [1, 2]}


@pytest.mark.parametrize(
    ("over", "expected"),
    [
        ({"steps": 5}, {"kind": "cosine", "steps": 5, "rate": 1}),
        ({"kind": "cosine", "steps": 5}, {"kind": "cosine", "steps": 5, "rate": 1}),
        ({"kind": "constant"}, {"kind": "constant"}),
        (None, None),
        ("x", {"kind": "x"}),
        ("cosine", {"kind": "cosine", "steps": 3, "rate": 1}),
    ],
)
def test_mapping_of_another_kind_replaces(over, expected):
    base = {"schedule": {"kind": "cosine", "steps": 3, "rate": 1}}
    assert merge(base, {"schedule": over}) == {"schedule": expected}


def test_naming_a_kind_keeps_the_keys():
    assert merge({"s": {"steps": 3}}, {"s": {"kind": "cosine"}}) == {"s": {"steps": 3, "kind": "cosine"}}
    assert merge({"s": {"steps": 3}}, {"s": "cosine"}) == {"s": {"steps": 3, "kind": "cosine"}}
    assert merge({"s": "cosine"}, {"s": {"steps": 3}}) == {"s": {"steps": 3, "kind": "cosine"}}
    assert merge({"s": "cosine"}, {"s": "constant"}) == {"s": "constant"}


def test_text_is_a_kind():
    tree = {"schedule": "cosine", "second": "cosine", "phases": ["cosine", {"kind": "constant"}]}
    named = {"schedule": {"kind": "cosine"}, "second": {"kind": "cosine"}}
    phases = [{"kind": "cosine"}, {"kind": "constant"}]
    assert parse(Training, tree) == parse(Training, {**named, "phases": phases})
    assert parse(Training, {"phases": "cosine"}).phases == [Cosine()]
    assert Training(schedule="cosine").schedule == Cosine()
    assert get_value(tree, "schedule.kind") == "cosine"
    assert complaints({"training": {"phases": ["linear"]}}) == [
        "training.phases.0.kind = 'linear': no such kind. Known: constant, cosine."
    ]


def test_value_in_place_of_a_group_names_its_keys():
    [message] = complaints({"layers": [0.1]})
    assert message == (
        "layers.0 = 0.1: is a group of settings. Set one of its keys: layers.0.heads, layers.0.size, layers.0.dropout."
    )


@pytest.mark.parametrize("key", ["WARMUP", "WarmPu"])
def test_case_of_a_key_does_not_matter(key):
    assert complaints({"training": {key: 3}}) == [f"training.{key}: no such key. Did you mean training.warmup?"]
    assert complaints({key: 3}) == [f"{key}: no such key. Did you mean training.warmup?"]


def test_dotted_key_in_a_file_is_nested():
    assert complaints({"training.warmup": 3}) == [
        "training.warmup: no such key. Did you mean the key warmup inside training?"
    ]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Layer(heads=0), "Layer: heads = 0: must be at least 1"),
        (lambda: Layer(heads=3), "Layer: heads = 3 does not divide size = 8; choose a divisor"),
        (lambda: Layer(haeds=2), "Layer: haeds: no such key. Did you mean heads?"),
        (lambda: Whole(), "Whole: name: is required and not given"),
        (lambda: Whole(name="x", layers=[{"heads": 0}]), "Whole: layers.0.heads = 0: must be at least 1"),
    ],
)
def test_invalid_arguments_are_a_configuration_error(make, message):
    with pytest.raises(ConfigError) as caught:
        make()
    assert str(caught.value) == message


def test_settings_are_validated_and_pickled_as_before():
    assert "heads: " in str(inspect.signature(Layer))
    assert pickle.loads(pickle.dumps(Layer(heads=2))) == Layer(heads=2)
    with pytest.raises(ValidationError):
        Layer.model_validate({"heads": 0})


@pytest.mark.parametrize(
    ("assignments", "expected"),
    [
        (["training.warmup=2000"], {"seed": 1, "training": {"warmup": 2000, "schedule": {"kind": "constant"}}}),
        (["seed=null"], {"seed": None, "training": {"schedule": {"kind": "constant"}}}),
        (["name=a=b"], {"seed": 1, "name": "a=b", "training": {"schedule": {"kind": "constant"}}}),
        (["training=3"], {"seed": 1, "training": 3}),
        (
            ["layers=[{heads: 2}]"],
            {"seed": 1, "training": {"schedule": {"kind": "constant"}}, "layers": [{"heads": 2}]},
        ),
        (
            ["training.schedule.kind=cosine", "training.schedule.steps=3"],
            {"seed": 1, "training": {"schedule": {"kind": "cosine", "steps": 3}}},
        ),
        (
            ["training.schedule.steps=3", "training.schedule.kind=cosine"],
            {"seed": 1, "training": {"schedule": {"kind": "cosine", "steps": 3}}},
        ),
        (["seed=2", "seed=3"], {"seed": 3, "training": {"schedule": {"kind": "constant"}}}),
    ],
)
def test_assignments_override_keys(assignments, expected):
    tree = {"seed": 1, "training": {"schedule": {"kind": "constant"}}}
    assert override(tree, assignments) == expected
    assert tree == {"seed": 1, "training": {"schedule": {"kind": "constant"}}}


@pytest.mark.parametrize(
    "assignment",
    [
        *("seed", "=3", "training..warmup=3", ".seed=3", "seed=[1", "seed={a: 1, a: 2}"),
        *("seed=\udcff", "seed=" + "[" * 3000),
    ],
    ids=ascii,
)
def test_invalid_assignment_is_refused(assignment):
    with pytest.raises(ConfigError) as caught:
        override({}, [assignment])
    assert str(caught.value).startswith(f"--set {shorten_text(assignment)}: ")
    assert len(str(caught.value).splitlines()) == 1


def test_messages_are_short_and_fast_for_huge_values():
    bomb = "[" + ", ".join(
        f"&{name} [{', '.join(['*' + below] * 9) if below else 'x'}]" for below, name in pairwise([None, *"abcdefghi"])
    )
    for assignments in (
        [f"name={bomb}]"],
        ["layers=[" + "{x: y}," * 3_000 + "]"],
        [f"{'k' * 10**6}=1"],
        [".".join("k" * 500) + "=1"],
    ):
        with pytest.raises(ConfigError) as caught:
            parse(Whole, override({}, assignments))
        assert len(str(caught.value)) < 2_000


def test_yaml_has_declaration_order_and_defaults():
    text = to_yaml(Whole(name="zwölf", training=Training(out=Path("runs/x"))).model_dump(mode="json"))
    assert text.splitlines()[:4] == ["name: zwölf", "training:", "  schedule:", "    kind: constant"]
    assert "  out: runs/x" in text


@pytest.mark.parametrize("number", [MAX_NUMBER + 1, -MAX_NUMBER - 1, 2**64, 10**399, 1e300], ids=lambda n: str(n)[:9])
def test_every_number_has_a_maximum(number):
    phase = {"kind": "cosine", "rate": number}
    for tree in ({"seed": number}, {"training": {"warmup": number}}, {"training": {"phases": [phase]}}):
        [line] = complaints(tree)
        assert "must be" in line
        assert len(line) < 200
    with pytest.raises(ConfigError, match=r"is a group of settings\. Set one of its keys: name,"):
        parse(Whole, "abc", where="config.yaml")  # type: ignore[arg-type]


# PyYAML folds the line breaks of other scripts (NEL, LS, PS) into LF; they have no place in a configuration.
words = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x85\u2028\u2029"))
configurations = st.builds(
    Whole,
    name=words,
    seed=st.integers(-MAX_NUMBER, MAX_NUMBER),
    training=st.builds(
        Training,
        schedule=st.one_of(
            st.builds(Constant, rate=st.just("auto") | st.floats(-MAX_NUMBER, MAX_NUMBER)),
            st.builds(Cosine, rate=st.floats(-MAX_NUMBER, MAX_NUMBER), steps=st.integers(1, MAX_NUMBER)),
        ),
        phases=st.lists(st.builds(Cosine), max_size=3),
    ),
    layers=st.lists(st.builds(Layer, dropout=st.dictionaries(words, st.floats(0, 1))), max_size=3),
)


@given(configurations)
def test_written_yaml_is_read_back(tmp_path_factory, configuration):
    path = tmp_path_factory.getbasetemp() / "config.yaml"
    path.write_text(to_yaml(configuration.model_dump(mode="json")), encoding="utf-8", newline="")
    assert parse(Whole, read_yaml(path)) == configuration


def test_members_of_an_annotation_are_found():
    assert alternatives(Schedule | None) == [Constant, Cosine]
    assert alternatives(list[int]) == [list[int]]
    assert kinds_of(Schedule) == ["constant", "cosine"]
    assert kinds_of(Layer) == []
