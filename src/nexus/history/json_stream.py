"""Items of a JSON document too large to hold: found by scanning, handed out as bytes, one at a time.

A streaming parser such as ijson stops for good at the first error, and holds a string of any length. An
export of years must survive one broken conversation, so this only finds where items begin and end; each
is then parsed on its own. An item that is too large is passed over without being held.
"""

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import IO, Any, Final

import pydantic_core

_CHUNK_BYTES: Final = 1024 * 1024
# Keys and plain values outside of items: names, titles, ids.
_LONGEST_SCALAR_BYTES: Final = 4 * 1024 * 1024
_DEEPEST: Final = 64

# No possessive groups: before Python 3.11.5 they match too little.
_STRING = rb'"[^"\\]*+(?:\\.[^"\\]*+)*"'
# Outside of items every token counts; inside only brackets, which no string may hide.
_OUTSIDE = re.compile(rb"\s*+(?:(" + _STRING + rb')|([{}\[\],:])|([^\s"{}\[\],:]++)|("))', re.DOTALL)
_INSIDE = re.compile(rb'(?:[^"{}\[\]]++|' + _STRING + rb')*([{}\[\]"])', re.DOTALL)
_REST_OF_STRING = re.compile(rb'[^"\\]*+(?:\\.[^"\\]*+)*', re.DOTALL)

Path = tuple[str, ...]


class BrokenJsonError(ValueError):
    """The document ends too early, or isn't JSON where its structure is needed."""


@dataclass(frozen=True, slots=True)
class Raw:
    """An item or a value that was asked for. `data` is None where it was too large to hold."""

    path: Path
    data: bytes | None


def scan(stream: IO[bytes], wanted: Callable[[Path], bool], limit_bytes: int) -> Iterator[Raw]:
    """Yield the values at the wanted paths, in order. A path names keys, and `*` for any place in an array.

    Raises BrokenJsonError where the structure around the wanted values is damaged or cut short.
    """
    return _Scanner(stream, wanted, limit_bytes).run()


def parse(data: bytes) -> Any:
    """Parse one item. Bytes that are no UTF-8 are replaced; raises ValueError for what is no JSON."""
    try:
        return pydantic_core.from_json(data, cache_strings="keys")
    except ValueError:
        pass
    try:
        # Slower, and more patient with halves of characters.
        return json.loads(data.decode("utf-8", "replace"))
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


class _Scanner:
    def __init__(self, stream: IO[bytes], wanted: Callable[[Path], bool], limit_bytes: int) -> None:
        self._stream = stream
        self._wanted = wanted
        self._limit = limit_bytes
        self._buffer = b""
        self._position = 0
        self._ended = False
        # For each open container: the key that the next value stands under.
        self._keys: list[str] = []
        self._is_array: list[bool] = []

    def run(self) -> Iterator[Raw]:
        key: bytes | None = None
        is_key = False
        started = False
        while True:
            kind, token = self._token()
            if kind == "end":
                if self._is_array or not started:
                    raise BrokenJsonError("the file is cut short")
                return
            started = True
            if kind == "string" and is_key and key is None:
                key = token
                continue
            if token == b":":
                if key is None or not self._keys:
                    raise BrokenJsonError("a colon stands where no key is")
                self._keys[-1] = _text(key)
                key, is_key = None, False
                continue
            if token == b",":
                is_key = bool(self._is_array) and not self._is_array[-1]
                continue
            if token in (b"}", b"]"):
                if not self._is_array or self._is_array[-1] != (token == b"]"):
                    raise BrokenJsonError("brackets do not match")
                self._is_array.pop()
                self._keys.pop()
                is_key = False
                continue
            # A value begins.
            path = tuple(self._keys)
            wanted = bool(path) and self._wanted(path)
            if token in (b"{", b"["):
                if wanted:
                    yield Raw(path, self._capture(token))
                    continue
                if len(self._keys) >= _DEEPEST:
                    raise BrokenJsonError("it is nested too deeply")
                self._is_array.append(token == b"[")
                self._keys.append("*")
                is_key = token == b"{"
            elif wanted:
                yield Raw(path, token)

    def _token(self) -> tuple[str, bytes]:
        while True:
            match = _OUTSIDE.match(self._buffer, self._position)
            cut = match is None or match.group(4) is not None
            if match is not None and match.group(3) is not None and match.end() == len(self._buffer):
                cut = not self._ended
            if not cut and match is not None:
                self._position = match.end()
                if match.group(1) is not None:
                    return "string", match.group(1)
                return ("mark", match.group(2)) if match.group(2) is not None else ("value", match.group(3))
            if not self._more():
                rest = self._buffer[self._position :].strip(b"\0 \t\r\n")
                if rest:
                    raise BrokenJsonError("the file is cut short")
                return "end", b""

    def _more(self) -> bool:
        """Read on, keeping what isn't used yet."""
        if self._ended:
            return False
        rest = self._buffer[self._position :]
        if len(rest) > _LONGEST_SCALAR_BYTES:
            raise BrokenJsonError("a text outside of any item is too long")
        chunk = self._stream.read(_CHUNK_BYTES)
        self._ended = not chunk
        self._buffer, self._position = rest + chunk, 0
        return bool(chunk)

    def _capture(self, opening: bytes) -> bytes | None:
        """Return the item whose opening bracket was just read, or None where it is too large."""
        parts, size, depth = [opening], 1, 1
        start = self._position
        while depth:
            match = _INSIDE.match(self._buffer, self._position)
            if match is None:
                # Nothing but plain characters up to the end of the buffer: a string has its quote match.
                size, parts = self._keep(parts, size, self._buffer[start:])
                if not self._refill():
                    raise BrokenJsonError("the file is cut short")
                start = 0
                continue
            self._position = match.end()
            if match.group(1) == b'"':
                size, parts = self._keep(parts, size, self._buffer[start : self._position])
                size, parts = self._through_string(parts, size)
                start = self._position
            else:
                depth += 1 if match.group(1) in b"{[" else -1
        size, parts = self._keep(parts, size, self._buffer[start : self._position])
        return b"".join(parts) if parts else None

    def _through_string(self, parts: list[bytes], size: int) -> tuple[int, list[bytes]]:
        """Pass the rest of a string that the buffer cuts."""
        while True:
            match = _REST_OF_STRING.match(self._buffer, self._position)
            end = self._position if match is None else match.end()
            closed = self._buffer[end : end + 1] == b'"'
            stop = end + 1 if closed else end
            size, parts = self._keep(parts, size, self._buffer[self._position : stop])
            self._position = stop
            if closed:
                return size, parts
            # A backslash at the edge belongs with what follows it.
            if not self._more():
                raise BrokenJsonError("the file is cut short")

    def _keep(self, parts: list[bytes], size: int, more: bytes) -> tuple[int, list[bytes]]:
        size += len(more)
        if size > self._limit:
            return size, []
        parts.append(more)
        return size, parts

    def _refill(self) -> bool:
        chunk = self._stream.read(_CHUNK_BYTES)
        self._ended = not chunk
        self._buffer, self._position = chunk, 0
        return bool(chunk)


def _text(string: bytes) -> str:
    try:
        return str(parse(string))
    except ValueError:
        return string.decode("utf-8", "replace")
