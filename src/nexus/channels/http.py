"""HTTP for channels: clients that are cheap to make, and files up to a limit."""

import ssl
from collections.abc import Mapping
from functools import cache
from typing import Final
from urllib.parse import urlsplit

import httpx

_TIMEOUT_S: Final = 30.0


def make_client(*, follow_redirects: bool = False) -> httpx.AsyncClient:
    """A client. All share one TLS context: making one reads every certificate, which takes 20 ms."""
    return httpx.AsyncClient(verify=ssl_context(), timeout=_TIMEOUT_S, follow_redirects=follow_redirects)


@cache
def ssl_context() -> ssl.SSLContext:
    """Return the certificates that the system trusts, for all clients of this process."""
    return httpx.create_ssl_context()


async def fetch(
    url: str, most: int, headers: Mapping[str, str] | None = None, *, follow_redirects: bool = False
) -> tuple[bytes, str]:
    """The bytes at an address, or why there are none. ConnectionError where it isn't reached.

    How large a file is, as its sender says it, can't be trusted: no more than `most` bytes are read. The
    error doesn't name the address: some hold a token.
    """
    parts: list[bytes] = []
    size = 0
    try:
        async with (
            make_client(follow_redirects=follow_redirects) as asking,
            # Not packed: what is unpacked could be far larger than what came.
            asking.stream("GET", url, headers={"accept-encoding": "identity", **(headers or {})}) as answer,
        ):
            if not answer.is_success:
                return b"", f"the server answered {answer.status_code}"
            async for part in answer.aiter_bytes():
                parts.append(part)
                size += len(part)
                if size > most:
                    return b"", explain_limit(most)
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise ConnectionError(f"A file could not be fetched: {type(error).__name__}") from None
    return b"".join(parts), ""


def is_at(url: str, own: str, hosts: tuple[str, ...]) -> bool:
    """Whether an address is at a service: where it is reached, or at one of its hosts, over TLS."""
    try:
        place, here = urlsplit(url), urlsplit(own)
        if here.netloc and (place.scheme, place.netloc) == (here.scheme, here.netloc):
            return True
        return place.scheme == "https" and (place.hostname or "").endswith(hosts)
    except ValueError:
        return False


def explain_limit(most: int) -> str:
    """Why a file isn't fetched."""
    return f"larger than {most // 1_000_000} MB"
