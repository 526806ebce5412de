"""Keys of Marian: all options of its decoder are listed, and a key that nobody listed stops an import."""

from pathlib import Path

import pytest

from dragoman.errors import ConfigError
from dragoman.interop.imported_model import ImportOptions
from dragoman.interop.marian.model_keys import DECODER_KEYS, FIXED, MODEL_KEYS
from dragoman.interop.marian.model_settings import from_network
from dragoman.interop.marian.read_model import read
from dragoman.interop.marian.write_model import write
from tests.marian_students import student

OPTIONS = Path(__file__).with_name("decoder_options.txt").read_text(encoding="utf-8").split()
"""Options that `pymarian.help("decode")` of pymarian 1.12.42 shows."""


def test_every_option_of_marian_is_listed() -> None:
    assert len(OPTIONS) > 120
    assert set(OPTIONS) - DECODER_KEYS.keys() == set()
    model = student().network
    written = from_network(model, source_vocabulary=9, target_vocabulary=9)
    assert {*written, *FIXED} - MODEL_KEYS.keys() == set()


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("word-penalty: 0.5", "word-penalty = 0.5 is not supported, but 0 is"),
        ("output-sampling: [full, 1.0]", "output-sampling"),
        ("sampling-temperature: 2", "sampling-temperature.? = 2 is unknown.*--allow-unused"),
        ("7: seven", "7.? = .seven. is unknown"),
    ],
)
def test_other_settings_of_the_decoder_stop_an_import(tmp_path: Path, line: str, message: str) -> None:
    write(student(), tmp_path)
    path = tmp_path / "decoder.yml"
    kept = [
        old for old in path.read_text(encoding="utf-8").splitlines() if old.partition(":")[0] != line.partition(":")[0]
    ]
    path.write_text("\n".join([*kept, line]) + "\n", encoding="utf-8")
    with pytest.raises(ConfigError, match=message):
        read(tmp_path, ImportOptions())
    left_out = line.partition(":")[0]
    assert read(tmp_path, ImportOptions(allow_unused=(left_out,))).origin.format == "marian"
