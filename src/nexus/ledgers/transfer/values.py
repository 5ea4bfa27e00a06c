"""What SQLite can keep, in JSON and back, without losing a bit.

Whole numbers, numbers with a fraction, text and NULL are JSON's own. What JSON has no word for is an
object with one key, which no column's value can be otherwise:

    {"blob": "AP8="}        bytes, in base64
    {"text": "/0E="}        text that is not UTF-8 (another program wrote it), in base64
    {"real": "-inf"}        a number without end
"""

import base64
import json
from collections.abc import Callable, Iterable
from json.encoder import encode_basestring
from typing import Any, NoReturn, cast


class ForeignText(bytes):
    """The bytes of a text that is not UTF-8, as SQLite keeps them."""

    __slots__ = ()


Value = None | int | float | str | bytes

_INFINITE = {"inf": float("inf"), "-inf": float("-inf")}


def template(columns: Iterable[str]) -> str:
    """The JSON object of a row, with a place for each value."""
    # A table has the same columns in every row: naming them once takes half the time of a dict each.
    names = [json.dumps(column).replace("%", "%%") for column in columns]
    return "{" + ",".join(f"{name}:%s" for name in names) + "}"


def encoded(template: str, row: Iterable[Value]) -> str:
    """A row as a JSON object."""
    return template % tuple([_ENCODERS[type(value)](value) for value in row])


def decoded(row: tuple[Any, ...]) -> tuple[Value, ...]:
    """A row of JSON values as SQLite takes them; the very same one where nothing was marked."""
    if _PLAIN.issuperset(map(type, row)):
        return row
    return tuple(value if type(value) in _PLAIN else _unmarked(value) for value in row)


def parsed(line: bytes) -> Any:
    """One line of JSON. What only looks like JSON, such as a bare `NaN`, is refused with ValueError."""
    text = line.decode()
    value, end = _decoder.raw_decode(text)
    if text[end:] != "\n":
        raise ValueError("more than one value, or no end of line")
    return value


def from_bytes(text: bytes) -> str | ForeignText:
    """The text that these bytes are."""
    try:
        return text.decode()
    except UnicodeDecodeError:
        return ForeignText(text)


def _real(value: float) -> str:
    text = repr(value)
    return json.dumps({"real": text}) if text in _INFINITE else text


def _marked(kind: str) -> Callable[[bytes], str]:
    return lambda value: f'{{"{kind}":"{base64.b64encode(value).decode()}"}}'


def _unmarked(value: object) -> Value:
    if isinstance(value, dict) and len(cast("dict[str, Any]", value)) == 1:
        ((kind, content),) = cast("dict[str, Any]", value).items()
        if kind == "blob":
            return base64.b64decode(content, validate=True)
        if kind == "text":
            return from_bytes(base64.b64decode(content, validate=True))
        if kind == "real" and content in _INFINITE:
            return _INFINITE[content]
    raise ValueError(f"{json.dumps(value)[:60]} is not a value that a column can have")


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON")


_ENCODERS: dict[type, Callable[[Any], str]] = {
    type(None): lambda _: "null",
    int: repr,
    float: _real,
    str: encode_basestring,
    bytes: _marked("blob"),
    ForeignText: _marked("text"),
}
_PLAIN = {type(None), int, float, str}
_decoder = json.JSONDecoder(parse_constant=_refuse)
