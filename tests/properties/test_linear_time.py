"""Every scanner, reader and recognizer of text takes linear time, whatever the text contains."""

import random
import re
import warnings
from itertools import islice
from pathlib import Path

import pytest

import dragoman
from tests.linear_time import MAX_RATIO, SCANNERS, Scanner, growth, units

INPUTS = 4
"""Inputs of a scanner, chosen from its fragments and pairs of them."""
WORST = {
    "html page": ["<a", "</1", "<b>a</b> ", "<select>a</select>"],
    "read_tags html": ['<a" "\'', "<a' '\""],
    "read_tags xml": ['<a" "\'', "<a' '\""],
    "inline html": ["<b>a</b> ", "&nbsp;", '"</a>'],
    "inline xml": ["<b>a</b> ", "&#160;"],
    "plain text": [" ", "\t\u00a0"],
    "srt": [")", "<a"],
    "cut_text": ["あ", "a ", "- "],
    "json": ['"a_one":"a","a_other":"b",'],
    "android": ["<b>a</b>"],
    "xliff": ['<g id="1">a</g>', "<x/>"],
    "find_placeholders": ['"`"+"\' ', "`' ", "*"],
    "number_placeholders": ["%s", "%0", "<b>"],
    "protect_placeholders": ["%s", "{0} a ", "<b>"],
    "icu messages": ["{a,select,other{x}}"],
    "accelerators": [" ", ". "],
    "split_sentences": ["'", "A. "],
    "check_translation": ["@", "a@", "1234 "],
    "words": [".", "-a"],
    "translation memory": ["a", "a b "],
}
"""Inputs that once took quadratic time, or more."""
SINGLE = "finds single characters, or runs of characters of one kind, whatever follows"
SHORT = "reads short names, settings, or lines of the program itself"
EXPRESSIONS: dict[str, tuple[str, ...] | str] = {
    "atomic_files.py": SHORT,
    "cli/escaped_output.py": SINGLE,
    "cli/messages.py": SHORT,
    "cli/verb_command.py": SHORT,
    "config_errors.py": SHORT,
    "data/augmentation/noise.py": SINGLE,
    "data/document_context.py": SINGLE,
    "data/documents/archives/epub.py": ("epub",),
    "data/documents/archives/ooxml.py": ("docx", "pptx"),
    "data/documents/archives/opendocument.py": ("odt", "ods"),
    "data/documents/archives/runs.py": ("docx",),
    "data/documents/archives/spreadsheet.py": ("xlsx", "xlsx sheet"),
    "data/documents/archives/xml_syntax.py": ("docx", "odt"),
    "data/documents/bilingual/gettext_plurals.py": ("po",),
    "data/documents/bilingual/po.py": ("po",),
    "data/documents/bilingual/string_catalog.py": ("xcstrings",),
    "data/documents/inline_codes.py": ("xliff", "android"),
    "data/documents/inline_units.py": ("read_fragment",),
    "data/documents/line_breaks.py": ("line breaks",),
    "data/documents/plural_categories.py": SHORT,
    "data/documents/recognize.py": ("recognize_document",),
    "data/documents/string_tables/columns.py": ("csv", "tsv"),
    "data/documents/string_tables/json_strings.py": ("json",),
    "data/documents/string_tables/key_value_strings.py": ("properties", "strings"),
    "data/documents/string_tables/string_resources.py": ("android",),
    "data/documents/string_tables/yaml_strings.py": ("yaml",),
    "data/documents/text_edits.py": ("json", "po"),
    "data/documents/texts/plain_text.py": ("plain text",),
    "data/documents/texts/subtitles.py": ("srt", "vtt", "cut_text"),
    "data/documents/translation_memory.py": ("translation memory",),
    "data/documents/web/html_page.py": ("html page", "xhtml page"),
    "data/documents/web/markdown.py": ("markdown",),
    "data/documents/web/markdown_inline.py": ("markdown",),
    "data/documents/xml_parser.py": ("xliff",),
    "data/documents/xml_tree.py": ("xliff", "android"),
    "data/markup/html_elements.py": ("html page", "inline html"),
    "data/markup/inline_text.py": ("inline html",),
    "data/markup/place_items.py": ("inline html",),
    "data/markup/tags.py": ("read_tags html", "read_tags xml"),
    "data/markup/token_alignment.py": ("find_atoms",),
    "data/placeholders/accelerators.py": ("accelerators",),
    "data/placeholders/clusters.py": ("number_placeholders",),
    "data/placeholders/icu_messages.py": ("icu messages",),
    "data/placeholders/numbering.py": ("number_placeholders",),
    "data/placeholders/recognition.py": ("find_placeholders",),
    "data/placeholders/stand_ins.py": ("protect_placeholders",),
    "data/readers/conllu.py": SHORT,
    "data/readers/line_reader.py": SHORT,
    "data/readers/parallel.py": SHORT,
    "data/readers/recognize_format.py": SHORT,
    "data/terminology/glossary.py": ("glossary tsv", "glossary"),
    "data/terminology/glossary_files.py": ("glossary tsv", "glossary csv"),
    "data/terminology/target_forms.py": SHORT,
    "data/terminology/word_units.py": ("split_units", "find_literals"),
    "data/terminology/words.py": ("split_words",),
    "data/tokenizers/label_text.py": SINGLE,
    "data/tokenizers/normalization.py": SINGLE,
    "data/tokenizers/offsets.py": SINGLE,
    "data/tokenizers/tokenizers_library.py": SINGLE,
    "evaluation/alignment_error_rate.py": SINGLE,
    "evaluation/error_analysis.py": ("words",),
    "evaluation/squad_metrics.py": SINGLE,
    "evaluation/translation_checks.py": ("check_translation",),
    "inference/backends/cpu_backend.py": SHORT,
    "inference/backends/onnx_backend.py": SHORT,
    "inference/control/unreadable_words.py": SINGLE,
    "inference/preceding_sentences.py": SINGLE,
    "inference/text_segmentation.py": ("split_sentences", "split_long_text"),
    "inference/typography.py": SINGLE,
    "interop/ctranslate2/model_keys.py": SHORT,
    "interop/hub/connection.py": SHORT,
    "interop/hub/file_patterns.py": SHORT,
    "interop/hub/repository.py": SHORT,
    "interop/huggingface/foreign_config.py": SHORT,
    "interop/huggingface/languages.py": SHORT,
    "interop/huggingface/write_model.py": SHORT,
    "interop/language_tags.py": SHORT,
    "interop/marian/vocabulary_files.py": SHORT,
    "interop/tensor_names.py": SHORT,
    "interpret/report/html_page.py": SHORT,
    "interpret/word_alignment.py": SINGLE,
    "number_words.py": SHORT,
    "profiling/measured_memory.py": SHORT,
    "runs/file_units.py": SINGLE,
    "runs/hub/card_metadata.py": SHORT,
    "runs/file_tags.py": SHORT,
    "runs/load.py": SHORT,
    "runs/preceding_texts.py": SINGLE,
    "runs/prepare_corpus.py": SHORT,
    "serving/access/api_keys.py": SHORT,
    "serving/http/api_page.py": SHORT,
    "serving/http/request_log.py": SHORT,
    "serving/protocols/deepl_glossaries.py": SHORT,
    "serving/read_settings.py": SHORT,
    "serving/translation/documents.py": SINGLE,
    "training/checkpoint_folders.py": SHORT,
    "untrusted_files.py": SINGLE,
}
"""Scanners that run the regular expressions of each module, or why none does."""


@pytest.mark.parametrize("scanner", SCANNERS, ids=lambda scanner: scanner.name)
def test_time_is_linear_in_adversarial_input(scanner: Scanner) -> None:
    choices = list(units(scanner.fragments))
    random.Random(scanner.name).shuffle(choices)
    chosen = [*WORST.get(scanner.name, []), *islice(choices, INPUTS)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        slow = {
            (unit, frame): ratio
            for number, unit in enumerate(chosen)
            for frame in [scanner.frames[number % len(scanner.frames)]]
            if (ratio := growth(scanner, unit, frame)[0]) > MAX_RATIO
        }
    assert not slow


def test_each_module_with_an_expression_has_a_scanner() -> None:
    root = Path(dragoman.__file__).parent
    pattern = re.compile(r"\bre\.(?:compile|sub|subn|match|search|split|findall|finditer|fullmatch)\(")
    found = {str(path.relative_to(root)) for path in root.rglob("*.py") if pattern.search(path.read_text("utf-8"))}
    assert sorted(found - {*EXPRESSIONS}) == [], "list the module and its scanner"
    names = {name for scanners in EXPRESSIONS.values() if isinstance(scanners, tuple) for name in scanners}
    assert names <= {scanner.name for scanner in SCANNERS}
