"""Chat templates: conversations as prompts, by plain strings around each message."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Self

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


def format_chat(messages: Sequence[Message], template: ChatTemplate) -> str:
    """Return a conversation as a prompt for the next message of the assistant.

    Raises DataError where the last message is not the user's, and where a message contains a marker of the template:
    the model would read it as a turn of its own, so that a user could forge messages of the assistant.
    """
    for number, message in enumerate(messages):
        if not isinstance(message, Message) or not isinstance(message.text, str):
            raise TypeError(f"messages[{number}] is {message!r:.60}, not a message. Give dragoman.Message(role, text).")
    if not messages or messages[-1].role != "user":
        raise DataError("the conversation does not end with a message of the user; add one")
    markers = [marker.strip() for turn in (template.user, template.assistant) for marker in (turn.prefix, turn.suffix)]
    for number, message in enumerate(messages, start=1):
        for marker in markers:
            if marker and marker in message.text:
                raise DataError(
                    f"message {number} contains {marker!r}, which marks a turn in the chat template; rephrase it"
                )
    turns = [(template.user if one.role == "user" else template.assistant, one.text) for one in messages]
    return "".join(f"{turn.prefix}{text}{turn.suffix}" for turn, text in turns) + template.assistant.prefix
