"""How a call that waits is shown: every argument, whole, so that no text in it can pass for ours.

Characters that can't be seen are spelled out as `⟨U+202E⟩`, so nothing hides in a text. On a channel all that
others wrote is in one fence that nothing inside can close, and each of its lines begins with a bar.
"""

import hashlib
import json
import posixpath
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Self, cast
from urllib.parse import urlsplit

from nexus.ledgers.runtime.approvals import Approval
from nexus.text import join_lines, shorten

_PATTERN: Final = re.compile(r"(?P<tool>[^()]+)(?:\((?P<value>.*)\))?", re.DOTALL)
_NAMED: Final = re.compile(r"(?P<name>[A-Za-z_][\w.-]*)=(?P<value>.*)", re.DOTALL)
# With one of these, a command may do more than its beginning says.
_JOINED: Final = re.compile(r"[;&|`$<>(){}\\\r\n]")
_SEPARATORS: Final = re.compile(r"&&|\|\||[;|&\n]")
# Our own tools: the argument by which calls are alike, and those that may then be anything.
_ALIKE: Final[Mapping[str, tuple[str, frozenset[str]]]] = {
    "bash": ("command", frozenset({"timeout_ms"})),
    "read": ("path", frozenset({"first_line", "lines"})),
    "write": ("path", frozenset({"content"})),
    "edit": ("path", frozenset({"old", "new"})),
    "web_fetch": ("url", frozenset({"offset"})),
}


def find_pattern(patterns: Sequence[str], tool: str, arguments: Mapping[str, Any]) -> str | None:
    """The first pattern that a call matches.

    `tool` matches all its calls, `tool(VALUE)` those with such a value in any argument, and
    `tool(NAME=VALUE)` those with such a value in that argument. Each command of a line counts.
    """
    for pattern in patterns:
        found = _PATTERN.fullmatch(pattern.strip())
        if found is None or not _is_like(found["tool"].strip(), tool):
            continue
        wanted = found["value"]
        if wanted is None or _has_value(wanted, arguments.values()):
            return pattern
        named = _NAMED.fullmatch(wanted)
        if named and named["name"] in arguments and _has_value(named["value"], [arguments[named["name"]]]):
            return pattern
    return None


def _has_value(wanted: str, values: Iterable[Any]) -> bool:
    return any(_is_like(wanted, text) for value in values for text in _spellings(value))


def _spellings(value: Any) -> Iterator[str]:
    """The texts in an argument, each as it is given and as it is meant."""
    if isinstance(value, Mapping):
        given = cast("Mapping[Any, Any]", value)
        for each in (*given.keys(), *given.values()):
            yield from _spellings(each)
    elif isinstance(value, list):
        for each in cast("list[Any]", value):
            yield from _spellings(each)
    elif isinstance(value, str):
        yield value
        yield posixpath.normpath(value)
        yield from (join_lines(part) for part in _SEPARATORS.split(value))
    else:
        yield json.dumps(value)


def _is_like(pattern: str, text: str) -> bool:
    """Whether a text fits a pattern, in which only `*` is special. Takes time in proportion to the text."""
    first, *others = pattern.split("*")
    if not others:
        return text == pattern
    *between, last = others
    at, end = len(first), len(text) - len(last)
    if at > end or not (text.startswith(first) and text.endswith(last)):
        return False
    for piece in between:
        # The first place is as good as any: it leaves the most for what follows.
        at = text.find(piece, at, end)
        if at < 0:
            return False
        at += len(piece)
    return True


