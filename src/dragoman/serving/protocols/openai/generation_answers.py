"""Answers of completions and chats: whole, and in pieces."""

from typing import Literal

from pydantic import BaseModel, Field, model_serializer

FinishReason = Literal["stop", "length"]


class Usage(BaseModel):
    """Counts of tokens."""

    prompt_tokens: int = Field(description="tokens of the prompts as the model reads them, begin symbol included")
    completion_tokens: int = Field(description="generated tokens, those of a stop string included")
    total_tokens: int


class CompletionLogprobs(BaseModel):
    """Tokens with their log-probabilities: those generated, and with `echo` those of the prompt before them."""

    tokens: list[str]
    token_logprobs: list[float | None] = Field(description="null for a first token with nothing before it")
    top_logprobs: list[dict[str, float] | None] | None = Field(
        default=None, description="the most probable tokens and the token itself, by their texts, if asked for"
    )
    text_offset: list[int] = Field(description="character at which each token begins in the text")


class CompletionChoice(BaseModel):
    """A completion, or a piece of one."""

    index: int = Field(description="number of the completion; those of a prompt follow each other")
    text: str
    logprobs: CompletionLogprobs | None = None
    finish_reason: FinishReason | None = None


class TextCompletion(BaseModel):
    """Completions, or pieces of them."""

    id: str
    object: Literal["text_completion"] = "text_completion"
    created: int
    model: str
    choices: list[CompletionChoice]
    usage: Usage | None = None


class TopLogprob(BaseModel):
    """Token with its log-probability."""

    token: str
    logprob: float
    bytes: list[int]


class TokenLogprob(TopLogprob):
    """Generated token, and the most probable tokens at its place, if asked for."""

    top_logprobs: list[TopLogprob]


class ChatLogprobs(BaseModel):
    """Generated tokens of an answer."""

    content: list[TokenLogprob]
    refusal: None = None


class AnswerMessage(BaseModel):
    """Answer of the model."""

    role: Literal["assistant"] = "assistant"
    content: str
    refusal: None = None


class ChatChoice(BaseModel):
    """An answer."""

    index: int
    message: AnswerMessage
    logprobs: ChatLogprobs | None = None
    finish_reason: FinishReason


class ChatCompletion(BaseModel):
    """Answers to a conversation."""

    id: str
    object: Literal["chat.completion"] = "chat.completion"
    created: int
    model: str
    choices: list[ChatChoice]
    usage: Usage


class ChatDelta(BaseModel):
    """Text that a piece adds to an answer."""

    role: Literal["assistant"] | None = None
    content: str | None = None

    @model_serializer
    def _without_none(self) -> dict[str, str]:
        return {name: value for name, value in (("role", self.role), ("content", self.content)) if value is not None}


class ChatChunkChoice(BaseModel):
    """Piece of an answer."""

    index: int
    delta: ChatDelta
    logprobs: ChatLogprobs | None = None
    finish_reason: FinishReason | None = None


class ChatChunk(BaseModel):
    """Pieces of answers."""

    id: str
    object: Literal["chat.completion.chunk"] = "chat.completion.chunk"
    created: int
    model: str
    choices: list[ChatChunkChoice]
    usage: Usage | None = None
