"""One process that serves a home for some turns, and tells what they cost it. bench/scale.py starts it."""

import asyncio
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from nexus import config
from nexus.app import App
from nexus.home import Home

_WARM_UP = 3
_TABLES = {
    "sqlite": "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'",
    "postgresql": """SELECT format('%I.%I', schemaname, tablename) FROM pg_tables
        WHERE schemaname NOT IN ('pg_catalog', 'information_schema')""",
}
_BYTES = {
    "sqlite": "SELECT (SELECT page_count FROM pragma_page_count) * (SELECT page_size FROM pragma_page_size)",
    "postgresql": "SELECT pg_database_size(current_database())",
}
_CONNECTIONS = """SELECT count(*) FROM pg_stat_activity
    WHERE datname = current_database() AND pid <> pg_backend_pid()"""


async def main(root: Path, turns: int) -> dict[str, Any]:
    home = Home(root)
    begun = time.perf_counter()
    async with App(home, config.load(home.config_file)) as app:
        ready_ms = (time.perf_counter() - begun) * 1000
        idle_bytes = _resident_bytes()
        await _talk(app, _WARM_UP)
        database = sa.create_engine(app.engine.database.url)
        before, ledgers_before = _engine(database), await _ledger_bytes(app)
        busy = time.process_time()
        await _talk(app, turns)
        cpu_ms = (time.process_time() - busy) * 1000 / turns
        after, connections = _engine(database), _connections(database)
        database.dispose()
        resident_bytes, ledger_bytes = _resident_bytes(), await _ledger_bytes(app) - ledgers_before
    return {
        "open_ms": round(ready_ms),
        "bytes_per_process": idle_bytes,
        "bytes_per_busy_process": resident_bytes,
        "cpu_ms_per_turn": round(cpu_ms, 1),
        "ledger_bytes_per_turn": round(ledger_bytes / turns),
        "engine_rows_per_turn": round((after[0] - before[0]) / turns, 1),
        "engine_bytes_per_turn": round((after[1] - before[1]) / turns),
        **connections,
    }


async def _talk(app: App, turns: int) -> None:
    for turn in range(turns):
        text = f"Question {turn}: what did we say about the opening, the boat and the tea last week?"
        answer = await app.send(text, session_label=f"bench:{turn % 10}", channel="bench")
        await answer.result()
    # What was said is embedded behind the person's back, and belongs to what it costs.
    while (await app.embedding.backlog()).depth:
        app.embedding.wake()
        await asyncio.sleep(0.1)


def _engine(database: sa.Engine) -> tuple[int, int]:
    """Rows and bytes in the engine's database."""
    kind = database.dialect.name
    with database.connect() as connection:
        names = [row[0] for row in connection.execute(sa.text(_TABLES[kind]))]
        rows = sum(connection.execute(sa.text(f"SELECT count(*) FROM {name}")).scalar_one() for name in names)
        return rows, connection.execute(sa.text(_BYTES[kind])).scalar_one()


def _connections(database: sa.Engine) -> dict[str, int]:
    """How many this process has open, where there is a server to have them with."""
    if database.dialect.name != "postgresql":
        return {}
    with database.connect() as connection:
        return {"connections": connection.execute(sa.text(_CONNECTIONS)).scalar_one()}


async def _ledger_bytes(app: App) -> int:
    """Bytes of the six ledgers, with what is still in their logs."""
    size = "SELECT (SELECT page_count FROM pragma_page_count) * (SELECT page_size FROM pragma_page_size)"
    return sum([int(str(await ledger.read(lambda c: c.execute(size).get))) for ledger in app.ledgers])


def _resident_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


if __name__ == "__main__":
    print(json.dumps(asyncio.run(main(Path(sys.argv[1]), int(sys.argv[2])))))
