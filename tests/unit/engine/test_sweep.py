"""Most sweeps find nothing: they ask one question for all lanes."""

# pyright: reportPrivateUsage=false

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy import event

from nexus.engine import Engine, Settings, WorkContext, store
from nexus.engine.prepare import prepare_database


@contextmanager
def _statements(engine: sa.Engine) -> Generator[list[str]]:
    seen: list[str] = []

    def note(connection: Any, cursor: Any, statement: str, *_: Any) -> None:
        seen.append(statement)

    event.listen(engine, "before_cursor_execute", note)
    yield seen
    event.remove(engine, "before_cursor_execute", note)


def test_what_waits_and_what_is_to_be_stopped_is_found_with_one_statement(tmp_path: Path) -> None:
    settings = Settings(database=tmp_path / "engine.db")
    database = prepare_database(settings)
    lanes = [lane.name for lane in settings.lanes]
    new = [
        store.new_execution("work", None, key="k", lane=lane, version=settings.version) for lane in lanes[1:3]
    ]
    with database.write() as connection:
        store.insert(database, connection, new)
    store.ask_to_stop(database, "exe_elsewhere")

    with _statements(database.engine) as statements:
        found, to_stop = store.waiting(database, [lane.name for lane in settings.lanes])
    database.close()

    assert len(lanes) > 3
    assert found == set(lanes[1:3])
    assert to_stop == ["exe_elsewhere"]
    assert len(statements) == 1


async def test_a_sweep_without_work_visits_no_lane(tmp_path: Path) -> None:
    async def work(context: WorkContext, payload: Any) -> None:
        pass

    engine = Engine(Settings(database=tmp_path / "engine.db"))
    engine.register("work", work)
    async with engine:
        await (await engine.start("work", None, key="k", lane="chat")).result()
        assert engine._service is not None
        with _statements(engine.database.engine) as statements:
            await engine._service.sweeper._sweep()

    assert not [statement for statement in statements if "visited" in statement]
