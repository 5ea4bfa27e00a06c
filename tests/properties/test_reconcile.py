"""Ledgers that were caught at different moments agree again, wherever each of them was cut."""

import asyncio
import struct
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import apsw
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from apps import send
from long_form import times
from memory_writers import extracted, extracting, is_extractor, quiet, rows
from new_homes import new_home
from nexus.broker.invariants import check
from nexus.engine.settings import Settings
from nexus.home import LEDGERS, Home
from nexus.ledgers import reconcile
from nexus.testing import ModelRequest, ModelServer, Turn

_FRAME_HEADER = 24
_WAL_HEADER = 32


class Recording:
    """A home's ledgers with every commit that an exchange made, as their write-ahead logs hold them."""

    def __init__(self, home: Home) -> None:
        self._files = {name: home.ledger(name).read_bytes() for name in LEDGERS}
        self._logs = {name: _log(home.ledger(name)).read_bytes() for name in LEDGERS}
        self._engine = (home.engine_file.read_bytes(), _log(home.engine_file).read_bytes())
        self._ends = {name: list(_commits(log)) for name, log in self._logs.items()}

    def cut(self, home: Home, places: dict[str, float], *, engine: bool) -> None:
        """Fill a home with each ledger as it was at a place, between 0 and 1."""
        for name in LEDGERS:
            ends = self._ends[name]
            end = ends[round(min(1.0, max(0.0, places[name])) * (len(ends) - 1))]
            home.ledger(name).write_bytes(self._files[name])
            _log(home.ledger(name)).write_bytes(self._logs[name][:end])
        if engine:
            file, log = self._engine
            home.engine_file.write_bytes(file)
            _log(home.engine_file).write_bytes(log)


def _log(database: Path) -> Path:
    return database.with_name(f"{database.name}-wal")


def _commits(log: bytes) -> Iterator[int]:
    """Where each transaction of a write-ahead log ends; where the first one begins, first."""
    (page_bytes,) = struct.unpack(">I", log[8:12])
    yield _WAL_HEADER
    for start in range(_WAL_HEADER, len(log), _FRAME_HEADER + page_bytes):
        _, pages_after_commit = struct.unpack(">II", log[start : start + 8])
        if log[start + 8 : start + 16] == log[16:24] and pages_after_commit:
            yield start + _FRAME_HEADER + page_bytes


def _answer(request: ModelRequest) -> Turn | str:
    if is_extractor(request):
        return extracted(("owner", f"The owner spoke of matter {len(request.last_user)}"))
    asked = request.last_user
    if "delegate" in asked and "worker_result" not in str(request.json["messages"]):
        return Turn("", [send("dispatch", text="Count to three")])
    return Turn(f"Heard {asked[-40:]}")


def _home(root: Path) -> Home:
    return new_home(root)


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Recording:
    """Three exchanges, one of them with a worker, and what the memory writer made of them."""

    async def talk(home: Home) -> Recording:
        with ModelServer() as server:
            server.always(_answer)
            async with extracting(home, server) as app:
                for text in ("I like tea", "Please delegate the count", "My sister is Ana"):
                    await (await app.send(text)).result()
                await quiet(app)
                return Recording(home)

    home = _home(tmp_path_factory.mktemp("recording") / "home")
    # Readers from before the first write: none of it leaves the logs.
    readers = [apsw.Connection(str(home.ledger(name))) for name in LEDGERS]
    for reader in readers:
        reader.execute("BEGIN; SELECT count(*) FROM sqlite_schema").fetchall()
    try:
        return asyncio.run(talk(home))
    finally:
        for reader in readers:
            reader.close()


async def _serve(home: Home) -> list[tuple[str, int]]:
    """Serve a home until nothing is left to do; every message in it, and how many answers it has."""
    with ModelServer() as server:
        server.always(_answer)
        async with extracting(home, server) as app:
            await quiet(app)
            found = await rows(
                app,
                "events",
                """SELECT v.content, (SELECT count(*) FROM events AS o
                                      WHERE o.reply_to_event_id = v.id AND o.direction = 'outbound')
                   FROM events AS v WHERE v.direction = 'inbound'""",
            )
    return [(str(content), int(answers)) for content, answers in found]


def _broken(home: Home) -> list[str]:
    verdict = check(home, Settings(database=home.engine_file), strict=True)
    return [str(violation) for violation in verdict.violations]


