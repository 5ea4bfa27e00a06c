"""The script: which answer a request gets."""

import threading
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Self, TypeAlias

from nexus.testing.model_server.failures import HttpError, Silence
from nexus.testing.model_server.request import ModelRequest, WireName
from nexus.testing.model_server.turn import Turn

Directive: TypeAlias = Turn | HttpError | Silence
"""What the server can be told to do with a request."""
Step: TypeAlias = Directive | str | Callable[[ModelRequest], Directive | str]
"""A string is a `Turn` with that text. A callable is asked in the server's thread."""
Matcher: TypeAlias = Callable[[ModelRequest], bool]


def echo(request: ModelRequest) -> Turn:
    """Answers with the last thing that the user said."""
    return Turn(request.last_user)


def matcher(
    *,
    model: str | None = None,
    last_user: str | None = None,
    system: str | None = None,
    tool: str | None = None,
    wire: WireName | None = None,
    headers: Mapping[str, str] | None = None,
) -> Matcher:
    """A match on every given point: model, tool, wire and headers exactly, texts as a part of the whole."""

    def matches(request: ModelRequest) -> bool:
        wanted_headers = (headers or {}).items()
        return (
            (model is None or request.model == model)
            and (last_user is None or last_user in request.last_user)
            and (system is None or system in request.system)
            and (tool is None or tool in request.tool_names)
            and (wire is None or request.wire == wire)
            and all(request.headers.get(name) == value for name, value in wanted_headers)
        )

    return matches


class Rule:
    """A queue of steps for the requests that match."""

    def __init__(self, matches: Matcher, lock: AbstractContextManager[object]) -> None:
        self._matches = matches
        self._lock = lock
        self._steps: deque[Step] = deque()
        self._always: Step | None = None

    def script(self, *steps: Step) -> Self:
        """Add steps to the end of the queue."""
        with self._lock:
            self._steps.extend(steps)
        return self

    def always(self, step: Step) -> Self:
        """Answer so whenever the queue is empty."""
        with self._lock:
            self._always = step
        return self

    def take(self, request: ModelRequest) -> Step | None:
        """The next step for this request; the caller holds the lock."""
        if not self._matches(request):
            return None
        return self._steps.popleft() if self._steps else self._always

    @property
    def remaining(self) -> list[Step]:
        return list(self._steps)


class Script:
    """Rules in the order they were made, then the common queue, then the default."""

    def __init__(self) -> None:
        # A matcher may itself look at the script.
        self._lock = threading.RLock()
        self._rules: list[Rule] = []
        self._common = Rule(lambda request: True, self._lock)

    def common(self) -> Rule:
        """The queue for requests that no rule answers."""
        return self._common

    def rule(self, matches: Matcher) -> Rule:
        rule = Rule(matches, self._lock)
        with self._lock:
            self._rules.append(rule)
        return rule

    def take(self, request: ModelRequest) -> Directive | None:
        """The answer to this request, removed from its queue; None when nothing is scripted for it."""
        with self._lock:
            candidates = (rule.take(request) for rule in [*self._rules, self._common])
            step = next((step for step in candidates if step is not None), None)
        answer = step(request) if callable(step) else step
        return Turn(answer) if isinstance(answer, str) else answer

    def remaining(self) -> list[Step]:
        """The steps that no request has asked for yet."""
        with self._lock:
            return [step for rule in [*self._rules, self._common] for step in rule.remaining]

    def clear(self) -> None:
        with self._lock:
            self._rules.clear()
            self._common = Rule(lambda request: True, self._lock)
