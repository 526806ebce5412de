"""Parameters of completions and of answers in a chat."""

from collections.abc import Sequence
from typing import Annotated, Literal, Self

from pydantic import BaseModel, Field, WithJsonSchema, model_validator

from dragoman.inference import Message
from dragoman.inference.generation.generation_options import MAX_ALTERNATIVES, GenerationOptions
from dragoman.serving.protocols.openai.interface import only

DEFAULT_MAX_TOKENS = 16
"""Limit of `/v1/completions` where a request has none, as OpenAI documents it."""
MAX_STOP_STRINGS = 16

Zero = Annotated[None, only(0), WithJsonSchema({"enum": [0, None]})]
Empty = Annotated[None, only([], {}, ""), WithJsonSchema({"enum": [[], {}, "", None]})]
NoTool = Annotated[None, only("none", "auto"), WithJsonSchema({"enum": ["none", "auto", None]})]
Default = Annotated[None, only("auto", "default"), WithJsonSchema({"enum": ["auto", "default", None]})]
PlainText = Annotated[None, only({"type": "text"}), WithJsonSchema({"enum": [{"type": "text"}, None]})]
TextOnly = Annotated[None, only(["text"]), WithJsonSchema({"enum": [["text"], None]})]
No = Annotated[None, only(False), WithJsonSchema({"enum": [False, None]})]
TokenIds = Annotated[list[Annotated[int, Field(strict=True, ge=0, lt=2**31)]], Field(min_length=1)]
Texts = Annotated[list[str], Field(min_length=1)]
StopStrings = Annotated[list[str], Field(max_length=MAX_STOP_STRINGS)]


class StreamOptions(BaseModel, extra="forbid", strict=True):
    """Options of an answer in pieces."""

    include_usage: bool = Field(default=False, description="count the tokens in a last piece")
    include_obfuscation: No = None


class GenerationBody(BaseModel, extra="forbid", strict=True):
    """Parameters that completions and answers in a chat share; without one, that of the model applies."""

    model: str | None = Field(default=None, examples=["story"], description="name of the model; default: the first")
    temperature: float | None = Field(default=None, ge=0, le=2, examples=[0.8])
    top_p: float | None = Field(default=None, gt=0, le=1)
    top_k: int | None = Field(default=None, ge=1, lt=2**31)
    min_p: float | None = Field(default=None, gt=0, le=1)
    typical_p: float | None = Field(default=None, gt=0, le=1)
    repetition_penalty: float | None = Field(default=None, ge=0.01, le=100)
    no_repeat_ngram_size: int | None = Field(default=None, ge=1, lt=2**31)
    min_tokens: int | None = Field(default=None, ge=0, lt=2**31, description="fewest tokens of a completion")
    seed: int | None = Field(default=None, ge=-(2**63), lt=2**64, examples=[1])
    stop: str | StopStrings | None = Field(default=None, examples=["\n"])
    n: int = Field(default=1, ge=1, le=1000, description="samples of each prompt")
    stream: bool = Field(default=False, description="send the answer in pieces, as server-sent events")
    stream_options: StreamOptions | None = None
    presence_penalty: Zero = None
    frequency_penalty: Zero = None
    logit_bias: Empty = None
    user: str | None = Field(default=None, description="any text, which has no effect on the answer")

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.stream_options is not None and not self.stream:
            raise ValueError("stream_options has no effect without stream = true")
        if self.n > 1 and self.temperature == 0:
            raise ValueError(f"n = {self.n}: with temperature = 0 all samples are the same; choose n = 1")
        return self

    @property
    def include_usage(self) -> bool:
        """True if a stream ends with the counts of tokens."""
        return self.stream_options is not None and self.stream_options.include_usage

    @property
    def stop_strings(self) -> Sequence[str]:
        """All stop strings."""
        return [self.stop] if isinstance(self.stop, str) else self.stop or []

    def sampling_options(self, max_new_tokens: int, stop: Sequence[str], alternatives: int | None) -> GenerationOptions:
        """Return the options of a `Generator`."""
        return GenerationOptions(
            temperature=self.temperature,
            top_p=self.top_p,
            top_k=self.top_k,
            min_p=self.min_p,
            typical_p=self.typical_p,
            repetition_penalty=self.repetition_penalty,
            no_repeat_ngram_size=self.no_repeat_ngram_size,
            min_length=self.min_tokens,
            seed=None if self.seed is None else self.seed % 2**64,
            max_new_tokens=max_new_tokens,
            stop=list(stop) or None,
            alternatives=alternatives,
        )


