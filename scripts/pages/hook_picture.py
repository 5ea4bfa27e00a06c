"""The picture of the hook points: the stages of a message, and what hangs behind each."""

from collections.abc import Iterator

from nexus.automations.hook_points import HOOK_POINTS, HookPoint

_WIDTH = 660
_ROW = 42
_TOP = 34
_AFTER = "after:"
# The hook point of the last stage: those behind it lie outside of a message's way.
_LAST = "finalize"
_LABEL = (
    "The stages of a message from top to bottom, each followed by its hook point and what automations "
    "there may return. Below are the hook points outside a message's path."
)


def picture() -> str:
    """The drawing, in the colours of whatever page it stands on."""
    last = [point.name for point in HOOK_POINTS].index(_LAST) + 1
    way, outside = list(HOOK_POINTS[:last]), list(HOOK_POINTS[last:])
    height = _TOP + _ROW * len(way) + 34 + 30 * len(outside)
    lines = [
        f'<svg viewBox="0 0 {_WIDTH} {height}" role="img" aria-label="{_LABEL}">',
        '  <text class="small" x="20" y="22">stage</text>',
        '  <text class="small" x="228" y="22">hook point</text>',
        '  <text class="small" x="424" y="22">automations there may return</text>',
        *_way(way),
        *_outside(outside, _TOP + _ROW * len(way) + 22),
        "</svg>",
    ]
    return "\n".join(lines)


def _way(points: list[HookPoint]) -> Iterator[str]:
    for number, point in enumerate(points):
        top = _TOP + _ROW * number
        yield _box("strong", 20, top, 160, point.name.removeprefix(_AFTER), "mono")
        yield f'  <path class="line" d="M180 {top + 15}h40"/>'
        yield _box("box", 220, top, 190, point.name, "mono")
        yield _text(424, top + 19, ", ".join(point.returns), "small")
        if number + 1 < len(points):
            yield f'  <path class="line" d="M100 {top + 30}v{_ROW - 30}"/>'


def _outside(points: list[HookPoint], top: int) -> Iterator[str]:
    yield _text(20, top, "outside of that way", "small")
    for number, point in enumerate(points):
        y = top + 10 + 30 * number
        yield _box("box", 20, y, 190, point.name, "mono", height=24)
        yield _text(220, y + 16, point.when, "small")


def _box(kind: str, x: int, y: int, width: int, words: str, style: str, *, height: int = 30) -> str:
    drawn = f'  <rect class="{kind}" x="{x}" y="{y}" width="{width}" height="{height}" rx="5"/>'
    return drawn + _text(x + 10, y + height // 2 + 4, words, style).strip()


def _text(x: int, y: int, words: str, style: str) -> str:
    plain = words.replace("`", "").replace("&", "&amp;").replace("<", "&lt;")
    return f'  <text class="{style}" x="{x}" y="{y}">{plain}</text>'
