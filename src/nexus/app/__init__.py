"""One home as a program uses it: `building` wires it, `lifecycle` opens and closes it, `app` is its API."""

from nexus.app.app import App
from nexus.app.building import Shared

__all__ = ["App", "Shared"]
