"""Models of the package g2p-en: spelling to phonemes by a recurrent encoder-decoder without attention.

The checkpoint `checkpoint20.npz` holds one GRU for each side (Cho et al., 2014) with the gates in PyTorch's order. The
encoder reads the letters of a word from left to right, and its final state begins the decoder.
"""

import json
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from dragoman.data.tokenizers import ImportedTokenizer, ImportedTokenizerConfig, Tokenizer, tokenizer_from_json
from dragoman.decoding.config import DecodingConfig
from dragoman.errors import DataError
from dragoman.interop.hub.file_patterns import FilePatterns
from dragoman.interop.imported_model import ImportedModel, ImportOptions, Origin, network_shapes
from dragoman.interop.npz_files import read_npz
from dragoman.interop.tensor_names import TensorPair, TensorTable
from dragoman.interop.vocabulary_order import VocabularyOrder
from dragoman.models.recurrent.config import NoAttentionConfig, RecurrentConfig, RecurrentDropoutConfig

LETTERS: Final = ("<pad>", "<unk>", "</s>", *"abcdefghijklmnopqrstuvwxyz")
_CONSONANTS: Final = (
    *("B", "CH", "D", "DH", "F", "G", "HH", "JH", "K", "L", "M", "N"),
    *("NG", "P", "R", "S", "SH", "T", "TH", "V", "W", "Y", "Z", "ZH"),
)
_VOWELS: Final = ["AA", "AE", "AH", "AO", "AW", "AY", "EH", "ER", "EY", "IH", "IY", "OW", "OY", "UH", "UW"]
_STRESSED: Final = [vowel + stress for vowel in _VOWELS for stress in "012"]
PHONEMES: Final = ("<pad>", "<unk>", "<s>", "</s>", *sorted([*_CONSONANTS, *_STRESSED, "UW"]))
"""Phonemes of the CMU Pronouncing Dictionary, vowels with their stress."""
_ORDERS: Final = {
    "source": VocabularyOrder(len(LETTERS), pad=0, unk=1, eos=2),
    "target": VocabularyOrder(len(PHONEMES), pad=0, unk=1, bos=2, eos=3),
}
FILES: Final = FilePatterns(weights=(("checkpoint20.npz",),))
_MAX_PHONEMES: Final = 20
"""Most phonemes of a word in the package."""
_GRU: Final = {"weight_ih_l0": "w_ih", "weight_hh_l0": "w_hh", "bias_ih_l0": "b_ih", "bias_hh_l0": "b_hh"}
_TABLE: Final = TensorTable(
    (
        TensorPair("source_embedding.tokens.weight", "enc_emb", rows="source"),
        TensorPair("target_embedding.tokens.weight", "dec_emb", rows="target"),
        *(
            TensorPair(f"{side}.layers.{{layer}}.layer.{module}", f"{side[:3]}_{foreign}")
            for side in ("encoder", "decoder")
            for module, foreign in _GRU.items()
        ),
        TensorPair("unembedding.weight", "fc_w", rows="target"),
        TensorPair("unembedding.bias", "fc_b", rows="output_bias"),
    )
)


def recognizes(path: Path) -> bool:
    """Return whether a path is a checkpoint of g2p-en, or a folder with one."""
    file = _checkpoint(path)
    if not file.is_file() or not zipfile.is_zipfile(file):
        return False
    try:
        with zipfile.ZipFile(file) as archive:
            return {"enc_emb.npy", "dec_emb.npy", "fc_w.npy"} <= set(archive.namelist())
    except (OSError, ValueError, zipfile.BadZipFile, NotImplementedError):
        return False


def read(path: Path, options: ImportOptions) -> ImportedModel:
    """Read a checkpoint. Raises DataError if it is damaged or of another shape."""
    file = _checkpoint(path)
    arrays = read_npz(file)
    hidden = arrays["dec_w_hh"].shape[-1:] if "dec_w_hh" in arrays else ()
    embedding = arrays["dec_emb"].shape[-1:] if "dec_emb" in arrays else ()
    if not (hidden and embedding and hidden[0] and embedding[0]):
        raise DataError(f"{file}: has no decoder. Give checkpoint20.npz of the package g2p-en.")
    network = RecurrentConfig(
        cell="gru",
        d_model=hidden[0],
        embedding_size=embedding[0],
        scale_embedding=False,
        bidirectional=False,
        bridge="copy",
        attention=NoAttentionConfig(),
        tie_embeddings="none",
        dropout=RecurrentDropoutConfig(),
    )
    sides = {side: len(order) for side, order in _ORDERS.items()}
    shapes = network_shapes(network, source_vocabulary=sides["source"], target_vocabulary=sides["target"])
    weights, account = _TABLE.read(arrays, shapes, where=str(file), orders=_ORDERS, allow_unused=options.allow_unused)
    return ImportedModel(
        task="translation",
        network=network,
        weights=weights,
        tokenizer=Tokenizer(_letters(), _phonemes(), ImportedTokenizerConfig(shared=False)),
        origin=Origin(format="g2p_en", license="Apache-2.0", orders=_ORDERS, files=(file,)),
        tensors=account,
        max_length=1024,
        decoding=DecodingConfig(beam_size=1, max_length=_MAX_PHONEMES),
    )


def _checkpoint(path: Path) -> Path:
    return path / "checkpoint20.npz" if path.is_dir() else path


def _letters() -> ImportedTokenizer:
    """Return the tokenizer of words: lower-case letters without accents, as the package reads them."""
    normalizers = [{"type": "NFD"}, {"type": "StripAccents"}, {"type": "Lowercase"}]
    each = {"type": "Split", "pattern": {"Regex": r"[\s\S]"}, "behavior": "Isolated", "invert": False}
    return _tokenizer(LETTERS, {"type": "Sequence", "normalizers": normalizers}, each, _ORDERS["source"])


def _phonemes() -> ImportedTokenizer:
    """Return the tokenizer of phonemes, separated by spaces."""
    return _tokenizer(PHONEMES, None, {"type": "WhitespaceSplit"}, _ORDERS["target"])


def _tokenizer(
    symbols: Sequence[str], normalizer: object, pre_tokenizer: object, order: VocabularyOrder
) -> ImportedTokenizer:
    vocab = {symbol: number for number, symbol in enumerate(symbols)}
    tree = {
        "version": "1.0",
        "added_tokens": [],
        "normalizer": normalizer,
        "pre_tokenizer": pre_tokenizer,
        "decoder": None,
        "model": {"type": "WordLevel", "vocab": vocab, "unk_token": "<unk>"},
    }
    return tokenizer_from_json(json.dumps(tree), order=order.foreign_ids.tolist())
