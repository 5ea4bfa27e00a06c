"""What the skill's scripts can ask for: to write, to write a batch, to search. Answers are JSON.

The home's doors and the command line both come through here, so a script behaves the same whether the
home runs or not.
"""

import json
from collections.abc import Awaitable, Callable
from typing import Any, cast

from nexus.errors import UsageError
from nexus.memory.gate import Rules
from nexus.memory.operations import BATCH, BATCH_EXAMPLE, OPERATIONS, Memory
from nexus.memory.provenance import Provenance
from nexus.memory.recall import Recall
from nexus.skills.arguments import flags, received
from nexus.skills.search import EXAMPLE, Search

Asked = Callable[[], Awaitable[Recall]]
"""The memory, ready to be searched; what it searches by may change between two questions."""


class Commands:
    """What one principal can ask for. Who that is comes from the runtime, never from what is sent."""

    def __init__(
        self,
        memory: Memory,
        recall: Asked,
        provenance: Provenance,
        *,
        writes: bool = True,
        rules: Rules | None = None,
    ) -> None:
        self._rules = rules
        self._memory = memory
        self._recall = recall
        self._provenance = provenance
        self._writes = writes

    async def answer(self, command: str, body: bytes) -> bytes:
        """Carry out a script's command; a `UsageError` says what was wrong with it."""
        match command:
            case "write":
                answer = await self.write(received(body))
            case "batch":
                answer = await self.batch(body)
            case "search":
                answer = await self.search(received(body))
            case "ping":
                answer = {"ok": True}
            case _:
                raise UsageError(
                    f"There is no command {command!r}", hint="There are write, batch and search."
                )
        return json.dumps(answer, ensure_ascii=False).encode(errors="replace")

    async def write(self, arguments: list[str]) -> dict[str, Any]:
        """One operation, as `memory-write.sh` is called for it."""
        if not arguments or arguments[0] in {"-h", "--help", "help"}:
            raise UsageError("Say what to write", hint=usage())
        operation, *rest = arguments
        if operation == BATCH:
            raise UsageError("A batch is read from standard input", hint=f"For example:\n{_batch_example()}")
        known = OPERATIONS.get(operation)
        if known is None:
            raise UsageError(f"There is no operation {operation!r}", hint=usage())
        bare, values = flags(rest, known.example)
        if bare:
            raise UsageError(
                f"{bare[0]!r} belongs to no flag of `{operation}`", hint=f"For example: {known.example}"
            )
        return await self._run(operation, values)

    async def batch(self, body: bytes) -> dict[str, Any]:
        """Many operations in one transaction: one JSON object on each line, or one list of them."""
        return await self._run(BATCH, _operations(body))

    async def search(self, arguments: list[str]) -> dict[str, Any]:
        """What the memory holds about a question."""
        search = Search.of(*flags([each for each in arguments if each != "--json"], EXAMPLE))
        answer = await search.run(self._memory.ledgers, await self._recall())
        if self._rules is not None:
            self._rules.recalled(answer)
        return answer

    async def _run(self, operation: str, arguments: object) -> dict[str, Any]:
        if not self._writes:
            raise UsageError(
                "This workspace may read the memory and not write it",
                hint="Leave what should be remembered to the memory writer.",
            )
        return await self._memory.run(operation, arguments, self._provenance, rules=self._rules)


def usage() -> str:
    """Every operation with an example."""
    lines = [f"  {operation.example}" for operation in OPERATIONS.values()]
    return "\n".join(["For example:", *lines, *(f"  {line}" for line in _batch_example().splitlines())])


def _batch_example() -> str:
    items = json.loads(BATCH_EXAMPLE)["operations"]
    return "\n".join(["memory-write.sh batch <<'END'", *map(json.dumps, items), "END"])


def _operations(body: bytes) -> object:
    try:
        text = body.decode()
        if text.lstrip().startswith("["):
            return cast("object", json.loads(text))
        return [json.loads(line) for line in text.split("\n") if line.strip()]
    except ValueError as error:
        raise UsageError(
            f"A batch is one JSON object on each line, and this is not: {error}",
            hint=f"For example:\n{_batch_example()}",
        ) from error
