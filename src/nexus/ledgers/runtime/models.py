"""Models in the runtime ledger: what is known of each, so that nothing about it must be guessed."""

import json
from dataclasses import dataclass, fields, replace
from typing import Any, Literal, Self, cast

import apsw

from nexus.ledgers import sql

ToolCalls = Literal["native", "text", "none"]
"""`native`: calls arrive as calls. `text`: the model writes them into its answer. `none`: the server refuses
requests that offer tools."""
StructuredOutput = Literal["schema", "json", "none"]
"""`schema`: the server holds an answer to a JSON schema. `json`: to JSON. `none`: to nothing."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Capabilities:
    """What a model can do, where it is served. None: not known."""

    context_tokens: int | None = None
    """Its window: prompt and answer together."""
    tool_calls: ToolCalls | None = None
    structured_output: StructuredOutput | None = None
    streams: bool | None = None
    """False: its answers come whole."""
    calls_tools: bool | None = None
    """Whether it called a tool when it was tried."""
    writes_json: bool | None = None
    """Whether it answered with a valid JSON object when it was tried."""
    images: bool | None = None
    reasoning: bool | None = None
    slots: int | None = None
    """How many requests the server works on at a time."""
    prompt_tokens_per_s: float | None = None
    output_tokens_per_s: float | None = None
    bytes_per_token: float | None = None
    """By the server's own count of a prompt."""
    tested_at: str | None = None
    """When `nexus models test`, or `nexus init`, last tried it."""

    def over(self, other: Self) -> Self:
        """Return what this one knows, and where it knows nothing, what the other does."""
        return replace(other, **self.known_fields())

    def known_fields(self) -> dict[str, Any]:
        """Return the fields that are known."""
        values = ((name, getattr(self, name)) for name in self.__slots__)
        return {name: value for name, value in values if value is not None}

    @classmethod
    def of(cls, known: dict[str, Any]) -> Self:
        """From stored fields; those of another version are left out."""
        names = {field.name for field in fields(cls)}
        return cls(**{name: value for name, value in known.items() if name in names})


def get(connection: apsw.Connection, name: str, address: str) -> Capabilities:
    """Return what was learned of a model at that address."""
    found: Any = connection.execute(sql.queries("runtime")["known_model"], (name, address)).get
    return Capabilities() if found is None else Capabilities.of(json.loads(found))


def every(connection: apsw.Connection) -> dict[str, Capabilities]:
    """Return what was learned of all models, by name."""
    rows = cast(
        "list[tuple[str, str]]", connection.execute(sql.queries("runtime")["known_models"]).fetchall()
    )
    return {name: Capabilities.of(json.loads(known)) for name, known in rows}


def replace_known(connection: apsw.Connection, name: str, address: str, known: Capabilities) -> None:
    """Keep what a trial found, in place of everything that was known before."""
    connection.execute(sql.queries("runtime")["forget_model"], (name,))
    learn(connection, name, address, known)


def learn(connection: apsw.Connection, name: str, address: str, learned: Capabilities) -> None:
    """Keep what was learned, over what was known before. Another address: nothing of before is kept."""
    known = json.dumps(learned.known_fields())
    connection.execute(
        sql.queries("runtime")["learn_model"], {"name": name, "address": address, "known": known}
    )
