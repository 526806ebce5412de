"""Translation of the texts of a request: languages, models, markup, and all texts of a language in one batch."""

import asyncio
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple, assert_never, final

from dragoman.data.documents.document import Document
from dragoman.data.markup import Markup, MarkupRules
from dragoman.data.terminology.glossary import Term
from dragoman.data.terminology.matching import TermMatch
from dragoman.inference import Constraint, TranslationResult
from dragoman.inference.concurrent_calls import gather
from dragoman.runs.translate_file import FileOptions, FileTranslation, translate_document
from dragoman.serving.config import ProtectedTexts
from dragoman.serving.http.errors import invalid
from dragoman.serving.served_models import Hop, LanguagePair, ModelStore
from dragoman.serving.translation.documents import PivotTranslator
from dragoman.serving.translation.languages import DetectedLanguage, LanguageDetector
from dragoman.serving.translation.terms import AppliedGlossary, GlossaryChoice, GlossaryEntries

TextFormat = Literal["text", "html", "xml"]
CHARACTERS_PER_TERM = 4
"""Characters of plain text that are analyzed in the time that a term of a new glossary takes, 40 microseconds."""


@final
@dataclass(frozen=True)
class TranslationRequest:
    """Texts to translate, in the terms that all protocols share."""

    texts: Sequence[str]
    target: str
    source: str | None = None
    """Language code; None: each text has the language that it is recognized to be in."""
    text_format: TextFormat = "text"
    ignored_tags: Collection[str] = ()
    """Elements of markup whose text is not translated."""
    splitting_tags: Collection[str] = ()
    """Elements of markup that always split a text."""
    non_splitting_tags: Collection[str] = ()
    """Elements of markup that never split a text."""
    outline_detection: bool = True
    """Whether other elements of markup split a text: blocks of HTML, and elements of XML that stand next to no text."""
    split_sentences: bool = True
    """Whether each sentence is translated by itself; white space between sentences is kept."""
    n_best: int = 1
    options: Mapping[str, Any] = field(default_factory=dict)
    """Further arguments of `Translator.translate`."""
    target_prefix: str | None = None
    """What each translation begins with."""
    constraints: Sequence[Constraint] = ()
    """Words that each translation must have or not."""
    model: str | None = None
    """Name of the model; None: any of the language pair."""
    has_to_differ: bool = False
    """Whether a text in the target language is an error; otherwise it stays as it is."""
    is_fast: bool = False
    """Whether the answer is wanted fast: by greedy search, except of texts with terms."""
    is_file: bool = False
    """Whether the texts are those of a file."""
    placeholders: bool | None = None
    """Whether placeholders stay byte for byte; None: as the server is set."""
    glossary: GlossaryEntries | None = None
    """Terms of the language pair, which one model has to translate."""
    context: str = ""
    """Text before each of the texts, for a model with document context."""
    needs_context: bool = True
    """Whether another model refuses the context; otherwise it ignores it."""
    with_records: bool = False
    """Whether scores, tokens and quality of the translations of plain texts are wanted."""

    @property
    def size(self) -> int:
        """Amount of text that is analyzed, in characters; a term takes as long as some of them."""
        terms = 0 if self.glossary is None else len(self.glossary)
        return sum(map(len, self.texts)) + len(self.context) + CHARACTERS_PER_TERM * terms


@final
@dataclass(frozen=True)
class TranslatedText:
    """Translations of one text, best first, at least one."""

    texts: Sequence[str]
    pair: LanguagePair
    models: Sequence[str]
    """Names of the models that translated it, one after the other; none for a text that is in the target language."""
    records: Sequence[Mapping[str, Any]] | None = None
    """Text, scores, tokens and quality of each translation by the last model; None for markup, and if not wanted."""
    terms: Sequence[TermMatch[Term]] = ()
    """Terms of glossaries in the text that the last model read; for markup, in all its texts."""
    placeholders: int = 0
    """Placeholders that were protected in the text, or in all texts of markup."""
    unmet: Sequence[str] = ()
    """Words that the best translation should have and lacks, or has and should not."""
    markup_problems: Sequence[str] = ()
    """Tags without a partner, and tags whose places in the best translation are guesses."""
    detected: DetectedLanguage | None = None
    ignored: Sequence[str] = ()
    """Parameters of the request that the model cannot use."""

    @property
    def text(self) -> str:
        """The best translation."""
        return self.texts[0]

    @property
    def model_name(self) -> str:
        """Name of the model that wrote it; empty if there is none."""
        return self.models[-1] if self.models else ""


