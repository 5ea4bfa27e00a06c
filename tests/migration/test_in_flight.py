"""An upgrade with work in flight: what a run has recorded is read, or the run starts over; none is ended."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

from apps import app_on
from memory_writers import rows
from nexus.engine.prepare import prepare_database
from nexus.engine.settings import Settings
from nexus.home import LEDGERS, Home
from nexus.ledgers import migrate
from nexus.testing import ModelServer, Turn

RECORDED = Path(__file__).with_name("in_flight.json")
"""Rows of a home that was killed in November 2026, under runtime schema 12. One run waits for its first
answer, one for its second after a tool call, and one for a worker that has made a tool call."""


def lay(home: Home) -> None:
    """Make a home's databases anew as that version left them."""
    recorded: dict[str, Any] = json.loads(RECORDED.read_text(encoding="utf-8"))
    for name in LEDGERS:
        for file in home.data.glob(f"{name}.db*"):
            file.unlink()
        migrate.build(home.ledger(name), name, recorded.get(name, {}).get("schema"))
    prepare_database(Settings(database=home.engine_file)).close()
    for name, ledger in recorded.items():
        path = home.engine_file if name == "engine" else home.ledger(name)
        with closing(sqlite3.connect(path)) as connection, connection:
            for table, found in ledger["tables"].items():
                for row in found:
                    places = ", ".join("?" * len(row))
                    connection.execute(
                        f"INSERT INTO {table} ({', '.join(row)}) VALUES ({places})", list(row.values())
                    )


async def test_an_upgrade_finishes_what_was_in_flight(home: Home, server: ModelServer) -> None:
    lay(home)
    server.always(lambda request: Turn("Done."))
    async with app_on(home, server) as app:
        for (id_,) in await rows(app, "runtime", "SELECT id FROM executions"):
            await app.queue.run(id_).result()
        ended = await rows(app, "runtime", "SELECT lane, status, error FROM executions ORDER BY lane")
        calls = await rows(app, "agents", "SELECT tool_name, status FROM agent_tool_calls ORDER BY tool_name")
        answers = await rows(app, "events", "SELECT content FROM events WHERE direction = 'outbound'")

    assert ended == [("chat", "done", None)] * 3 + [("workers", "done", None)]
    # Each was made once, and what the worker gave has reached the call that waits for it.
    assert calls == [("agent_send", "done")] * 2 + [("bash", "done")] * 2
    assert answers == [("Done.",)] * 3
    # No earlier answer was asked for again.
    assert len(server.requests) == 4
