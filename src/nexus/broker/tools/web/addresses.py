"""Which addresses a tool may connect to: those that anyone on the internet can reach, and no others.

The check sits where the connection is made. Every connection passes it, redirects included, and it goes to
the very address that was checked, so a name that resolves differently a moment later gains nothing.
"""

import asyncio
import socket
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv4Network, IPv6Network, ip_address
from typing import Final, cast

import httpcore

from nexus.errors import ToolError

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
