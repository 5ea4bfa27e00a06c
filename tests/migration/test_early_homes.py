"""Homes of checkouts from before 0.1.0 are refused, and what such a checkout exports is read.

`exports/` holds what two of them wrote (091557c with runtime schema 12, and 69575bef with 23): a home with a
message, facts of which one replaced another, an automation, and a run that was killed while its worker waited
for a model.
"""

import gzip
import io
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import apsw
import pytest
from click.testing import CliRunner

from apps import app_on
from contents import execute
from memory_writers import rows
from nexus.cli import program
from nexus.config import LedgersConfig
from nexus.errors import CareError, NexusError, SchemaError
from nexus.home import LEDGERS, Home
from nexus.ledgers import backup, health, migrate, sql, transfer
from nexus.ledgers.connection import connect
from nexus.ledgers.identity import senders
from nexus.ledgers.transfer.format import Header, Tally
from nexus.testing import ModelServer, Turn

_EXPORTS = Path(__file__).with_name("exports")
_COMMITS = ("091557c", "69575bef")
_SCHEMA = {"events": 5, "agents": 6, "identity": 5, "memory": 12, "embeddings": 2, "runtime": 23}
_UNENDED = "SELECT id FROM executions WHERE status IN ('queued', 'running')"
_COMMANDS = (
    ("up",),
    ("doctor",),
    ("doctor", "--fix"),
    ("init", "--yes"),
    ("status",),
    ("run", "Hello"),
    ("recall", "tea"),
    ("memory", "facts"),
    ("trace",),
    ("usage",),
    ("sql", "SELECT 1"),
    ("automations", "list"),
    ("channels", "list"),
    ("mcp", "serve"),
    ("export", "-"),
)


def read(commit: str, home: Home) -> transfer.Tally:
    with gzip.open(_EXPORTS / f"{commit}.jsonl.gz") as stream:
        return transfer.read(stream, home, trust=True).tally  # pyright: ignore[reportArgumentType] - it reads as a file


def age(home: Home) -> None:
    """Mark the ledgers as those checkouts did."""
    for name, version in _SCHEMA.items():
        connection = apsw.Connection(str(home.ledger(name)))
        connection.execute("UPDATE schema_migrations SET version = ?, name = 'then'", (version,))
        connection.pragma("user_version", version)
        connection.close()


def sealed(schema: dict[str, int], *records: dict[str, Any]) -> bytes:
    """A file as `nexus export` ends it."""
    first = {
        "nexus_export": 1,
        "nexus_version": "0.1.0",
        "schema": schema,
        "created_at": "2026-11-18T00:00:00.000Z",
    }
    tally = Tally(Header.parse(first))
    lines = [json.dumps(record).encode() + b"\n" for record in records]
    for record in records:
        tally.rows[record["ledger"]][record["table"]] += 1
    tally.add(lines)
    return json.dumps(first).encode() + b"\n" + b"".join(lines) + tally.last_line()


def row(ledger: str, table: str, **values: Any) -> dict[str, Any]:
    return {"ledger": ledger, "table": table, "row": values}


def test_every_command_refuses_an_early_home_with_what_to_do(home: Home, tmp_path: Path) -> None:
    age(home)
    before = {name: home.ledger(name).read_bytes() for name in LEDGERS}

    for command in (*_COMMANDS, ("backup", str(tmp_path / "copy"))):
        done = CliRunner().invoke(program, ["--home", str(home.root), *command])
        error = done.exception
        said = (
            f"{error.message} {error.hint}"
            if isinstance(error, NexusError)
            else " ".join(done.output.split())
        )
        assert done.exit_code != 0, command
        assert "The home is from before Nexus 0.1.0" in said, (command, said)
        assert "Run `nexus export home.jsonl.gz` with the checkout that wrote it" in said, command
        assert said.count("from before") == 1, (command, said)
    assert {name: home.ledger(name).read_bytes() for name in LEDGERS} == before


@pytest.mark.parametrize("ledger", LEDGERS)
def test_an_early_ledger_is_refused_by_itself(home: Home, ledger: str) -> None:
    age(home)
    with pytest.raises(SchemaError, match=f"its {ledger} ledger has schema {_SCHEMA[ledger]}"):
        connect(home.ledger(ledger), ledger, LedgersConfig(), writes=True)


def test_a_backup_of_an_early_home_is_refused(home: Home, tmp_path: Path) -> None:
    backup.make(home, tmp_path / "copy")
    manifest = backup.Manifest.read(tmp_path / "copy")
    (tmp_path / "copy" / "manifest.json").unlink()
    early = {name: replace(each, schema_version=_SCHEMA[name]) for name, each in manifest.ledgers.items()}
    replace(manifest, ledgers=early).write(tmp_path / "copy")
    with pytest.raises(CareError, match="from before Nexus"):
        backup.restore(tmp_path / "copy", Home(tmp_path / "new"))


