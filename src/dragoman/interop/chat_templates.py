"""Chat templates of other programs: Jinja templates become strings around each message.

A Jinja template is a program, and a file with a model may hold any. It is run at the import only, in a process of its
own with limits of memory and time (`chat_template_process`), on conversations of placeholders. The texts around the
placeholders are the strings of our template, which is compared with the original on further conversations. So a chat
later runs no code of the model, and the markers that no message may contain are known.
"""

import json
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from dragoman.data.chat_template import ChatTemplate, Message, Role, Turn, format_chat
from dragoman.errors import DataError
from dragoman.interop import chat_template_process

MAX_TEMPLATE: Final = 2**18
"""Characters of a template; those with tools have 10,000."""
MAX_WAIT: Final = 60
"""Seconds to wait for the process."""
_FIRST, _ANSWER, _SECOND, _SYSTEM = "Qzfirstqz", "Qzanswerqz", "Qzsecondqz", "Qzsystemqz"
_SPACED: Final = f" \n{_FIRST}\t "
_ROLES: Final = ("bos_token", "eos_token", "unk_token", "pad_token")


@dataclass(frozen=True)
class ConvertedTemplate:
    """Settings of a chat template, or None without one, and what the user should know."""

    settings: Mapping[str, Any] | None
    notes: tuple[str, ...] = ()


Conversation = tuple[list[Message], bool]
"""Messages, and whether the answer is asked for."""


def convert_chat_template(source: str | None, special: Mapping[str, str], *, has_bos: bool) -> ConvertedTemplate:
    """Return our form of a Jinja template; `special` are the special tokens by role, such as `bos_token`.

    `has_bos` says whether prompts get the begin symbol anyway, which the template then leaves out.
    """
    if source is None:
        return ConvertedTemplate(None)
    if find_spec("jinja2") is None:
        return ConvertedTemplate(None, ("the chat template is left out; it needs pip install 'dragoman[chat]'",))
    if len(source) > MAX_TEMPLATE:
        return ConvertedTemplate(None, ("the chat template is left out, because it is too large",))
    tokens = {role: special[role] for role in _ROLES if role in special}
    template = _derive(source, tokens)
    if template is None or not _agrees(template, source, tokens):
        note = "the chat template is left out: it is not a sequence of turns, or refuses plain conversations"
        return ConvertedTemplate(None, (note,))
    notes: tuple[str, ...] = ()
    if has_bos:
        template, notes = _without_bos(template, tokens.get("bos_token", ""))
    return ConvertedTemplate(template.model_dump(mode="json"), notes)


def render(source: str, special: Mapping[str, str], conversations: Iterable[Conversation]) -> list[str | None] | None:
    """Render conversations by a Jinja template in a process; None if it fails, or where it refuses one of them."""
    tree = {
        "template": source,
        "special": dict(special),
        "conversations": [
            ([{"role": one.role, "content": one.text} for one in messages], asks) for messages, asks in conversations
        ],
    }
    command = [sys.executable, "-I", str(Path(chat_template_process.__file__))]
    try:
        done = subprocess.run(  # noqa: S603  # our own script
            command, input=json.dumps(tree), capture_output=True, text=True, encoding="utf-8", timeout=MAX_WAIT
        )
        found = json.loads(done.stdout) if done.returncode == 0 else None
    except (subprocess.TimeoutExpired, ValueError):
        return None
    return found if isinstance(found, list) else None


