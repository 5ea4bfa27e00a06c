"""The system prompt: one text for everybody in a home, so that its prefix stays cached.

Nothing in it depends on the time, the session or the role. What does goes into the user turn. Runs with the
owner's rights end it with the owner's profile, which seldom changes.
"""

from functools import cache
from importlib import resources
from pathlib import Path

from nexus.context.wrapping import wrapped
from nexus.errors import ConfigError
from nexus.home import Home


def owner_file(home: Home) -> Path:
    """Where the owner of a home may add to the prompt."""
    return home.state / "PROMPT.md"


def system_prompt(home: Home) -> str:
    """The prompt of every agent of a home: the program's own, and what the owner adds. Blocking."""
    file = owner_file(home)
    try:
        added = file.read_text(encoding="utf-8").strip()
    except FileNotFoundError:
        added = ""
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(
            f"{file} cannot be read: {error}",
            hint="Correct or remove the file; it adds to the system prompt.",
        ) from error
    return f"{own()}\n\n# From the owner\n\n{added}" if added else own()


def with_profile(prompt: str, profile: str) -> str:
    """The prompt with what is known about the owner. It stands last: what is before it stays cached."""
    return f"{prompt}\n\n# The owner\n\n{wrapped('owner_profile', profile)}" if profile else prompt


@cache
def own() -> str:
    """The program's own part of it."""
    return resources.files(__package__).joinpath("prompt.md").read_text(encoding="utf-8").strip()
