"""Who answers the questions of `nexus init`: a person at a terminal, or the defaults."""

from collections.abc import Mapping
from typing import Protocol

import click


class Asking(Protocol):
    """Answers to questions. Each has a default, which is what Enter gives."""

    is_person: bool

    def yes(self, question: str, *, default: bool) -> bool: ...

    def text(self, question: str, default: str) -> str: ...

    def secret(self, question: str) -> str: ...

    def choice(self, question: str, options: Mapping[str, str], default: str) -> str:
        """The name of an option; the values say what each is."""
        ...


class Person:
    """Somebody at a terminal."""

    is_person = True

    def yes(self, question: str, *, default: bool) -> bool:
        return click.confirm(question, default=default)

    def text(self, question: str, default: str) -> str:
        # Without a default it is asked until there is an answer.
        return str(click.prompt(question, default=default or None)).strip()

    def secret(self, question: str) -> str:
        return str(click.prompt(question, default="", show_default=False, hide_input=True)).strip()

    def choice(self, question: str, options: Mapping[str, str], default: str) -> str:
        names = list(options)
        click.echo(question)
        for number, told in enumerate(options.values(), start=1):
            click.echo(f"  {number}  {told}")
        while True:
            typed = self.text("Choose", str(names.index(default) + 1))
            if typed.isdecimal() and 1 <= int(typed) <= len(names):
                return names[int(typed) - 1]
            click.echo(f"Type a number from 1 to {len(names)}.")


class Defaults:
    """Nobody: every question gets its default."""

    is_person = False

    def yes(self, question: str, *, default: bool) -> bool:
        return default

    def text(self, question: str, default: str) -> str:
        return default

    def secret(self, question: str) -> str:
        return ""

    def choice(self, question: str, options: Mapping[str, str], default: str) -> str:
        return default
