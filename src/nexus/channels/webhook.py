"""A channel for anything that can send a signed HTTP request: `POST /hooks/NAME` in, a request to a URL out.

A request is signed with a secret that both sides know. `timed` signatures also say when they were made, so
that one that somebody recorded can't be used later; with `body` signatures, as some services send them, only
the id of the message keeps it from being answered twice. A signature covers the body and no header, so
everything about a message is taken from the body.
"""

import asyncio
import hashlib
import hmac
import json
import re
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Final, Literal, cast

import httpx

from nexus.channels import http, wire
from nexus.channels.adapter import Capability, Delivery, DeliveryError, Inbox, Message, MessageError
from nexus.errors import AccessError, ConfigError

HEADER: Final = "nexus-signature"
_WINDOW_S: Final = 300
_TIMED: Final = re.compile(r"t=(\d{1,12}),v1=([0-9a-f]{64})")
_FIELDS: Final = {name: name for name in ("id", "thread", "sender", "text", "sender_name")}
_FLAGS: Final = ("is_group", "is_addressed")
_BODY: Final = '{"key": "{key}", "thread": "{thread}", "text": "{text}", "reply_to": "{reply_to}"}'
_PLACES: Final = re.compile(r"\{(key|thread|text|reply_to)\}")
_TOO_MANY: Final = 429
Signature = Literal["timed", "body"]


class Webhook:
    """Takes in signed requests, and sends signed requests."""

    capabilities: frozenset[Capability] = frozenset()

    def __init__(
        self,
        name: str,
        *,
        secret: str,
        url: str = "",
        signature: Signature = "timed",
        header: str = "",
        fields: Mapping[str, str] | None = None,
        body: str = "",
        now_s: Callable[[], float] = time.time,
    ) -> None:
        self._name = name
        self._secret = secret.encode()
        self._url = url
        self._signature: Signature = signature
        self._header = (header or HEADER).lower()
        self._fields = _check_fields(name, {**_FIELDS, **(fields or {})})
        self._body = _parse_template(name, body or _BODY)
        self._now_s = now_s
        self._inbox: Inbox | None = None
        self._has_started = asyncio.Event()
        self._client: httpx.AsyncClient | None = None

    async def run(self, inbox: Inbox) -> None:
        """Take in requests, and send through one client until canceled."""
        async with http.make_client() as client:
            self._inbox, self._client = inbox, client
            try:
                await inbox.connected()
                self._has_started.set()
                await asyncio.Event().wait()
            finally:
                self._has_started.clear()
                self._inbox = self._client = None

    async def receive(
        self, headers: Mapping[str, str], body: bytes, start_timeout_s: float = 0
    ) -> Message | None:
        """Take in a request. None where the channel doesn't run, nor starts in time."""
        if not self.is_signed(headers, body):
            raise AccessError("The signature is wrong, or too old")
        with suppress(TimeoutError):
            await asyncio.wait_for(self._has_started.wait(), start_timeout_s)
        if self._inbox is None:
            return None
        message = self._parse_message(headers, body)
        await self._inbox.accept(message)
        return message

    async def deliver(self, delivery: Delivery) -> str | None:
        """Send a message to the URL."""
        if not self._url:
            raise DeliveryError(f"[channels.{self._name}] has no `url` to send to", final=True)
        if self._client is None:
            raise DeliveryError("the channel is stopped")
        body = json.dumps(_fill_template(self._body, delivery), ensure_ascii=False).encode()
        headers = {
            "content-type": "application/json",
            self._header: self.sign(body),
            "idempotency-key": delivery.key,
        }
        try:
            answer = await self._client.post(self._url, content=body, headers=headers)
        except httpx.HTTPError as error:
            raise DeliveryError(f"{type(error).__name__}: {error}") from error
        if answer.is_success:
            return None
        final = answer.is_client_error and answer.status_code != _TOO_MANY
        raise DeliveryError(f"the receiver answered {answer.status_code}", final=final)

    def sign(self, body: bytes) -> str:
        """The signature of a request that is sent now."""
        if self._signature == "body":
            return "sha256=" + self._digest(body)
        at = str(int(self._now_s()))
        return f"t={at},v1={self._digest(at.encode() + b'.' + body)}"

    def is_signed(self, headers: Mapping[str, str], body: bytes) -> bool:
        """Whether whoever sent a request knows the secret."""
        given = headers.get(self._header, "")
        if self._signature == "body":
            return hmac.compare_digest(given.encode(), b"sha256=" + self._digest(body).encode())
        return self._is_timed(given, body)

    def _is_timed(self, given: str, body: bytes) -> bool:
        found = _TIMED.fullmatch(given.strip())
        if found is None:
            return False
        at, digest = found.groups()
        expected = self._digest(at.encode() + b"." + body)
        # Both are looked at in any case, so that the time taken tells nothing.
        is_right = hmac.compare_digest(digest, expected)
        return abs(self._now_s() - int(at)) <= _WINDOW_S and is_right

    def _digest(self, data: bytes) -> str:
        return hmac.new(self._secret, data, hashlib.sha256).hexdigest()

    def _parse_message(self, headers: Mapping[str, str], body: bytes) -> Message:
        try:
            value: Any = json.loads(body)
        except (ValueError, RecursionError):
            raise MessageError("The request body isn't valid JSON") from None
        given = {name: _look_up(place, value) for name, place in self._fields.items()}
        if given["id"] is None:
            # Whoever gives no id is answered once for the same words in the same request.
            given["id"] = hashlib.sha256(body + headers.get(self._header, "").encode()).hexdigest()
        if given["thread"] is None:
            given["thread"] = given["sender"]
        flags = {name: _look_up(name, value) for name in _FLAGS}
        return wire.read_message(
            {**given, **{name: flag for name, flag in flags.items() if flag is not None}}
        )


def _check_fields(name: str, fields: dict[str, str]) -> dict[str, str]:
    for field, place in fields.items():
        if place.startswith("header:"):
            raise ConfigError(
                f"[channels.{name}.fields] {field} names a header, which the signature doesn't cover",
                hint="Name a field of the body. Without an `id`, a message is known by its whole body.",
            )
    return fields


def _look_up(place: str, value: Any) -> Any:
    """What stands at a place: `a.b` in the body, or `=TEXT` for the text itself."""
    if place.startswith("="):
        return place[1:]
    for part in place.split("."):
        if isinstance(value, dict):
            value = cast("dict[str, Any]", value).get(part)
        elif isinstance(value, list) and part.isdecimal() and int(part) < len(cast("list[Any]", value)):
            value = cast("list[Any]", value)[int(part)]
        else:
            return None
    return str(value) if isinstance(value, int | float) and not isinstance(value, bool) else value


def _parse_template(name: str, text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        raise ConfigError(
            f"[channels.{name}] body is no JSON",
            hint='Write it as {"content": "{text}"}; {key}, {thread} and {reply_to} can be used too.',
        ) from None


def _fill_template(template: Any, delivery: Delivery) -> Any:
    if isinstance(template, dict):
        return {key: _fill_template(each, delivery) for key, each in cast("dict[str, Any]", template).items()}
    if isinstance(template, list):
        return [_fill_template(each, delivery) for each in cast("list[Any]", template)]
    if isinstance(template, str):
        return _PLACES.sub(lambda found: getattr(delivery, found[1]) or "", template)
    return template