@pytest.mark.parametrize("commit", _COMMITS)
def test_an_early_export_becomes_a_home_of_today(commit: str, tmp_path: Path) -> None:
    home = Home(tmp_path / "new")
    read(commit, home)

    assert [problem for name in LEDGERS for problem in health.inspect(home.ledger(name), name)] == []
    for name in LEDGERS:
        assert execute(home, name, "PRAGMA user_version") == migrate.latest(name)
        recorded = "SELECT json_group_array(version) FROM schema_migrations"
        assert json.loads(execute(home, name, recorded)) == [step[0] for step in sql.migrations(name)]
    assert (
        execute(home, "memory", "SELECT new_fact_id FROM fact_successions WHERE old_fact_id = 'fact_1'")
        == "fact_2"
    )
    # The conclusion that rests on what was replaced is stale.
    assert execute(home, "memory", "SELECT stale_reason FROM analysis_runs") == "newer: fact_2"
    found = "SELECT count(*) FROM facts_unspaced_fts WHERE facts_unspaced_fts MATCH '花生过'"
    assert execute(home, "memory", found) == 1
    assert execute(home, "events", "SELECT count(*) FROM events_fts WHERE events_fts MATCH 'dentist'") >= 1
    assert execute(home, "runtime", "SELECT pattern FROM approvals") is None
    connection = connect(home.ledger("identity"), "identity", LedgersConfig(), writes=False)
    assert senders.find(connection, "desk", "SAM") is not None
    assert senders.find(connection, "desk", "sam") is None
    connection.close()


@pytest.mark.parametrize("commit", _COMMITS)
async def test_a_run_in_flight_ends_after_the_import(
    commit: str, tmp_path: Path, server: ModelServer
) -> None:
    home = Home(tmp_path / "new")
    read(commit, home)
    server.always(lambda request: Turn("Done."))
    async with app_on(home, server) as app:
        while unended := await rows(app, "runtime", _UNENDED):
            await app.queue.run(unended[0][0]).result()
        ended = await rows(
            app, "runtime", "SELECT DISTINCT lane, status, error FROM executions ORDER BY lane"
        )
        calls = await rows(app, "agents", "SELECT tool_name, status FROM agent_tool_calls")

    assert ended == [("chat", "done", None), ("workers", "done", None)]
    assert calls == [("agent_send", "done")]


def test_circles_of_replacements_and_what_both_hold_are_parted(tmp_path: Path) -> None:
    """Those were recorded before they were refused."""
    facts = [row("memory", "facts", seq=n, id=id_, fact=id_) for n, id_ in enumerate("abcdefgh", start=1)]
    links = [("cau_1", "f", "e", "distinct")]
    found = (
        ("a", "b", "stated", "1"),
        ("b", "a", "judged", "2"),
        ("c", "d", "stated", "1"),
        ("d", "c", "stated", "2"),
        ("g", "h", "judged", "1"),
        # A pair that a decision about one of them linked again.
        ("e", "f", "judged", "1"),
    )
    records = [
        *facts,
        *(
            row(
                "memory",
                "causal_links",
                id=id_,
                cause_fact_id=cause,
                effect_fact_id=effect,
                relation=relation,
            )
            for id_, cause, effect, relation in links
        ),
        *(
            row(
                "memory",
                "fact_successions",
                old_fact_id=old,
                new_fact_id=new,
                confidence=1,
                basis=basis,
                derived_at=at,
            )
            for old, new, basis, at in found
        ),
    ]
    home = Home(tmp_path / "new")
    transfer.read(io.BytesIO(sealed({"memory": 12}, *records)), home, trust=True)
    kept = "SELECT group_concat(old_fact_id || new_fact_id, ' ') FROM fact_successions"
    assert execute(home, "memory", kept) == "ab dc gh"


def test_steps_of_an_early_run_are_counted_by_name(tmp_path: Path) -> None:
    steps = [
        row(
            "runtime", "steps", execution_id="e", number=number, name=name, failed=failed, outcome=str(number)
        )
        for number, (name, failed) in enumerate([("ask", 0), ("call", 0), ("ask", 1), ("ask", 0)])
    ]
    home = Home(tmp_path / "new")
    transfer.read(io.BytesIO(sealed({"runtime": 12}, *steps)), home, trust=True)
    found = """
        SELECT group_concat(name || number || '=' || outcome, ' ')
        FROM (SELECT * FROM steps ORDER BY name, number)"""
    assert execute(home, "runtime", found) == "ask0=0 ask1=3 call0=1"


def test_tables_that_nothing_filled_are_left_out(tmp_path: Path) -> None:
    event = row("events", "events", seq=1, id="evt_1", channel="cli", direction="inbound", content="Hello")
    state = row("events", "event_state", event_id="evt_1", flagged=1)
    home = Home(tmp_path / "new")
    transfer.read(io.BytesIO(sealed({"events": 5}, event, state)), home, trust=True)
    assert execute(home, "events", "SELECT content FROM events") == "Hello"


@pytest.mark.parametrize(("ledger", "version"), [("runtime", 11), ("events", 0), ("memory", -1)])
def test_an_export_from_before_that_is_refused(tmp_path: Path, ledger: str, version: int) -> None:
    with pytest.raises(CareError, match="from before November 15, 2026"):
        sealed({ledger: version})
