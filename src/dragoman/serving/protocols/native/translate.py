"""Translation: n-best translations with scores and tokens, and alternatives at a place in a translation."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from fastapi import Request
from pydantic import BaseModel, ConfigDict, Field

from dragoman.data.terminology.glossary import Term
from dragoman.data.terminology.matching import TermMatch
from dragoman.decoding.config import DecodingMethod, LengthPenaltyKind
from dragoman.decoding.constraints import PhraseKind
from dragoman.errors import DataError
from dragoman.evaluation.translation_checks import CheckKind
from dragoman.inference import Constraint
from dragoman.inference.control.constraint_records import read_constraint
from dragoman.inference.control.glossary_terms import GlossaryMode
from dragoman.inference.translation_options import DecodingOptions
from dragoman.serving.http.errors import invalid
from dragoman.serving.http.requests import body_schema, read_body
from dragoman.serving.protocols.native.messages import Body, ClientDep, native_router, one_or_more
from dragoman.serving.server import ServerDep
from dragoman.serving.translation.service import TextFormat, TranslatedText, TranslationRequest
from dragoman.serving.translation.terms import GlossaryEntries

router = native_router()
GLOSSARY_MODES = (
    "`hard`: a translation of each term is required; `soft`: preferred; `annotated`: written into the source, for "
    "models that were trained with such sources"
)
LANGUAGE = "language code; default: the language that each text is recognized to be in"


class DecodingBody(Body):
    """Options of the search for translations; those left out are the model's own."""

    beam_size: int | None = Field(default=None, ge=1, description="hypotheses per sentence; 1 is greedy search")
    length_penalty: float | None = Field(default=None, description="exponent of the length penalty")
    length_penalty_kind: LengthPenaltyKind | None = None
    method: DecodingMethod | None = None
    min_length: int | None = Field(default=None, description="fewest tokens of a translation")
    max_length: int | None = Field(default=None, description="most tokens of a translation")
    max_length_ratio: float | None = Field(default=None, description="most tokens per token of the source")
    allow_unk: bool | None = Field(default=None, description="whether translations may have the unknown symbol")
    early_stopping: bool | None = None
    keep_greedy: bool | None = None

    def decoding(self) -> dict[str, Any]:
        """Return the options that are given."""
        return self.model_dump(include=set(DecodingOptions.__annotations__), exclude_none=True, exclude={"n_best"})


class GlossaryBody(BaseModel, extra="forbid", strict=True):
    """Terms of one language pair, which one model has to translate."""

    entries: list[Annotated[list[str], Field(min_length=2, max_length=3)]] = Field(
        examples=[[["dog", "Hund|Hunde"], ["cat", "Katze", "Kater"]]],
        description="source, target and, if needed, forbidden phrases; `|` separates forms, and an empty target "
        "leaves the source as it is",
    )
    mode: GlossaryMode = Field(default="hard", description=GLOSSARY_MODES)

    def read(self, limit: int) -> GlossaryEntries | None:
        """Return the entries, None without any. Raises RequestError for too many."""
        if len(self.entries) > limit:
            raise invalid(f"Invalid request: the glossary has more than {limit:,} terms", "glossary")
        return GlossaryEntries((tuple(map(tuple, self.entries)),), self.mode) if self.entries else None


class ConstraintBody(BaseModel):
    """Words that a translation must have, once or more, should have, or may not have."""

    model_config = ConfigDict(extra="forbid", strict=True)

    forms: str | list[str] = Field(examples=[["Jacke", "Jacken"]], description="one of several forms suffices")
    kind: PhraseKind = "required"
    whole_words: bool = Field(default=True, description="whether no form counts as the beginning of a longer word")
    bonus: float | None = Field(default=None, description="log-probability that preferred words are worth")


class TranslateBody(DecodingBody):
    """Texts to translate."""

    texts: str | list[str] = Field(examples=[["Two dogs play.", "It is raining."]])
    source: str | None = Field(default=None, examples=["en"], description=LANGUAGE)
    target: str = Field(examples=["de"], description="language code")
    format: TextFormat = "text"
    ignore_tags: list[str] = Field(default=[], description="elements of markup whose text is not translated")
    split_sentences: bool = Field(default=True, description="whether each sentence is translated by itself")
    context: str = Field(default="", description="text before each text; needs a model with document context")
    target_prefix: str | None = Field(default=None, description="what each translation begins with")
    constraints: list[str | ConstraintBody] = Field(
        default=[], description="words that each translation must have, or may not have"
    )
    n_best: int = Field(default=1, ge=1, description="translations of each text")
    placeholders: bool | None = Field(
        default=None,
        description="whether placeholders, such as `{name}`, stay byte for byte; default: as the server is set",
    )
    glossary: GlossaryBody | None = Field(default=None, description="terms that precede those of the server")


class Detected(BaseModel):
    """Language that a text was recognized to be in."""

    language: str
    probability: float


class QualityWarning(BaseModel):
    """Warning about a translation that a person should look at."""

    kind: CheckKind
    message: str


class QualityRecord(BaseModel):
    """Quality signals of a translation."""

    confidence: float = Field(description="mean probability of the tokens")
    expected_chrf: float | None = Field(default=None, description="of translations with this confidence; 0 to 100")
    warnings: list[QualityWarning]