_OFFSET = st.sampled_from([0.0, 0.0, -0.02, 0.02, -0.1, 0.1, -0.4, 0.4])
_PLACES = st.tuples(st.floats(0, 1), st.fixed_dictionaries(dict.fromkeys(LEDGERS, _OFFSET))).map(
    lambda drawn: {name: drawn[0] + offset for name, offset in drawn[1].items()}
)


@settings(max_examples=times(5, long=60), phases=[Phase.explicit, Phase.reuse, Phase.generate])
@given(places=_PLACES, engine=st.booleans())
def test_every_message_is_answered_once_wherever_the_ledgers_were_cut(
    recording: Recording, tmp_path_factory: pytest.TempPathFactory, places: dict[str, float], engine: bool
) -> None:
    home = _home(tmp_path_factory.mktemp("cut") / "home")
    recording.cut(home, places, engine=engine)
    reconcile.mark(home)
    said = asyncio.run(_serve(home))
    assert [content for content, answers in said if answers != 1] == []
    assert _broken(home) == []
    assert not reconcile.is_due(home)


def test_what_was_reconciled_needs_nothing_more(recording: Recording, tmp_path: Path) -> None:
    home = _home(tmp_path / "home")
    recording.cut(home, {**dict.fromkeys(LEDGERS, 0.6), "events": 0.3, "agents": 0.9}, engine=False)
    first = reconcile.reconcile(home)
    again = reconcile.reconcile(home)
    assert first.runs
    assert (again.messages, again.answers, again.runs, again.turns, again.calls) == (0, 0, 0, 0, 0)
    assert again.unheard == first.unheard


def test_without_being_reconciled_an_answer_stays_lost(recording: Recording, tmp_path: Path) -> None:
    """What the property rests on: the cuts do break a home."""
    home = _home(tmp_path / "home")
    recording.cut(home, {**dict.fromkeys(LEDGERS, 1.0), "events": 0.5}, engine=False)
    asyncio.run(_serve(home))
    assert _broken(home) != []


def test_an_answer_that_only_the_conversation_has_is_in_its_session_again(
    recording: Recording, tmp_path: Path
) -> None:
    """The copy of the events was a moment ahead of the others, and none of them has the run."""
    home = Home(tmp_path / "home")
    home.create_files()
    recording.cut(
        home, {name: 1.0 if name in {"events", "identity"} else 0.0 for name in LEDGERS}, engine=False
    )
    reconcile.reconcile(home)
    with closing(apsw.Connection(str(home.ledger("events")))) as connection:
        answers = connection.execute("SELECT content FROM events WHERE direction = 'outbound' ORDER BY seq")
        said = [str(text) for (text,) in answers]
    with closing(apsw.Connection(str(home.ledger("agents")))) as connection:
        turns = connection.execute(
            "SELECT content FROM agent_messages WHERE role = 'assistant' ORDER BY rowid"
        )
        assert said
        assert [str(text) for (text,) in turns] == said
    assert str(reconcile.reconcile(home)) == "nothing to repair"


def test_ledgers_of_one_moment_are_left_alone(recording: Recording, tmp_path: Path) -> None:
    home = _home(tmp_path / "home")
    recording.cut(home, dict.fromkeys(LEDGERS, 1.0), engine=False)
    found = reconcile.reconcile(home)
    assert str(found) == "nothing to repair"
    assert (found.unheard, found.unwritten) == ((), ())
    with closing(apsw.Connection(str(home.ledger("events")))) as connection:
        assert connection.execute("SELECT count(*) FROM events").get == 6


def test_a_clock_that_was_ahead_hides_no_message_that_nobody_was_asked_about(tmp_path: Path) -> None:
    home = _home(tmp_path / "home")
    said = [("evt_a", "2999-01-01T00:00:00.000Z"), ("evt_b", "2026-02-01T00:00:00.000Z"),
            ("evt_c", "2026-02-01T00:00:00.500Z"), ("evt_d", "2026-02-01T00:00:10.000Z")]  # fmt: skip
    with closing(apsw.Connection(str(home.ledger("events")))) as connection:
        add = """INSERT INTO events (id, channel, direction, kind, content, occurred_at, created_at)
                 VALUES (?1, 'cli', 'inbound', 'message', ?1, ?2, ?2)"""
        connection.executemany(add, said)
    with closing(apsw.Connection(str(home.ledger("runtime")))) as connection:
        add = """INSERT INTO requests (id, root_request_id, event_id, access_json, status, created_at)
                 VALUES (?1, ?1, ?2, '{}', 'done', ?3)"""
        connection.executemany(add, [("req_z", *said[0]), ("req_c", *said[2])])

    assert reconcile.reconcile(home).unheard == (("evt_b", None), ("evt_d", None))
