"""A started execution, in the hand of whoever started it."""

from typing import TYPE_CHECKING, Any

from nexus.engine.errors import EndedError, WorkCancelledError, WorkFailedError, WorkTimeoutError
from nexus.engine.states import State

if TYPE_CHECKING:
    from nexus.engine.engine import Engine
    from nexus.engine.records import Execution

_ERRORS: dict[State, type[EndedError]] = {
    "failed": WorkFailedError,
    "timeout": WorkTimeoutError,
    "cancelled": WorkCancelledError,
}


class StartedExecution:
    """Ask for the result, look at the state, cancel. Dropping it changes nothing."""

    def __init__(self, engine: "Engine", execution_id: str) -> None:
        self._engine = engine
        self.id = execution_id

    async def result(self) -> Any:
        """The result once there is one; an `EndedError` when it ended without."""
        execution = await self._engine.finished(self.id)
        if execution.state == "done":
            return execution.result
        reason = execution.error or execution.state
        raise _ERRORS[execution.state](
            f"{execution.work} ({self.id}) ended as {execution.state}: {reason}",
            hint=f"See `nexus engine show {self.id}`.",
        )

    async def state(self) -> "Execution":
        """The execution as it stands."""
        return await self._engine.show(self.id)

    async def cancel(self) -> None:
        """Ask that it stop. Its session goes on only after its code has stopped."""
        await self._engine.cancel(self.id)
