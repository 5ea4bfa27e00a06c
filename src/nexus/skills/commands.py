"""The commands of the memory skill's scripts: write, batch, search, models. Answers are JSON.

The memory sockets and the command line both come through here, so a script behaves the same whether the
home runs or not.
"""

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final, cast, get_args

from nexus import clock
from nexus.errors import UsageError
from nexus.ledgers import Ledgers
from nexus.memory.conclusions import mental_models
from nexus.memory.gate import Rules
from nexus.memory.operations import BATCH, BATCH_EXAMPLE, OPERATIONS, Memory
from nexus.memory.recall.item import KIND_NAMES, PATIENT_MS, Budget, Kind, Query, describe_match
from nexus.memory.recall.question import entities_named, understand
from nexus.memory.recall.recall import Recall
from nexus.memory.references import UnknownEntityError
from nexus.memory.writing import Provenance
from nexus.request import EVERYTHING, Visibility

_FLAG: Final = "--"


def parse_arguments(body: bytes) -> list[str]:
    """Parse the arguments that a script sent."""
    try:
        text = body.decode()
    except UnicodeDecodeError as error:
        raise UsageError(
            f"An argument is not UTF-8: {error}", hint="Convert it, for example with iconv."
        ) from error
    return text.removesuffix("\0").split("\0") if text else []


def parse_flags(arguments: Sequence[str], example: str) -> tuple[list[str], dict[str, str | list[str]]]:
    """Split arguments into bare ones and the values of flags; a repeated flag has a list of values.

    Each flag has a value, `--fact TEXT` or `--fact=TEXT`, so a text may begin with dashes.
    """
    bare: list[str] = []
    found: dict[str, str | list[str]] = {}
    rest = iter(arguments)
    for argument in rest:
        if argument.startswith(_FLAG) and len(argument) > len(_FLAG):
            name, equals, value = argument.removeprefix(_FLAG).partition("=")
            if not equals:
                following = next(rest, None)
                if following is None:
                    raise UsageError(f"`--{name}` needs a value", hint=f"For example: {example}")
                value = following
            earlier = found.get(name)
            if earlier is None:
                found[name] = value
            else:
                found[name] = [*([earlier] if isinstance(earlier, str) else earlier), value]
        else:
            bare.append(argument)
    return bare, found


EXAMPLE: Final = 'memory-search.sh "project timeline" --scope entities,episodes,events --limit 10'
# The specification has a name of its own for entities.
_SCOPES: Final[dict[str, Kind]] = {**KIND_NAMES, "persons": "entity"}
_FLAGS: Final = ("scope", "limit", "budget", "max-tokens", "channel", "entity", "after", "before")
_MOST: Final = 200
MODELS_EXAMPLE: Final = 'memory-models.sh "Sarah and deadlines"'


def parse_query(words: list[str], given: Mapping[str, str | list[str]]) -> Query:
    """Read and check the arguments of the search script."""
    text = " ".join(words).strip()
    if not text:
        raise _error("Say what to search for")
    for name in given:
        if name not in _FLAGS:
            raise _error(f"There is no flag `--{name}`: there are {', '.join(_FLAGS)}")
    values = {name: value if isinstance(value, str) else value[-1] for name, value in given.items()}
    budget = values.get("budget", "mid")
    if budget not in get_args(Budget):
        raise _error(f"`--budget` must be one of {', '.join(get_args(Budget))}, not {budget!r}")
    return Query(
        text=text,
        kinds=_read_kinds(given.get("scope")),
        max_results=_read_number(values, "limit", 10),
        max_tokens=_read_number(values, "max-tokens", 4000, most=100_000),
        budget=cast("Budget", budget),
        deadline_ms=PATIENT_MS,
        channel=values.get("channel"),
        entity_id=values.get("entity"),
        time_after=_read_time(values, "after"),
        time_before=_read_time(values, "before"),
    )


async def search(ledgers: Ledgers, recall: Recall, query: Query) -> dict[str, Any]:
    """Search, and return the answer as the script prints it."""
    answer = await recall.find(query)
    named: list[dict[str, str]] = []
    # Entities belong to no thread: whoever may see only some threads sees none.
    if "entity" in query.kinds and recall.visible.everything:
        found = await ledgers.identity.read(entities_named, understand(query.text, clock.now()))
        named = [{"id": id_, "matched": each.name} for id_, each in found.items()]
    return {
        "query": query.text,
        "entities": named,
        "results": [describe_match(result) for result in answer.results],
        "took_ms": round(answer.timings_ms["total"]),
    }


def _read_kinds(given: str | list[str] | None) -> frozenset[Kind]:
    if given is None:
        return Query(text="").kinds
    names = [
        name.strip() for part in ([given] if isinstance(given, str) else given) for name in part.split(",")
    ]
    for name in names:
        if name not in _SCOPES:
            raise _error(f"`--scope` knows {', '.join(_SCOPES)}, and not {name!r}")
    return frozenset(_SCOPES[name] for name in names)


def _read_number(values: Mapping[str, str], name: str, default: int, most: int = _MOST) -> int:
    text = values.get(name, str(default))
    if not text.isdecimal() or not 1 <= int(text) <= most:
        raise _error(f"`--{name}` must be a number from 1 to {most}, not {text!r}")
    return int(text)


