"""How payloads, results and errors are stored: as JSON where that is exact, pickled where it is not.

JSON keeps them readable in the plain database programs. A tuple, a class or an error would come
back as something else, and a replay must see what the first run saw, so those are pickled.
"""

import base64
import importlib
import io
import json
import math
import pickle
import sys
from collections import OrderedDict, deque
from dataclasses import asdict, dataclass, is_dataclass
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum
from pathlib import PosixPath, PurePosixPath
from typing import Any, Final, Literal, cast
from uuid import UUID

NAME = "nexus"
_PICKLED = "pickle:"
_ENDED = "nexus.ended"
_VALUES: Final = frozenset[type](
    {bytearray, complex, frozenset, set, OrderedDict, deque, Decimal, UUID, PosixPath, PurePosixPath}
    | {date, datetime, time, timedelta, timezone}
)

EndKind = Literal["failed", "timeout", "cancelled"]


@dataclass(frozen=True, kw_only=True)
class End:
    """Why an execution ended without a result."""

    kind: EndKind
    type: str = ""
    message: str = ""
    trace: str = ""
    started_ms: int = 0
    ended_ms: int = 0


class Ended(Exception):  # noqa: N818 - it is a way to end, not always an error
    """Raised out of the body so that the end is recorded as one without a result."""

    def __init__(self, end: End) -> None:
        super().__init__(f"{end.kind}: {end.message}")
        self.end = end


class UnreadableError(pickle.UnpicklingError):
    """What was stored can't be read back, such as a class that this version doesn't have."""


class StepError(Exception):
    """Stands for an error of a step whose own class cannot be stored and made again."""


def dumps(value: Any) -> str:
    if isinstance(value, Ended):
        return _json({_ENDED: asdict(value.end)})
    if isinstance(value, BaseException):
        return _PICKLED + _error(value)
    if _exact(value):
        return _json(value)
    stored = _PICKLED + _pickle(value)
    loads(stored)  # what can't be read back must fail now, not in a replay
    return stored


def beginning_of_end(kind: str) -> str:
    """How an end of that kind begins as it is stored."""
    return _json({_ENDED: {"kind": kind}}).removesuffix("}}")


def loads(text: str) -> Any:
    """The value that was stored; UnreadableError where this version cannot make it again."""
    try:
        if text.startswith(_PICKLED):
            return _Unpickler(io.BytesIO(base64.b64decode(text[len(_PICKLED) :]))).load()
        value: Any = json.loads(text)
        if type(value) is dict and _ENDED in value:
            return Ended(End(**cast("dict[str, Any]", value)[_ENDED]))
    except Exception as error:  # pickle calls the class's own code, which may raise anything
        raise UnreadableError(f"{type(error).__name__}: {error}") from error
    return cast("Any", value)


class _Unpickler(pickle.Unpickler):
    """Makes values and errors, and calls nothing else: a restored database may come from anybody."""

    def find_class(self, module: str, name: str, /) -> Any:
        if module.partition(".")[0] == "nexus":
            importlib.import_module(module)
        found: object = getattr(sys.modules.get(module), name, None)
        if not isinstance(found, type) or not _is_value(cast("type[Any]", found), module):
            raise pickle.UnpicklingError(f"{module}.{name} is neither a value nor an error")
        return cast("type[Any]", found)


def _is_value(kind: type[Any], module: str) -> bool:
    if kind in _VALUES or issubclass(kind, BaseException):
        return True
    return module.partition(".")[0] == "nexus" and (is_dataclass(kind) or issubclass(kind, Enum))


def _json(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    try:
        text.encode()
    except UnicodeEncodeError:
        # Bytes that were no text, as a program may print them: escaped, the database can store them.
        return json.dumps(value)
    return text


def _pickle(value: Any) -> str:
    return base64.b64encode(pickle.dumps(value)).decode("ascii")


def _error(error: BaseException) -> str:
    """The error itself where it survives being stored: many classes cannot be made from their arguments."""
    try:
        stored = _pickle(error)
        loads(_PICKLED + stored)
    except Exception:  # pickle calls the class's own code, which may raise anything
        return _pickle(StepError(f"{type(error).__qualname__}: {error}"))
    return stored


def _exact(value: Any) -> bool:
    """Whether JSON gives back the very same value."""
    kind = type(cast("object", value))
    if value is None or kind in {str, int, bool}:
        return True
    if kind is float:
        return math.isfinite(value)
    if kind is list:
        return all(_exact(item) for item in value)
    if kind is dict:
        return _ENDED not in value and all(type(k) is str and _exact(v) for k, v in value.items())
    return False
