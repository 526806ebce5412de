"""Folders of fairseq from strangers, and networks that dragoman does not compute."""

import argparse
from pathlib import Path
from typing import Any

import pytest
import torch

from dragoman.errors import ConfigError, DataError
from dragoman.interop.fairseq.dictionary_files import read_dictionary
from dragoman.interop.fairseq.partner import read, recognizes
from dragoman.interop.imported_model import ImportOptions
from tests.fairseq_models import settings, write_folder


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"arch": "transformer_lm_big"}, "arch is 'transformer_lm_big'"),
        ({"arch": "fconv"}, "arch is 'fconv'"),
        ({"task": "multilingual_translation"}, "task is 'multilingual_translation'"),
        ({"adaptive_input": True}, "adaptive_input = True"),
        ({"decoder_ffn_embed_dim": 64}, "decoder_ffn_embed_dim is 64"),
        ({"decoder_output_dim": 7}, "decoder_output_dim is 7"),
        ({"activation_fn": "tanh"}, r"activation_fn = .?tanh.? is not supported, but .relu. or .gelu. or"),
        ({"use_factorized_embedding": True}, "use_factorized_embedding = True"),
        ({"merge_src_tgt_embed": True}, "merge_src_tgt_embed = True"),
        ({"encoder_conv_layers": 2}, "encoder_conv_layers.? = 2 is unknown.*--allow-unused"),
        ({"encoder_layers": None}, "encoder_layers"),
        ({"encoder_layers": 10**9}, "encoder_layers"),
        ({"max_source_positions": "many"}, "max_source_positions"),
    ],
)
def test_other_networks_are_refused(changed: dict[str, Any], message: str, tmp_path: Path) -> None:
    write_folder(tmp_path, settings())
    content = torch.load(tmp_path / "checkpoint_best.pt", weights_only=False)
    content["args"] = argparse.Namespace(**settings(**changed))
    torch.save(content, tmp_path / "checkpoint_best.pt")
    with pytest.raises((ConfigError, DataError), match=message):
        read(tmp_path, ImportOptions())


def test_tensors_of_more_layers_are_not_ignored(tmp_path: Path) -> None:
    write_folder(tmp_path, settings(decoder_layers=2))
    content = torch.load(tmp_path / "checkpoint_best.pt", weights_only=False)
    content["args"].decoder_layers = 1
    torch.save(content, tmp_path / "checkpoint_best.pt")
    with pytest.raises(DataError, match=r"26 tensors would not be used \(decoder\.layers\.1\."):
        read(tmp_path, ImportOptions())


def test_dictionaries_are_found_by_language(tmp_path: Path) -> None:
    write_folder(tmp_path, settings(source_lang=None, target_lang=None))
    with pytest.raises(DataError, match="Give --source-language and --target-language"):
        read(tmp_path, ImportOptions())
    found = read(tmp_path, ImportOptions(source_language="en", target_language="de"))
    assert len(found.tokenizer.source) < len(found.tokenizer.target)
    for name in ("../../en", "/etc/passwd", "."):
        with pytest.raises(DataError):
            read(tmp_path, ImportOptions(source_language=name, target_language="de"))


def test_dictionary_of_another_size_is_refused(tmp_path: Path) -> None:
    write_folder(tmp_path, settings())
    with (tmp_path / "dict.de.txt").open("a") as file:
        file.write("mehr 3\n")
    with pytest.raises(DataError, match="has 14 rows, and the vocabulary 15 symbols"):
        read(tmp_path, ImportOptions())


@pytest.mark.parametrize("content", ["word\n", "word x\n", "word 3\nword 4\n", " 3\n", "<unk> 3\n", "a 3\n\nb 3\n"])
def test_invalid_dictionaries_are_refused(content: str, tmp_path: Path) -> None:
    path = tmp_path / "dict.en.txt"
    path.write_text(content)
    with pytest.raises(DataError, match="damaged"):
        read_dictionary(path)


def test_repeated_symbols_may_be_marked(tmp_path: Path) -> None:
    path = tmp_path / "dict.en.txt"
    path.write_text("<unk> 7 #fairseq:overwrite\na 3\n")
    assert read_dictionary(path) == ("<s>", "<pad>", "</s>", "<unk>", "a")


def test_links_are_refused(tmp_path: Path) -> None:
    write_folder(tmp_path / "model", settings())
    outside = (tmp_path / "model" / "dict.de.txt").rename(tmp_path / "outside.txt")
    (tmp_path / "model" / "dict.de.txt").symlink_to(outside)
    with pytest.raises(DataError, match="symbolic link"):
        read(tmp_path / "model", ImportOptions())


def test_giant_files_are_refused(tmp_path: Path) -> None:
    write_folder(tmp_path, settings())
    with (tmp_path / "dict.de.txt").open("r+b") as file:
        file.truncate(10 * 2**30)
    with pytest.raises(DataError, match="larger than"):
        read(tmp_path, ImportOptions())


def test_other_folders_are_not_recognized(tmp_path: Path) -> None:
    write_folder(tmp_path / "model", settings())
    assert recognizes(tmp_path / "model")
    assert recognizes(tmp_path / "model" / "checkpoint_best.pt")
    (tmp_path / "model" / "checkpoint_best.pt").write_bytes(b"no checkpoint")
    assert not recognizes(tmp_path / "model")
    assert not recognizes(tmp_path)
