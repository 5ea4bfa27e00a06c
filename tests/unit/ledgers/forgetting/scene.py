"""A small home to put rows into, forget something, and look at what is left."""

from collections.abc import Callable
from typing import Any, Final

import apsw

from nexus.ledgers import Ledgers, forgetting
from nexus.ledgers.forgetting import Plan, Report, Target

# Columns that hold a word of the program's own, an id or a time wherever they occur, never anybody's words.
VOCABULARY: Final = frozenset(
    [
        *(
            "action",
            "age",
            "call_id",
            "category",
            "channel",
            "circuit_state",
            "content_type",
            "delivered_call_id",
        ),
        *(
            "answer",
            "basis",
            "call_hash",
            "call_key",
            "decision",
            "how",
            "signals",
            "direction",
            "quiet_hours",
            "scope",
            "zone",
        ),
        *("fact_type", "hook_point", "kind", "lane", "media_type", "mode", "model", "origin", "outcome"),
        *("promiser", "provider"),
        *("relation", "role", "script_hash", "script_path", "sha256", "source", "sort", "source_text_hash"),
        *(
            "source_type",
            "stage",
            "status",
            "subject_type",
            "target_type",
            "tool_name",
            "type",
            "type_id",
            "waiting_since",
            "work",
        ),
        *("decided_by", "item_kind", "text_sha256", "used_by"),
        *("workspace_dir", "peer_workspaces", "created_by_agent", "as_of", "last_triggered"),
        # Of what is never removed.
        *("automation_id", "definition_id", "model_id", "previous_version_id"),
    ]
)


class Scene:
    """Rows by `ledger.table`; ids are whatever a test calls them."""

    def __init__(self, ledgers: Ledgers) -> None:
        self.ledgers = ledgers

    async def put(self, path: str, /, **values: Any) -> None:
        ledger, _, table = path.partition(".")
        places = ", ".join("?" * len(values))
        statement = f"INSERT INTO {table} ({', '.join(values)}) VALUES ({places})"
        await self.ledgers[ledger].write(
            lambda connection: connection.execute(statement, tuple(values.values()))
        )

    async def event(self, id_: str, content: str = "…", **values: Any) -> None:
        await self.put(
            "events.events", id=id_, content=content, **{"channel": "c", "direction": "inbound"} | values
        )

    async def entity(self, id_: str, name: str, *aliases: str, **values: Any) -> None:
        await self.put(
            "identity.entities",
            id=id_,
            type="Person",
            canonical_name=name,
            normalized_name=name.lower(),
            **values,
        )
        for alias in aliases:
            await self.put(
                "identity.entity_aliases",
                id=f"ali_{id_}_{alias}",
                entity_id=id_,
                alias=alias,
                normalized=alias.lower(),
            )

    async def fact(self, id_: str, fact: str = "…", **values: Any) -> None:
        await self.put("memory.facts", id=id_, fact=fact, **values)

    async def episode(self, id_: str, *event_ids: str, **values: Any) -> None:
        await self.put("memory.episodes", id=id_, channel="c", start_time="2020", end_time="2020", **values)
        for event_id in event_ids:
            await self.put("memory.episode_events", episode_id=id_, event_id=event_id)

    async def observation(self, id_: str, *fact_ids: str, **values: Any) -> None:
        await self.put("memory.analysis_runs", id=id_, type_id="observation", **{"content": "…"} | values)
        for fact_id in fact_ids:
            await self.put("memory.observation_facts", observation_id=id_, fact_id=fact_id)

    async def request(self, id_: str, **values: Any) -> None:
        await self.put("runtime.requests", id=id_, **{"root_request_id": id_} | values)

    async def session(self, id_: str, **values: Any) -> None:
        await self.put("agents.agent_sessions", id=id_, label=id_, role="manager", **values)

    async def turn(self, id_: str, session_id: str, position: int, content: str = "…", **values: Any) -> None:
        """A turn with one message, which may carry an event."""
        event_id = values.pop("event_id", None)
        await self.put("agents.agent_turns", id=id_, session_id=session_id, position=position, **values)
        await self.put(
            "agents.agent_messages",
            id=f"msg_{id_}",
            session_id=session_id,
            turn_id=id_,
            position=position,
            role="user",
            content=content,
            event_id=event_id,
        )

    async def participant(
        self, event_id: str, role: str, entity_id: str | None, identifier: str = ""
    ) -> None:
        await self.put(
            "events.event_participants",
            event_id=event_id,
            role=role,
            identifier=identifier or str(entity_id),
            entity_id=entity_id,
        )

    async def left(self, path: str, column: str = "id") -> set[Any]:
        """What one column of a table still holds."""
        ledger, _, table = path.partition(".")

        def read(connection: apsw.Connection) -> set[Any]:
            return {row[0] for row in connection.execute(f"SELECT {column} FROM {table}")}

        return await self.ledgers[ledger].read(read)

    async def find(self, resolve: Callable[[apsw.Connection], Target]) -> Target:
        return await forgetting.find(self.ledgers, resolve)

    async def preview(self, target: Target) -> Plan:
        return await forgetting.preview(self.ledgers, target)

    async def forget_entity(self, name: str, **choices: Any) -> Report:
        return await self._forget(await self.find(lambda c: forgetting.entity(c, name, **choices)))

    async def forget_thread(self, id_: str) -> Report:
        return await self._forget(await self.find(lambda c: forgetting.thread(c, id_)))

    async def forget_range(self, start: str, end: str) -> Report:
        return await self._forget(forgetting.time_range(start, end))

    async def _forget(self, target: Target) -> Report:
        report = await forgetting.forget(self.ledgers, target, actor="test")
        assert report is not None
        return report
