"""The texts beside ROLE.md: how the writer answers in structured mode, and how it works in code mode."""

from functools import cache
from importlib import resources


def structured_text() -> str:
    """How to answer by the schema."""
    return _text("STRUCTURED.md")


def code_text() -> str:
    """How to look things up and write with scripts."""
    return _text("CODE.md")


@cache
def _text(name: str) -> str:
    return resources.files(__package__ or "").joinpath(name).read_text(encoding="utf-8").strip()
