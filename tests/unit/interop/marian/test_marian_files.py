"""Files of Marian: binary models, NumPy archives, shortlists and vocabularies."""

import json
import struct
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from dragoman.errors import DataError
from dragoman.interop.marian.binary_format import SETTINGS, Int8Matrix, read_binary, write_binary
from dragoman.interop.marian.shortlist_format import MAGIC, MarianShortlist, read_shortlist, write_shortlist
from dragoman.interop.marian.shortlist_order import from_marian
from dragoman.interop.marian.vocabulary_files import read_vocabulary
from dragoman.interop.npz_files import read_npz
from dragoman.interop.vocabulary_order import ADDED, VocabularyOrder
from tests.property_settings import damaged_files, examples

FLOATS = arrays.arrays(np.float32, arrays.array_shapes(max_dims=3, max_side=5), elements=st.floats(-9, 9, width=32))
MATRICES = st.builds(
    Int8Matrix,
    arrays.arrays(np.int8, st.tuples(st.integers(1, 7), st.integers(1, 7))),
    st.sampled_from([0.5, 127.0, 153.25]),
)
NAMES = st.sampled_from(["Wemb", "encoder_l1_self_Wq", "decoder_Wemb", "decoder_l2_rnn_W", "none_QuantMultA"])


def equal(left: object, right: object) -> bool:
    if isinstance(left, Int8Matrix) and isinstance(right, Int8Matrix):
        return left.multiplier == right.multiplier and np.array_equal(left.values, right.values)
    return isinstance(left, np.ndarray) and isinstance(right, np.ndarray) and np.array_equal(left, right)


@examples(50)
@given(st.dictionaries(NAMES, FLOATS | MATRICES, min_size=1))
def test_binary_files_are_read_as_written(tmp_path_factory, tensors) -> None:
    path = tmp_path_factory.mktemp("binary") / "model.bin"
    write_binary(path, tensors)
    found = read_binary(path)
    assert list(found) == sorted(tensors)
    assert all(equal(found[name], tensor) for name, tensor in tensors.items())


def binary_file(*, kind: int = 0x4101, shape: tuple[int, ...] = (2, 3), data: bytes | None = None) -> bytes:
    """A file with one tensor, spelled out byte by byte: integers 1 to 6 of a matrix that is stored transposed."""
    data = bytes([1, 4, 2, 5, 3, 6]) + struct.pack("<f", 2.0) if data is None else data
    head = struct.pack("<2Q4Q", 1, 1, 2, kind, len(shape), len(data)) + b"W\0" + struct.pack(f"<{len(shape)}i", *shape)
    padding = -(len(head) + 8) % 256
    return head + struct.pack("<Q", padding) + bytes(padding) + data


def test_quantized_matrices_are_stored_transposed(tmp_path: Path) -> None:
    (tmp_path / "model.bin").write_bytes(binary_file())
    found = read_binary(tmp_path / "model.bin")["W"]
    assert isinstance(found, Int8Matrix)
    assert found.values.tolist() == [[1, 2, 3], [4, 5, 6]]
    assert found.dequantize().tolist() == [[0.5, 1.0, 1.5], [2.0, 2.5, 3.0]]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "damaged"),
        (struct.pack("<2Q", 2, 1) + bytes(99), "version 2"),
        (struct.pack("<2Q", 1, 2**60), "do not fit"),
        (binary_file(shape=(2**30, 2**30)), "more bytes than it has"),
        (binary_file(shape=(-2, 3)), "has the shape"),
        (binary_file(kind=0x1801), "packed8avx2"),
        (binary_file(kind=0x404), "more bytes than it has"),
        (binary_file()[:-4], "it has"),
        (binary_file(data=bytes(6) + struct.pack("<f", float("nan"))), "valid shape or multiplier"),
    ],
)
def test_damaged_binary_files_are_refused(tmp_path: Path, content: bytes, message: str) -> None:
    (tmp_path / "model.bin").write_bytes(content)
    with pytest.raises(DataError, match=message):
        read_binary(tmp_path / "model.bin")


