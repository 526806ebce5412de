"""Loaded models by name, and by language pair, which are loaded again when their run folders change."""

import asyncio
import logging
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self, final, overload

from dragoman.data.document_context import ContextForm
from dragoman.errors import ConfigError, DragomanError
from dragoman.inference import Translator
from dragoman.inference.concurrent_calls import EngineStatistics
from dragoman.inference.control.placeholders import PlaceholderControl
from dragoman.runs.corpus_languages import recorded_languages
from dragoman.runs.folder import RunFolder
from dragoman.runs.load import load
from dragoman.serving.config import ModelConfig
from dragoman.serving.http.errors import RequestError
from dragoman.serving.translation.languages import find_language, short_codes

if TYPE_CHECKING:
    from dragoman.inference import Classifier, Embedder, Generator, QuestionAnswerer, Tagger
    from dragoman.runs.load import LoadedModel

LanguagePair = tuple[str, str]
FolderState = tuple[tuple[str, int, int], ...]
ModelKind = Literal["translator", "generator", "classifier", "tagger", "question_answerer", "embedder"]
_KINDS: Mapping[str, ModelKind] = {
    "Translator": "translator",
    "Generator": "generator",
    "Classifier": "classifier",
    "Tagger": "tagger",
    "QuestionAnswerer": "question_answerer",
    "Embedder": "embedder",
}
"""Kinds by the names of their classes, some of which import PyTorch."""
_PIVOTS = ("en",)
"""Languages that are preferred between two others."""
_logger = logging.getLogger(__name__)


@final
@dataclass(frozen=True, eq=False)
class ServedModel:
    """A loaded model. A request keeps the one it began with, also when its folder changes."""

    name: str
    path: Path
    model: "LoadedModel"
    state: FolderState
    pairs: frozenset[LanguagePair] = frozenset()
    """Language pairs of a translator, in the codes that clients know."""
    own_codes: Mapping[str, str] = field(default_factory=dict)
    """Own codes of the model by the codes that clients know, where the two differ."""
    created: int = field(default_factory=lambda: int(time.time()))
    """Seconds since 1970 when the model was loaded."""

    @property
    def kind(self) -> ModelKind:
        """Task of the model."""
        return _KINDS[type(self.model).__name__]

    @cached_property
    def can_protect_placeholders(self) -> bool:
        """Return whether a translator can write the stand-ins of placeholders."""
        assert isinstance(self.model, Translator)
        return bool(PlaceholderControl(self.model.tokenizer).written)

    @cached_property
    def reads_context(self) -> bool:
        """Whether a translator reads the sentences before a sentence."""
        assert isinstance(self.model, Translator)
        return ContextForm.of(self.model.tokenizer) is not None

    def language_options(self, pair: LanguagePair) -> dict[str, str]:
        """Return the arguments of `translate` for a pair: none for a model of one pair."""
        assert isinstance(self.model, Translator)
        if not self.model.tokenizer.prefixes.languages:
            return {}
        source, target = (self.own_codes.get(code, code) for code in pair)
        return {"source_language": source, "target_language": target}


@dataclass(frozen=True)
class Hop:
    """Translation by one model, from a language into another."""

    model: ServedModel
    pair: LanguagePair

    @property
    def languages(self) -> tuple[str | None, str | None]:
        """Codes of the pair that the model expects; None of a model of one pair."""
        options = self.model.language_options(self.pair)
        return options.get("source_language"), options.get("target_language")

    @property
    def translator(self) -> Translator:
        """The model that translates."""
        assert isinstance(self.model.model, Translator)
        return self.model.model


