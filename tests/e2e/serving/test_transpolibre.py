"""A PO file translated by the published program transpolibre, which speaks the interface of LibreTranslate."""

import subprocess
import sys

import polib
import pytest

from tests.running_server import RunningServer
from tests.small_runs import dragoman

CONTENT = """\
msgid ""
msgstr "Content-Type: text/plain; charset=UTF-8\\n"

msgid "two dogs play ."
msgstr ""

#, python-format
msgid "the sea has %(count)d cats"
msgstr ""

msgid "a cat"
msgstr "eine Katze"

msgid "see `the sea <https://example.org/>`_"
msgstr ""

msgid "write to <a@example.org>"
msgstr ""
"""


@pytest.fixture(scope="module")
def messages(server: RunningServer, tmp_path_factory) -> dict[str, str]:
    """Translations in the file by their messages."""
    folder = tmp_path_factory.mktemp("po")
    (folder / "de.po").write_text(CONTENT, encoding="utf-8")
    run = [sys.executable, "-c", "from transpolibre.main import main; main()"]
    subprocess.run([*run, "-u", server.url, "-s", "en", "-t", "de", "-f", "de.po"], cwd=folder, check=True, timeout=120)
    return {one.msgid: one.msgstr for one in polib.pofile(str(folder / "de.po"))}


@pytest.mark.parametrize("message", ["two dogs play .", "the sea has %(count)d cats"])
def test_messages_are_translated_as_by_the_command_line(messages, models, message):
    assert messages[message] == dragoman("translate", "en-de", "--text", message, cwd=models).stdout.rstrip("\n")


def test_links_keep_their_address_and_addresses_stay(messages, models):
    link = dragoman("translate", "en-de", "--text", "the sea", cwd=models).stdout.rstrip("\n")
    assert messages["see `the sea <https://example.org/>`_"] == f"see `{link} <https://example.org/>`_"
    assert messages["write to <a@example.org>"] == "write to <a@example.org>"


def test_translated_messages_stay(messages):
    assert messages["a cat"] == "eine Katze"
