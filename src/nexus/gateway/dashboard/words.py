"""How values read on a page."""

import json
import re
from collections.abc import Mapping
from datetime import datetime
from functools import cache
from typing import TYPE_CHECKING, Any, Final, cast

from markupsafe import Markup, escape

from nexus import clock
from nexus.memory.recall.item import PIN, label
from nexus.text import CITED, join_lines, shorten

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.renderer import RendererHTML
    from markdown_it.token import Token
    from markdown_it.utils import EnvType, OptionsDict

_GOOD: Final = frozenset({"ok", "done", "active", "closed", "accepted", "connected"})
_BAD: Final = frozenset({"error", "failed", "timeout", "denied", "open", "refused", "rejected"})
_BUSY: Final = frozenset({"running", "queued", "pending", "half_open", "half-open", "starting", "waiting"})
_RECORDS: Final = {
    "events.events": "messages",
    "memory.facts": "facts",
    "memory.episodes": "episodes",
    "memory.observations": "observations",
    "memory.mental_models": "mental models",
    "identity.entities": "people and things",
    "agents.agent_sessions": "sessions",
    "runtime.requests": "requests",
}
_TICKED: Final = re.compile(r"`([^`]+)`")
_MOMENT: Final = re.compile(r"\b(\d{4}-\d\d-\d\d)T(\d\d:\d\d):\d\d(?:\.\d+)?Z")
# A page is bounded by what is said, so what a text becomes must be bounded by the text.
_LONGEST: Final = 20_000
_LARGER: Final = 3
_WEEK_S: Final = 7 * 86_400
_AGES: Final = ((86_400 * 365, "y"), (86_400 * 30, "mo"), (86_400, "d"), (3_600, "h"), (60, "min"))


def tone(status: str) -> str:
    """The class of a status: good, bad, busy or quiet."""
    word = status.partition(" ")[0].rstrip(":")
    if word in _GOOD:
        return "good"
    if word in _BAD:
        return "bad"
    return "busy" if word in _BUSY else "quiet"


def status_word(status: str) -> str:
    """Give a status the word that people use for it."""
    return {"cancelled": "stopped"}.get(status, status)


def plain_words(name: str | None) -> str:
    """Write the name of a kind as words: `WORKED_ON` is `worked on`."""
    return (name or "").replace("_", " ").lower()


def records(counts: Mapping[str, int]) -> tuple[list[tuple[str, int]], list[tuple[str, int]]]:
    """How many rows of each table, by `ledger.table`: those that people have a word for, and the rest."""
    named = [(what, counts[place]) for place, what in _RECORDS.items() if counts.get(place)]
    others = [(place, count) for place, count in counts.items() if place not in _RECORDS]
    return named, sorted(others, key=lambda entry: (-entry[1], entry[0]))


def argument_values(arguments: str) -> str:
    """Write the arguments of a call in a line: their values alone, cut to fit."""
    try:
        read = json.loads(arguments)
    except ValueError:
        return short(arguments, 100)
    values = list(cast("dict[str, Any]", read).values()) if isinstance(read, dict) else [read]
    texts = [each if isinstance(each, str) else json.dumps(each, ensure_ascii=False) for each in values]
    return short(" · ".join(texts), 100)


def when(timestamp: str | None) -> str:
    """A moment to the second, in UTC."""
    return clock.second(timestamp or "")


def shorten_times(text: str) -> str:
    """Shorten the timestamps of a sentence to the minute, as people write them."""
    return _MOMENT.sub(r"\1 \2", text)


def day(timestamp: str | None) -> str:
    return (timestamp or "")[:10]


def age(timestamp: str | None, now: datetime | None = None) -> str:
    """How long ago something was, in its largest unit."""
    if not timestamp:
        return ""
    try:
        seconds = ((now or clock.now()) - clock.parse(timestamp)).total_seconds()
    except ValueError:
        return timestamp
    for size, unit in _AGES:
        if seconds >= size:
            return f"{seconds / size:.0f} {unit} ago"
    return "just now" if seconds >= 0 else f"in {-seconds / 86_400:.0f} d"


def until(timestamp: str | None, now: datetime | None = None) -> str:
    """How long something is still off: `in 3 h`, or its day where that is farther than a week."""
    if not timestamp:
        return ""
    seconds = (clock.parse(timestamp) - (now or clock.now())).total_seconds()
    if seconds >= _WEEK_S:
        return day(timestamp)
    for size, name in _AGES[2:]:
        if seconds >= size:
            return f"in {seconds / size:.0f} {name}"
    return "now" if seconds <= 0 else "in a minute"