class CompletionBody(GenerationBody):
    """Prompts to continue."""

    prompt: str | TokenIds | Texts | Annotated[list[TokenIds], Field(min_length=1)] = Field(
        default="", examples=["Two dogs"], description="texts, or token ids of the tokenizer without a begin symbol"
    )
    max_tokens: int | None = Field(default=None, ge=1, description=f"default: {DEFAULT_MAX_TOKENS}")
    logprobs: int | None = Field(
        default=None,
        ge=0,
        le=MAX_ALTERNATIVES,
        description="return the log-probabilities of the tokens, and as many of the most probable tokens",
    )
    echo: bool = Field(default=False, description="return the prompt before its completion")
    best_of: int | None = Field(default=None, description="the same as n")
    suffix: Empty = None

    @model_validator(mode="after")
    def _check_alternatives(self) -> Self:
        if self.best_of not in (None, self.n):
            raise ValueError(f"best_of = {self.best_of}: choose n = {self.n}, all samples are returned")
        return self

    @property
    def prompts(self) -> Sequence[str | Sequence[int]]:
        """All prompts."""
        if isinstance(self.prompt, str):
            return [self.prompt]
        ids = [one for one in self.prompt if isinstance(one, int)]
        return [ids] if ids else [one for one in self.prompt if not isinstance(one, int)]


class TextPart(BaseModel, extra="forbid", strict=True):
    """Part of a message."""

    type: Literal["text"]
    text: str


class ChatMessage(BaseModel, extra="forbid", strict=True):
    """Message of a conversation; that of the server may be sent back as it is."""

    role: Literal["system", "developer", "user", "assistant"] = Field(examples=["user"])
    content: str | list[TextPart] = Field(examples=["What do dogs do?"])
    refusal: Empty = None
    annotations: Empty = None
    audio: Empty = None
    function_call: Empty = None
    tool_calls: Empty = None

    def read(self) -> Message:
        """Return the message in our terms."""
        text = self.content if isinstance(self.content, str) else "".join(part.text for part in self.content)
        return Message("system" if self.role == "developer" else self.role, text)


class ChatBody(GenerationBody):
    """Conversation to answer."""

    messages: list[ChatMessage] = Field(min_length=1, examples=[[{"role": "user", "content": "What do dogs do?"}]])
    max_tokens: int | None = Field(default=None, ge=1, description="default: the limit of the server")
    max_completion_tokens: int | None = Field(default=None, ge=1, description="the same as max_tokens")
    logprobs: bool = Field(default=False, description="return the log-probabilities of the generated tokens")
    top_logprobs: int | None = Field(
        default=None, ge=0, le=MAX_ALTERNATIVES, description="return as many of the most probable tokens"
    )
    tools: Empty = None
    tool_choice: NoTool = None
    functions: Empty = None
    function_call: NoTool = None
    parallel_tool_calls: bool | None = Field(default=None, description="has no effect without tools")
    response_format: PlainText = None
    modalities: TextOnly = None
    service_tier: Default = None
    store: No = None
    metadata: dict[str, str] | None = Field(default=None, description="has no effect on the answer")
    safety_identifier: str | None = Field(default=None, description="has no effect on the answer")
    prompt_cache_key: str | None = Field(default=None, description="has no effect on the answer")

    @model_validator(mode="after")
    def _check_options(self) -> Self:
        if self.max_tokens is not None and self.max_completion_tokens not in (None, self.max_tokens):
            raise ValueError("max_tokens and max_completion_tokens are the same limit; give one of them")
        if self.top_logprobs and not self.logprobs:
            raise ValueError("top_logprobs has no effect without logprobs = true")
        return self

    @property
    def token_limit(self) -> int | None:
        """Most tokens of an answer."""
        return self.max_tokens if self.max_completion_tokens is None else self.max_completion_tokens
