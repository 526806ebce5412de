"""Synthetic texts of user interfaces with placeholders of every kind."""

import random
import re
from collections.abc import Callable
from dataclasses import dataclass

NAMES = ("user", "file", "folder", "name", "title", "project", "device", "language", "group", "server")
NUMBERS = ("count", "total", "size", "limit", "max", "pages", "minutes", "percent", "version", "port")

TEMPLATES = (
    "Please enter at most {n} characters.",
    "Could not open {t}.",
    "Do you want to delete {t}?",
    "{t} has been moved to {t}.",
    "{t} sent you a message.",
    "Welcome back, {t}!",
    "Copied {n} files to {t}.",
    "The password for {t} has expired.",
    "{n} of {n} items are selected.",
    "Your account will be closed in {n} days.",
    "Sign in to {t} to continue.",
    "You have been invited to join {t} by {t}.",
    "The file {t} is larger than {n} MB.",
    "Last updated by {t} on {t}",
    "Downloading {t}: {n} minutes left",
    "Error {n}: could not connect to {t}.",
    "Enter a number between {n} and {n}.",
    "Are you sure that you want to remove {t} from {t}?",
    "The image must have at least {n} by {n} pixels.",
    "Search in {t}",
    "Save changes to {t} before closing?",
    "{t} is already in use. Choose another name.",
    "There was a problem while loading {t}, so {t} is shown instead.",
    "Page {n} of {n}",
    "The connection to {t} was lost after {n} seconds.",
    "Share {t} with {t}",
    "Install {t} and restart the computer.",
    "We sent a code to {t}. Enter it here to confirm your address.",
    "Only {t} can change the settings of {t}.",
    "Backup of {t} is complete ({n} files).",
    "Hello {t}, your order {n} has been shipped to {t}.",
    "Add a comment to {t}",
    "The update to version {n} failed because {t} is open.",
    "{t} and {n} other people like this.",
    "Show more results for {t}",
    "No results were found for {t} in {t}.",
    "You used {n} of your {n} minutes this month.",
    "Open {t} in a new window",
    "The meeting with {t} starts in {n} minutes.",
    "The value of {t} must not be empty.",
    "Unknown language: {t}",
    "{t}: the disk is full",
    "Replace {t} with {t} in all documents?",
    "{t} wants to use your camera.",
    "Upload failed. {t} is not a picture.",
    "Thank you for buying {t}, {t}!",
    "The printer ({t}) has no paper; use “{t}” instead!",
    "Move {t} from {t} to {t} before {n}?",
    "Are you {t}? If not, sign out of {t}.",
    "“{t}” was renamed to “{t}”",
    "Total {n}, tax {n}, shipping {n}, discount {n}, and due {n} by {t}.",
)
FIXED = {
    "url": (
        "Read more about this at {0}.",
        "Visit {0} to get help.",
        "The page ({0}) could not be found.",
        "Your files are available at {0} until Friday.",
    ),
    "email": ("Write to {0} if you need help.", "An invitation was sent to {0}.", "Contact {0} about your order."),
    "option": ("Use {0} to see more details.", "The option {0} needs a value.", "Run the program with {0} or {1}."),
    "path": ("The settings are stored in {0}.", "Cannot write to {0}: the disk is full.", "Move {0} to {1}."),
    "code": ("Run {0} to install the update.", "The command {0} was not found.", "Type {0} and press Enter."),
    "entity": ("Terms{0}of{1}use", "Save{0}as a new document", "Cats {0} dogs"),
    "escape": ("The file was not found.{0}Please try again.", "First line{0}Second line", "Done.{0}"),
    "tag": (
        "Click {0}here{1} to continue.",
        "{0}Warning:{1} this cannot be undone.",
        "Read the {0}terms of use{1} first.",
        "This is {0}very{1} important.",
    ),
    "void tag": ("Line one{0}line two", "The icon {0} shows the status.", "Press {0} to start and {1} to stop."),
    "key": ("Press {0} to save.", "Use {0} or {1} to switch windows."),
    "emoji": ("Well done {0} you won!", "Rated 5 {0} by users"),
    "identifier": ("The function {0} failed.", "Set {0} to yes.", "The field [{0}] is missing."),
    "nested tag": ("You were invited by {0} to a group.", "Read {0} and {1} first."),
    "adjacent": ("Copied {0} to the folder.", "The values {0} and {1} are wrong."),
    "block": ("{0}You are an administrator.{1}", "Dear {0}friends{1}, welcome!"),
    "percent": ("The battery is at {0}.", "{0} of the work is done.", "Save {0} today!"),
}
VALUES = {
    "url": (
        "https://example.org/help",
        "https://example.com/a?b=1&c=%20d#top",
        "http://localhost:8080/",
        "www.example.org",
    ),
    "email": ("support@example.org", "first.last+tag@mail.example.co.uk", "info@example.com"),
    "option": ("--verbose", "--help", "--output=FILE", "--no-color"),
    "path": ("/etc/fstab", "~/.config/app", "C:\\Users\\me", "./run.sh", "/usr/share/doc"),
    "code": ("`make install`", "`pip install x`", "``ls -l``", "`exit`"),
    "entity": ("&nbsp;", "&amp;", "&#8211;", "&mdash;"),
    "escape": ("\\n", "\\t", "\\n\\n"),
    "void tag": ('<x id="1"/>', '<ph id="2" />', "<br>", "<br/>", '<img src="a.png">'),
    "key": ("Ctrl+S", "Alt+F4", "Ctrl+Shift+T", "F5"),
    "emoji": ("\u2605", ":smile:", "\U0001f389", ":+1:"),
    "identifier": ("file_name", "max_connections", "getName()", "settings.json"),
    "nested tag": ("<b>%1$s</b>", '<ph id="1">%s</ph>', "<0>{{name}}</0>", "<strong>{name}</strong>"),
    "adjacent": ("%s%s", "{0}{1}", "%1$s%2$s", "{{a}}{{b}}", "%L1%1"),
    "block": ("{{#if x}}", "{{/if}}"),
    "percent": ("%d%%", "%.1f%%", "{x}%", "100%%"),
}
PAIRS = (("<b>", "</b>"), ('<a href="https://example.org">', "</a>"), ('<g id="1">', "</g>"), ("<em>", "</em>"))
ICU = (
    "{N, plural, one {# file was deleted.} other {# files were deleted.}}",
    "{N, plural, =0 {No messages} one {One message from {T}} other {# messages from {T}}}",
    "{T, select, female {She shared a photo} male {He shared a photo} other {They shared a photo}} with you.",
    "You have {N, plural, one {# new notification} other {# new notifications}} in {T}.",
    "{N, selectordinal, one {This is the #st visit} two {This is the #nd visit} few {This is the #rd visit} "
    "other {This is the #th visit}} of {T}.",
    "{T, select, admin {{N, plural, one {You can remove # user.} other {You can remove # users.}}} "
    "other {You can''t remove users.}}",
    "{N, plural, offset:1 =0 {Nobody is here.} =1 {{T} is here.} one {{T} and one other person are here.} "
    "other {{T} and # other people are here.}}",
    "It''s {N, plural, one {one o''clock} other {# o''clock}} now, don''t wait.",
    "{N, plural, =0{No files}one{# file}other{# files}} selected",
    "{N, plural, one {<b>#</b> new message} other {<b>#</b> new messages}} from {T}",
)