def took(milliseconds: float | None) -> str:
    return "…" if milliseconds is None else clock.took(milliseconds)


def count(number: float | None) -> str:
    return "" if number is None else f"{number:,.0f}"


def size(count_bytes: float) -> str:
    """A number of bytes."""
    unit = "B"
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count_bytes < 1024 or unit == "GiB":
            break
        count_bytes /= 1024
    return f"{count_bytes:,.0f} {unit}" if unit != "GiB" else f"{count_bytes:,.1f} GiB".replace(".0 ", " ")


def short(text: str | None, length: int = 120) -> str:
    """The beginning of a text, in one line."""
    return shorten(join_lines(text or ""), length)


def unit(number: int, what: str) -> str:
    """`fact` of one, `facts` of more."""
    return f"{what}{'s' * (number != 1)}"


def amount(value: float, unit: str) -> str:
    """Money or tokens."""
    return f"${value:,.2f}" if unit == "usd" else f"{value:,.0f} tokens"


_FOUND: Final = re.compile(r"^(.*?)(?: \((?:found by )?([^()]*)\))?$")
_WHY: Final = {
    "needed": "The task needs it",
    "pinned": "You pinned it to somebody or something that the message names",
    "the model chose it": "The model chose it among the candidates",
    "the model found it itself and chose it": "The model looked it up and chose it",
    "among the best for the question": "It is among the best matches for the question",
    "the model left it out": "The model left it out",
    "it hardly answers": "It hardly answers the question",
    "others come before it": "Others matched better",
    "the task hardly needs it": "The task hardly needs it",
    "already in the conversation": "It is in the conversation already",
}


def why(text: str) -> str:
    """Why a memory was used or left out, as a sentence."""
    found = _FOUND.match(text.strip())
    reason, arms = (found[1], found[2] or "") if found else (text, "")
    said = _WHY.get(reason) or reason[:1].upper() + reason[1:]
    ways = dict.fromkeys(label(arm) for arm in arms.split(", ") if arm)
    ways.pop(label(PIN), None)
    return f"{said} ({', '.join(ways)})." if ways else f"{said}."


def link_citations(text: str | None) -> Markup:
    """Link the citations of a conclusion to what it rests on, further down on the page."""
    places: dict[str, int] = {}

    def mark(found: re.Match[str]) -> str:
        number = places.setdefault(found[1], len(places) + 1)
        return f" [{number}](#{found[1]})"

    return markdown(CITED.sub(mark, text or ""))


def code_spans(text: str | None) -> Markup:
    """Turn `words` between ticks into code."""
    return Markup(_TICKED.sub(r"<code>\1</code>", str(escape(text or ""))))  # noqa: S704 - escaped before


def _link_open(
    renderer: "RendererHTML", tokens: "list[Token]", index: int, options: "OptionsDict", env: "EnvType"
) -> str:
    if not str(tokens[index].attrGet("href")).startswith("#"):
        tokens[index].attrSet("rel", "noopener noreferrer nofollow")
        tokens[index].attrSet("target", "_blank")
    return renderer.renderToken(tokens, index, options, env)


@cache
def _markdown() -> "MarkdownIt":
    """Without HTML, and without pictures: what somebody wrote must not load anything from elsewhere."""
    from markdown_it import MarkdownIt  # a home starts sooner without it

    made = MarkdownIt("commonmark", {"html": False, "linkify": False})
    made.enable(["table", "strikethrough"]).disable("image")
    made.add_render_rule("link_open", _link_open)
    return made


_BREAKS: Final = frozenset({"softbreak", "hardbreak"})


def markdown(text: str | None) -> Markup:
    """A text that may be anybody's, as safe HTML; as it was written where it is made to become very large."""
    plain = Markup('<div class="said">{}</div>').format(text or "")
    if len(text or "") > _LONGEST:
        return plain
    shown = Markup(_markdown().render(text or ""))  # noqa: S704 - raw HTML is off: all of it is escaped
    return shown if len(shown) <= _LARGER * len(plain) + 1_000 else plain


def preview(text: str | None, length: int) -> str:
    """Show the beginning of a Markdown text in one line, without its marks."""
    blocks = _markdown().parse((text or "")[: 4 * length])
    inside = (block.children or [block] for block in blocks if block.content)
    lines = ("".join(" " if part.type in _BREAKS else part.content for part in parts) for parts in inside)
    return short(" ".join(lines), length)
