"""Chat templates: conversations as prompts, by plain strings around each message."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final, Literal, Self, TypedDict

from pydantic import Field, model_validator

from dragoman.config import Config
from dragoman.errors import ConfigError, DataError

Role = Literal["user", "assistant", "system"]


class Turn(Config):
    """Strings around the messages of one role."""

    prefix: str = Field(default="", description="precedes each message of this role")
    suffix: str = Field(default="", description="follows each message of this role")


class ChatTemplate(Config):
    """Form of a conversation as text, as the model was trained on it."""

    user: Turn = Turn(prefix="User: ", suffix="\n")
    assistant: Turn = Turn(prefix="Assistant: ", suffix="\n")
    system: Turn | None = Field(default=None, description="around a system message, which may begin a conversation")
    start: str = Field(default="", description="precedes a conversation without a system message")
    answer_prefix: str | None = Field(default=None, description="precedes the next answer; null: assistant.prefix")
    trim: bool = Field(default=False, description="remove white space around messages")

    @model_validator(mode="after")
    def _check_prefixes(self) -> Self:
        if self.user.prefix.strip() == self.assistant.prefix.strip():
            raise ValueError(
                f"user.prefix = {self.user.prefix!r} and assistant.prefix = {self.assistant.prefix!r} are the same; "
                "choose two different prefixes"
            )
        return self

    @property
    def stop(self) -> tuple[str, ...]:
        """Stop strings of an answer: the end of its turn, and the beginning of the user's."""
        return tuple(one for one in (self.assistant.suffix, self.user.prefix) if one)

    @property
    def markers(self) -> tuple[str, ...]:
        """Strings of the turns that no message may contain, without the white space around them."""
        turns = (self.user, self.assistant) if self.system is None else (self.user, self.assistant, self.system)
        return tuple(filter(None, (text.strip() for turn in turns for text in (turn.prefix, turn.suffix))))

    def turn(self, role: Role) -> Turn:
        """Return the strings around a message. Raises DataError if the template has no system messages."""
        match role:
            case "user":
                return self.user
            case "assistant":
                return self.assistant
            case "system":
                if self.system is None:
                    raise DataError("the chat template of this model has no system messages; leave it out")
                return self.system


SOURCE_FIELD: Final = "{source}"
"""Place of the source in the text of a prompt."""


class PromptFormat(Config):
    """Form of the prompts that are made of sources."""

    text: str = Field(default=SOURCE_FIELD, description=f"text of a prompt, with the source for {SOURCE_FIELD}")
    chat: bool = Field(default=False, description="write the prompt as a user's message by the chat template")

    @model_validator(mode="after")
    def _check_text(self) -> Self:
        if self.text.count(SOURCE_FIELD) != 1:
            raise ValueError(
                f"text = {self.text!r} contains {SOURCE_FIELD} {self.text.count(SOURCE_FIELD)} times; write it once, "
                "where the source belongs"
            )
        return self

    def build(self, source: str, template: ChatTemplate | None, *, reserved: Collection[str] = ()) -> str:
        """Return the prompt of a source.

        Raises ConfigError if a chat has no template, DataError if the source contains a marker of the template, or one
        of the `reserved` texts.
        """
        message = self.text.replace(SOURCE_FIELD, source)
        if not self.chat:
            return message
        if template is None:
            raise ConfigError("prompt.chat = true: the model has no chat template; give chat_template, or leave it out")
        return format_chat([Message("user", message)], template, reserved=reserved)


@dataclass(frozen=True, slots=True)
class Message:
    """Message of one role."""

    role: Role
    text: str


class MessageDict(TypedDict):
    """Message of one role as a mapping, as services exchange it."""

    role: Role
    content: str


def _read_message(given: Message | MessageDict, number: int) -> Message:
    """Return a message, also from a mapping. Raises TypeError where it is none."""
    match given:
        case Message(text=str()):
            return given
        case {"role": "user" | "assistant" | "system" as role, "content": str(text), **others} if not others:
            return Message(role, text)
    raise TypeError(
        f"messages[{number}] is {given!r:.60}, not a message. "
        'Give dragoman.Message(role, text) or {"role": "user", "content": text}.'
    )


def format_chat(
    messages: Sequence[Message | MessageDict], template: ChatTemplate, *, reserved: Collection[str] = ()
) -> str:
    """Return a conversation as a prompt for the next message of the assistant.

    `reserved` are the texts that the tokenizer reads as special symbols. Raises DataError where the last message is not
    the user's, a system message is not the first one, or a message contains a marker of the template or a reserved
    text: the model would read it as a turn of its own, so that a user could forge messages of others.
    """
    read = [_read_message(message, number) for number, message in enumerate(messages)]
    if not read or read[-1].role != "user":
        raise DataError("the conversation does not end with a message of the user; add one")
    if any(message.role == "system" for message in read[1:]):
        raise DataError("a system message is not the first one; move it to the start of the conversation")
    markers = [*template.markers, *sorted(reserved)]
    for number, message in enumerate(read, start=1):
        for marker in markers:
            if marker in message.text:
                raise DataError(
                    f"message {number} contains {marker!r}, which marks a turn in the chat template; rephrase it"
                )
    turns = [(template.turn(one.role), one.text.strip() if template.trim else one.text) for one in read]
    start = "" if read[0].role == "system" else template.start
    end = template.assistant.prefix if template.answer_prefix is None else template.answer_prefix
    return start + "".join(f"{turn.prefix}{text}{turn.suffix}" for turn, text in turns) + end