@dataclass(frozen=True)
class UiString:
    """Text and the kind of its placeholders."""

    kind: str
    text: str
    placeholders: tuple[str, ...]
    """The placeholders in order; empty for an ICU message, which is judged branch by branch."""


Writer = Callable[[str, str, int], str]
"""Function from the role (`t` text, `n` number), a name and a position, from 1, to a placeholder."""
WRITERS: dict[str, Writer] = {
    "printf": lambda role, _name, _place: "%s" if role == "t" else "%d",
    "printf flags": lambda role, _name, _place: "%-20s" if role == "t" else "%5.2f",
    "printf numbered": lambda role, _name, place: f"%{place}${'s' if role == 't' else 'd'}",
    "printf named": lambda role, name, _place: f"%({name}){'s' if role == 't' else 'd'}",
    "objective-c": lambda role, _name, _place: "%@" if role == "t" else "%lld",
    "qt": lambda _role, _name, place: f"%{place}",
    "brace": lambda _role, name, _place: f"{{{name}}}",
    "brace format": lambda role, name, place: f"{{{place - 1}:.2f}}" if role == "n" else f"{{{name}!r}}",
    "brace empty": lambda _role, _name, _place: "{}",
    "mustache": lambda _role, name, _place: f"{{{{{name}}}}}",
    "mustache spaces": lambda _role, name, _place: f"{{{{ {name} | upper }}}}",
    "dollar brace": lambda _role, name, _place: f"${{{name}}}",
    "dollar": lambda _role, name, _place: f"${name}",
    "hash brace": lambda _role, name, _place: f"#{{{name}}}",
    "percent brace": lambda _role, name, _place: f"%{{{name}}}",
    "at": lambda _role, name, _place: f"@{name}",
    "xliff": lambda _role, _name, place: f'<x id="{place}"/>',
    "rust": lambda role, name, _place: f"{{{name}:>8}}" if role == "t" else "{:?}",
    "java": lambda role, _name, place: f"%{place}$tB" if role == "n" else "%s",
    "ruby": lambda role, name, _place: f"%<{name}>s" if role == "t" else f"%<{name}>.2f",
    "laravel": lambda _role, name, _place: f":{name}",
    "symfony": lambda _role, name, _place: f"%{name}%",
    "mediawiki": lambda _role, _name, place: f"${place}",
    "vue linked": lambda _role, name, _place: f"@:{name}.label",
    "make": lambda _role, name, _place: f"$({name.upper()})",
    "fluent": lambda _role, name, _place: f"{{ ${name} }}",
    "swift": lambda _role, name, _place: f"\\({name})",
    "erb": lambda _role, name, _place: f"<%= {name} %>",
    "brackets": lambda _role, name, _place: f"[[{name}]]",
    ".net date": lambda role, _name, place: f"{{{place - 1}:dd MMM yyyy}}" if role == "n" else f"{{{place - 1}}}",
}