@dataclass(frozen=True, kw_only=True)
class Rule:
    """Calls that the owner allowed from now on. All arguments of a call must be as the rule says."""

    tool: str
    exact: Mapping[str, Any] | None = None
    """Arguments with the values they must have. None, with no `like`: any arguments."""
    like: Mapping[str, str] | None = None
    """Arguments with the patterns they must fit."""

    @classmethod
    def from_json(cls, text: str) -> Self:
        return cls(**json.loads(text))

    def to_json(self) -> str:
        return json.dumps({"tool": self.tool, "exact": self.exact, "like": self.like}, ensure_ascii=False)

    def allows(self, tool: str, arguments: Mapping[str, Any]) -> bool:
        """Whether it allows a call. A pattern allows no command that is made of several."""
        if tool != self.tool:
            return False
        if self.exact is None and self.like is None:
            return True
        exact, like = self.exact or {}, self.like or {}
        missing = exact.keys() | {name for name, wanted in like.items() if wanted != "*"}
        return missing <= arguments.keys() and all(
            _is_same(exact[name], value) if name in exact else name in like and _fits(name, like[name], value)
            for name, value in arguments.items()
        )

    def __str__(self) -> str:
        if self.exact is None and self.like is None:
            return self.tool
        given = {
            **{name: _render_value(value) for name, value in (self.exact or {}).items()},
            **(self.like or {}),
        }
        return f"{self.tool}({', '.join(f'{name}={value}' for name, value in given.items())})"


def suggest_rule(tool: str, arguments: Mapping[str, Any]) -> Rule:
    """What "always" allows: calls like this one for our own tools, otherwise this very call."""
    name, free = _ALIKE.get(tool, ("", frozenset[str]()))
    value = arguments.get(name)
    wanted = _generalize(name, value) if isinstance(value, str) and "*" not in value else None
    if wanted is None:
        return Rule(tool=tool, exact=dict(arguments), like={})
    others = {each: given for each, given in arguments.items() if each != name and each not in free}
    return Rule(tool=tool, exact=others, like={name: wanted, **dict.fromkeys(sorted(free), "*")})


def _generalize(name: str, value: str) -> str | None:
    """The pattern of values like this one; None where only the value itself will do."""
    if name == "command":
        words = value.split()
        return f"{words[0]} *" if len(words) > 1 and not _JOINED.search(value) else None
    if name == "url":
        parts = urlsplit(value)
        return f"{parts.scheme}://{parts.netloc}/*" if parts.scheme and parts.netloc else None
    folder = posixpath.dirname(posixpath.normpath(value))
    return f"{folder.rstrip('/')}/*" if folder.startswith("/") else None


def _fits(name: str, wanted: str, value: Any) -> bool:
    if wanted == "*":
        return True
    if not isinstance(value, str) or (name == "command" and _JOINED.search(value)):
        return False
    return _is_like(wanted, posixpath.normpath(value) if name == "path" else value)


def _is_same(one: Any, other: Any) -> bool:
    # As JSON: `1 == True` in Python, and a server may tell them apart.
    return json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)