def _derive(source: str, special: Mapping[str, str]) -> ChatTemplate | None:
    """Return the strings around the placeholders of some conversations; None if they are not those of turns."""
    first, answer = Message("user", _FIRST), Message("assistant", _ANSWER)
    rendered = render(
        source,
        special,
        [
            ([first], False),
            ([first, answer], False),
            ([first, answer, Message("user", _SECOND)], True),
            ([Message("system", _SYSTEM), first], True),
            ([Message("user", _SPACED)], True),
        ],
    )
    if rendered is None or None in rendered[:3]:
        return None
    alone, answered, whole, with_system, spaced = rendered
    ends = [_cut(alone, _FIRST), _cut(answered, _FIRST, _ANSWER), _cut(whole, _FIRST, _ANSWER, _SECOND)]
    if None in ends:
        return None
    (_, user_end), (_, _, answer_end), (start, to_answer, to_user, end) = ends  # type: ignore[misc]
    for suffix, text in ((user_end, to_answer), (answer_end, to_user), (user_end, end)):
        if not text.startswith(suffix):
            return None
    user = Turn(prefix=to_user.removeprefix(answer_end), suffix=user_end)
    assistant = Turn(prefix=to_answer.removeprefix(user_end), suffix=answer_end)
    if not start.endswith(user.prefix):
        return None
    asks = end.removeprefix(user_end)
    settings = {
        "user": user,
        "assistant": assistant,
        "start": start.removesuffix(user.prefix),
        "system": _system(with_system, user),
        "answer_prefix": None if asks == assistant.prefix else asks,
        "trim": spaced is not None and _SPACED not in spaced,
    }
    try:
        return ChatTemplate.model_validate(settings)
    except ValueError:
        return None


def _system(text: str | None, user: Turn) -> Turn | None:
    """Return the strings around a system message; None if it is no turn of its own."""
    parts = _cut(text, _SYSTEM, _FIRST)
    if parts is None or not parts[1].endswith(user.prefix):
        return None
    return Turn(prefix=parts[0], suffix=parts[1].removesuffix(user.prefix))


def _cut(text: str | None, *placeholders: str) -> list[str] | None:
    """Return the texts around placeholders, which occur once each and in this order."""
    if text is None or any(text.count(one) != 1 for one in placeholders):
        return None
    parts = []
    for one in placeholders:
        before, found, text = text.partition(one)
        if not found:
            return None
        parts.append(before)
    return [*parts, text]


def _agrees(template: ChatTemplate, source: str, special: Mapping[str, str]) -> bool:
    """Return whether our template gives the texts of the original."""
    conversations = list(_examples(template))
    theirs = render(source, special, [(one, True) for one in conversations])
    try:
        return theirs == [format_chat(one, template) for one in conversations]
    except DataError:  # an example contains a marker
        return False


def _examples(template: ChatTemplate) -> Iterable[list[Message]]:
    """Yield conversations of one to five messages, with and without a system message."""
    texts = ("Hello", "Two lines\n\nand é 語 😀", " spaced ", "{{ x }} {% if %} <b>&amp;</b>", "1 + 1 = 2?")
    roles: tuple[Role, ...] = ("user", "assistant")
    for count in (1, 3, 5):
        for shift in range(len(texts)):
            turns = [Message(roles[n % 2], texts[(n + shift) % len(texts)]) for n in range(count)]
            yield turns
            if template.system is not None:
                yield [Message("system", texts[shift]), *turns]


def _without_bos(template: ChatTemplate, bos: str) -> tuple[ChatTemplate, tuple[str, ...]]:
    """Return the template without the begin symbol at the start, which prompts have anyway."""
    heads = [template.start if template.start else template.user.prefix]
    heads += [] if template.system is None else [template.system.prefix]
    if not bos or not all(head.startswith(bos) for head in heads) or not template.start:
        note = "prompts of a chat begin with the begin symbol here, and the chat template of the original has none"
        return template, (note,) if not any(bos and head.startswith(bos) for head in heads) else ()
    changes: dict[str, Any] = {"start": template.start.removeprefix(bos)}
    if template.system is not None:
        prefix = template.system.prefix.removeprefix(bos)
        changes["system"] = Turn(prefix=prefix, suffix=template.system.suffix)
    return template.model_copy(update=changes), ()


def special_tokens(tokens: Sequence[str], ids: Mapping[str, int | None]) -> dict[str, str]:
    """Return the token of each role, such as `bos_token`, by its id."""
    return {role: tokens[index] for role, index in ids.items() if index is not None and 0 <= index < len(tokens)}
