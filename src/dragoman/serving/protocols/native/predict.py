"""Classification, tagging, question answering, embedding and scoring."""

from typing import Any

from fastapi import Request
from pydantic import BaseModel, Field

from dragoman.decoding.config import AnswerConfig
from dragoman.serving.http.errors import invalid
from dragoman.serving.http.requests import body_schema, read_body
from dragoman.serving.protocols.native.messages import Body, ClientDep, native_router, one_or_more
from dragoman.serving.server import ServerDep

router = native_router()


class TextsBody(Body):
    """Texts to classify or embed."""

    texts: str | list[str] = Field(examples=[["A wonderful film."]])


class ClassificationRecord(BaseModel):
    """Most probable label of a text, and the probability of every label."""

    label: str
    probability: float
    probabilities: dict[str, float] = Field(description="most probable first")
    truncated: bool = Field(description="whether the text was too long, so that its end was ignored")


class ClassifyAnswer(BaseModel):
    """Results in the order of the texts."""

    model: str
    results: list[ClassificationRecord]


@router.post("/classify", response_model=ClassifyAnswer, openapi_extra=body_schema(TextsBody, form=False))
async def classify(request: Request, server: ServerDep, client: ClientDep) -> dict[str, Any]:
    """Classify a text, or each of a list."""
    body = await read_body(request, TextsBody)
    served, classifier = server.store.get(body.model, "classifier", verb="classify texts")
    texts = one_or_more(body.texts)
    with server.work(client, texts) as answer_with:
        found = await classifier.classify_async(texts)
        answer_with(served.name, (one.label for one in found))
    return {"model": served.name, "results": [one.to_dict() for one in found]}


class TagBody(Body):
    """Sentences whose words are tagged."""

    sentences: list[list[str]] = Field(examples=[[["Anna", "lives", "in", "Bern", "."]]], description="lists of words")


class TagRecord(BaseModel):
    """Word with its most probable label."""

    word: str
    label: str
    probability: float
    truncated: bool


class TagResult(BaseModel):
    """Words of one sentence."""

    words: list[TagRecord]


class TagAnswer(BaseModel):
    """Results in the order of the sentences."""

    model: str
    results: list[TagResult]


@router.post("/tag", response_model=TagAnswer, openapi_extra=body_schema(TagBody, form=False))
async def tag(request: Request, server: ServerDep, client: ClientDep) -> dict[str, Any]:
    """Tag the words of sentences."""
    body = await read_body(request, TagBody)
    served, tagger = server.store.get(body.model, "tagger", verb="tag words")
    with server.work(client, [" ".join(words) for words in body.sentences]) as answer_with:
        found = await tagger.tag_async(body.sentences)
        answer_with(served.name, (one.label for words in found for one in words))
    return {"model": served.name, "results": [{"words": [one.to_dict() for one in words]} for words in found]}


class QuestionBody(Body):
    """Question about a text."""

    question: str = Field(examples=["Who lives in Bern?"])
    context: str = Field(examples=["Anna lives in Bern."], description="text with the answer")
    n_best: int = Field(default=1, ge=1, description="answers, best first")
    max_answer_length: int | None = Field(default=None, description="most tokens of an answer")
    no_answer_threshold: float | None = Field(
        default=None, description="excess of its log-probability above which there is no answer; default: never"
    )


class AnswerRecord(BaseModel):
    """Span of the context."""

    text: str
    start: int = Field(description="first character")
    end: int = Field(description="character after the last")
    score: float
    probability: float
    no_answer: bool
    truncated: bool


class AnswerAnswer(BaseModel):
    """Answers, best first."""

    model: str
    answers: list[AnswerRecord]


@router.post("/answer", response_model=AnswerAnswer, openapi_extra=body_schema(QuestionBody, form=False))
async def answer(request: Request, server: ServerDep, client: ClientDep) -> dict[str, Any]:
    """Answer a question by spans of a text."""
    body = await read_body(request, QuestionBody)
    served, answerer = server.store.get(body.model, "question_answerer", verb="answer questions")
    given = body.model_dump(include=set(AnswerConfig.model_fields), exclude_none=True)
    with server.work(client, [body.question, body.context], body.n_best) as answer_with:
        [found] = await answerer.answer_batch_async([(body.question, body.context)], AnswerConfig(**given))
        answer_with(served.name, (one.text for one in found))
    return {"model": served.name, "answers": [one.to_dict() for one in found]}


class EmbedAnswer(BaseModel):
    """Vectors in the order of the texts."""

    model: str
    vectors: list[list[float]]


@router.post("/embed", response_model=EmbedAnswer, openapi_extra=body_schema(TextsBody, form=False))
async def embed(request: Request, server: ServerDep, client: ClientDep) -> dict[str, Any]:
    """Return the vector of a text, or of each of a list."""
    body = await read_body(request, TextsBody)
    served, embedder = server.store.get(body.model, "embedder", verb="embed texts")
    texts = one_or_more(body.texts)
    with server.work(client, texts) as answer_with:
        vectors = await embedder.embed_async(texts)
        answer_with(served.name, ())
    return {"model": served.name, "vectors": vectors.tolist()}


class ScoreBody(Body):
    """Texts to score: translations with their `sources`, or texts of a language model."""

    texts: str | list[str] = Field(examples=[["Zwei Hunde spielen."]])
    sources: str | list[str] | None = Field(default=None, examples=[["Two dogs play."]], description="one for each")
    source: str | None = Field(default=None, description="language code, for a multilingual model")
    target: str | None = Field(default=None, description="language code, for a multilingual model")


class ScoreRecord(BaseModel):
    """Log-probability of a text, of its tokens and of its end symbol."""

    log_prob: float
    score: float = Field(description="after the length penalty of the model; of a language model, the mean")
    tokens: int
    token_log_probs: list[float]


class ScoreAnswer(BaseModel):
    """Results in the order of the texts."""

    model: str
    results: list[ScoreRecord]


@router.post("/score", response_model=ScoreAnswer, openapi_extra=body_schema(ScoreBody, form=False))
async def score(request: Request, server: ServerDep, client: ClientDep) -> dict[str, Any]:
    """Return how probable texts are: as translations of `sources`, or, without them, for a language model."""
    body = await read_body(request, ScoreBody)
    texts = one_or_more(body.texts)
    if body.sources is None:
        if body.source is not None or body.target is not None:
            raise invalid("Invalid request: source and target have an effect with sources only", "sources")
        served, generator = server.store.get(body.model, "generator", verb="score texts without sources")
        with server.work(client, texts) as answer_with:
            found = await generator.score_async(texts)
            answer_with(served.name, ())
    else:
        served, translator = server.store.get(body.model, "translator", verb="score translations")
        sources = one_or_more(body.sources)
        languages: Any = {"source_language": body.source, "target_language": body.target}
        with server.work(client, [*texts, *sources]) as answer_with:
            found = await translator.score_async(sources, texts, **languages)
            answer_with(served.name, ())
    return {"model": served.name, "results": [one.to_dict() for one in found]}
