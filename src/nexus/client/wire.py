"""HTTP to a gateway: the token, retries where nothing was done, and errors in words."""

import asyncio
from collections.abc import AsyncIterator
from types import TracebackType
from typing import Any, Final, Self

import httpx

from nexus.errors import AccessError, GatewayError, MissingError, NexusError, UsageError

_TRIES: Final = 4
_PAUSE_S: Final = 0.25
_TIMEOUT: Final = httpx.Timeout(30.0, connect=5.0)
# A stream that says nothing for so long, not even that it is alive, is broken.
_STREAM: Final = httpx.Timeout(60.0, connect=5.0)
_ERRORS: Final[dict[int, type[NexusError]]] = {
    400: UsageError,
    401: AccessError,
    403: AccessError,
    404: MissingError,
    422: UsageError,
}


class Wire:
    """A connection to one gateway."""

    def __init__(self, url: str, token: str) -> None:
        self._url = url
        self._http = httpx.AsyncClient(
            base_url=url,
            headers={"authorization": f"Bearer {token}"},
            timeout=_TIMEOUT,
            # The gateway is on this machine, or where the owner says: no proxy of the environment may listen.
            trust_env=False,
            limits=httpx.Limits(max_connections=None),
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._http.aclose()

    async def get(self, path: str, **params: Any) -> Any:
        """What is at a path. Asking again changes nothing, so it is asked again where nobody answers."""
        known = {name: value for name, value in params.items() if value is not None}
        return await self._asked("GET", path, params=known)

    async def post(self, path: str, body: Any = None, *, key: str = "") -> Any:
        """What comes of an act. With a key it is tried again where nobody answers: it is done once."""
        headers = {"idempotency-key": key} if key else {}
        return await self._asked("POST", path, tries=_TRIES if key else 1, json=body, headers=headers)

    async def events(self, path: str) -> AsyncIterator[tuple[str, str]]:
        """Server-sent events, kind and data; where the connection breaks, it goes on behind the last one."""
        last, failures = "0", 0
        while True:
            try:
                async for kind, id_, data in self._events(path, last):
                    last, failures = id_, 0
                    yield kind, data
            except httpx.TransportError as error:
                failures += 1
                if failures == _TRIES:
                    raise self._silent(error) from None
                await asyncio.sleep(_PAUSE_S * 2**failures)
            else:
                return

    async def _asked(self, method: str, path: str, *, tries: int = _TRIES, **options: Any) -> Any:
        for attempt in range(1, tries + 1):
            try:
                return _checked(await self._http.request(method, path, **options)).json()
            except httpx.TransportError as error:
                if attempt == tries:
                    raise self._silent(error) from None
            await asyncio.sleep(_PAUSE_S * 2**attempt)
        raise AssertionError("unreachable")

    async def _events(self, path: str, last: str) -> AsyncIterator[tuple[str, str, str]]:
        headers = {"last-event-id": last}
        async with self._http.stream("GET", path, headers=headers, timeout=_STREAM) as answer:
            if answer.is_error:
                await answer.aread()
            _checked(answer)
            fields: dict[str, str] = {}
            async for line in answer.aiter_lines():
                name, _, value = line.partition(": ")
                if line and name:
                    fields[name] = value
                elif "event" in fields:
                    yield fields["event"], fields["id"], fields["data"]
                    fields = {}

    def _silent(self, error: httpx.TransportError) -> GatewayError:
        told = str(error) or type(error).__name__
        return GatewayError(
            f"Nobody answers at {self._url}: {told}", hint="Is the home still served? `nexus up` serves it."
        )


def _checked(answer: httpx.Response) -> httpx.Response:
    if not answer.is_error:
        return answer
    try:
        told: dict[str, str] = answer.json()
        message, hint = told["message"], told.get("hint", "")
    except (ValueError, KeyError, TypeError):
        message, hint = f"The gateway answers {answer.status_code}", "`nexus logs` tells more."
    raise _ERRORS.get(answer.status_code, GatewayError)(message, hint=hint)