class TranslationRecord(BaseModel):
    """One translation. One of markup has a text only, since its parts are translated one by one."""

    text: str
    score: float | None = Field(default=None, description="log-probability after the length penalty")
    log_prob: float | None = Field(default=None, description="natural logarithm, of all tokens and the end symbol")
    finished: bool | None = None
    truncated: bool | None = Field(default=None, description="whether the length limit cut it off")
    segments: int | None = None
    tokens: list[str] | None = Field(default=None, description="subwords")
    token_log_probs: list[float] | None = Field(default=None, description="of each token, and of the end symbol")
    quality: QualityRecord | None = Field(default=None, description="confidence of the model, and warnings")
    unmet: list[str] | None = Field(default=None, description="required words that it lacks, or forbidden ones it has")


class TermRecord(BaseModel):
    """Term of a glossary in a text."""

    start: int = Field(description="its first character in the text")
    end: int = Field(description="character after its last")
    text: str = Field(description="its words in the text")
    targets: list[str] = Field(description="translations of the term, one of which suffices")


class TranslateResult(BaseModel):
    """Translations of one text, best first."""

    translations: list[TranslationRecord]
    source: str
    target: str
    models: list[str] = Field(description="models that translated the text, one after the other")
    detected: Detected | None = None
    terms: list[TermRecord] | None = Field(
        default=None, description="terms in the text that the last model read; none of markup"
    )
    unmet: list[str] | None = Field(
        default=None, description="words that the best translation lacks or should not have"
    )
    markup_problems: list[str] | None = Field(
        default=None, description="tags without a partner, and tags whose places in the best translation are guesses"
    )


class TranslateAnswer(BaseModel):
    """Results in the order of the texts."""

    results: list[TranslateResult]


@router.post(
    "/translate",
    response_model=TranslateAnswer,
    response_model_exclude_unset=True,
    openapi_extra=body_schema(TranslateBody, form=False),
)
async def translate(request: Request, server: ServerDep, client: ClientDep) -> dict[str, Any]:
    """Translate a text, or each of a list."""
    body = await read_body(request, TranslateBody)
    asked = TranslationRequest(
        texts=one_or_more(body.texts),
        source=body.source,
        target=body.target,
        text_format=body.format,
        ignored_tags=body.ignore_tags,
        split_sentences=body.split_sentences,
        n_best=body.n_best,
        options=_with_wide_beam(body.decoding(), body.n_best),
        context=body.context,
        target_prefix=body.target_prefix,
        constraints=_constraints(body.constraints),
        model=body.model,
        with_records=True,
        placeholders=body.placeholders,
        glossary=None if body.glossary is None else body.glossary.read(server.config.limits.max_terms),
    )
    return {"results": [_result(one) for one in await server.translate(asked, client)]}


def _constraints(given: Sequence[str | ConstraintBody]) -> list[Constraint]:
    """Return the constraints of a request."""
    try:
        return [
            read_constraint(one if isinstance(one, str) else one.model_dump(exclude_none=True), f"constraints[{place}]")
            for place, one in enumerate(given)
        ]
    except DataError as error:
        raise invalid(f"Invalid request: {error}", "constraints") from error


def _with_wide_beam(options: Mapping[str, Any], n_best: int) -> Mapping[str, Any]:
    """Return the options of a search that finds as many translations, where no beam size is given."""
    return options if n_best == 1 or "beam_size" in options else {**options, "beam_size": max(n_best, 5)}


def _result(found: TranslatedText) -> dict[str, Any]:
    detected = found.detected
    return {
        "translations": [{"text": text} for text in found.texts] if found.records is None else list(found.records),
        "source": found.pair[0],
        "target": found.pair[1],
        "models": list(found.models),
        "detected": None if detected is None else {"language": detected.code, "probability": detected.probability},
        "terms": None if found.records is None else [_term(one) for one in found.terms],
        "unmet": list(found.unmet),
        "markup_problems": list(found.markup_problems),
    }


def _term(match: TermMatch[Term]) -> dict[str, Any]:
    targets = dict.fromkeys(target for term in match.terms for target in term.targets or term.sources)
    return {"start": match.start, "end": match.end, "text": match.text, "targets": list(targets)}


class AlternativesBody(DecodingBody):
    """Text, and the beginning of its translation."""

    text: str = Field(examples=["Two dogs play."])
    source: str | None = Field(default=None, examples=["en"], description=LANGUAGE)
    target: str = Field(examples=["de"], description="language code")
    target_prefix: str = Field(default="", examples=["Zwei"], description="what the translation begins with")
    count: int = Field(default=5, ge=1, description="alternatives")
    placeholders: bool = Field(default=False, description="whether placeholders, such as `{name}`, stay byte for byte")


class AlternativeRecord(BaseModel):
    """Next token, and the best translation that begins with the prefix and this token."""

    token: str
    probability: float
    translation: TranslationRecord


class AlternativesAnswer(BaseModel):
    """Alternatives, the most probable first."""

    alternatives: list[AlternativeRecord]


@router.post(
    "/alternatives", response_model=AlternativesAnswer, openapi_extra=body_schema(AlternativesBody, form=False)
)
async def alternatives(request: Request, server: ServerDep, client: ClientDep) -> dict[str, Any]:
    """Return the most probable tokens after the beginning of a translation, and how it goes on after each."""
    body = await read_body(request, AlternativesBody)
    asked = TranslationRequest(
        [body.text],
        body.target,
        body.source,
        options=body.decoding(),
        target_prefix=body.target_prefix,
        placeholders=body.placeholders,
        model=body.model,
    )
    found = await server.alternatives(asked, client, count=body.count)
    return {"alternatives": [one.to_dict() for one in found]}
