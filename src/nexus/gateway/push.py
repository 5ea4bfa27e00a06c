"""Web push: notifications on the owner's browsers, also while no page is open.

Each message is encrypted for one browser (RFC 8291) and signed by the home (VAPID, RFC 8292): the browser
maker's push service carries it and can't read it. `http-ece` encrypts; `pywebpush` would do the same, and
bring aiohttp and requests along, of which nothing is needed beside httpx.
"""

import asyncio
import base64
import json
import logging
from collections.abc import Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from datetime import timedelta
from functools import cached_property
from importlib.util import find_spec
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any, Final, cast
from urllib.parse import urlsplit

import httpcore
import httpx

from nexus import clock
from nexus.broker.questions import summarize
from nexus.broker.tools.web.download import PublicNetwork, is_public
from nexus.channels.http import ssl_context
from nexus.errors import ToolError, UsageError
from nexus.gateway.listener import is_loopback
from nexus.gateway.views import address
from nexus.home import Home, write_new
from nexus.ledgers import Ledgers, sql
from nexus.ledgers.events import SCREENS
from nexus.ledgers.runtime import push
from nexus.ledgers.runtime.push import Keys, Subscription
from nexus.text import join_lines, shorten
from nexus.watch import Watch

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey

EXTRA: Final = "push"
_PAUSE_S: Final = 2.0
# What is older is no news.
_NEWS: Final = timedelta(hours=1)
_KEPT: Final = timedelta(days=2)
_TTL_S: Final = 86_400
_TOKEN: Final = timedelta(hours=12)
_TIMEOUT_S: Final = 15.0
_BODY_CHARACTERS: Final = 180
_KEY_BYTES, _AUTH_BYTES = 65, 16
_GONE: Final = frozenset({401, 403, 404, 410})
_log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True, slots=True)
class Notification:
    """What a browser shows. Another one with the same tag takes its place."""

    title: str
    body: str
    url: str
    tag: str


def is_available() -> bool:
    """Whether the packages are installed that encrypt messages."""
    return find_spec("http_ece") is not None and find_spec("cryptography") is not None


class Sender:
    """Sends notifications to browsers, signed with the home's key."""

    def __init__(self, home: Home, contact: str = "", now: clock.Clock = clock.now) -> None:
        self._file = home.root / "push.pem"
        self._contact = contact if contact.startswith("https:") else "mailto:owner@nexus.invalid"
        self._now = now

    @cached_property
    def _key(self) -> "EllipticCurvePrivateKey":
        """The home's key pair, made when it is first needed. No backup holds it."""
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.asymmetric import ec

        if not self._file.exists():
            made = ec.generate_private_key(ec.SECP256R1()).private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
            write_new(self._file, made.decode())
        key = serialization.load_pem_private_key(self._file.read_bytes(), password=None)
        return cast("EllipticCurvePrivateKey", key)

    @cached_property
    def public_key(self) -> str:
        """The key that a browser subscribes with; blocking."""
        from cryptography.hazmat.primitives import serialization

        point = self._key.public_key().public_bytes(
            serialization.Encoding.X962, serialization.PublicFormat.UncompressedPoint
        )
        return _encode(point)

    def request(self, browser: Subscription, told: Notification) -> tuple[dict[str, str], bytes]:
        """The headers and the encrypted body for one browser; blocking."""
        import http_ece  # pyright: ignore[reportMissingTypeStubs] - it has none
        from cryptography.hazmat.primitives.asymmetric import ec

        body = cast(
            "bytes",
            cast("Any", http_ece).encrypt(
                json.dumps(asdict(told), ensure_ascii=False).encode(),
                private_key=ec.generate_private_key(ec.SECP256R1()),
                dh=_decode(browser.p256dh),
                auth_secret=_decode(browser.auth),
                version="aes128gcm",
            ),
        )
        headers = {
            "content-encoding": "aes128gcm",
            "content-type": "application/octet-stream",
            "ttl": str(_TTL_S),
            "urgency": "high",
            "authorization": f"vapid t={self._token(browser.endpoint)}, k={self.public_key}",
        }
        return headers, body

    def _token(self, endpoint: str) -> str:
        """A signed claim that this home sends to that push service."""
        from cryptography.hazmat.primitives import hashes
        from cryptography.hazmat.primitives.asymmetric import ec
        from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature

        parts = urlsplit(endpoint)
        claims = {
            "aud": f"{parts.scheme}://{parts.netloc}",
            "exp": int((self._now() + _TOKEN).timestamp()),
            "sub": self._contact,
        }
        head = {"typ": "JWT", "alg": "ES256"}
        signed = ".".join(_encode(json.dumps(each).encode()) for each in (head, claims))
        r, s = decode_dss_signature(self._key.sign(signed.encode(), ec.ECDSA(hashes.SHA256())))
        return f"{signed}.{_encode(r.to_bytes(32) + s.to_bytes(32))}"


