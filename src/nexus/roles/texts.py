"""What a role is told to be: the ROLE.md that lies in its own package."""

from functools import cache
from importlib import resources


@cache
def role_text(package: str) -> str:
    """The ROLE.md of a package."""
    return resources.files(package).joinpath("ROLE.md").read_text(encoding="utf-8").strip()
