"""Commands that the documents name exist, with the options that are named."""

import re
import shlex
from pathlib import Path

import click
import pytest

from nexus.cli import program

_ROOT = Path(__file__).parents[2]
_PAGES = [*_ROOT.glob("*.md"), *(_ROOT / "docs").rglob("*.md"), *(_ROOT / "examples").rglob("*.md")]
# In running text, at the prompt of a session, or at the beginning of a line of a shell block.
_NAMED = re.compile(r"(?:`|^\$ |^)(nexus(?: [^`\n|;&>#)]+)?)", re.MULTILINE)


def _resolved(words: list[str]) -> tuple[click.Command, list[str]]:
    """The command that is meant, and what is given to it."""
    command: click.Command = program
    context = click.Context(program)
    rest = _after_options_of_the_program(words)
    while isinstance(command, click.Group) and rest and re.fullmatch(r"[a-z][a-z-]*", rest[0]):
        found = command.get_command(context, rest[0])
        assert found is not None, f"there is no `nexus {' '.join(words)}`"
        command, rest = found, rest[1:]
    return command, rest


def _after_options_of_the_program(words: list[str]) -> list[str]:
    while words and words[0].startswith("--"):
        words = words[2:] if words[0] == "--home" else words[1:]
    return words


def _options(command: click.Command) -> set[str]:
    known = {name for each in command.params for name in (*each.opts, *each.secondary_opts)}
    return known | {"--help", "-h"}


@pytest.mark.parametrize("page", _PAGES, ids=lambda page: str(page.relative_to(_ROOT)))
def test_every_command_that_is_named_exists(page: Path) -> None:
    for text in _NAMED.findall(page.read_text(encoding="utf-8")):
        try:
            words = shlex.split(text)[1:]
        except ValueError:
            words = text.split()[1:]
        command, rest = _resolved(words)
        if not command.context_settings.get("ignore_unknown_options"):
            named = {word.split("=")[0] for word in rest if word.startswith("--")}
            assert named <= _options(command), text
