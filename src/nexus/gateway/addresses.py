"""Under which names the gateway may be addressed: its own, the owner's, and that of a proxy in front."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from nexus.errors import ConfigError

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
        f"`[gateway] public_url` is no address: {url!r}",
        hint="Write it as `https://nexus.example`, with a port where it is not the usual one.",
    )
