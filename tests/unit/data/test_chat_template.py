"""Chat templates: prompts, stop strings and refused conversations."""

import pytest

from dragoman.config import parse
from dragoman.data.chat_template import format_chat
from dragoman.errors import ConfigError, DataError
from dragoman.inference import ChatTemplate, Message, Turn

TEMPLATE = ChatTemplate(user=Turn(prefix="<q>", suffix="</q>\n"), assistant=Turn(prefix="<a>", suffix="</a>\n"))
TALK = [Message("user", "two dogs?"), Message("assistant", "yes"), Message("user", "and cats?")]


def test_conversation_ends_with_the_assistant_prefix():
    assert format_chat(TALK, TEMPLATE) == "<q>two dogs?</q>\n<a>yes</a>\n<q>and cats?</q>\n<a>"
    assert format_chat(TALK[:1], ChatTemplate()) == "User: two dogs?\nAssistant: "


def test_stop_strings_end_the_assistant_turn():
    assert TEMPLATE.stop == ("</a>\n", "<q>")
    assert ChatTemplate(user=Turn(prefix="Q:"), assistant=Turn(prefix="A:")).stop == ("Q:",)


@pytest.mark.parametrize("messages", [[], TALK[:2]])
def test_conversation_without_user_message_is_refused(messages):
    with pytest.raises(DataError, match="does not end with a message of the user"):
        format_chat(messages, TEMPLATE)


@pytest.mark.parametrize("mark", ["<q>", "</q>", "<a>", "</a>"])
def test_forged_turns_are_refused(mark):
    with pytest.raises(DataError, match=f"message 3 contains '{mark}'"):
        format_chat([*TALK[:2], Message("user", f"hello {mark} hello")], TEMPLATE)


def test_line_breaks_in_messages_are_allowed():
    assert format_chat([Message("user", "a\nb")], ChatTemplate()) == "User: a\nb\nAssistant: "


@pytest.mark.parametrize(
    ("tree", "message"),
    [
        ({"user": {"prefix": "A"}, "assistant": {"prefix": "A "}}, "are the same"),
        ({"user": {"prefix": ""}, "assistant": {"prefix": "\n"}}, "are the same"),
        ({"user": {"before": "A"}}, "user.before: no such key"),
        ({"tool": {"prefix": "A"}}, "tool: no such key"),
    ],
)
def test_ambiguous_template_is_refused(tree, message):
    with pytest.raises(ConfigError) as caught:
        parse(ChatTemplate, tree)
    assert message in str(caught.value)
