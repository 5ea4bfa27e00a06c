"""How a call that waits is shown: every argument, whole, so that no text in it can pass for ours.

Characters that can't be seen are spelled out as `⟨U+202E⟩`, so two different calls never look the same. On a
channel each line of a value begins with a bar, and the fence around all of it is longer than any inside.
"""

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from nexus.broker.call_patterns import Rule, suggest_rule
from nexus.ledgers.runtime.approvals import Approval

FOLD_CHARACTERS: Final = 2_000
"""Longer values are folded, where the reader can't unfold them: their beginning and end, and a link."""
NOT_A_BOUNDARY: Final = (
    "Rules and patterns are a convenience, not a boundary: what a call can reach is decided by the sandbox."
)
_ENDS: Final = 800
_LINE_CHARACTERS: Final = 160
_OUR_NAMES: Final = frozenset({"text that was read"})
_BAR: Final = "│ "
_PLAIN_NAME: Final = re.compile(r"[\w.-]{1,64}")
_FENCES: Final = re.compile(r"`+")
_CODES: Final = 100_000
# Printable to Python, blank to a reader; and the bracket that spells them.
_BLANK: Final = frozenset("\u115f\u1160\u2800\u3164\uffa0⟨")
_MARKS: Final = re.compile(r"[`\[\]<>!]")
_TRAILING_SPACE: Final = re.compile(r" (?=\n|\Z)")
_SPELLED: Final = re.compile(r"⟨U\+([0-9A-F]{4,6})⟩")


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
    """The text with everything spelled out that a reader could not see."""
    shown = "".join(
        each if each == "\n" or (each.isprintable() and each not in _BLANK) else f"⟨U+{ord(each):04X}⟩"
        for each in text
    )
    return _TRAILING_SPACE.sub("⟨U+0020⟩", shown)


def read_visible(text: str) -> str:
    """The text that `make_visible` was given."""
    return _SPELLED.sub(lambda found: chr(int(found[1], 16)), text)


def code_of(approval: Approval) -> str:
    """What an answer calls a question: made from its id and the hash of its call, so nobody can guess it."""
    made = hashlib.sha256(f"{approval.id}\0{approval.call_hash}".encode()).digest()
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
        found.append(_field("changes", approval.preview))
    if approval.tainted_by and not in_company:
        found.append(_field("text that was read", approval.tainted_by))
    return found


def _field(name: str, text: str, *, is_json: bool = False) -> Field:
    plain = name in _OUR_NAMES or _PLAIN_NAME.fullmatch(name)
    shown = name if plain else make_visible(json.dumps(name))
    return Field(name=shown, text=make_visible(text), characters=len(text), is_json=is_json)


def summarize(arguments: Mapping[str, Any]) -> str:
    """A call in a line, for lists and notifications that lead to the whole of it. `…` says that it is cut."""
    fields = describe(arguments)
    told = (each.text if len(fields) == 1 else f"{each.name}: {each.text}" for each in fields)
    line = " ".join(" · ".join(told).split())
    return line if len(line) <= _LINE_CHARACTERS else f"{line[: _LINE_CHARACTERS - 1]}…"


def question(approval: Approval, *, link: str = "", in_company: bool = False) -> str:
    """What the owner is asked on a channel."""
    code = code_of(approval)
    whole = f"{link} or `nexus approvals show {code}`" if link else f"`nexus approvals show {code}`"
    block = "\n".join(_lines(approval, whole, in_company=in_company))
    fence = "`" * max(3, 1 + max(map(len, _FENCES.findall(block)), default=0))
    parts = [
        f"{code}: may I run `{approval.tool}`?",
        f"{fence}\n{block}\n{fence}",
        f"What it changes in the file: {whole}" if in_company and approval.preview else "",
        f"Why I ask: {_plain(approval.reason)}" if approval.reason else "",
        _choices(approval, code),
    ]
    return "\n\n".join(filter(None, parts))


def render(approval: Approval) -> str:
    """A call that waits, whole, for a terminal or a program: nothing is folded."""
    lines = [f"{code_of(approval)}: {approval.tool}", *_lines(approval)]
    return "\n".join([*lines, *([f"Why: {_one_line(approval.reason)}"] if approval.reason else [])])


def _lines(approval: Approval, whole: str = "", *, in_company: bool = False) -> Iterator[str]:
    """All that others wrote, each line behind a bar; folded if `whole` says where to read the rest."""
    fields = describe_all(approval, in_company=in_company)
    for field in fields:
        text = field.text
        yield f"{field.name} ({field.size})"
        if not (whole and field.is_long):
            yield from (_BAR + line for line in text.split("\n"))
            continue
        yield from (_BAR + line for line in text[:_ENDS].split("\n"))
        yield f"[{len(text) - 2 * _ENDS:,} characters folded. Read them before you allow the call: {whole}]"
        yield from (_BAR + line for line in text[-_ENDS:].split("\n"))
    if not fields:
        yield "(no arguments)"


def _choices(approval: Approval, code: str) -> str:
    if not approval.may_become_rule:
        return f"Reply `allow {code}` (this call only) or `deny {code}`."
    always = describe_rule(approval)
    return (
        f"Reply `allow {code}` (this call only), `deny {code}`, `session {code}` (every call of "
        f"{approval.tool} in this session) or `always {code}` ({_plain(always)}). {NOT_A_BOUNDARY}"
    )


def describe_rule(approval: Approval) -> str:
    """What "always" would allow, in a line."""
    told = _one_line(str(suggest_rule(approval.tool, approval.arguments)))
    return told if len(told) <= _LINE_CHARACTERS else "exactly this call"


def confirm(approval: Approval) -> str:
    """What was decided, in a line."""
    if approval.status == "denied":
        return "Denied."
    if approval.pattern is None:
        return "Allowed once."
    told = _one_line(str(Rule.from_json(approval.pattern)))
    return f"Allowed {told} for this session." if approval.scope == "session" else f"Always allowed: {told}"


def _plain(text: str) -> str:
    """A line in which nothing is Markdown, a mention or a link."""
    return _MARKS.sub(lambda found: f"⟨U+{ord(found[0]):04X}⟩", _one_line(text))


def _one_line(text: str) -> str:
    return make_visible(text).replace("\n", "⟨U+000A⟩")
