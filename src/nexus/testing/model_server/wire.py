"""What a wire format must be able to do; the rest of the server does not know which one it speaks."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, Protocol

from nexus.testing.model_server.failures import Kind
from nexus.testing.model_server.record import Usage
from nexus.testing.model_server.request import Json, KeptHeaders, ModelRequest, Prompt, View, WireName
from nexus.testing.model_server.turn import Turn


class RejectedError(Exception):
    """The request cannot be answered by the script: the client gets the provider's error."""

    def __init__(
        self, message: str, kind: Kind = "invalid_request", headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(message)
        self.message = message
        self.kind: Kind = kind
        self.headers = headers or {}


@dataclass(frozen=True)
class Event:
    """One event of a stream."""

    data: bytes
    role: Literal["frame", "delta", "close"] = "frame"
    """`delta` carries content; `close` is the first event after the last content."""
    output_bytes: int = 0
    """How much of the model's output it carries."""


@dataclass(frozen=True)
class ErrorForm:
    """How a wire format tells one kind of error."""

    status: int
    type: str
    message: str
    code: str | None = None


class Wire(Protocol):
    """A wire format."""

    @property
    def name(self) -> WireName: ...

    @property
    def errors(self) -> Mapping[Kind, ErrorForm]: ...

    def check(self, body: Json, headers: KeptHeaders) -> None:
        """Raise `RejectedError` where the provider would answer 400."""
        ...

    def prompt(self, body: Json) -> Prompt:
        """The canonical prompt of a checked body."""
        ...

    def view(self, body: Json) -> View:
        """The common view of a checked body."""
        ...

    def body(self, request: ModelRequest, turn: Turn, usage: Usage) -> Json:
        """The answer without streaming."""
        ...

    def events(self, request: ModelRequest, turn: Turn, usage: Usage) -> list[Event]:
        """The answer as a stream."""
        ...

    def error_body(self, kind: Kind, message: str, request_id: str) -> Json:
        """The body of an error, also inside a stream."""
        ...

    def error_event(self, body: Json) -> bytes:
        """An error inside a stream."""
        ...

    def request_id_header(self) -> str:
        """The header that names the request in an answer."""
        ...


def require(condition: object, message: str) -> None:
    """Reject the request unless the condition holds."""
    if not condition:
        raise RejectedError(message)
