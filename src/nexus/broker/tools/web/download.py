"""Downloads with limits: how long, how much, how often redirected, and from where.

Nothing is sent along: no cookies, no credentials, no proxy of the environment. Every connection, redirects
included, is checked where it is made and goes to the very address that was checked, so a name that resolves
differently a moment later gains nothing.
"""

import asyncio
import socket
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from email.message import Message
from ipaddress import IPv4Address, IPv4Network, IPv6Network, ip_address
from typing import Final, cast
from urllib.parse import SplitResult, urljoin, urlsplit, urlunsplit

import httpcore

import nexus
from nexus import secrets
from nexus.errors import ToolError

_REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})
_PORTS: Final = (80, 443)
_LEAST_PORT: Final = 1024
_LONGEST_URL: Final = 2_048
# A compressed byte can stand for a thousand; a piece of this size is all that is ever unpacked at a time.
_CHUNK_BYTES: Final = 64 * 1024
_AGENT: Final = f"nexus/{nexus.__version__}"
Resolve = Callable[[str, int], Awaitable[list[str]]]
"""All addresses of a host."""
_GLOBAL_UNICAST: Final = IPv6Network("2000::/3")
_NAT64: Final = IPv6Network("64:ff9b::/96")
_ISATAP: Final = (bytes.fromhex("00005efe"), bytes.fromhex("02005efe"))
# Public by its number, yet answered by the cloud host underneath: Azure's platform channel, and the metadata
# service of Oracle's cloud in a range that is reserved for protocols, of which Python knows only a part.
_PLATFORM: Final = (IPv4Network("168.63.129.16/32"), IPv4Network("192.0.0.0/24"))


def is_public(text: str) -> bool:
    """Whether an address is reachable from the whole internet, also as seen through IPv6 translation."""
    try:
        address = ip_address(text)
    except ValueError:
        return False
    if isinstance(address, IPv4Address):
        is_platform = any(address in network for network in _PLATFORM)
        return address.is_global and not address.is_multicast and not is_platform
    if address.scope_id is not None:
        return False
    if address.ipv4_mapped is not None:
        return is_public(str(address.ipv4_mapped))
    if address in _NAT64:
        return is_public(str(IPv4Address(address.packed[12:])))
    # 6to4, Teredo and ISATAP hide an IPv4 address inside an ordinary IPv6 one. Nobody serves pages there.
    is_tunnel = address.sixtofour or address.teredo or address.packed[8:12] in _ISATAP
    return address in _GLOBAL_UNICAST and address.is_global and not is_tunnel


def any_network() -> httpcore.AsyncNetworkBackend:
    """Connections to anywhere, for addresses that the owner chose."""
    # The library declares it a second time, for systems that lack what it needs.
    return cast("httpcore.AsyncNetworkBackend", httpcore.AnyIOBackend())


async def resolve(host: str, port: int) -> list[str]:
    """All addresses of a host, in the system's order of preference."""
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(address[0]) for *_, address in found))


