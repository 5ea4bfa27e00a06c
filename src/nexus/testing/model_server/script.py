"""The script: which answer a request gets."""

import threading
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Any, Self, TypeAlias, cast

from nexus.errors import UsageError
from nexus.testing.model_server.failures import (
    BrokenEvent,
    Cut,
    Drip,
    ErrorEvent,
    Fault,
    Hold,
    HttpError,
    RetryAfter,
    Silence,
    Stall,
)
from nexus.testing.model_server.record import Usage
from nexus.testing.model_server.request import ModelRequest, WireName
from nexus.testing.model_server.turn import Pace, TokenLogprob, ToolCall, Turn

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


FAULTS: Mapping[str, Callable[..., Fault]] = {
    "stall": Stall,
    "hold": Hold,
    "cut": Cut,
    "broken_event": BrokenEvent,
    "error_event": ErrorEvent,
    "drip": Drip,
}
HINT = "The how-to “Test with the model server” describes the format."


def load(document: Any, script: Script) -> None:
    """Add a script in its JSON form to a script; nothing is added when any of it cannot be read."""
    fields = _object(document, "the script", ("steps", "rules", "always"))
    common = _queue(fields, "the script")
    rules = [_rule(rule) for rule in _list(fields.get("rules", []), "rules")]
    _fill(script.common(), *common)
    for when, queue in rules:
        _fill(script.rule(_build(matcher, when, "when")), *queue)


def step(value: Any) -> Step:
    """One step from its JSON form."""
    if isinstance(value, str):
        return value
    fields = _object(value, "a step", None)
    if "error" in fields:
        return _error(fields["error"])
    if "silence" in fields:
        return _build(Silence, fields["silence"], "silence")
    if "responder" in fields:
        if fields["responder"] != "echo":
            raise UsageError(f"there is no responder {fields['responder']!r}", hint="The one there is: echo.")
        return echo
    return _turn(fields)


def _rule(value: Any) -> tuple[Any, tuple[list[Step], Step | None]]:
    fields = _object(value, "a rule", ("when", "steps", "always"))
    _build(matcher, fields.get("when", {}), "when")
    return fields.get("when", {}), _queue(fields, "a rule")


def _queue(fields: Mapping[str, Any], what: str) -> tuple[list[Step], Step | None]:
    steps = [step(value) for value in _list(fields.get("steps", []), f"steps of {what}")]
    return steps, step(fields["always"]) if "always" in fields else None


def _fill(rule: Rule, steps: list[Step], always: Step | None) -> None:
    rule.script(*steps)
    if always is not None:
        rule.always(always)


def _turn(fields: Mapping[str, Any]) -> Turn:
    built: dict[str, Any] = dict(fields)
    readers: dict[str, Callable[[Any], Any]] = {
        "tool_calls": lambda value: [_build(ToolCall, item, "a tool call") for item in _list(value, "calls")],
        "logprobs": lambda value: [
            _build(TokenLogprob, item, "a logprob") for item in _list(value, "logprobs")
        ],
        "usage": lambda value: _build(Usage, value, "usage"),
        "pace": lambda value: _build(Pace, value, "pace"),
        "faults": lambda value: [_fault(item) for item in _list(value, "faults")],
    }
    for name, read in readers.items():
        if name in built:
            built[name] = read(built[name])
    return _build(Turn, built, "a turn")


def _error(value: Any) -> HttpError:
    fields = dict(_object(value, "an error", None))
    if "retry_after" in fields:
        fields["retry_after"] = _build(RetryAfter, fields["retry_after"], "retry_after")
    return _build(HttpError, fields, "an error")


def _fault(value: Any) -> Fault:
    fields = _object(value, "a fault", tuple(FAULTS))
    if len(fields) != 1:
        raise UsageError(f"a fault has one name, not {sorted(fields)}", hint=HINT)
    name, settings = next(iter(fields.items()))
    return _build(FAULTS[name], settings, name)


def _build(make: Callable[..., Any], fields: Any, what: str) -> Any:
    try:
        return make(**_object(fields, what, None))
    except TypeError as error:
        raise UsageError(f"{what} cannot be read: {error}", hint=HINT) from error


def _object(value: Any, what: str, allowed: tuple[str, ...] | None) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise UsageError(f"{what} must be a JSON object, not {value!r}", hint=HINT)
    fields = cast("dict[str, Any]", value)
    unknown = sorted(set(fields) - set(allowed)) if allowed is not None else []
    if unknown:
        raise UsageError(f"{what} has unknown fields: {', '.join(unknown)}", hint=HINT)
    return fields


def _list(value: Any, what: str) -> list[Any]:
    if not isinstance(value, list):
        raise UsageError(f"{what} must be a JSON list, not {value!r}", hint=HINT)
    return cast("list[Any]", value)
