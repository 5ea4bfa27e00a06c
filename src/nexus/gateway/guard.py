"""What every request passes before anything else sees it: who asks, from where, how often, how much.

Only what the connection and the home's own secrets say counts. A request without a valid token is answered
with 401 whatever it asks for, so that nothing can be learned about what there is.
"""

import asyncio
import hashlib
import hmac
import json
import os
import secrets
import threading
import time
from collections.abc import Awaitable, Callable, Container, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self, cast
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from nexus.config import GatewayConfig
from nexus.errors import ConfigError
from nexus.gateway.errors import leave_for, refusal, refuse_unsigned
from nexus.home import PRIVATE_FILE
from nexus.secrets import digest

if TYPE_CHECKING:
    from nexus.gateway.mcp import RemoteClients

LINK_S: Final = 600
_LINKS_KEPT: Final = 16


class Keys:
    """Every comparison takes the same time for a right and a wrong secret."""

    def __init__(
        self, token: str, now: Callable[[], float] = time.time, *, port: int = 0, file: Path | None = None
    ) -> None:
        self._token = digest(token)
        self._now = now
        self._links: dict[bytes, float] = {}
        self.browsers: Final = Browsers(hmac.digest(token.encode(), b"nexus browser", "sha256"), file, now)
        # Cookies know no port: each home and each place where it is served has one of its own.
        self.cookie: Final = f"nexus_{port}_{hashlib.sha256(self._token).hexdigest()[:12]}"

    def is_token(self, given: str) -> bool:
        return hmac.compare_digest(digest(given), self._token)

    def new_code(self) -> str:
        """The code of a login link: it works once, and for ten minutes."""
        code = secrets.token_urlsafe(32)
        self._links[digest(code)] = self._now() + LINK_S
        while len(self._links) > _LINKS_KEPT:
            del self._links[next(iter(self._links))]
        return code

    def is_code(self, code: str) -> bool:
        """Whether a login link may be used; with that it has been."""
        return self._links.pop(digest(code), 0.0) >= self._now()


SESSION_S: Final = 7 * 86_400
"""A browser is logged in for so long at most."""
IDLE_S: Final = 86_400
"""It is logged out when it asks for nothing for so long."""
_MOST: Final = 64


class Browsers:
    """Each has a secret of its own, which opens this home alone and can be made worthless."""

    def __init__(self, key: bytes, file: Path | None, now: Callable[[], float] = time.time) -> None:
        self._key = key
        self._file = file
        self._now = now
        self._ends = _read(file)
        self._seen: dict[str, float] = dict.fromkeys(self._ends, now())
        self._changing = threading.Lock()

    def __len__(self) -> int:
        return sum(self._is_alive(digest) for digest in tuple(self._ends))

    def add(self) -> str:
        """Log a browser in: its secret. Like all that changes who is logged in, it waits for the disk."""
        secret = secrets.token_urlsafe(32)
        digest = self._digest(secret)
        with self._changing:
            alive = [each for each in self._ends if self._is_alive(each)][1 - _MOST :]
            self._seen = {each: self._seen[each] for each in alive} | {digest: self._now()}
            self._ends = {each: self._ends[each] for each in alive} | {digest: self._now() + SESSION_S}
            self._write()
        return secret

    def knows(self, secret: str) -> bool:
        """Whether a browser is logged in. That it asks keeps it so."""
        digest = self._digest(secret)
        if not self._is_alive(digest):
            return False
        self._seen[digest] = self._now()
        return True

    def end(self, secret: str) -> None:
        """Log one browser out."""
        self._keep(lambda digest: digest != self._digest(secret))

    def end_all(self) -> None:
        """Log every browser out."""
        self._keep(lambda _: False)

    def _keep(self, wanted: Callable[[str], bool]) -> None:
        with self._changing:
            self._ends = {digest: end for digest, end in self._ends.items() if wanted(digest)}
            self._write()

    def _is_alive(self, digest: str) -> bool:
        now = self._now()
        return self._ends.get(digest, 0.0) >= now and self._seen.get(digest, 0.0) + IDLE_S >= now

    def _digest(self, secret: str) -> str:
        return hmac.new(self._key, secret.encode(errors="surrogateescape"), "sha256").hexdigest()

    def _write(self) -> None:
        if self._file is None:
            return
        new = self._file.with_suffix(".new")
        descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, PRIVATE_FILE)
        with os.fdopen(descriptor, "w", encoding="utf-8") as writing:
            json.dump(self._ends, writing)
        new.replace(self._file)


