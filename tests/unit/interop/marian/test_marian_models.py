"""Models of Marian, read and written."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sentencepiece

from dragoman.data.shortlist import Shortlist, ShortlistConfig, build_shortlist
from dragoman.data.tokenizers import BOS, EOS, BpeConfig, Tokenizer, UnigramConfig
from dragoman.errors import ConfigError, DataError
from dragoman.interop.imported_model import ExportedModel, ImportedModel, ImportOptions, build_network
from dragoman.interop.marian.binary_format import SETTINGS, Int8Matrix, read_binary, write_binary
from dragoman.interop.marian.read_model import read
from dragoman.interop.marian.shortlist_format import read_shortlist
from dragoman.interop.marian.write_model import write
from dragoman.interop.recognize_format import PARTNERS, recognize_format
from dragoman.models.config import EncoderDecoderConfig
from dragoman.models.weight_storage import get_weights
from tests.marian_students import PAIRS, student, write_npz


def visible(model: ExportedModel | ImportedModel) -> dict[str, np.ndarray]:
    """Return the weights without those of PAD and BOS, which Marian lacks."""
    rows = [index for index in range(len(model.tokenizer.source)) if index not in (0, BOS)]
    tables = ("tokens.weight", "unembedding.weight", "unembedding.bias")
    return {name: array[rows] if name.endswith(tables) else array for name, array in model.weights.items()}


def exported(model: ImportedModel, **options: Any) -> ExportedModel:
    return ExportedModel(
        name="again",
        task="translation",
        network=model.network,
        weights=model.weights,
        tokenizer=model.tokenizer,
        max_length=model.max_length,
        decoding=model.decoding,
        origin=model.origin,
        shortlist=model.shortlist,
        **options,
    )


@pytest.mark.parametrize(
    "changed",
    [
        {},
        {"decoder_layer": "self_attention"},
        {"norm_position": "pre", "norm_embedding": True},
        {"decoder_layer": "self_attention", "activation": "silu"},
    ],
)
def test_float_models_come_back_bit_identical(tmp_path: Path, changed: dict[str, Any]) -> None:
    model = student(changed)
    write(model, tmp_path)
    found = read(tmp_path, ImportOptions())
    assert found.network == model.network
    assert found.tensors.left_over == found.tensors.filled == {}
    expected = visible(model)
    assert found.weights.keys() == model.weights.keys()
    assert all(np.array_equal(array, expected[name]) for name, array in visible(found).items())
    assert not found.weights["source_embedding.tokens.weight"][[0, BOS]].any()


def test_separate_vocabularies_come_back(tmp_path: Path) -> None:
    model = student({"tie_embeddings": "target"})
    write(model, tmp_path)
    found = read(tmp_path, ImportOptions())
    assert found.network == model.network
    for side in ("source", "target"):
        texts = [pair[side == "target"] for pair in PAIRS]
        ours, theirs = getattr(model.tokenizer, side), getattr(found.tokenizer, side)
        assert theirs.encode_batch(texts) == ours.encode_batch(texts)
        assert theirs.decode(theirs.encode(texts[0])) == texts[0]


def test_quantized_models_come_back_bit_identical(tmp_path: Path) -> None:
    folders = [tmp_path / name for name in ("first", "second")]
    for folder in folders:
        folder.mkdir()
    shortlist, _ = build_shortlist(PAIRS, student().tokenizer, ShortlistConfig(frequent=9, per_token=3))
    write(student(compute_type="int8", shortlist=shortlist), folders[0])
    write(exported(read(folders[0], ImportOptions()), compute_type="int8"), folders[1])
    names = sorted(path.name for path in folders[0].iterdir())
    assert names == sorted(path.name for path in folders[1].iterdir())
    for name in names:
        assert (folders[0] / name).read_bytes() == (folders[1] / name).read_bytes(), name


def test_quantized_models_are_near_the_original(tmp_path: Path) -> None:
    model = student(compute_type="int8")
    write(model, tmp_path)
    tensors = read_binary(tmp_path / "model.intgemm8.bin")
    matrices = [name for name, tensor in tensors.items() if isinstance(tensor, Int8Matrix)]
    assert {name for name in matrices if not name.endswith("_QuantMultA")} == {
        name.removesuffix("_QuantMultA") for name in tensors if name.endswith("_QuantMultA")
    } - {"none"}
    found, expected = visible(read(tmp_path, ImportOptions())), visible(model)
    for name, array in found.items():
        assert np.abs(array - expected[name]).max() <= np.abs(expected[name]).max() / 254 * 1.01


def test_activation_multipliers_are_those_of_the_greatest_inputs(tmp_path: Path) -> None:
    model = student(compute_type="int8")
    write(model, tmp_path)
    tensors = read_binary(tmp_path / "model.intgemm8.bin")
    embedding = model.weights["source_embedding.tokens.weight"]
    side = np.arange(8) / 7  # rates 10000^(-i / 7) of 16 features
    greatest = []
    for source, _ in PAIRS:
        ids = [*model.tokenizer.source.encode(source), EOS]
        angles = np.arange(len(ids))[:, None] * 10000.0**-side
        greatest.append(np.abs(4 * embedding[ids] + np.concatenate([np.sin(angles), np.cos(angles)], axis=1)).max())
    expected = 127 / (np.mean(greatest) + 1.1 * np.std(greatest))
    found = tensors["encoder_l1_self_Wq_QuantMultA"]
    assert isinstance(found, np.ndarray)
    assert found.item() == pytest.approx(expected, rel=1e-5)


def test_shortlists_have_the_same_candidates(tmp_path: Path) -> None:
    model = student()
    shortlist, _ = build_shortlist(PAIRS, model.tokenizer, ShortlistConfig(frequent=9, per_token=3))
    write(replace(model, shortlist=shortlist), tmp_path)
    theirs = read_shortlist(tmp_path / "lex.s2t.bin")
    found = read(tmp_path, ImportOptions())
    order = found.origin.orders["target"]
    assert found.shortlist is not None
    for source, _ in PAIRS:
        ids = [*model.tokenizer.source.encode(source), EOS]
        ours = set(shortlist.tokens_for(ids).tolist()) | {*ids}
        filled = set(found.shortlist.tokens_for(ids).tolist())
        assert ours <= filled
        assert len(filled) < len(ours) + 8
        candidates = theirs.candidates(order.foreign_ids[ids].tolist())
        assert {order.our_ids[one] for one in candidates} >= ours - {0, BOS}
        assert len(candidates) - len(ours) < 8  # up to a multiple of 8


def test_npz_files_hold_the_same_model(tmp_path: Path) -> None:
    model = student({"decoder_layer": "self_attention"})
    write(model, tmp_path)
    tensors = read_binary(tmp_path / "model.float32.bin")
    write_npz(tmp_path / "model.npz", tensors)
    expected = read(tmp_path / "model.float32.bin", ImportOptions())
    (tmp_path / "decoder.yml").unlink()
    found = read(tmp_path / "model.npz", ImportOptions())
    assert found.network == expected.network
    assert all(np.array_equal(array, expected.weights[name]) for name, array in found.weights.items())


def test_vocabularies_in_yaml_number_the_pieces(tmp_path: Path) -> None:
    model = student({"tie_embeddings": "target"})
    write(model, tmp_path)
    for old, new in (("srcvocab", "source"), ("trgvocab", "target")):
        (tmp_path / f"{old}.spm").rename(tmp_path / f"{new}.spm")
        pieces = sentencepiece.SentencePieceProcessor(model_file=str(tmp_path / f"{new}.spm"))
        lines = [f"{pieces.id_to_piece(index)!r}: {index}\n" for index in range(len(pieces))]
        (tmp_path / f"{new}.vocab.yml").write_text("".join(lines), encoding="utf-8")
    decoder = (
        "models: [model.float32.bin]\nvocabs: [/home/me/source.vocab.yml, /home/me/target.vocab.yml]\nbeam-size: 6\n"
    )
    (tmp_path / "decoder.yml").write_text(decoder, encoding="utf-8")
    found = read(tmp_path / "decoder.yml", ImportOptions())
    texts = [target for _, target in PAIRS]
    assert found.tokenizer.target.encode_batch(texts) == model.tokenizer.target.encode_batch(texts)
    assert found.decoding.beam_size == 6


def test_tags_in_the_vocabulary_name_the_target_language(tmp_path: Path) -> None:
    model = student({"tie_embeddings": "target"})
    write(model, tmp_path)
    for old, new in (("srcvocab", "source"), ("trgvocab", "target")):
        (tmp_path / f"{old}.spm").rename(tmp_path / f"{new}.spm")
        pieces = sentencepiece.SentencePieceProcessor(model_file=str(tmp_path / f"{new}.spm"))
        names = [pieces.id_to_piece(index) for index in range(len(pieces))]
        names[-2:] = [">>fra<<", ">>ron<<"]
        lines = [f"{name!r}: {index}\n" for index, name in enumerate(names)]
        (tmp_path / f"{new}.vocab.yml").write_text("".join(lines), encoding="utf-8")
    decoder = "models: [model.float32.bin]\nvocabs: [source.vocab.yml, target.vocab.yml]\n"
    (tmp_path / "decoder.yml").write_text(decoder, encoding="utf-8")
    found = read(tmp_path / "decoder.yml", ImportOptions(target_language="ron"))
    direction, order = found.tokenizer.prefixes.resolve(), found.origin.orders["source"]
    assert order.foreign_ids[list(direction.source)].tolist() == [order.size - 1]
    assert set(found.tokenizer.prefixes.languages) == {"fra", "ron"}


def test_languages_describe_a_model_without_tags(tmp_path: Path) -> None:
    write(student(), tmp_path)
    prefixes = read(tmp_path, ImportOptions("en", "de")).tokenizer.prefixes
    assert prefixes.resolve("en", "de").source == ()
    with pytest.raises(ConfigError, match="target_language = 'fr' is no language of this model"):
        prefixes.resolve("en", "fr")


def test_folders_and_files_are_recognized(tmp_path: Path) -> None:
    write(student(), tmp_path)
    for source in (tmp_path, tmp_path / "decoder.yml", tmp_path / "model.float32.bin"):
        assert recognize_format(source) is PARTNERS["marian"]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("type: transformer", "type: s2s", "type = .?s2s.? is not supported"),
        ("dec-cell: ssru", "dec-cell: gru", "dec-cell is gru"),
        ("transformer-postprocess: dan", "transformer-postprocess: dhn", "neither norms"),
        ("transformer-ffn-activation: relu", "transformer-ffn-activation: gelu", "relu or swish"),
        ("enc-depth: 2", "enc-depth: 3", "are missing"),
        ("dec-depth: 2", "dec-depth: 1", "would not be used"),
        ("transformer-heads: 2", "transformer-heads: [2]", "give no network"),
        ("dim-emb: 16", "dim-emb: 32", "the configuration needs"),
    ],
)
def test_other_networks_are_refused(tmp_path: Path, old: str, new: str, message: str) -> None:
    write(student(), tmp_path)
    tensors = read_binary(tmp_path / "model.float32.bin")
    settings = tensors[SETTINGS]
    assert isinstance(settings, np.ndarray)
    text = settings.tobytes()
    assert old.encode() in text
    changed = np.frombuffer(text.replace(old.encode(), new.encode()), np.int8)
    write_binary(tmp_path / "model.float32.bin", {**tensors, SETTINGS: changed})
    with pytest.raises((ConfigError, DataError), match=message):
        read(tmp_path, ImportOptions())


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (
            {"norm_epsilon": None},
            r"model.norm_epsilon is 1e-05, and Marian has norm_epsilon = 1e-06 alone. Train with --set",
        ),
        ({"positions": {"kind": "sinusoidal"}}, "student-tiny"),
        ({"start_embedding": "learned"}, "start_embedding"),
        ({"activation": "gelu"}, "relu and silu"),
        ({"norm_position": "pre", "decoder_layer": "self_attention"}, "SSRU decoder"),
        ({"positions": {"kind": "learned"}}, "student-tiny"),
    ],
)
def test_networks_that_marian_lacks_are_refused(tmp_path: Path, changed: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        write(student(changed), tmp_path)


def test_other_tokenizers_are_refused(tmp_path: Path) -> None:
    tokenizer = Tokenizer.train(lambda: PAIRS, BpeConfig(vocab_size=300))
    with pytest.raises(ConfigError, match=r"tokenizer\.kind=unigram"):
        write(replace(student(), tokenizer=tokenizer), tmp_path)


def test_vocabulary_of_another_model_is_refused(tmp_path: Path) -> None:
    write(student(), tmp_path)
    tensors = read_binary(tmp_path / "model.float32.bin")
    embedding = tensors["Wemb"]
    assert isinstance(embedding, np.ndarray)
    write_binary(tmp_path / "model.float32.bin", {**tensors, "Wemb": embedding[:-5]})
    with pytest.raises(DataError, match="Do the files belong together"):
        read(tmp_path, ImportOptions())


def test_shortlist_of_another_vocabulary_is_refused(tmp_path: Path) -> None:
    model = student()
    size = len(model.tokenizer.source)
    everything = np.arange(size, dtype=np.int32)
    write(replace(model, shortlist=Shortlist(everything, everything, np.ones(size, np.int32))), tmp_path)
    other = tmp_path / "other"
    other.mkdir()
    write(student({"d_ff": 8}), other)
    list_file = (tmp_path / "lex.s2t.bin").read_bytes()
    small = Tokenizer.train(lambda: PAIRS[:1], UnigramConfig(vocab_size=300))
    sizes = len(small.source)
    network = model.network
    assert isinstance(network, EncoderDecoderConfig)
    module = build_network(network, source_vocabulary=sizes, target_vocabulary=sizes)
    weights = {name: tensor.numpy() for name, tensor in get_weights(module).items()}
    third = tmp_path / "third"
    third.mkdir()
    write(replace(model, tokenizer=small, weights=weights, shortlist=shortlist_of(sizes)), third)
    (third / "lex.s2t.bin").write_bytes(list_file)
    with pytest.raises(DataError, match="Do the files belong together"):
        read(third, ImportOptions())


def shortlist_of(size: int) -> Shortlist:
    everything = np.arange(size, dtype=np.int32)
    return Shortlist(everything, everything, np.ones(size, np.int32))


def test_fine_tuned_import_is_exported_with_new_multipliers(tmp_path: Path) -> None:
    folders = [tmp_path / name for name in ("first", "second")]
    for folder in folders:
        folder.mkdir()
    write(student(compute_type="int8"), folders[0])
    model = exported(read(folders[0], ImportOptions()), compute_type="int8")
    generator = np.random.default_rng(0)
    tuned = {
        name: array + generator.normal(0, 0.01, array.shape).astype(np.float32) if ".norm." not in name else array
        for name, array in model.weights.items()
    }
    tuned["source_embedding.tokens.weight"][BOS] = 0
    write(replace(model, weights=tuned, origin=None, texts=lambda: PAIRS), folders[1])
    found = read(folders[1], ImportOptions())
    assert (folders[0] / "vocab.spm").read_bytes() == (folders[1] / "vocab.spm").read_bytes()
    for name, array in visible(found).items():
        expected = visible(replace(model, weights=tuned))[name]
        assert np.abs(array - expected).max() <= np.abs(expected).max() / 254 * 1.01, name
    old, new = (read_binary(folder / "model.intgemm8.bin")["none_QuantMultA"] for folder in folders)
    assert isinstance(old, np.ndarray)
    assert isinstance(new, np.ndarray)
    assert old.item() != new.item()


def test_multipliers_that_are_no_numbers_are_refused(tmp_path: Path) -> None:
    write(student(compute_type="int8"), tmp_path)
    tensors = read_binary(tmp_path / "model.intgemm8.bin")
    write_binary(
        tmp_path / "model.intgemm8.bin", {**tensors, "none_QuantMultA": np.full((1, 1), np.nan, dtype=np.float32)}
    )
    with pytest.raises(DataError, match="no positive number"):
        read(tmp_path, ImportOptions())


def test_decoder_settings_that_json_lacks_are_left_out(tmp_path: Path) -> None:
    write(student(), tmp_path)
    with (tmp_path / "decoder.yml").open("a", encoding="utf-8") as file:
        file.write("log: 2026-01-31\nseed: .inf\n")
    found = read(tmp_path, ImportOptions()).origin.documents["decoder"]
    assert found.keys().isdisjoint({"log", "seed"})
    assert found["models"] == ["model.float32.bin"]