def test_npz_files_are_read_as_numpy_wrote_them(tmp_path: Path) -> None:
    settings = np.frombuffer(b"type: transformer\n\0", np.int8)
    matrix = np.arange(6, dtype=np.float32).reshape(2, 3)
    for save in (np.savez, np.savez_compressed):
        save(tmp_path / "model.npz", **{SETTINGS: settings, "W": matrix, "by_columns": np.asfortranarray(matrix)})
        found = read_npz(tmp_path / "model.npz")
        assert np.array_equal(found[SETTINGS], settings)
        assert np.array_equal(found["W"], matrix)
        assert np.array_equal(found["by_columns"], matrix)


def test_npz_files_with_objects_are_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / "model.npz", W=np.array([{"a": 1}], dtype=object))
    with pytest.raises(DataError, match="holds 'O', not numbers"):
        read_npz(tmp_path / "model.npz")


def test_npz_arrays_larger_than_their_bytes_are_refused(tmp_path: Path) -> None:
    header = b"{'descr': '<f4', 'fortran_order': False, 'shape': (4000000000, 1000), }"
    content = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + bytes(12)
    with zipfile.ZipFile(tmp_path / "model.npz", "w") as archive:
        archive.writestr("W.npy", content)
    with pytest.raises(DataError, match="another size than its bytes"):
        read_npz(tmp_path / "model.npz")


@st.composite
def shortlists(draw: st.DrawFn) -> MarianShortlist:
    lists = draw(st.lists(st.lists(st.integers(0, 40), max_size=5), min_size=1, max_size=9))
    bounds = np.concatenate([[0], np.cumsum([len(one) for one in lists])]).astype(np.int64)
    ids = np.array([token for one in lists for token in one], dtype=np.int64)
    return MarianShortlist(draw(st.integers(0, 9)), 5, bounds, ids)


@examples(50)
@given(shortlists())
def test_shortlists_are_read_as_written(tmp_path_factory, shortlist) -> None:
    path = tmp_path_factory.mktemp("lex") / "lex.bin"
    write_shortlist(path, shortlist)
    found = read_shortlist(path)
    assert (found.first, found.best) == (shortlist.first, shortlist.best)
    assert np.array_equal(found.offsets, shortlist.offsets)
    assert np.array_equal(found.ids, shortlist.ids)


@examples(50)
@given(shortlists(), st.lists(st.integers(2, 40), max_size=6))
def test_candidates_are_those_of_marian(shortlist, source) -> None:
    shortlist = replace(shortlist, first=shortlist.first + 2)  # every shortlist of Marian begins with both symbols
    order = VocabularyOrder(64, unk=1, eos=0)
    ours = from_marian(shortlist, source=order, target=order, shared=True, where="lex.bin")
    found = ours.tokens_for(order.our_ids[source].tolist())
    foreign = {int(order.foreign_ids[index]) for index in found} - {ADDED}
    assert foreign == shortlist.candidates([*source, 0])
    assert len(foreign) % 8 == 0


def test_checksum_of_shortlists_is_checked(tmp_path: Path) -> None:
    body = struct.pack("<4Q2QI", 1, 1, 2, 1, 0, 1, 7)
    seed = 0
    for word in struct.unpack_from("<6Q", body):  # boost::hash_combine; the last four bytes are no word
        seed ^= (word + 0x9E3779B9 + (seed << 6) + (seed >> 2)) & (2**64 - 1)
    (tmp_path / "lex.bin").write_bytes(struct.pack("<2Q", MAGIC, seed) + body)
    assert read_shortlist(tmp_path / "lex.bin").candidates([0]) == {0, 7, 1, 2, 3, 4, 5, 6}
    (tmp_path / "lex.bin").write_bytes(struct.pack("<2Q", MAGIC, seed ^ 1) + body)
    with pytest.raises(DataError, match="checksum"):
        read_shortlist(tmp_path / "lex.bin")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "damaged"),
        (struct.pack("<6Q", 1, 0, 1, 1, 1, 0) + bytes(8), "no shortlist of Marian"),
        (struct.pack("<6Q", MAGIC, 0, 1, 1, 2**61, 0), "do not hold"),
        (struct.pack("<6Q2Q", MAGIC, 0, 1, 1, 2, 0, 5, 3), "not in order"),
    ],
)
def test_damaged_shortlists_are_refused(tmp_path: Path, content: bytes, message: str) -> None:
    (tmp_path / "lex.bin").write_bytes(content)
    with pytest.raises(DataError, match=message):
        read_shortlist(tmp_path / "lex.bin")


