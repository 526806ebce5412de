"""Conversations as prompts: plain strings before and after what each side says, and nothing that is executed."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Self, assert_never

from pydantic import Field, model_validator

from dragoman.config import Config
from dragoman.errors import DataError

Role = Literal["user", "assistant"]


class Turn(Config):
    """The strings around what one side says."""

    prefix: str = Field(default="", description="stands before each message of this side")
    suffix: str = Field(default="", description="stands after each message of this side")


class ChatTemplate(Config):
    """How a conversation is written out for a network, as it was when the network was trained."""

    user: Turn = Turn(prefix="User: ", suffix="\n")
    assistant: Turn = Turn(prefix="Assistant: ", suffix="\n")

    @model_validator(mode="after")
    def _tells_them_apart(self) -> Self:
        if self.user.prefix.strip() == self.assistant.prefix.strip():
            raise ValueError(
                f"user.prefix = {self.user.prefix!r} and assistant.prefix = {self.assistant.prefix!r} do not tell the "
                "two apart; give each side a prefix of its own"
            )
        return self

    def turn(self, role: Role) -> Turn:
        """The strings of one side."""
        match role:
            case "user":
                return self.user
            case "assistant":
                return self.assistant
            case _:
                assert_never(role)

    @property
    def stop(self) -> tuple[str, ...]:
        """What ends an answer of a network that goes on writing: the end of its turn, or another one's beginning."""
        return tuple(one for one in (self.assistant.suffix, self.user.prefix) if one)


@dataclass(frozen=True, slots=True)
class Message:
    """What one side said."""

    role: Role
    text: str


def prompt_of(messages: Sequence[Message], template: ChatTemplate) -> str:
    """The conversation up to the point where the assistant is to speak.

    Raises DataError where the user is not the last to have spoken, and where a message holds a mark of the template:
    the network would read it as a turn of its own, and anybody could put words into another's mouth.
    """
    if not messages or messages[-1].role != "user":
        raise DataError("the conversation does not end with a message of the user; add one, for an answer to be given")
    marks = [mark.strip() for turn in (template.user, template.assistant) for mark in (turn.prefix, turn.suffix)]
    for number, message in enumerate(messages, start=1):
        for mark in marks:
            if mark and mark in message.text:
                raise DataError(
                    f"message {number} holds {mark!r}, which marks a turn in the chat template; write it otherwise"
                )
    turns = [(template.turn(message.role), message.text) for message in messages]
    return "".join(f"{turn.prefix}{text}{turn.suffix}" for turn, text in turns) + template.assistant.prefix