class _Run(NamedTuple):
    """Translations of texts by the last model, and the placeholders that were protected in each text of the request."""

    results: list[TranslationResult]
    placeholders: list[int]


@final
class TranslationService:
    """Translates requests with the models of a store."""

    def __init__(
        self, store: ModelStore, glossaries: GlossaryChoice, *, placeholders: ProtectedTexts = "never"
    ) -> None:
        """`placeholders` names the texts whose placeholders are protected where a request does not say so."""
        self.store = store
        self._protected = placeholders
        self._glossaries = glossaries
        self._detector = LanguageDetector()

    async def detect(self, texts: Sequence[str], target: str | None = None) -> list[Sequence[DetectedLanguage]]:
        """Return the languages that each text may be in, the most probable first.

        These are the source languages; those of a target language, and this language itself, where one is given.
        """
        languages = {*self.store.sources(target), *([target] if target else [])}
        return await asyncio.to_thread(lambda: [self._detector.detect(text, languages) for text in texts])

    async def translate(self, request: TranslationRequest) -> list[TranslatedText]:
        """Return the translations of each text; a text that is in the target language stays as it is.

        Raises RequestError for a language that is not supported.
        """
        target = self.store.find_target(request.target)
        detected: list[DetectedLanguage | None] = [None] * len(request.texts)
        if request.source is None:
            detected = [found[0] for found in await self.detect(request.texts, target)]
        groups: dict[LanguagePair, list[int]] = defaultdict(list)
        for place, found in enumerate(detected):
            groups[self._pair(request.source, found, target)].append(place)
        some = await gather(
            self._translate_pair([request.texts[place] for place in places], pair, request)
            for pair, places in groups.items()
        )
        results = {
            place: replace(one, detected=detected[place])
            for places, translated in zip(groups.values(), some, strict=True)
            for place, one in zip(places, translated, strict=True)
        }
        return [results[place] for place in range(len(request.texts))]

    async def last_hop(self, request: TranslationRequest) -> tuple[Hop, str]:
        """Return the last model that the text of a request needs, and the text in the language that it reads."""
        [text] = request.texts
        target = self.store.find_target(request.target)
        found = (await self.detect([text], target))[0][0] if request.source is None else None
        pair = self._pair(request.source, found, target)
        if pair[0] == pair[1]:
            raise invalid(f"Invalid request: the text is in the language {target} already", "text")
        hops = self.store.route(pair, model=request.model)
        if len(hops) > 1:
            run = await self._run([text], hops[:-1], replace(request, n_best=1, target_prefix=None))
            text = run.results[0].text
        return hops[-1], text

    def _pair(self, source: str | None, detected: DetectedLanguage | None, target: str) -> LanguagePair:
        """Return the languages that a text is translated from and into."""
        return (detected.code, target) if detected is not None else self.store.find_pair(source or "", target)

    async def _translate_pair(
        self, texts: Sequence[str], pair: LanguagePair, request: TranslationRequest
    ) -> list[TranslatedText]:
        """Translate texts of one language."""
        if pair[0] == pair[1]:
            if request.has_to_differ:
                raise invalid("Source and target language are equal.", "target_lang")
            return [TranslatedText([text], pair, []) for text in texts]
        hops = self.store.route(pair, model=request.model)
        if request.target_prefix and request.text_format != "text":
            raise invalid("Invalid request: target_prefix has an effect on plain text only", "target_prefix")
        if request.constraints and request.text_format != "text":
            raise invalid("Invalid request: constraints have an effect on plain text only", "constraints")
        if ignores_context := bool(request.context.strip() and not hops[0].model.reads_context):
            if request.needs_context:
                raise invalid("Not supported: context, which this model does not read. Leave context out.", "context")
            request = replace(request, context="")
        models = [hop.model.name for hop in hops]
        run = await self._run(texts, hops, request)
        with_records = request.with_records and request.text_format == "text"
        return [
            replace(
                _translated(result, pair, models, placeholders, with_records=with_records),
                ignored=("context",) if ignores_context else (),
            )
            for result, placeholders in zip(run.results, run.placeholders, strict=True)
        ]

    async def _run(self, texts: Sequence[str], hops: Sequence[Hop], request: TranslationRequest) -> _Run:
        """Translate by one model after the other; all but the last translate into their best translation."""
        own = replace(request, placeholders=self._protects(request, hops))
        glossaries = await asyncio.to_thread(self._glossaries.of, hops, request.glossary)
        runs: list[list[TranslationResult]] = []
        for number, (hop, glossary) in enumerate(zip(hops, glossaries, strict=True), start=1):
            is_last = number == len(hops)
            asked = own if is_last else replace(own, n_best=1, target_prefix=None, constraints=())
            runs.append(await hop.translator.translate_async(list(texts), **_options(hop, glossary, asked)))
            texts, own = [one.text for one in runs[-1]], replace(own, context="")
        return _Run(runs[-1], [len(one[0].placeholders) for one in runs[0]])

    def translate_document(self, document: Document, request: TranslationRequest) -> tuple[FileTranslation, list[str]]:
        """Translate a file as `dragoman translate --file` does, and return the names of the models, too.

        Raises RequestError for a language that is not supported.
        """
        pair = self._pair(request.source, None, self.store.find_target(request.target))
        hops = self.store.route(pair, model=request.model)
        glossaries = self._glossaries.of(hops, request.glossary)
        is_direct = len(hops) == 1
        own = replace(request, placeholders=self._protects(request, hops))
        options = _options(hops[0], glossaries[0] if is_direct else None, own)
        options |= {"markup": None, "placeholders": own.placeholders}
        translator = hops[0].translator if is_direct else PivotTranslator(hops, glossaries)
        chosen = FileOptions(target_language=pair[1])
        return translate_document(translator, document, chosen, stream_options=options), [
            one.model.name for one in hops
        ]

    def _protects(self, request: TranslationRequest, hops: Sequence[Hop]) -> bool:
        """Return whether the placeholders of a request are protected.

        A prefix excludes that: a protected text is translated from its beginning.
        """
        if request.placeholders is not None:
            return request.placeholders
        if not all(hop.model.can_protect_placeholders for hop in hops):
            return False
        match self._protected:
            case "always":
                return not request.target_prefix
            case "markup":
                return request.is_file or request.text_format != "text"
            case "never":
                return False
            case _:
                assert_never(self._protected)