def _render_value(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


FOLD_CHARACTERS: Final = 2_000
"""Longer values are folded, where the reader can't unfold them: their beginning and end, and a link."""
NOT_A_BOUNDARY: Final = (
    "Rules and patterns are a convenience, not a boundary: what a call can reach is decided by the sandbox."
)
_ENDS: Final = 800
_LINE_CHARACTERS: Final = 160
_OUR_NAMES: Final = frozenset({"changes", "text that was read"})
_BAR: Final = "│ "
_BAR_WITHIN: Final = "┊ "
"""Begins the further rows of a line that is longer than a row."""
_ROW_CHARACTERS: Final = 200
_FENCE: Final = "```"
_PLAIN_NAME: Final = re.compile(r"[\w.-]{1,64}", re.ASCII)
_CODES: Final = 100_000
# Unicode's Default_Ignorable_Code_Point: drawn as nothing, yet many of them are printable to Python.
_IGNORABLE: Final = (
    (0x00AD, 0x00AD), (0x034F, 0x034F), (0x061C, 0x061C), (0x115F, 0x1160), (0x17B4, 0x17B5),
    (0x180B, 0x180F), (0x200B, 0x200F), (0x202A, 0x202E), (0x2060, 0x206F), (0x3164, 0x3164),
    (0xFE00, 0xFE0F), (0xFEFF, 0xFEFF), (0xFFA0, 0xFFA0), (0xFFF0, 0xFFF8), (0x1BCA0, 0x1BCA3),
    (0x1D173, 0x1D17A), (0xE0000, 0xE0FFF),
)  # fmt: skip
# Braille, Egyptian, Khitan and musical signs without ink; and the bracket that spells all these.
_BLANK: Final = "\u2800\U00013441\U00013442\U00016fe4\U0001d159⟨"
_UNSEEN: Final = re.compile(f"[{_BLANK}{''.join(f'{chr(a)}-{chr(b)}' for a, b in _IGNORABLE)}]")
_MOST_ACCENTS: Final = 4
_EMOJI: Final = re.compile("[\u2600-\u27bf\U0001f300-\U0001faff]")
_EMOJI_STYLE: Final = "\ufe0f"
_TRAILING_SPACE: Final = re.compile(r" (?=\n|\Z)")
_SPELLED_BEGIN: Final = re.compile(r"⟨[^⟩]*\Z")


@dataclass(frozen=True, kw_only=True, slots=True)
class Field:
    """One argument, as a person reads it."""

    name: str
    text: str
    characters: int
    is_json: bool = False
    """Whether the value isn't a text, but something else written as JSON."""

    @property
    def size(self) -> str:
        told = f"{self.characters:,} character{'s' * (self.characters != 1)}"
        return f"JSON, {told}" if self.is_json else told

    @property
    def is_long(self) -> bool:
        return self.characters > FOLD_CHARACTERS


def make_visible(text: str) -> str:
    """The text with everything spelled out that a reader could not see.

    A letter keeps up to four accents, and an emoji the selector that colors it.
    """
    if text.isascii() and text.isprintable():
        return _TRAILING_SPACE.sub("⟨U+0020⟩", text)
    shown: list[str] = []
    accents, is_emoji = 0, False
    for each in text:
        kind = unicodedata.category(each)
        is_accent = kind in {"Mn", "Me"}
        if each == _EMOJI_STYLE:
            is_seen = is_emoji
        elif is_accent and not accents:
            is_seen = False
        else:
            is_seen = each == "\n" or (each.isprintable() and not _UNSEEN.match(each))
        # Vowel signs that take up room (Mc) are written between a letter and its accents.
        if is_seen and kind[0] == "L":
            accents = _MOST_ACCENTS
        else:
            accents = accents - is_accent if is_seen and kind[0] == "M" else 0
        is_emoji = is_seen and _EMOJI.match(each) is not None
        shown.append(each if is_seen else f"⟨U+{ord(each):04X}⟩")
    return _TRAILING_SPACE.sub("⟨U+0020⟩", "".join(shown))


def code_of(approval: Approval) -> str:
    """What an answer calls a question."""
    return make_code(approval.id, approval.call_hash)


def make_code(approval_id: str, call_hash: str) -> str:
    """The code of a question, made from its id and the hash of its call, so that nobody can guess it."""
    made = hashlib.sha256(f"{approval_id}\0{call_hash}".encode()).digest()
    return f"A{int.from_bytes(made[:8]) % _CODES:05d}"


def describe(arguments: Mapping[str, Any]) -> list[Field]:
    """Every argument of a call, whole."""
    return [
        _field(name, value)
        if isinstance(value, str)
        else _field(name, json.dumps(value, ensure_ascii=False), is_json=True)
        for name, value in arguments.items()
    ]


def describe_all(approval: Approval, *, in_company: bool = False) -> list[Field]:
    """The arguments of a call, what it changes in a file, and the text for which it is asked about.

    In company, the other lines of a file and what was read elsewhere stay private.
    """
    found = describe(approval.arguments)
    if approval.preview and not in_company:
        found.append(_field("changes", approval.preview, is_ours=True))
    if approval.tainted_by and not in_company:
        found.append(_field("text that was read", approval.tainted_by, is_ours=True))
    return found


def _field(name: str, text: str, *, is_json: bool = False, is_ours: bool = False) -> Field:
    plain = is_ours or (name not in _OUR_NAMES and _PLAIN_NAME.fullmatch(name))
    shown = name if plain else make_visible(json.dumps(name))
    return Field(name=shown, text=make_visible(text), characters=len(text), is_json=is_json)


def summarize(arguments: Mapping[str, Any]) -> str:
    """A call in a line, for lists and notifications that lead to the whole of it. `…` says that it is cut."""
    fields = describe(arguments)
    told = (each.text if len(fields) == 1 else f"{each.name}: {each.text}" for each in fields)
    return shorten(join_lines(" · ".join(told)), _LINE_CHARACTERS)


def question(approval: Approval, *, link: str = "", in_company: bool = False) -> str:
    """What the owner is asked on a channel."""
    code = code_of(approval)
    whole = f"{link} or `nexus approvals show {code}`" if link else f"`nexus approvals show {code}`"
    always = describe_rule(approval) if approval.may_become_rule else ""
    block = [
        *_lines(approval, whole, in_company=in_company),
        *(["Why I ask", *_rows(_one_line(approval.reason))] if approval.reason else []),
        *([f"What `always {code}` allows", *_rows(always)] if always else []),
    ]
    parts = [
        f"{code}: may I run `{approval.tool}`?",
        "\n".join([_FENCE, *block, _FENCE]),
        f"What it changes in the file: {whole}" if in_company and approval.preview else "",
        _choices(approval, code),
    ]
    return "\n\n".join(filter(None, parts))


def render(approval: Approval) -> str:
    """A call that waits, whole, for a terminal or a program: nothing is folded."""
    lines = [f"{code_of(approval)}: {approval.tool}", *_lines(approval)]
    return "\n".join([*lines, *([f"Why: {_one_line(approval.reason)}"] if approval.reason else [])])


def _lines(approval: Approval, whole: str = "", *, in_company: bool = False) -> Iterator[str]:
    """All that others wrote, each line behind a bar.

    If `whole` says where to read the rest, it is for a channel: folded, and in rows.
    """
    fields = describe_all(approval, in_company=in_company)
    for field in fields:
        text, heading = field.text, f"{field.name} ({field.size})"
        yield from _rows(heading, "") if whole else [heading]
        if not whole:
            yield from (_BAR + line for line in text.split("\n"))
        elif not field.is_long:
            yield from _rows(text)
        else:
            yield from _rows(text[:_ENDS])
            folded = f"{len(text) - 2 * _ENDS:,} characters folded"
            yield f"[{folded}. Read them before you allow the call: {whole}]"
            yield from _rows(text[-_ENDS:])
    if not fields:
        yield "(no arguments)"


def _rows(text: str, bar: str = _BAR) -> Iterator[str]:
    """A visible text in rows that are short enough for any message, and in which no fence ends."""
    for line in text.replace(_FENCE, "``⟨U+0060⟩").split("\n"):
        begin, rest = bar, line
        while len(rest) > _ROW_CHARACTERS:
            cut = _ROW_CHARACTERS
            # A mark stays with its letter, a spelled character in one piece, and a row ends in no space.
            while cut > _ROW_CHARACTERS // 2 and (
                rest[cut - 1] == " " or unicodedata.category(rest[cut])[0] == "M"
            ):
                cut -= 1
            if begun := _SPELLED_BEGIN.search(rest, cut - 10, cut):
                cut = begun.start()
            yield begin + _TRAILING_SPACE.sub("⟨U+0020⟩", rest[:cut])
            begin, rest = _BAR_WITHIN, rest[cut:]
        yield begin + rest


def _choices(approval: Approval, code: str) -> str:
    if not approval.may_become_rule:
        return f"Reply `allow {code}` (this call only) or `deny {code}`."
    return (
        f"Reply `allow {code}` (this call only), `deny {code}`, `session {code}` (every call of "
        f"`{approval.tool}` in this session) or `always {code}` (as above). {NOT_A_BOUNDARY}"
    )


def describe_rule(approval: Approval) -> str:
    """What "always" would allow, in a line."""
    rule = suggest_rule(approval.tool, approval.arguments)
    told = _one_line(str(rule))
    return told if rule.like or len(told) <= _LINE_CHARACTERS else "exactly this call"


def confirm(approval: Approval) -> str:
    """What was decided, in a line."""
    if approval.status == "denied":
        return "Denied."
    if approval.pattern is None:
        return "Allowed once."
    told = _one_line(str(Rule.from_json(approval.pattern)))
    return f"Allowed {told} for this session." if approval.scope == "session" else f"Always allowed: {told}"


def _one_line(text: str) -> str:
    return make_visible(text).replace("\n", "⟨U+000A⟩")