def _read_time(values: Mapping[str, str], name: str) -> datetime | None:
    if name not in values:
        return None
    try:
        return clock.parse(values[name])
    except ValueError:
        raise _error(f"`--{name}` must be a time such as 2026-05-01, not {values[name]!r}") from None


def _error(message: str) -> UsageError:
    return UsageError(message, hint=f"For example: {EXAMPLE}")


OpenRecall = Callable[[], Awaitable[Recall]]
"""Opens recall for one search: its embedding model may change between two searches."""


class Commands:
    """The commands of one principal. The runtime says who that is, never what is sent."""

    def __init__(
        self,
        memory: Memory,
        recall: OpenRecall,
        provenance: Provenance,
        *,
        writes: bool = True,
        rules: Rules | None = None,
        visible: Visibility = EVERYTHING,
    ) -> None:
        self._visible = visible
        self._rules = rules
        self._memory = memory
        self._recall = recall
        self._provenance = provenance
        self._writes = writes

    async def answer(self, command: str, body: bytes) -> bytes:
        """Carry out a script's command; a `UsageError` says what was wrong with it."""
        match command:
            case "write":
                answer = await self.write(parse_arguments(body))
            case "batch":
                answer = await self.batch(body)
            case "search":
                answer = await self.search(parse_arguments(body))
            case "models":
                answer = await self.models(parse_arguments(body))
            case "ping":
                answer = {"ok": True}
            case _:
                raise UsageError(
                    f"There is no command {command!r}", hint="There are write, batch, search and models."
                )
        return json.dumps(answer, ensure_ascii=False).encode(errors="replace")

    async def write(self, arguments: list[str]) -> dict[str, Any]:
        """Run one operation, with the arguments of `memory-write.sh`."""
        if not arguments or arguments[0] in {"-h", "--help", "help"}:
            raise UsageError("Say what to write", hint=list_operations())
        operation, *rest = arguments
        if operation == BATCH:
            raise UsageError("A batch is read from standard input", hint=f"For example:\n{_batch_example()}")
        known = OPERATIONS.get(operation)
        if known is None:
            raise UsageError(f"Unknown operation {operation!r}", hint=list_operations())
        bare, values = parse_flags(rest, known.example)
        if bare:
            raise UsageError(
                f"{bare[0]!r} belongs to no flag of `{operation}`", hint=f"For example: {known.example}"
            )
        return await self._run(operation, values)

    async def batch(self, body: bytes) -> dict[str, Any]:
        """Run many operations in one transaction: one JSON object on each line, or a list of them."""
        return await self._run(BATCH, _read_operations(body))

    async def search(self, arguments: list[str]) -> dict[str, Any]:
        """Search the memory."""
        query = parse_query(*parse_flags([each for each in arguments if each != "--json"], EXAMPLE))
        answer = await search(self._memory.ledgers, await self._recall(), query)
        if self._rules is not None:
            self._rules.note_recall(answer)
        return answer

    async def models(self, arguments: list[str]) -> dict[str, Any] | list[dict[str, Any]]:
        """List mental models in their newest versions, or show one with its sources and versions."""
        if not self._visible.everything:
            raise UsageError(
                "Mental models may rest on any conversation, and this run sees one",
                hint="Search for what was said in it instead.",
            )
        stale = "--stale" in arguments
        given = [each for each in arguments if each not in {"--stale", "--json"}]
        words, values = parse_flags(given, MODELS_EXAMPLE)
        for name in values.keys() - {"limit"}:
            raise UsageError(
                f"There is no flag `--{name}`: there are stale and limit",
                hint=f"For example: {MODELS_EXAMPLE}",
            )
        if words:
            return await mental_models.describe(self._memory.ledgers, " ".join(words).strip())
        limit = _read_number({name: str(value) for name, value in values.items()}, "limit", 50)
        found = await mental_models.list_models(self._memory.ledgers, stale=stale, limit=limit)
        return [each.to_json() for each in found]

    async def _run(self, operation: str, arguments: object) -> dict[str, Any]:
        if not self._writes:
            raise UsageError(
                "This workspace may read the memory and not write it",
                hint="Leave what should be remembered to the memory writer.",
            )
        if not self._visible.everything and _saves_mental_model(operation, arguments):
            raise UsageError(
                "A mental model may rest on any conversation, and this run sees one",
                hint="Write what was said in it as facts.",
            )
        try:
            return await self._memory.run(operation, arguments, self._provenance, rules=self._rules)
        except UnknownEntityError as error:
            hint = f"Create it first: {OPERATIONS['entity'].example}"
            raise UsageError(error.message, hint=hint) from error


def _saves_mental_model(operation: str, arguments: object) -> bool:
    """Whether an operation, or one of a batch, saves a mental model."""
    listed = cast("list[object]", arguments) if isinstance(arguments, list) else []
    names = [
        cast("Mapping[str, object]", each).get("operation") for each in listed if isinstance(each, Mapping)
    ]
    return mental_models.OPERATION in [operation, *names]


def list_operations() -> str:
    """List every operation with an example."""
    lines = [f"  {operation.example}" for operation in OPERATIONS.values()]
    return "\n".join(["For example:", *lines, *(f"  {line}" for line in _batch_example().splitlines())])


def _batch_example() -> str:
    items = json.loads(BATCH_EXAMPLE)["operations"]
    return "\n".join(["memory-write.sh batch <<'END'", *map(json.dumps, items), "END"])


def _read_operations(body: bytes) -> object:
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