def _read(file: Path | None) -> dict[str, float]:
    """What was written; nothing where that cannot be read, which only means to log in again."""
    try:
        found: Any = json.loads(file.read_text(encoding="utf-8")) if file else {}
        return {str(digest): float(end) for digest, end in cast("dict[Any, Any]", found).items()}
    except (OSError, ValueError, TypeError, AttributeError):
        return {}


_DEFAULT_PORTS: Final = {"http": 80, "https": 443}


@dataclass(frozen=True, kw_only=True, slots=True)
class PublicAddress:
    """Where a proxy in front of the gateway is reached."""

    origin: str
    """As browsers write it: without a port that is the usual one."""
    host: str

    @property
    def is_encrypted(self) -> bool:
        return self.origin.startswith("https:")


def public_address(url: str) -> PublicAddress | None:
    """The address that `[gateway] public_url` tells; None where it is empty."""
    if not url:
        return None
    try:
        parts = urlsplit(url.lower())
        port = parts.port
    except ValueError:
        raise _unusable(url) from None
    if parts.scheme not in _DEFAULT_PORTS or not parts.hostname or parts.path.strip("/") or parts.query:
        raise _unusable(url)
    name = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    usual = port in (None, _DEFAULT_PORTS[parts.scheme])
    host = name if usual else f"{name}:{port}"
    return PublicAddress(origin=f"{parts.scheme}://{host}", host=host)


def spellings(hosts: Iterable[str]) -> frozenset[str]:
    """Names as `Host` may have them: a browser leaves out the port where it is the usual one."""
    given = {host.lower() for host in hosts}
    return frozenset(given | {host.removesuffix(f":{port}") for host in given for port in (80, 443)})


def origins(host: str) -> frozenset[str]:
    """What a page of that `Host` sends as its `Origin`."""
    return frozenset(
        f"{scheme}://{name}"
        for scheme, port in _DEFAULT_PORTS.items()
        for name in (host, host.removesuffix(f":{port}"))
    )


def _unusable(url: str) -> ConfigError:
    return ConfigError(
        f"`[gateway] public_url` is not a valid URL: {url!r}",
        hint="Use a form like `https://nexus.example` or `https://nexus.example:8443`.",
    )


BURST_S: Final = 5
"""How many seconds' worth of requests may come at once."""


class Bucket:
    """Tokens that come back at a steady rate; whoever takes one from an empty bucket is refused."""

    def __init__(self, rate_per_s: float, most: float, now: Callable[[], float] = time.monotonic) -> None:
        self._rate = rate_per_s
        self._most = most
        self._now = now
        self._left = most
        self._at = now()

    def take(self) -> bool:
        now = self._now()
        self._left = min(self._most, self._left + (now - self._at) * self._rate)
        self._at = now
        if self._left < 1:
            return False
        self._left -= 1
        return True


@dataclass(frozen=True, kw_only=True)
class BodyLimits:
    """What the body of a request may be."""

    most_bytes: int
    timeout_ms: int

    @classmethod
    def of(cls, config: GatewayConfig) -> Self:
        return cls(most_bytes=config.max_body_bytes, timeout_ms=config.body_timeout_ms)


class BodyTooLargeError(Exception):
    """More was sent than is allowed."""


async def read_body(receive: Receive, limits: BodyLimits) -> bytes:
    """The whole body; `BodyTooLargeError` or `TimeoutError` where it is too large or takes too long."""
    body = bytearray()
    async with asyncio.timeout(limits.timeout_ms / 1000):
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise ClientDisconnect
            body += message.get("body", b"")
            if len(body) > limits.most_bytes:
                raise BodyTooLargeError
            if not message.get("more_body", False):
                return bytes(body)


def replay_body(body: bytes, receive: Receive) -> Receive:
    """Give a body that was read already to whoever comes next, and then what the connection says."""
    given = False

    async def again() -> Message:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return again


def limit_silence(receive: Receive, timeout_ms: int) -> Receive:
    """Hand on a body piece by piece. Whoever sends nothing for too long counts as gone."""

    async def piece() -> Message:
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                return await receive()
        except TimeoutError:
            return {"type": "http.disconnect"}

    return piece