@dataclass(frozen=True, kw_only=True)
class PublicNetwork(httpcore.AsyncNetworkBackend):
    """Opens TCP connections to public addresses.

    `allowed` exempts single addresses, for tests with servers on this machine; no setting reaches it.
    """

    allowed: frozenset[str] = frozenset()
    resolve: Resolve = resolve
    _network: httpcore.AsyncNetworkBackend = field(default_factory=any_network)

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109  the interface is the library's
        local_address: str | None = None,
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        last: httpcore.ConnectError | None = None
        for address in await self._resolve_public(host, port):
            try:
                return await self._network.connect_tcp(address, port, timeout, local_address, socket_options)
            except httpcore.ConnectError as error:
                last = error
        raise last or httpcore.ConnectError(f"{host} has no address")

    async def connect_unix_socket(
        self,
        path: str,
        timeout: float | None = None,  # noqa: ASYNC109  the interface is the library's
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        raise ToolError("Sockets on this machine can't be fetched")

    async def sleep(self, seconds: float) -> None:
        await self._network.sleep(seconds)

    async def _resolve_public(self, host: str, port: int) -> list[str]:
        """Every address of the host; refused if a single one is not public."""
        try:
            found = await self.resolve(host, port)
        except (OSError, UnicodeError) as error:
            raise ToolError(f"{host} can't be resolved", hint="Check the host name.") from error
        for address in found:
            if address not in self.allowed and not is_public(address):
                raise ToolError(
                    f"{host} is not on the public internet ({address})",
                    hint="Only public web pages can be fetched.",
                )
        return found


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What one download may take, redirects included."""

    timeout_ms: int = 30_000
    size_bytes: int = 10 * 1024 * 1024
    """Of the body, packed and unpacked."""
    redirects: int = 5


@dataclass(frozen=True, kw_only=True)
class Download:
    """What a server sent."""

    url: str
    """Where it came from in the end."""
    status: int
    media_type: str
    """In lower case, without parameters; empty where the server did not say."""
    charset: str
    body: bytes


@dataclass(frozen=True, kw_only=True)
class Downloader:
    """Gets what is behind a URL; a ToolError that says why where it can't."""

    network: httpcore.AsyncNetworkBackend = field(default_factory=PublicNetwork)
    limits: Limits = Limits()

    async def get(self, url: str, headers: Mapping[str, str] | None = None) -> Download:
        """The answer to a GET. An error status of the server is an error here."""
        sent = {"user-agent": _AGENT, "accept": "*/*", "accept-encoding": "gzip", **(headers or {})}
        try:
            async with (
                asyncio.timeout(self.limits.timeout_ms / 1000),
                httpcore.AsyncConnectionPool(network_backend=self.network, retries=0) as pool,
            ):
                return await self._follow(pool, url, sent)
        except TimeoutError:
            raise ToolError(f"{_host(url)} took longer than {self.limits.timeout_ms} ms") from None
        except (httpcore.NetworkError, httpcore.ProtocolError, httpcore.TimeoutException) as error:
            raise ToolError(f"{_host(url)} can't be reached: {error or type(error).__name__}") from error

    async def _follow(
        self, pool: httpcore.AsyncConnectionPool, url: str, headers: Mapping[str, str]
    ) -> Download:
        for _ in range(self.limits.redirects + 1):
            parts = check_url(url)
            sent = {**headers, "host": parts.netloc}
            target = urlunsplit(parts).encode()
            async with pool.stream("GET", target, headers=_bytes(sent)) as response:
                got = {name.decode().lower(): value.decode("latin-1") for name, value in response.headers}
                if response.status in _REDIRECTS and "location" in got:
                    url = urljoin(urlunsplit(parts), got["location"])
                    continue
                return await self._answer(response, got, urlunsplit(parts))
        raise ToolError(f"{_host(url)} redirects more than {self.limits.redirects} times")

    async def _answer(self, response: httpcore.Response, headers: Mapping[str, str], url: str) -> Download:
        if not 200 <= response.status < 300:
            raise ToolError(f"{_host(url)} answered with status {response.status}")
        described = Message()
        described["content-type"] = headers.get("content-type", "")
        body = await self._body(response, headers.get("content-encoding", "identity").strip().lower())
        return Download(
            url=url,
            status=response.status,
            media_type=described.get_content_type() if headers.get("content-type") else "",
            charset=described.get_content_charset() or "",
            body=body,
        )

    async def _body(self, response: httpcore.Response, encoding: str) -> bytes:
        body = bytearray()
        received = 0
        unpack = _unpacker(encoding)
        async for chunk in response.aiter_stream():
            received += len(chunk)
            async for piece in unpack(chunk):
                body += piece
                self._check(len(body))
            self._check(received)
        return bytes(body)

    def _check(self, size_bytes: int) -> None:
        if size_bytes > self.limits.size_bytes:
            raise ToolError(f"The answer is larger than {self.limits.size_bytes:,} bytes")


def check_url(url: str) -> SplitResult:
    """The parts of a URL that may be fetched, with an ASCII host."""
    try:
        parts = urlsplit(url.strip())
        port, host = parts.port, (parts.hostname or "").rstrip(".").encode("idna").decode()
    except ValueError:  # UnicodeError among them
        raise ToolError("That is not a valid URL", hint="Write it as https://example.com/page.") from None
    if parts.scheme not in {"http", "https"} or not host or len(url) > _LONGEST_URL:
        raise ToolError("Only http and https URLs can be fetched", hint="Write it as https://example.com.")
    if secrets.in_url(url):
        raise ToolError("The URL contains a password or token", hint="Leave it out.")
    if port is not None and port < _LEAST_PORT and port not in _PORTS:
        raise ToolError(f"Port {port} is not a web server's")
    netloc = f"[{host}]" if ":" in host else host
    netloc += f":{port}" if port is not None else ""
    path, query = _ascii(parts.path or "/"), _ascii(parts.query)
    return SplitResult(parts.scheme, netloc, path, query, "")


def _ascii(text: str) -> str:
    """A path or query as it is sent: what is not ASCII, and what would end the request line, is quoted."""
    return "".join(
        char if "!" <= char <= "~" else "".join(f"%{b:02X}" for b in char.encode()) for char in text
    )


def _unpacker(encoding: str) -> Callable[[bytes], AsyncIterator[bytes]]:
    match encoding:
        case "identity" | "":
            return _as_is
        case "gzip" | "x-gzip":
            return _Gzip()
        case _:
            raise ToolError(f"The answer is encoded as {encoding:.40}, which was not asked for")


async def _as_is(chunk: bytes) -> AsyncIterator[bytes]:
    yield chunk


class _Gzip:
    """Unpacks gzip in small pieces, so that a bomb is noticed by its first ones."""

    def __init__(self) -> None:
        self._stream = zlib.decompressobj(wbits=31)

    async def __call__(self, chunk: bytes) -> AsyncIterator[bytes]:
        while chunk:
            try:
                piece = self._stream.decompress(chunk, _CHUNK_BYTES)
            except zlib.error:
                raise ToolError("The answer is not valid gzip") from None
            yield piece
            chunk = self._stream.unconsumed_tail
            if self._stream.eof:
                return
            await asyncio.sleep(0)


def _bytes(headers: Mapping[str, str]) -> list[tuple[bytes, bytes]]:
    return [(name.encode(), value.encode()) for name, value in headers.items()]


def _host(url: str) -> str:
    try:
        return urlsplit(url).hostname or "The server"
    except ValueError:
        return "The server"
