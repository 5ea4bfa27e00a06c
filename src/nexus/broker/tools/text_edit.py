"""Replacing one exact passage of a text, and helping when it is not there exactly once."""

import difflib

from nexus.errors import ToolError

_MOST_LINES_COMPARED = 5_000
_COMPARED_CHARACTERS = 160
_SHOWN_LINES = 8
_SHOWN_CHARACTERS = 1_000


def replaced(text: str, old: str, new: str) -> tuple[str, int]:
    """The text with its only `old` replaced, and the line where that was."""
    if not old:
        raise ToolError("`old` is empty", hint="Give the exact text to replace, or use `write`.")
    if old == new:
        raise ToolError("`old` and `new` are the same: nothing would change")
    found = _starts(text, old)
    if not found:
        raise ToolError("`old` is not in the file exactly as given", hint=_nearest(text, old))
    if len(found) > 1:
        lines = ", ".join(str(_line_of(text, start)) for start in found[:10])
        raise ToolError(
            f"`old` is in the file {len(found)} times, at lines {lines}",
            hint="Add lines before or after it, so that it is there only once.",
        )
    start = found[0]
    return text[:start] + new + text[start + len(old) :], _line_of(text, start)


def _starts(text: str, old: str) -> list[int]:
    """Where it begins, overlapping places too: replacing one of those would be a guess."""
    starts: list[int] = []
    at = text.find(old)
    while at >= 0 and len(starts) < 1_000:
        starts.append(at)
        at = text.find(old, at + 1)
    return starts


def _line_of(text: str, start: int) -> int:
    return text.count("\n", 0, start) + 1


def _nearest(text: str, old: str) -> str:
    """The lines most like the first line of `old`, as they really are."""
    if "\r\n" in text and "\r" not in old and old.replace("\n", "\r\n") in text:
        return "The file's lines end in CR LF: write \\r\\n at line ends."
    wanted = next((line for line in old.splitlines() if line.strip()), old)
    lines = text.splitlines()[:_MOST_LINES_COMPARED]
    compared = [_comparable(line) for line in lines]
    near = difflib.get_close_matches(_comparable(wanted), compared, n=1, cutoff=0.5)
    if not near:
        return "Nothing in the file is like it. Read the file again."
    at = compared.index(near[0])
    passage = "\n".join(lines[at : at + min(len(old.splitlines()), _SHOWN_LINES)])
    return f"Nearest, at line {at + 1}:\n{passage[:_SHOWN_CHARACTERS]}"


def _comparable(line: str) -> str:
    return line.strip()[:_COMPARED_CHARACTERS]
