"""Scripts as JSON, for the program and the control interface.

```json
{
  "steps": ["Hello", {"text": "", "tool_calls": [{"name": "recall", "arguments": {"query": "Tyler"}}]}],
  "rules": [{"when": {"model": "fast"}, "steps": [{"error": {"kind": "overloaded"}}], "always": "none"}],
  "always": {"responder": "echo"}
}
```

A step is a string, a turn with `Turn`'s fields, `{"error": …}` with `HttpError`'s fields,
`{"silence": {"hold_ms": …}}` or `{"responder": "echo"}`. A fault is an object with one key, such as
`{"cut": {"after_deltas": 2}}`.
"""

from collections.abc import Callable, Mapping
from typing import Any, cast

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
from nexus.testing.model_server.script import Rule, Script, Step, echo, matcher
from nexus.testing.model_server.turn import Pace, TokenLogprob, ToolCall, Turn
from nexus.testing.model_server.usage import Usage

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
        _fill(script.rule(_built(matcher, when, "when")), *queue)


def step(value: Any) -> Step:
    """One step from its JSON form."""
    if isinstance(value, str):
        return value
    fields = _object(value, "a step", None)
    if "error" in fields:
        return _error(fields["error"])
    if "silence" in fields:
        return _built(Silence, fields["silence"], "silence")
    if "responder" in fields:
        if fields["responder"] != "echo":
            raise UsageError(f"there is no responder {fields['responder']!r}", hint="The one there is: echo.")
        return echo
    return _turn(fields)


def _rule(value: Any) -> tuple[Any, tuple[list[Step], Step | None]]:
    fields = _object(value, "a rule", ("when", "steps", "always"))
    _built(matcher, fields.get("when", {}), "when")
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
        "tool_calls": lambda value: [_built(ToolCall, item, "a tool call") for item in _list(value, "calls")],
        "logprobs": lambda value: [
            _built(TokenLogprob, item, "a logprob") for item in _list(value, "logprobs")
        ],
        "usage": lambda value: _built(Usage, value, "usage"),
        "pace": lambda value: _built(Pace, value, "pace"),
        "faults": lambda value: [_fault(item) for item in _list(value, "faults")],
    }
    for name, read in readers.items():
        if name in built:
            built[name] = read(built[name])
    return _built(Turn, built, "a turn")


def _error(value: Any) -> HttpError:
    fields = dict(_object(value, "an error", None))
    if "retry_after" in fields:
        fields["retry_after"] = _built(RetryAfter, fields["retry_after"], "retry_after")
    return _built(HttpError, fields, "an error")


def _fault(value: Any) -> Fault:
    fields = _object(value, "a fault", tuple(FAULTS))
    if len(fields) != 1:
        raise UsageError(f"a fault has one name, not {sorted(fields)}", hint=HINT)
    name, settings = next(iter(fields.items()))
    return _built(FAULTS[name], settings, name)


def _built(make: Callable[..., Any], fields: Any, what: str) -> Any:
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
