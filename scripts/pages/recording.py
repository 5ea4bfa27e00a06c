"""docs/assets/terminal.svg: the README's part of the recorded session, played as in a terminal."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Final

_PAGE: Final = Path(__file__).parents[2] / "docs" / "recorded-session.md"
_COLUMNS: Final = 100
_ROWS: Final = 22
_CHARACTER_PX, _LINE_PX, _MARGIN_PX, _BAR_PX = 8.43, 20, 20, 34
_TYPE_S, _ANSWER_S, _READ_S, _READ_LINE_S = 0.028, 0.35, 1.3, 0.28
_TITLE: Final = (
    "A terminal: nexus demo makes a month of conversations, and nexus recall finds what changed in it"
)
_FONTS: Final = 'ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace'
_FOLLOW: Final = "Everything here is invented"
"""From here on, the first command's output is for whoever typed it."""


@dataclass(frozen=True, kw_only=True)
class Line:
    """A line of the terminal: when it begins to show, and for how long it is typed."""

    text: str
    at_s: float
    typed_s: float = 0.0


def picture() -> str:
    """Draw the session. It plays once and then shows its end, as it does where nothing may move."""
    lines = list(_schedule(_read_commands(_PAGE.read_text(encoding="utf-8"))))
    width = _COLUMNS * _CHARACTER_PX + 2 * _MARGIN_PX
    height = _ROWS * _LINE_PX + _MARGIN_PX + _BAR_PX
    drawn = "\n".join(_draw(number, line) for number, line in enumerate(lines))
    return f"""\
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height}" role="img" aria-labelledby="title">
<title id="title">{_TITLE}</title>
<style>
text {{ font: 14px {_FONTS}; fill: #d6deeb; white-space: pre; }}
.typed {{ fill: #fff; animation: type both; }}
.shown {{ animation: show 1ms both; }}
#lines {{ animation: scroll {lines[-1].at_s:.2f}s step-end both; }}
@keyframes type {{ from {{ clip-path: inset(0 100% 0 0); }} to {{ clip-path: inset(0 0 0 0); }} }}
@keyframes show {{ from {{ opacity: 0; }} to {{ opacity: 1; }} }}
@keyframes scroll {{
{_scroll(lines)}
}}
@media (prefers-reduced-motion: reduce) {{
  .typed, .shown {{ animation: none; }}
  #lines {{ animation: none; transform: translateY(-{_hidden(len(lines)) * _LINE_PX}px); }}
}}
</style>
<clipPath id="screen"><rect y="{_BAR_PX}" width="100%" height="{height - _BAR_PX}"/></clipPath>
<rect width="100%" height="100%" rx="10" fill="#16202e"/>
<g fill="#48566b">
<circle cx="20" cy="17" r="5"/><circle cx="38" cy="17" r="5"/><circle cx="56" cy="17" r="5"/>
</g>
<g clip-path="url(#screen)"><g id="lines">
{drawn}
</g></g>
</svg>
"""


def _read_commands(page: str) -> list[tuple[str, list[str]]]:
    """The README's commands, each with what it printed."""
    [session] = re.findall(r"^## README\n\n```text\n(.*?)\n```$", page, re.MULTILINE | re.DOTALL)
    commands: list[tuple[str, list[str]]] = []
    for line in session.splitlines():
        if line.startswith("$ "):
            commands.append((line, []))
        else:
            commands[-1][1].append(line)
    return [(typed, printed[: _first(printed)]) for typed, printed in commands]


def _first(printed: list[str]) -> int:
    return next((number for number, line in enumerate(printed) if line.startswith(_FOLLOW)), len(printed))


def _schedule(commands: list[tuple[str, list[str]]]) -> Iterator[Line]:
    now_s = 0.4
    for typed, printed in commands:
        for part in _fold(typed):
            yield Line(text=part, at_s=now_s, typed_s=len(part) * _TYPE_S)
            now_s += len(part) * _TYPE_S
        now_s += _ANSWER_S
        for line in printed:
            for part in _fold(line):
                yield Line(text=part, at_s=now_s)
        now_s += _READ_S + _READ_LINE_S * len(printed)


def _fold(line: str) -> list[str]:
    """A line as a terminal of this width wraps it."""
    return [line[start : start + _COLUMNS] for start in range(0, len(line), _COLUMNS)] or [""]


def _draw(number: int, line: Line) -> str:
    x, y = _MARGIN_PX, _BAR_PX + (number + 1) * _LINE_PX - 5
    kind, style = "shown", f"animation-delay:{line.at_s:.2f}s"
    if line.typed_s:
        steps = f"animation-timing-function:steps({len(line.text)})"
        kind, style = "typed", f"{style};animation-duration:{line.typed_s:.2f}s;{steps}"
    return f'<text class="{kind}" x="{x}" y="{y}" style="{style}">{escape(line.text)}</text>'


def _hidden(count: int) -> int:
    """How many lines have left at the top when so many are there."""
    return max(0, count - _ROWS)


def _scroll(lines: list[Line]) -> str:
    """The steps of what scrolls, one for each moment at which lines begin."""
    end_s = lines[-1].at_s
    shown = {line.at_s: number + 1 for number, line in enumerate(lines)}
    return "\n".join(
        f"  {100 * at_s / end_s:.2f}% {{ transform: translateY(-{_hidden(count) * _LINE_PX}px); }}"
        for at_s, count in [(0.0, 0), *shown.items()]
    )
