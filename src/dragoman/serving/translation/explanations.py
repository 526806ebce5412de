"""Explanations of translations, computed by PyTorch, which a server loads at the first request for one."""

import asyncio
import threading
from typing import TYPE_CHECKING, Any, final

from dragoman.errors import DragomanError
from dragoman.serving.http.errors import RequestError
from dragoman.serving.served_models import Hop, ServedModel

if TYPE_CHECKING:
    from dragoman.interpret.beam_tree import SearchRecord
    from dragoman.interpret.explain_text import Explanation
    from dragoman.runs.inspect import InspectableRun


@final
class Explainer:
    """Explains translations of served models, one at a time. It keeps the models that it has loaded."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loaded: dict[str, tuple[ServedModel, InspectableRun]] = {}

    async def explain(
        self, hop: Hop, text: str, *, translation: str | None, beam_size: int | None, with_beam: bool
    ) -> dict[str, Any]:
        """Return the fields of the explanation of a translation. Raises RequestError where the model has none."""
        options: Any = {"beam": beam_size, **hop.model.language_options(hop.pair)}
        explanation, run = await asyncio.to_thread(self._explain, hop.model, text, translation, options)
        fields = _fields(explanation)
        if with_beam and explanation.search is not None:
            fields["beam"] = _beam(explanation.search, run.writes)
        return fields

    def _explain(
        self, served: ServedModel, text: str, translation: str | None, options: Any
    ) -> "tuple[Explanation, InspectableRun]":
        from dragoman.runs.inspect import InspectionRequest

        targets = None if translation is None else [translation]
        with self._lock:
            run = self._run(served)
            request = InspectionRequest([text], targets, analyses=False, **options)
            return next(run.explain(request)), run

    def _run(self, served: ServedModel) -> "InspectableRun":
        """Return the model in a form that can be inspected, loaded again where the served one was."""
        from dragoman.runs.inspect import InspectableRun

        found, run = self._loaded.get(served.name, (None, None))
        if found is not served or run is None:
            try:
                run = InspectableRun(served.path)
            except DragomanError as error:
                message = f"The model {served.name} cannot be explained: its attention is not accessible."
                raise RequestError(400, message, "model") from error
            self._loaded[served.name] = served, run
        return run


def _fields(explanation: "Explanation") -> dict[str, Any]:
    """Return the words, their attention, and the tokens with alternatives."""
    alignment, words = explanation.alignments[0], explanation.target_words
    log_probs = [one.log_prob for one in explanation.predictions]
    return {
        "source_text": explanation.source_text,
        "translation": explanation.target_text,
        "source_words": list(explanation.source_words.texts),
        "target_words": [
            {
                "text": text,
                "log_prob": sum(log_probs[place] for place in places),
                "begin": min(places, default=0),
                "end": max(places, default=-1) + 1,
            }
            for text, places in zip(words.texts, words.tokens, strict=True)
        ],
        "attention": alignment.weights.tolist(),
        "description": f"{alignment.name}: {alignment.description}",
        "links": sorted(alignment.links),
        "tokens": [
            {
                "token": one.token,
                "log_prob": one.log_prob,
                "rank": one.rank,
                "alternatives": [{"token": token, "probability": p} for token, p in one.alternatives],
            }
            for one in explanation.predictions
        ],
    }


def _beam(search: "SearchRecord", tokenizer: Any) -> dict[str, Any]:
    """Return the tree of a beam search."""
    steps = [
        [
            {
                "parent": one.parent,
                "token": token,
                "log_prob": one.log_prob,
                "total": one.total,
                "outcome": one.outcome,
            }
            for one, token in zip(step, tokenizer.ids_to_tokens([one.token for one in step]), strict=True)
        ]
        for step in search.tree.steps
    ]
    return {
        "beam_size": search.tree.beam_size,
        "steps": steps,
        "best_path": list(search.best_path),
        "greedy_path": list(search.greedy_path),
    }