LOGIN: Final = "/login"
SIGNED_IN: Final = "/mcp-servers/signed-in"
"""Where a browser ends that signed in to an MCP server. It brings the state of the sign-in, and no cookie."""
UPLOADS: Final = "/api/uploads"
"""What is sent there may be of any size: its own endpoint writes it to disk as it comes, up to a limit."""
HOOKS: Final = "/hooks/"
"""What is sent there proves itself by its signature."""
CheckSignature = Callable[[str, Headers, bytes], Awaitable[bool]]
"""Whether a request to the hook of that name is signed."""
_SAFE: Final = frozenset({"GET", "HEAD"})
_REFUSALS_PER_S: Final = 5
_REFUSALS_AT_ONCE: Final = 50
_TOO_MANY_ATTEMPTS: Final = ("Too many attempts", "Wait a moment, then try again.")
_HEADERS: Final = {
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
    "content-security-policy": "default-src 'self'; img-src 'self' data:; base-uri 'none'; "
    "form-action 'self'; frame-ancestors 'none'; object-src 'none'",
}


@dataclass(frozen=True, kw_only=True)
class Rules:
    """What is let in: the names under which the gateway may be addressed, and how much is taken."""

    hosts: frozenset[str]
    """Values of `Host`, as browsers write them, in lower case."""
    any_port: bool = False
    """Whether those names are good with every port: a host passes on what another one was sent."""
    public: PublicAddress | None = None
    """Where a proxy in front is reached."""
    rate_per_s: int
    body: BodyLimits


