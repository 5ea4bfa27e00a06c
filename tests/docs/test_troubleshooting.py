"""The page on troubles quotes the program: every message on it is one that the code can say."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from nexus.cli import COMMANDS

_ROOT = Path(__file__).parents[2]
_PAGE = (_ROOT / "docs" / "troubleshooting.md").read_text(encoding="utf-8")
_ROWS = re.findall(r"^\| (`.*?) \| (.*?) \| (.*) \|$", _PAGE, re.MULTILINE)
_ANY = "…"
# What a provider or the system says, or a file is called.
_NOT_OURS = re.compile(r"\d{3}|insufficient_quota|Connection refused|config\.toml")


def _messages() -> list[str]:
    quoted = [text for first, _, _ in _ROWS for text in re.findall(r"`([^`]+)`", first)]
    return [text for text in quoted if not _NOT_OURS.fullmatch(text)]


def _literals(text: ast.expr) -> str | None:
    """A text of the code, with a mark for each part that differs."""
    if isinstance(text, ast.Constant) and isinstance(text.value, str):
        return text.value
    if isinstance(text, ast.JoinedStr):
        return "".join(_literals(part) or _ANY for part in text.values)
    return None


@cache
def _said() -> tuple[tuple[str, "re.Pattern[str]"], ...]:
    return tuple(_texts())


def _texts() -> Iterator[tuple[str, "re.Pattern[str]"]]:
    for file in sorted((_ROOT / "src" / "nexus").rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            text = _literals(node) if isinstance(node, ast.Constant | ast.JoinedStr) else None
            literal = (text or "").replace(_ANY, "").strip()
            # A text that is nearly all placeholder would match anything.
            if text and len(literal) >= 5:
                pattern = ".+".join(re.escape(part) for part in text.strip().split(_ANY))
                yield literal, re.compile(pattern.replace("`", "`?"), re.DOTALL)


def test_the_page_has_its_rows() -> None:
    assert len(_ROWS) >= 40
    assert len(_messages()) >= 40


@pytest.mark.parametrize("message", _messages())
def test_a_message_of_the_page_is_one_that_the_program_says(message: str) -> None:
    words = message.replace(_ANY, "").strip()
    fitting = [literal for literal, pattern in _said() if pattern.fullmatch(message.strip())]
    assert any(len(literal) >= 0.6 * len(words) for literal in fitting), message


def test_the_commands_of_the_page_exist() -> None:
    named = set(re.findall(r"`nexus (?:--home \w+ )?(\w+)", _PAGE))
    assert named <= COMMANDS.keys()
    assert {"init", "doctor", "restore", "up"} <= named
