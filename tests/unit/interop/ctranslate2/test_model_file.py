"""Files of CTranslate2 are read up to their end, and refused before memory is allocated for false claims."""

import struct

import pytest
import torch

from dragoman.errors import RunError
from dragoman.interop.ctranslate2.model_file import ModelFile, is_model_file, read_model_file, write_model_file
from dragoman.interop.ctranslate2.quantization import dequantize_weights, quantize_weight

VARIABLES = {
    "a/weight": torch.arange(6, dtype=torch.float32).reshape(2, 3),
    "b": torch.tensor(7, dtype=torch.int16),
    "c/weight": torch.tensor([[1, -128]], dtype=torch.int8),
    "c/weight_scale": torch.tensor([4.0]),
    "d": torch.tensor([1.5], dtype=torch.bfloat16),
}


def string(text: bytes) -> bytes:
    return struct.pack("<H", len(text) + 1) + text + b"\0"


def header(version: int, count: int = 1, spec: bytes = b"TransformerSpec") -> bytes:
    return struct.pack("<I", version) + string(spec) + struct.pack("<II", 7, count)


def variable(sizes: tuple[int, ...], kind: int, claimed: int, data: bytes = b"") -> bytes:
    return string(b"a") + struct.pack(f"<B{len(sizes)}IBI", len(sizes), *sizes, kind, claimed) + data


def test_written_files_are_read(tmp_path):
    write_model_file(tmp_path / "model.bin", ModelFile("TransformerSpec", 7, VARIABLES, {"e": "a/weight"}))
    found = read_model_file(tmp_path / "model.bin")
    assert (found.spec, found.revision, found.version, found.aliases) == ("TransformerSpec", 7, 6, {"e": "a/weight"})
    assert list(found.variables) == list(VARIABLES)
    for name, tensor in VARIABLES.items():
        assert found.variables[name].dtype == tensor.dtype
        assert torch.equal(found.variables[name], tensor)


@pytest.mark.parametrize(
    ("content", "is_known"),
    [
        (header(2), True),
        (header(99), True),
        (b"", False),
        (struct.pack("<QQ", 1, 200), False),
        (b"PK\x03\x04" + b"\0" * 10, False),
        (struct.pack("<IH", 6, 0), False),
    ],
)
def test_files_are_recognized_by_their_first_bytes(content, is_known, tmp_path):
    (tmp_path / "model.bin").write_bytes(content)
    assert is_model_file(tmp_path / "model.bin") == is_known
    assert not is_model_file(tmp_path / "other.bin")


def test_aliases_name_the_scale_too():
    found = ModelFile("", 1, VARIABLES, {"e/weight": "c/weight"}).resolve()
    assert torch.equal(found["e/weight_scale"], VARIABLES["c/weight_scale"])


def test_old_versions_have_item_sizes_and_no_aliases(tmp_path):
    path = tmp_path / "model.bin"
    path.write_bytes(header(2) + variable((2,), 2, 2, struct.pack("<hh", 5, -6)))
    found = read_model_file(path)
    assert found.variables["a"].tolist() == [5, -6]
    assert found.variables["a"].dtype == torch.int16


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "ends 4 bytes too early"),
        (struct.pack("<I", 1), "its version is 1"),
        (struct.pack("<I", 7), "its version is 7"),
        (struct.pack("<I", 2) + b"\xff\xffa", "too early"),
        (struct.pack("<I", 2) + b"\x00\x00", "does not end with a zero"),
        (header(6, count=2**32 - 1), "claims 4,294,967,295 variables"),
        (header(6, count=40_000), "claims 40,000 variables"),
        (header(6) + variable((2**32 - 1, 2**32 - 1), 0, 16, b"\0" * 16), "claims 16 bytes"),
        (header(6) + variable((2**30,), 0, 2**32 - 1), "claims 4,294,967,295 bytes"),
        (header(6) + variable((2**29,), 0, 2**31), "too early"),
        (header(6) + variable((1,), 6, 4, b"\0" * 4), "unknown number format 6"),
        (header(2) + variable((1,), 8, 1, b"\0" * 8), "unknown number format 8"),
        (header(6) + string(b"a") + b"\xff" + b"\0" * 30, "has 255 dimensions"),
        (header(6) + string(b"\xff") + b"\0" * 30, "utf-8"),
        (header(6, count=2) + variable((1,), 1, 1, b"\0") * 2 + b"\0" * 4, "holds the variable 'a' twice"),
        (header(6) + variable((1,), 1, 1, b"\0") + struct.pack("<I", 2**31), "claims 2,147,483,648 aliases"),
        (
            header(6) + variable((1,), 1, 1, b"\0") + struct.pack("<I", 1) + string(b"x") + string(b"y"),
            "no valid alias",
        ),
        (header(6) + variable((1,), 1, 1, b"\0") + struct.pack("<I", 0) + b"!", "1 bytes follow its end"),
    ],
)
def test_false_claims_are_refused(content, message, tmp_path):
    path = tmp_path / "model.bin"
    path.write_bytes(content)
    with pytest.raises(RunError, match=message):
        read_model_file(path)


@pytest.mark.parametrize(("number_format", "error"), [("int8", 1 / 254), ("int16", 1 / 2048), ("bfloat16", 1 / 256)])
def test_quantized_weights_are_close(number_format, error):
    weight = torch.randn(5, 7, generator=torch.Generator().manual_seed(0)).numpy()
    stored = quantize_weight("w", weight, number_format)
    found, formats = dequantize_weights(stored, where="here")
    assert formats == {"w": number_format}
    assert abs(found["w"] - weight).max() <= error * abs(weight).max() * 1.001
    again = quantize_weight("w", found["w"], number_format)
    assert torch.equal(again["w"], stored["w"])


def test_rows_of_zeros_have_a_scale():
    stored = quantize_weight("w", torch.zeros(2, 3).numpy(), "int8")
    assert stored["w_scale"].tolist() == [1.0, 1.0]
    assert dequantize_weights(stored, where="here")[0]["w"].tolist() == [[0.0] * 3] * 2