def ui_strings(count: int, *, seed: int = 0) -> list[UiString]:
    """Return texts of all kinds in turn."""
    generator = random.Random(seed)
    kinds = [*WRITERS, *FIXED, "icu"]
    return [_draw(kinds[number % len(kinds)], generator) for number in range(count)]


def _draw(kind: str, generator: random.Random) -> UiString:
    if kind in WRITERS:
        return _from_template(kind, generator)
    if kind == "icu":
        number, name = generator.choice(NUMBERS), generator.choice(NAMES)
        text = re.sub("(?<={)[NT]\\b", lambda found: number if found[0] == "N" else name, generator.choice(ICU))
        return UiString(kind, text, ())
    template = generator.choice(FIXED[kind])
    values = generator.choice(PAIRS) if kind == "tag" else tuple(generator.sample(VALUES[kind], 2))
    used = values[: 1 + ("{1}" in template)]
    return UiString(kind, template.format(*values), tuple(used))


def _from_template(kind: str, generator: random.Random) -> UiString:
    template = generator.choice(TEMPLATES)
    names = {"t": generator.sample(NAMES, len(NAMES)), "n": generator.sample(NUMBERS, len(NUMBERS))}
    first, *pieces = re.split("({[tn]})", template)
    found: list[str] = []
    text = first
    for mark, piece in zip(pieces[::2], pieces[1::2], strict=True):
        role = mark[1]
        found.append(WRITERS[kind](role, names[role].pop(), len(found) + 1))
        text += found[-1] + piece
    return UiString(kind, text, tuple(found))