@final
class ModelStore:
    """The models of a server. `load` loads the model of a path."""

    def __init__(self, configs: Sequence[ModelConfig], load: Callable[[str], "LoadedModel"] = load) -> None:
        """Load all models. Raises RunError and ConfigError where one cannot be loaded, or two have one name."""
        self._load = load
        self._configs = {config.name or Path(config.path).resolve().name: config for config in configs}
        if len(self._configs) < len(configs):
            raise ConfigError("Two models have the same name. Give each a name of its own, as in NAME=PATH.")
        self._models = {name: self._read(name, config) for name, config in self._configs.items()}
        self._failed: dict[str, FolderState] = {}
        self.version = 0
        """Number that grows when a model is loaded again."""
        self._set_pairs(_reachable_pairs(self.models))

    @classmethod
    def of(cls, models: Iterable[ServedModel]) -> Self:
        """Return a store of loaded models, which stay as they are."""
        store = cls(())
        store._models = {one.name: one for one in models}
        store._set_pairs(_reachable_pairs(store.models))
        return store

    def _set_pairs(self, pairs: frozenset[LanguagePair]) -> None:
        targets: dict[str, set[str]] = {}
        sources: dict[str, set[str]] = {}
        for source, target in pairs:
            targets.setdefault(source, set()).add(target)
            sources.setdefault(target, set()).add(source)
        self._pairs, self._targets, self._sources = pairs, targets, sources

    @property
    def models(self) -> Sequence[ServedModel]:
        """All models, in the order of the configuration."""
        return list(self._models.values())

    def engines(self) -> Iterator[tuple[str, EngineStatistics]]:
        """Yield the names of the models that decode, with the measurements of their engines."""
        for one in self.models:
            statistics = getattr(one.model, "statistics", None)
            if isinstance(statistics, EngineStatistics):
                yield one.name, statistics

    def of_kind(self, *kinds: ModelKind) -> list[ServedModel]:
        """Return the models of some kinds."""
        return [one for one in self.models if one.kind in kinds]

    @overload
    def get(self, name: str | None, kind: Literal["translator"], *, verb: str) -> tuple[ServedModel, Translator]: ...
    @overload
    def get(self, name: str | None, kind: Literal["generator"], *, verb: str) -> tuple[ServedModel, "Generator"]: ...
    @overload
    def get(self, name: str | None, kind: Literal["classifier"], *, verb: str) -> tuple[ServedModel, "Classifier"]: ...
    @overload
    def get(self, name: str | None, kind: Literal["tagger"], *, verb: str) -> tuple[ServedModel, "Tagger"]: ...
    @overload
    def get(
        self, name: str | None, kind: Literal["question_answerer"], *, verb: str
    ) -> tuple[ServedModel, "QuestionAnswerer"]: ...
    @overload
    def get(self, name: str | None, kind: Literal["embedder"], *, verb: str) -> tuple[ServedModel, "Embedder"]: ...
    def get(self, name: str | None, kind: ModelKind, *, verb: str) -> tuple[ServedModel, Any]:
        """Return a model of this kind by its name; without a name, the first. Raises RequestError if there is none."""
        for one in self.of_kind(kind):
            if name in (None, one.name):
                return one, one.model
        if name in self._models:
            raise RequestError(400, f"The model {name} cannot {verb}.", "model")
        raise RequestError(404, f"There is no model {name}." if name else f"No model here can {verb}.", "model")

    def pairs(self) -> frozenset[LanguagePair]:
        """Return the language pairs that are translated, directly or through a third language."""
        return self._pairs

    def direct_pairs(self) -> frozenset[LanguagePair]:
        """Return the language pairs that one model translates."""
        return frozenset[LanguagePair]().union(*(one.pairs for one in self.models))

    def sources(self, target: str | None = None) -> Collection[str]:
        """Return the source languages of a target language, or of all."""
        return self._targets.keys() if target is None else self._sources.get(target, ())

    def route(self, pair: LanguagePair, *, model: str | None = None) -> list[Hop]:
        """Return the models that translate a pair of known codes: one, or two through a third language.

        Raises RequestError if there are none.
        """
        chosen = [one for one in self.of_kind("translator") if model in (None, one.name)]
        for one in chosen:
            if pair in one.pairs:
                return [Hop(one, pair)]
        middles = sorted(
            {b for one in chosen for a, b in one.pairs if a == pair[0]}, key=lambda b: (b not in _PIVOTS, b)
        )
        for middle in middles:
            ways = [(first, second) for first in chosen for second in chosen]
            for first, second in ways:
                if (pair[0], middle) in first.pairs and (middle, pair[1]) in second.pairs:
                    return [Hop(first, (pair[0], middle)), Hop(second, (middle, pair[1]))]
        raise RequestError(400, f"{pair[0]} to {pair[1]} is not supported.", "target")

    def find_source(self, given: str) -> str:
        """Return the source language that a code means. Raises RequestError if none is known."""
        return _find(given, self._targets, "source")

    def find_target(self, given: str, source: str | None = None) -> str:
        """Return the target language, of a source, that a code means. Raises RequestError if none is known."""
        return _find(given, self._sources if source is None else self._targets.get(source, ()), "target")

    def find_pair(self, source: str, target: str) -> LanguagePair:
        """Return the pair that two codes mean, twice the same for equal ones. Raises RequestError if one is unknown."""
        found = self.find_source(source)
        return found, found if self.find_target(target) == found else self.find_target(target, found)

    async def watch(self, interval: float) -> None:
        """Load the models again whose run folders have changed, when they are complete, until cancelled."""
        before = {name: one.state for name, one in self._models.items()}
        while True:
            await asyncio.sleep(interval)
            now = await asyncio.to_thread(lambda: {name: folder_state(one.path) for name, one in self._models.items()})
            for name, state in now.items():
                is_settled = state == before[name]  # a folder that still changes is looked at again
                if is_settled and state not in (self._models[name].state, self._failed.get(name)):
                    await self._reload(name, state)
            before = now

    async def _reload(self, name: str, state: FolderState) -> None:
        try:
            self._models[name] = await asyncio.to_thread(self._read, name, self._configs[name])
            self._set_pairs(await asyncio.to_thread(_reachable_pairs, self.models))
            self.version += 1
            _logger.info("loaded model %s again", name)
        except DragomanError as error:
            self._failed[name] = state
            _logger.error("model %s stays as it was: %s", name, error)

    def _read(self, name: str, config: ModelConfig) -> ServedModel:
        path = Path(config.path)
        state = folder_state(path)
        model = self._load(config.path)
        if not isinstance(model, Translator):
            return ServedModel(name, path, model, state)
        pairs, own_codes = _language_pairs(config, model)
        return ServedModel(name, path, model, state, pairs, own_codes)