class Guard:
    """Stands in front of the whole application, so that no endpoint can forget to ask."""

    def __init__(
        self,
        app: ASGIApp,
        keys: Keys,
        rules: Rules,
        check_signature: CheckSignature | None = None,
        remote_clients: "RemoteClients | None" = None,
        sign_ins: Container[str] = (),
    ) -> None:
        self._app = app
        self._keys = keys
        self._rules = rules
        self._check_signature = check_signature
        self._remote_clients = remote_clients
        self._sign_ins = sign_ins
        self._requests = Bucket(rules.rate_per_s, rules.rate_per_s * BURST_S)
        self._refusals = Bucket(_REFUSALS_PER_S, _REFUSALS_AT_ONCE)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request, send = Request(scope), _with_headers(send)
        refused = self._check_origin(request.headers) or await self._login(request)
        is_hook = self._check_signature is not None and _is_hook(request)
        if refused is None and self._asks_openly(request):
            refused = None if self._refusals.take() else refusal(429, *_TOO_MANY_ATTEMPTS)
        elif refused is None and not is_hook:
            refused = await self.check_access(request) or self._check_rate()
        if refused is not None:
            await refused(scope, receive, send)
            return
        if request.method == "POST" and request.url.path == UPLOADS:
            await self._app(scope, limit_silence(receive, self._rules.body.timeout_ms), send)
            return
        try:
            body = await read_body(receive, self._rules.body)
        except BodyTooLargeError:
            most = self._rules.body.most_bytes
            refused = refusal(
                413,
                f"Request body larger than {most:,} bytes",
                "Send less, or raise `[gateway] max_body_bytes`.",
            )
        except ClientDisconnect:
            return
        except TimeoutError:
            refused = refusal(408, "Timed out receiving the request", "Send it again.")
        else:
            refused = await self._check_hook(request, body) if is_hook else None
            if refused is None:
                await self._app(scope, replay_body(body, receive), send)
                return
        await refused(scope, receive, send)

    def _asks_openly(self, request: Request) -> bool:
        """Whether a request needs no token: a step of OAuth, which brings what proves it."""
        if request.method == "GET" and request.url.path == SIGNED_IN:
            return request.query_params.get("state", "") in self._sign_ins
        return self._remote_clients is not None and self._remote_clients.asks_openly(request)

    def _check_rate(self) -> Response | None:
        """Count a request that has proved who sent it; others use up nothing of the owner's rate."""
        if self._requests.take():
            return None
        return refusal(429, "Too many requests", "Wait a moment, then try again.")

    async def _check_hook(self, request: Request, body: bytes) -> Response | None:
        """Say why a hook isn't let in; None if its signature lets it."""
        assert self._check_signature is not None  # noqa: S101 - an invariant, for the reader and the type checker
        name = request.url.path.removeprefix(HOOKS)
        is_signed = await self._check_signature(name, request.headers, body)
        if is_signed:
            return self._check_rate()
        if not self._refusals.take():
            return refusal(429, *_TOO_MANY_ATTEMPTS)
        return refuse_unsigned()

    def _check_origin(self, headers: Headers) -> Response | None:
        """Refuse a page of another site, and a name that was made to point here."""
        host, origin = headers.get("host", "").lower(), headers.get("origin")
        if not self._is_own(host):
            return refusal(
                421,
                "Unknown host name",
                "Use the address printed by `nexus up`, or add the name to `[gateway] hosts`.",
            )
        if origin is not None and origin.lower() not in self._origins(host):
            return refusal(403, "Cross-origin requests are not allowed", "Use the dashboard instead.")
        return None

    def _is_own(self, host: str) -> bool:
        names = self._rules.hosts
        if not self._rules.any_port:
            return host in names
        return _strip_port(host) in map(_strip_port, names)

    def _origins(self, host: str) -> frozenset[str]:
        """What a page of the dashboard sends as its own; a proxy may have changed the `Host`."""
        public = self._rules.public
        if public is None:
            return origins(host)
        return frozenset({public.origin}) if host == public.host else origins(host) | {public.origin}

    async def _login(self, request: Request) -> Response | None:
        """Turn a login link into a session. It is the one way in without a token, and works once."""
        if request.url.path != LOGIN or request.method != "GET":
            return None
        if not self._keys.is_code(request.query_params.get("code", "")):
            return self._refuse(request.headers, "This login link was already used or has expired")
        # A page that was opened by another one sends no strict cookie: the next step must come from ours.
        entered = leave_for("/", "Nexus")
        entered.set_cookie(
            self._keys.cookie,
            await asyncio.to_thread(self._keys.browsers.add),
            max_age=SESSION_S,
            httponly=True,
            samesite="strict",
            secure=self._is_encrypted(request),
        )
        return entered

    def _is_encrypted(self, request: Request) -> bool:
        """Whether the browser is reached by TLS, which ends at the proxy."""
        public, host = self._rules.public, request.headers.get("host", "").lower()
        return public is not None and public.is_encrypted and host == public.host

    async def check_access(self, request: Request) -> Response | None:
        """Say why a request isn't let in; None if its token or its browser's session lets it."""
        headers = request.headers
        kind, _, token = headers.get("authorization", "").partition(" ")
        remote = self._remote_clients
        if remote is not None and remote.asks_memory(request):
            if kind.lower() == "bearer" and await remote.may_enter(token.strip()):
                return None
            refused = self._refuse(headers, "Sign in with OAuth")
            refused.headers["www-authenticate"] = remote.challenge
            return refused
        if kind.lower() == "bearer":
            return await self.check_token(request, token.strip())
        if not self._keys.browsers.knows(request.cookies.get(self._keys.cookie, "")):
            return self._refuse(headers, "Missing API token")
        return check_forgery(request)

    async def check_token(self, request: Request, token: str) -> Response | None:
        """Say why a token doesn't let this request in; None if it does."""
        return None if self._keys.is_token(token) else self._refuse(request.headers, "Invalid API token")

    def _refuse(self, headers: Headers, message: str) -> Response:
        if not self._refusals.take():
            return refusal(429, *_TOO_MANY_ATTEMPTS, headers)
        hint = "Run `nexus login` for a browser link, or `nexus login --token` for the API token."
        return refusal(401, message, hint, headers)


def _strip_port(host: str) -> str:
    name, colon, port = host.rpartition(":")
    return name if colon and port.isdecimal() else host


def _is_hook(request: Request) -> bool:
    return request.method == "POST" and request.url.path.startswith(HOOKS)


def check_forgery(request: Request) -> Response | None:
    """Refuse requests that another local page caused: a browser sends its cookie with those, too."""
    site = request.headers.get("sec-fetch-site", "same-origin")
    own = site in {"same-origin", "none"}
    if own and (request.method in _SAFE or "origin" in request.headers):
        return None
    return refusal(403, "The request is not from the dashboard", "Programs must use the API token.")


def _with_headers(send: Send) -> Send:
    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in _HEADERS.items():
                headers.setdefault(name, value)
        await send(message)

    return sending
