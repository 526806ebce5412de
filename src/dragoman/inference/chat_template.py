"""Chat templates: conversations as prompts, by plain strings around each message."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Self, TypedDict

from pydantic import Field, model_validator

from dragoman.config import Config
from dragoman.errors import DataError

Role = Literal["user", "assistant"]


class Turn(Config):
    """Strings around the messages of one role."""

    prefix: str = Field(default="", description="precedes each message of this role")
    suffix: str = Field(default="", description="follows each message of this role")


class ChatTemplate(Config):
    """Form of a conversation as text, as the model was trained on it."""

    user: Turn = Turn(prefix="User: ", suffix="\n")
    assistant: Turn = Turn(prefix="Assistant: ", suffix="\n")

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
        case {"role": "user" | "assistant" as role, "content": str(text), **others} if not others:
            return Message(role, text)
    raise TypeError(
        f"messages[{number}] is {given!r:.60}, not a message. "
        'Give dragoman.Message(role, text) or {"role": "user", "content": text}.'
    )


def format_chat(messages: Sequence[Message | MessageDict], template: ChatTemplate) -> str:
    """Return a conversation as a prompt for the next message of the assistant.

    Raises DataError where the last message is not the user's, and where a message contains a marker of the template:
    the model would read it as a turn of its own, so that a user could forge messages of the assistant.
    """
    read = [_read_message(message, number) for number, message in enumerate(messages)]
    if not read or read[-1].role != "user":
        raise DataError("the conversation does not end with a message of the user; add one")
    markers = [marker.strip() for turn in (template.user, template.assistant) for marker in (turn.prefix, turn.suffix)]
    for number, message in enumerate(read, start=1):
        for marker in markers:
            if marker and marker in message.text:
                raise DataError(
                    f"message {number} contains {marker!r}, which marks a turn in the chat template; rephrase it"
                )
    turns = [(template.user if one.role == "user" else template.assistant, one.text) for one in read]
    return "".join(f"{turn.prefix}{text}{turn.suffix}" for turn, text in turns) + template.assistant.prefix