def test_tokens_of_yaml_vocabularies_are_texts(tmp_path: Path) -> None:
    lines = [
        '"</s>": 0',
        '"<unk>": 1',
        "no: 2",
        "1.0: 3",
        "~: 4",
        "'it''s': 5",
        r'"\"": 6',
        r'"\x41\u00e9\\": 7',
        "a: b: 8",
    ]
    (tmp_path / "vocab.yml").write_text("\n".join(lines) + "\n", encoding="utf-8")
    tokens = ["</s>", "<unk>", "no", "1.0", "~", "it's", '"', "Aé\\", "a: b"]
    assert read_vocabulary(tmp_path / "vocab.yml") == {token: index for index, token in enumerate(tokens)}


WORDS = st.text(st.characters(max_codepoint=0xFFFF, exclude_categories=["Cs"]), min_size=1, max_size=4)


@examples(100)
@given(st.lists(WORDS, min_size=1, unique=True))
def test_yaml_vocabularies_equal_those_of_a_yaml_library(tmp_path_factory, tokens) -> None:
    path = tmp_path_factory.mktemp("vocab") / "vocab.yml"
    text = "".join(f"{json.dumps(token)}: {index}\n" for index, token in enumerate(tokens))
    path.write_text(text, encoding="utf-8")
    expected = yaml.load(text, Loader=yaml.BaseLoader)  # gives texts alone
    assert {token: str(index) for token, index in read_vocabulary(path).items()} == expected


@pytest.mark.parametrize(
    "content", ['"a": 0\n"a": 1\n', '"a": 0\n"b": 0\n', '"a": 9999999\n', '"a"\n', "", '{"a": [1]}']
)
def test_invalid_vocabularies_are_refused(tmp_path: Path, content: str) -> None:
    (tmp_path / "vocab.yml").write_text(content, encoding="utf-8")
    with pytest.raises(DataError, match="damaged"):
        read_vocabulary(tmp_path / "vocab.yml")


CONTENTS = {
    "model.bin": (read_binary, binary_file()),
    "lex.bin": (read_shortlist, struct.pack("<6Q2QI", MAGIC, 0, 1, 1, 2, 1, 0, 1, 7)),
    "vocab.yml": (read_vocabulary, b'"</s>": 0\n"<unk>": 1\nno: 2\n'),
}


@pytest.mark.parametrize("name", [*CONTENTS, "model.npz"])
def test_changed_bytes_give_a_result_or_an_error(tmp_path: Path, name: str) -> None:
    np.savez(tmp_path / "model.npz", W=np.ones((2, 3), np.float32))
    read, content = CONTENTS.get(name) or (read_npz, (tmp_path / name).read_bytes())
    edits = st.lists(st.tuples(st.integers(0, 2**16), st.integers(0, 255), st.booleans()), min_size=1, max_size=4)

    @damaged_files(200)
    @given(edits)
    def check(edits: list[tuple[int, int, bool]]) -> None:
        changed = bytearray(content)
        for place, byte, cut in edits:
            changed[place % len(changed)] = byte
            if cut and byte > 200:
                del changed[1 + place % len(changed) :]
        (tmp_path / name).write_bytes(changed)
        try:
            read(tmp_path / name)
        except DataError as error:
            assert name in str(error)  # noqa: PT017

    check()
