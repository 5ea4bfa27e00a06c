"""The arguments of a memory operation: a JSON object, read strictly, with errors that show how to write it.

Names are those of the flags (`--source-type` is `source-type` or `source_type`). A list may also be
written as one text with commas, as a shell does.
"""

import difflib
import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any, cast

from nexus import clock
from nexus.errors import UsageError


class Arguments:
    """One operation's arguments. Read each, then `finish`: what was not asked for is refused."""

    def __init__(self, operation: str, given: object, example: str) -> None:
        self.operation = operation
        self._example = example
        if not isinstance(given, Mapping):
            raise self.error(
                f"The arguments of `{operation}` must be a JSON object, not {_format_value(given)}"
            )
        items = cast("Mapping[object, object]", given).items()
        self._given = {str(key).replace("-", "_"): value for key, value in items if value is not None}
        self._asked: set[str] = set()

    def error(self, message: str) -> UsageError:
        """Make an error that shows how the operation is written."""
        return UsageError(message, hint=f"For example: {self._example}")

    def finish(self) -> None:
        """Refuse what nobody asked for."""
        for name in self._given:
            if name not in self._asked:
                near = difflib.get_close_matches(name, self._asked, n=1)
                meant = f"did you mean `{near[0]}`?" if near else f"it takes {', '.join(sorted(self._asked))}"
                raise self.error(f"`{self.operation}` has no argument `{name}`: {meant}")

    def text(self, name: str) -> str | None:
        """Take a text that isn't empty, or None."""
        value = self._take(name)
        if value is None:
            return None
        if not isinstance(value, str) or not value.strip():
            raise self.error(f"`{name}` must be a text that is not empty, not {_format_value(value)}")
        return value.strip()

    def require(self, name: str) -> str:
        """Take a text that must be there."""
        value = self.text(name)
        if value is None:
            raise self.error(f"`{self.operation}` needs `{name}`")
        return value

    def share(self, name: str, default: float = 1.0) -> float:
        """Take a number from 0 to 1."""
        value = self._take(name)
        if value is None:
            return default
        try:
            number = float(cast("Any", value)) if not isinstance(value, bool) else -1.0
        except (TypeError, ValueError):
            number = -1.0
        if not 0.0 <= number <= 1.0:
            raise self.error(f"`{name}` must be a number from 0 to 1, not {_format_value(value)}")
        return number

    def moment(self, name: str) -> datetime | None:
        """Take a time; one without a zone is UTC."""
        value = self.text(name)
        if value is None:
            return None
        try:
            return clock.parse(value)
        except (ValueError, OverflowError):
            raise self.error(f"`{name}` must be a time such as 2026-02-13T10:00:00Z, not {value!r}") from None

    def texts(self, name: str) -> tuple[str, ...]:
        """Take a list of texts, or one text with commas; each once, in order."""
        value = self._take(name)
        if value is None:
            return ()
        parts: object = value.split(",") if isinstance(value, str) else value
        if not isinstance(parts, list) or not all(
            isinstance(part, str) for part in cast("list[object]", parts)
        ):
            raise self.error(f"`{name}` must be a list of texts, not {_format_value(value)}")
        return tuple(dict.fromkeys(part.strip() for part in cast("list[str]", parts) if part.strip()))

    def items(self, name: str) -> list[object]:
        """Take a list of anything; a single value is a list of one."""
        value = self._take(name)
        if value is None:
            return []
        return cast("list[object]", value) if isinstance(value, list) else [value]

    def mapping(self, name: str) -> dict[str, Any]:
        """Take an object of the writer's own, also as JSON text."""
        value = self._take(name)
        if isinstance(value, str):
            try:
                value = json.loads(value)
            except ValueError:
                raise self.error(f"`{name}` must be a JSON object, not {_format_value(value)}") from None
        if value is not None and not isinstance(value, dict):
            raise self.error(f"`{name}` must be a JSON object, not {_format_value(value)}")
        return cast("dict[str, Any]", value or {})

    def json_object(self, name: str) -> str:
        """Take an object of the writer's own, as JSON text."""
        return json.dumps(self.mapping(name), sort_keys=True)

    def _take(self, name: str) -> object:
        self._asked.add(name)
        return self._given.get(name)


def _format_value(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= 80 else f"{text[:77]}…"
