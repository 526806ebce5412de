"""Metadata of a model card on the Hub: a YAML section at its beginning, by which models are found.

Format: https://huggingface.co/docs/hub/model-cards#model-card-metadata.
"""

import re
from collections.abc import Mapping
from typing import Any, Final

from dragoman.yaml_files import to_yaml

MARK: Final = "---\n"
TASKS: Final = {
    "translation": "translation",
    "language_modeling": "text-generation",
    "masked_lm": "fill-mask",
    "classification": "text-classification",
    "tagging": "token-classification",
    "question_answering": "question-answering",
}
"""Name of a task on the Hub."""
LIBRARIES: Final = {"dragoman": "dragoman", "huggingface": "transformers", "ctranslate2": "ctranslate2", "onnx": "onnx"}
"""Library that loads a format; other formats name none."""
_REPOSITORY = re.compile(r"://[^/]+/([\w.-]+(?:/[\w.-]+)?)/tree/")
"""Name of the repository in the address that a pull records."""


def with_metadata(
    card: str,
    *,
    task: str,
    format_name: str,
    origin: Mapping[str, Any],
    metrics: Mapping[str, Any],
) -> str:
    """Return a model card with its metadata; `metrics` are the measured ones by name.

    License and base model are those of the `origin` of an imported model, which is empty for others.
    """
    tree: dict[str, Any] = {"license": origin["license"]} if origin.get("license") else {}
    if base := _REPOSITORY.search(origin.get("url") or ""):
        tree["base_model"] = base[1]
    if format_name in LIBRARIES:
        tree["library_name"] = LIBRARIES[format_name]
    tree |= {"pipeline_tag": TASKS[task], "tags": ["dragoman"]}
    if metrics:
        tree["metrics"] = sorted(metrics)
    return f"{MARK}{to_yaml(tree)}{MARK}\n{card}"


def without_metadata(card: str) -> str:
    """Return a model card without its metadata."""
    if not card.startswith(MARK):
        return card
    end = card.find(f"\n{MARK}", len(MARK) - 1)
    return card if end < 0 else card[end + len(MARK) + 1 :].lstrip("\n")
