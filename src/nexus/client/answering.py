"""An answer that a served home is giving."""

import json
from collections.abc import AsyncIterator
from typing import Any

from nexus.answer import Delta, Result
from nexus.client.wire import Wire
from nexus.errors import AgentError, GatewayError, StoppedError


class Answering:
    """See it being written, wait for its result, stop it."""

    def __init__(self, wire: Wire, execution_id: str) -> None:
        self._wire = wire
        self.id = execution_id
        self._end: tuple[str, dict[str, Any]] | None = None

    async def deltas(self) -> AsyncIterator[Delta]:
        """The answer as it is written, from its beginning."""
        async for kind, data in self._wire.events(f"/api/executions/{self.id}/stream"):
            if kind == "delta":
                yield Delta(**json.loads(data))
            else:
                self._end = (kind, json.loads(data))

    async def result(self) -> Result:
        """The result once there is one; an error that says why where it ended without."""
        if self._end is None:
            async for _ in self.deltas():
                pass
        if self._end is None:
            raise GatewayError(f"The answer of {self.id} broke off", hint="`nexus logs` tells more.")
        kind, told = self._end
        if kind == "result":
            return Result.from_json(told)
        ended = StoppedError if told["status"] == "cancelled" else AgentError
        raise ended(told["message"], hint=told["hint"])

    async def cancel(self) -> bool:
        """Stop it. False: it had ended already."""
        return (await self._wire.post(f"/api/executions/{self.id}/cancel"))["cancelled"]
