"""Dataclasses as JSON, and JSON as dataclasses again, by their annotations.

Pydantic does more, and takes longer to import than a served home to answer. What a newer program sends beside
the known fields is left out, so that an older client goes on reading it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields, is_dataclass
from datetime import datetime
from functools import cache
from types import UnionType
from typing import Any, TypeVar, Union, cast, get_args, get_origin, get_type_hints

T = TypeVar("T")


def decode(kind: type[T], value: Any) -> T:
    """Make an object of a kind, a dataclass or a container of some, of what JSON says about it."""
    return _decode(kind, value)


def encode(value: Any) -> Any:
    """Make JSON of a dataclass, as `decode` reads it."""
    return _encode(asdict(value))


def _encode(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _encode(each) for name, each in cast("Mapping[str, Any]", value).items()}
    if isinstance(value, (list, tuple)):
        return [_encode(each) for each in cast("Sequence[Any]", value)]
    if isinstance(value, frozenset):
        return sorted(cast("frozenset[str]", value))
    return value.isoformat() if isinstance(value, datetime) else value


def _decode(kind: Any, value: Any) -> Any:
    origin, arguments = get_origin(kind), get_args(kind)
    if value is None or kind is Any:
        return value
    if origin in (Union, UnionType):
        return _decode(next(each for each in arguments if each is not type(None)), value)
    if is_dataclass(kind):
        return _build(cast("type[Any]", kind), {}, value)
    if origin is not None and is_dataclass(origin):
        parameters = cast("tuple[Any, ...]", getattr(origin, "__parameters__", ()))
        return _build(cast("type[Any]", origin), dict(zip(parameters, arguments, strict=True)), value)
    if origin is dict:
        return {name: _decode(arguments[1], each) for name, each in value.items()}
    if origin is tuple and arguments[-1] is not Ellipsis:
        return tuple(_decode(each, part) for each, part in zip(arguments, value, strict=True))
    if origin in (tuple, list, frozenset):
        build = cast("type[list[Any]]", origin)
        return build(_decode(arguments[0], each) for each in value)
    if kind is datetime:
        return datetime.fromisoformat(value)
    return float(value) if kind is float else value


def _build(kind: type[Any], bound: Mapping[Any, Any], value: Mapping[str, Any]) -> Any:
    hints = _hints(kind)
    given = {name: _bind(hints[name], bound) for name in hints if name in value}
    return kind(**{name: _decode(hint, value[name]) for name, hint in given.items()})


def _bind(hint: Any, bound: Mapping[Any, Any]) -> Any:
    """Put what a generic class is of in the place of its parameters."""
    parameters = cast("tuple[Any, ...]", getattr(hint, "__parameters__", ()))
    if hint in bound:
        return bound[hint]
    return hint[tuple(bound[each] for each in parameters)] if parameters and bound else hint


@cache
def _hints(kind: type[Any]) -> dict[str, Any]:
    hints = get_type_hints(kind)
    return {each.name: hints[each.name] for each in fields(kind) if each.init}