class Notifier:
    """Looks for news and notifies every browser that subscribed."""

    def __init__(
        self, ledgers: Ledgers, sender: Sender, client: httpx.AsyncClient, now: clock.Clock = clock.now
    ) -> None:
        self._ledgers = ledgers
        self._sender = sender
        self._client = client
        self._now = now

    async def run(self) -> None:
        """Look after each write, until cancelled. Without a browser, a look is one small read."""
        ledgers = (self._ledgers.events, self._ledgers.runtime)
        logs = [ledger.path.with_name(f"{ledger.path.name}-wal") for ledger in ledgers]
        with closing(Watch(logs, pause_s=_PAUSE_S)) as watch:
            while True:
                retry_s = None
                try:
                    await self.once()
                except Exception:
                    _log.exception("notifications could not be sent, and will be tried again")
                    retry_s = _PAUSE_S
                await watch.wait(retry_s)

    async def once(self) -> int:
        """Send what is new; returns how many notifications that were."""
        browsers = await self._ledgers.runtime.read(push.subscriptions)
        if not browsers:
            return 0
        # A browser that subscribes wants to hear what happens from then on.
        since = max(min(each.created_at for each in browsers), clock.timestamp(self._now() - _NEWS))
        found = await self._news(since)
        new = await self._ledgers.runtime.read(push.list_unsent, [each.tag for each in found])
        sent = 0
        for each in found:
            if each.tag in new:
                sent += await self._notify(browsers, each)
        return sent

    async def send(self, browsers: Sequence[Subscription], told: Notification) -> bool:
        """Send one notification; whether it reached any browser."""
        return any(await asyncio.gather(*(self._post(browser, told) for browser in browsers)))

    async def _notify(self, browsers: Sequence[Subscription], told: Notification) -> bool:
        now = clock.timestamp(self._now())
        if not await self._ledgers.runtime.write(push.claim, told.tag, now):
            return False
        await self._ledgers.runtime.write(push.prune, clock.timestamp(self._now() - _KEPT))
        reached = await self.send(browsers, told)
        if not reached:
            await self._ledgers.runtime.write(push.release, told.tag)
        return reached

    async def _post(self, browser: Subscription, told: Notification) -> bool:
        headers, body = await asyncio.to_thread(self._sender.request, browser, told)
        try:
            answer = await self._client.post(browser.endpoint, headers=headers, content=body)
        except ToolError:
            failure = "The push service is not on the public internet"
        except httpx.HTTPError as error:
            failure = f"The push service can't be reached: {type(error).__name__}"
        else:
            if answer.is_success:
                now = clock.timestamp(self._now())
                await self._ledgers.runtime.write(push.record_arrived, browser.id, now)
                return True
            if answer.status_code in _GONE:
                # The browser took its consent back, or subscribed with another key.
                await self._ledgers.runtime.write(push.unsubscribe, browser.id)
                return False
            failure = f"The push service answered {answer.status_code}"
        await self._ledgers.runtime.write(push.record_failed, browser.id, failure)
        return False

    async def _news(self, since: str) -> list[Notification]:
        # Other channels bring their messages themselves.
        values = {"since": since, "channels": json.dumps(SCREENS), "limit": 50}
        query = sql.queries("events")["unasked_lately"]
        messages = await self._ledgers.events.read(sql.rows, query, values)
        approvals = await self._ledgers.runtime.read(push.waiting_approvals, since=since)
        workers = await self._ledgers.runtime.read(push.ended_workers, since=since, channels=SCREENS)
        return [
            *(_message(*row) for row in messages),
            *(_approval(*row) for row in approvals),
            *(_worker(*row) for row in workers),
        ]


def parse_subscription(endpoint: str, p256dh: str, auth: str) -> Keys:
    """Check what a browser sent as its subscription; an error if it can't be one."""
    parts = urlsplit(endpoint)
    secure = parts.scheme == "https" or (parts.scheme == "http" and is_loopback(parts.hostname or ""))
    try:
        sizes = len(_decode(p256dh)), len(_decode(auth))
    except ValueError:
        sizes = 0, 0
    if not secure or not parts.hostname or sizes != (_KEY_BYTES, _AUTH_BYTES):
        raise _no_subscription()
    return Keys(endpoint=endpoint, p256dh=p256dh, auth=auth)


def refuse_internal(keys: Keys) -> None:
    """Refuse a push service in the networks of a host. Names are checked where the connection is made."""
    parts = urlsplit(keys.endpoint)
    host = parts.hostname or ""
    try:
        ip_address(host)
        is_internal = not is_public(host)
    except ValueError:
        is_internal = host == "localhost"
    if is_internal or parts.scheme != "https":
        raise _no_subscription()


def _no_subscription() -> UsageError:
    return UsageError("This is not a push subscription", hint="Turn notifications on in the browser again.")


def _message(id_: str, label: str, content: str) -> Notification:
    return Notification(
        title="Nexus",
        body=_make_body(content),
        url=address("chat", label),
        tag=id_,
    )


def _approval(id_: str, tool: str, arguments: str, tainted: int) -> Notification:
    """Leads to the page that shows the call whole."""
    why = "After reading text that you didn't write: " if tainted else ""
    return Notification(
        title=f"Allow {tool}?",
        body=_make_body(why + summarize(json.loads(arguments))) or "A tool call needs your approval.",
        url=address("approvals", id_),
        tag=id_,
    )


def _worker(id_: str, label: str, task: str, status: str) -> Notification:
    title = "A worker has finished" if status == "done" else "A worker failed"
    return Notification(title=title, body=_make_body(task), url=address("chat", label), tag=id_)


def _encode(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _decode(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


class _PublicTransport(httpx.AsyncHTTPTransport):
    """Connects to public addresses only, by what a name resolves to when the connection is made."""

    def __init__(self, network: PublicNetwork) -> None:
        super().__init__(verify=ssl_context())
        self._pool = httpcore.AsyncConnectionPool(ssl_context=ssl_context(), network_backend=network)


def client(*, is_hosted: bool = False, network: PublicNetwork | None = None) -> httpx.AsyncClient:
    """For push services. What they answer is not followed elsewhere.

    On a host, whoever has a home names the push service, and must not reach the host's own networks by that.
    """
    transport = _PublicTransport(network or PublicNetwork()) if is_hosted else None
    return httpx.AsyncClient(
        verify=ssl_context(), timeout=_TIMEOUT_S, follow_redirects=False, transport=transport
    )


def _make_body(text: str) -> str:
    return shorten(join_lines(text), _BODY_CHARACTERS)