def _options(hop: Hop, glossary: AppliedGlossary | None, request: TranslationRequest) -> Any:
    """Return the arguments of `translate` of one model."""
    options: dict[str, Any] = dict(request.options)
    if request.split_sentences:
        options |= {"split": "sentences", "language": hop.pair[0]}
    if glossary is not None:
        options |= glossary.options
    if request.is_fast:
        options["beam_size"] = 1
    markup = None if request.text_format == "text" else _markup_rules(request)
    own: dict[str, Any] = {"n_best": request.n_best, "target_prefix": request.target_prefix, "markup": markup}
    if request.constraints:
        own["constraints"] = list(request.constraints)
    if request.placeholders:
        own["placeholders"] = True
    if request.context.strip():
        own["context"] = list(filter(None, map(str.strip, request.context.splitlines())))
    return options | hop.model.language_options(hop.pair) | own


def _markup_rules(request: TranslationRequest) -> MarkupRules:
    tags = (request.ignored_tags, request.splitting_tags, request.non_splitting_tags)
    markup: Markup = "xml" if request.text_format == "xml" else "html"
    ignored, splitting, non_splitting = (
        frozenset(name.lower() if markup == "html" else name for name in some) for some in tags
    )
    return MarkupRules(markup, ignored, splitting, non_splitting, request.outline_detection)


def _translated(
    result: TranslationResult, pair: LanguagePair, models: Sequence[str], placeholders: int, *, with_records: bool
) -> TranslatedText:
    best = result[0]
    return TranslatedText(
        [one.text for one in result],
        pair,
        models,
        [one.to_dict() for one in result] if with_records else None,
        best.terms,
        placeholders,
        best.unmet,
        best.markup_problems,
    )
