"""One home as a program uses it: `building` wires it, `app` opens it and is its API."""

from nexus.app.app import App
from nexus.app.building import Shared

__all__ = ["App", "Shared"]