def _reachable_pairs(models: Iterable[ServedModel]) -> frozenset[LanguagePair]:
    """Return the pairs of all models, and those of two models one after the other."""
    targets: dict[str, set[str]] = {}
    for source, target in frozenset[LanguagePair]().union(*(one.pairs for one in models)):
        targets.setdefault(source, set()).add(target)
    return frozenset(
        (source, target)
        for source, direct in targets.items()
        for target in direct.union(*(targets.get(middle, ()) for middle in direct))
        if target != source
    )


def folder_state(path: Path) -> FolderState:
    """Return names, sizes and times of the files of a folder, which change with their content."""
    try:
        files = [(one.name, one.stat()) for one in sorted(path.iterdir()) if one.is_file()]
    except OSError:  # while it is replaced
        return ()
    return tuple((name, status.st_size, status.st_mtime_ns) for name, status in files)


def _language_pairs(config: ModelConfig, translator: Translator) -> tuple[frozenset[LanguagePair], Mapping[str, str]]:
    """Return the pairs of a translator, and its own codes by those of the pairs.

    They are those of its configuration, of its tokenizer, or those that the run records.
    """
    prefixes = translator.tokenizer.prefixes
    given = config.source_language, config.target_language
    if prefixes.languages and given == (None, None):
        own_codes = short_codes(prefixes.languages)
        short = {own: code for code, own in own_codes.items()}
        directions = prefixes.directions or [(a, b) for a in short for b in short if a != b]
        return frozenset((short[a], short[b]) for a, b in directions), own_codes
    recorded = recorded_languages(RunFolder(Path(config.path)).read_raw_config())
    source, target = (code or other for code, other in zip(given, recorded, strict=True))
    if source is None or target is None:
        raise ConfigError(
            f"{config.path}: does not say which languages it translates. Name them, as in: "
            f"dragoman serve en-de={config.path}"
        )
    return frozenset([(source, target)]), {}


def _find(given: str, known: Iterable[str], name: str) -> str:
    found = find_language(given, known)
    if found is None:
        raise RequestError(400, f"{given[:32]} is not supported", name)
    return found
