"""A whole home in one file: what is written, what is read, and what is refused."""

import gzip
import io
import json
import math
import tracemalloc
from pathlib import Path
from typing import Any

import apsw
import pytest

from contents import execute, files, furnish, rows, writing
from nexus.errors import CareError, HomeMissingError, LedgerCorruptError
from nexus.home import LEDGERS, Home
from nexus.ledgers import events, health, sql, transfer
from nexus.ledgers.events.search import search
from nexus.ledgers.transfer.format import Header, Tally

DIRECTORY = {"directory": "state/d", "mode": "0700"}
FILE = {"file": "state/x", "mode": "0600", "text": ""}
OUTSIDE = ["../x", "/x", "state/../../x", "state/..", "state//x", "data/events.db", "home.lock", "state/\0",
           "", ".", "state/", "./state/x", "config.toml/x", 7, None]  # fmt: skip


@pytest.fixture
def furnished(home: Home) -> Home:
    furnish(home)
    return home


@pytest.fixture
def new(tmp_path: Path) -> Home:
    """A place for a home."""
    return Home(tmp_path / "new")


def exported(home: Home, *, embeddings: bool = True) -> bytes:
    stream = io.BytesIO()
    transfer.write(home, stream, embeddings=embeddings)
    return stream.getvalue()


def imported(content: bytes, home: Home) -> transfer.Tally:
    return transfer.read(io.BytesIO(content), home, trust=True).tally


def header(**schema: Any) -> dict[str, Any]:
    return {"nexus_export": 1, "nexus_version": "0", "created_at": "", "schema": schema}


def lines(*records: object) -> bytes:
    return b"".join(json.dumps(record).encode() + b"\n" for record in records)


def bus_event(**changed: Any) -> dict[str, Any]:
    row = {
        "seq": 1,
        "type": "t",
        "subject_type": None,
        "subject_id": None,
        "payload_json": "",
        "created_at": "",
    }
    return {"ledger": "events", "table": "bus_events", "row": {**row, **changed}}


def test_an_imported_home_is_equal_to_the_exported_one(furnished: Home, new: Home) -> None:
    tally = imported(exported(furnished), new)

    assert rows(new) == rows(furnished)
    assert files(new) == files(furnished)
    assert tally.total_rows == sum(len(found) for found in rows(furnished).values())
    assert [problem for name in LEDGERS for problem in health.inspect(new.ledger(name), name)] == []


def test_an_imported_home_is_indexed_and_guarded(furnished: Home, new: Home) -> None:
    imported(exported(furnished), new)
    connection = writing(new, "events")
    try:
        assert len(search(connection, "otters", 100)) == 50
        connection.execute("INSERT INTO events_fts (events_fts, rank) VALUES ('integrity-check', 1)")
        with pytest.raises(apsw.ConstraintError, match="append-only"):
            connection.execute("DELETE FROM events")
        with connection:
            events.append(connection, [events.NewEvent(channel="cli", content="a heron")])
        assert len(search(connection, "heron", 10)) == 1
    finally:
        connection.close()


def test_two_exports_differ_in_their_time_alone(furnished: Home, new: Home) -> None:
    first = exported(furnished)
    imported(first, new)
    second = exported(new)
    assert first.splitlines()[1:] == second.splitlines()[1:]
    times = [json.loads(content.splitlines()[0]) for content in (first, second)]
    assert {**times[0], "created_at": ""} == {**times[1], "created_at": ""}


def test_numbers_that_were_used_are_not_used_again(home: Home, new: Home) -> None:
    for _ in range(3):
        execute(home, "events", "INSERT INTO bus_events (type) VALUES ('x')")
    execute(home, "events", "DELETE FROM bus_events WHERE seq = 3")
    imported(exported(home), new)
    assert execute(new, "events", "INSERT INTO bus_events (type) VALUES ('x') RETURNING seq") == 4


@pytest.mark.parametrize(
    "counter", [("events", "7"), ("events", 2**63), ("events", -1), ("nothing", 7), (7, 7)]
)
def test_a_counter_that_is_none_is_refused(new: Home, counter: tuple[Any, Any]) -> None:
    row = dict(zip(("name", "seq"), counter, strict=True))
    with pytest.raises(CareError, match="a counter"):
        imported(
            _sealed(
                header(events=sql.BASELINE),
                {"ledger": "events", "table": "sqlite_sequence", "row": row},
            ),
            new,
        )
    assert not new.root.exists()


def test_a_ledger_that_lacks_a_table_is_told(home: Home) -> None:
    execute(home, "memory", "DROP TABLE observation_facts")
    with pytest.raises(LedgerCorruptError, match="observation_facts"):
        exported(home)


def test_embeddings_can_be_left_out(furnished: Home, new: Home) -> None:
    content = exported(furnished, embeddings=False)
    assert b'"ledger":"embeddings"' not in content
    imported(content, new)
    found = rows(new)
    assert found.pop("embeddings.embeddings") == []
    assert {table: found[table] for table in found if not table.startswith("embeddings.")} == {
        table: kept for table, kept in rows(furnished).items() if not table.startswith("embeddings.")
    }


def test_text_that_is_not_utf_8_is_kept_to_the_byte(home: Home, new: Home) -> None:
    for number, text in enumerate([b"plain", b"\xff\xfe", b"half \xed\xa0\x80 pair", b"nul \x00 \xc3"]):
        statement = "INSERT INTO threads (id, channel, title) VALUES (?, CAST(? AS TEXT), CAST(? AS TEXT))"
        execute(home, "events", statement, (f"thr_{number}", text, text))
    imported(exported(home), new)
    assert rows(new) == rows(home)
    assert execute(new, "events", "SELECT hex(title) FROM threads WHERE id = 'thr_1'") == "FFFE"


def test_numbers_are_kept_to_the_bit(home: Home, new: Home) -> None:
    span = """
    INSERT INTO spans (id, duration_ms, request_id, root_request_id, kind, name, started_at)
    VALUES (?, ?, '', '', '', '', '')
    """
    for number, value in enumerate([math.inf, -math.inf, -0.0, 5e-324, 0.1 + 0.2, 1e22, 7.0]):
        execute(home, "runtime", span, (str(number), value))
    for value in (2**63 - 1, -(2**63), 2**53 + 1):
        execute(home, "embeddings", "INSERT INTO embedding_models VALUES (?, ?, 0, '')", (str(value), value))
    imported(exported(home), new)
    assert rows(new) == rows(home)
    assert execute(new, "runtime", "SELECT duration_ms FROM spans WHERE id = '0'") == math.inf


def test_files_of_any_name_size_and_content_are_kept(home: Home, new: Home) -> None:
    (home.state / "large.bin").write_bytes(bytes(range(256)) * 4096 * 3 + b"end")
    (home.state / "exactly.txt").write_text("x" * 1024 * 1024)
    (home.state / "empty.txt").touch(0o600)
    (home.state / "text ü\n.md").write_text("Grüße\r\n")
    (Path(str(home.state)) / "bad \udcff name").write_bytes(b"\xff\x00")
    (home.scripts / "run.sh").touch(0o755)
    imported(exported(home), new)
    assert files(new) == files(home)


def test_what_is_not_nexus_own_is_left_out_and_told(home: Home, new: Home) -> None:
    execute(home, "memory", "CREATE TABLE notes (number INTEGER PRIMARY KEY AUTOINCREMENT)")
    execute(home, "memory", "INSERT INTO notes VALUES (7)")
    execute(home, "memory", "ALTER TABLE episodes ADD COLUMN mood TEXT")
    (home.state / "link").symlink_to("/etc/passwd")
    stream = io.BytesIO()
    done = transfer.write(home, stream)
    assert done.left_out == (
        "the column mood of episodes in the memory ledger",
        "the table notes in the memory ledger",
        "state/link, which is a link",
    )
    imported(stream.getvalue(), new)
    assert not (new.state / "link").exists()


def test_a_file_may_be_compressed(furnished: Home, new: Home, tmp_path: Path) -> None:
    with transfer.open_output(str(tmp_path / "home.jsonl.gz")) as stream:
        transfer.write(furnished, stream)
    assert (tmp_path / "home.jsonl.gz").read_bytes()[:2] == b"\x1f\x8b"
    assert (tmp_path / "home.jsonl.gz").stat().st_mode & 0o777 == 0o600
    with transfer.open_input(str(tmp_path / "home.jsonl.gz")) as stream:
        transfer.read(stream, new)
    assert rows(new) == rows(furnished)


def test_an_existing_file_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "old").write_text("old")
    with pytest.raises(CareError, match="exists already"), transfer.open_output(str(tmp_path / "old")):
        pass
    assert (tmp_path / "old").read_text() == "old"


def test_a_failed_export_leaves_no_file(tmp_path: Path) -> None:
    (tmp_path / "nothing").mkdir()
    with pytest.raises(HomeMissingError), transfer.open_output(str(tmp_path / "out" / "file")) as stream:
        transfer.write(Home(tmp_path / "nothing"), stream)
    assert list((tmp_path / "out").iterdir()) == []


def test_an_existing_home_is_not_imported_into(furnished: Home) -> None:
    before = rows(furnished)
    with pytest.raises(CareError, match="already"):
        imported(exported(furnished), furnished)
    assert rows(furnished) == before


def test_a_file_that_is_cut_short_anywhere_is_refused(home: Home, new: Home) -> None:
    furnish(home, count=3)
    content = exported(home)
    for length in range(0, len(content), len(content) // 25):
        with pytest.raises(CareError):
            imported(content[:length], new)
    assert not new.root.exists()


def test_a_compressed_file_that_is_cut_short_is_refused(furnished: Home, new: Home, tmp_path: Path) -> None:
    packed = gzip.compress(exported(furnished))
    for length in (2, 20, len(packed) // 2, len(packed) - 1):
        (tmp_path / "cut.gz").write_bytes(packed[:length])
        with pytest.raises(CareError), transfer.open_input(str(tmp_path / "cut.gz")) as stream:
            transfer.read(stream, new)
    assert not new.root.exists()


def test_a_changed_value_or_a_lost_line_is_noticed(furnished: Home, new: Home) -> None:
    content = exported(furnished)
    kept = content.splitlines(keepends=True)
    for changed in (
        content.replace(b"message 7 ", b"message 8 ", 1),
        content.replace(b"print(", b"Print(", 1),
        content.replace(b'"nexus_version":"', b'"nexus_version":"9', 1),
        b"".join(kept[:5] + kept[6:]),
        b"".join([*kept[:5], kept[6], kept[5], *kept[7:]]),
        content + b"{}\n",
    ):
        assert changed != content
        with pytest.raises(CareError):
            imported(changed, new)
    assert not new.root.exists()


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"{not json", "not JSON"),
        (b'{"ledger":"events"}{"more":1}', "not JSON"),
        (b"[" * 100_000, "not JSON"),
        (b"\xff\xfe", "not JSON"),
        (b"7", "Line 2"),
        (b'"row"', "Line 2"),
        (b"null", "Line 2"),
        (b"{}", "has no 'file'"),
        (b'{"link":"state/x","target":"/etc","mode":"0777"}', "has no 'file'"),
        (lines({**bus_event(), "ledger": "secrets"})[:-1], "'secrets'"),
        (lines({**bus_event(), "ledger": ["events"]})[:-1], "Line 2"),
        (lines({**bus_event(), "table": "sqlite_schema"})[:-1], "no table 'sqlite_schema'"),
        (lines({**bus_event(), "table": "events_fts"})[:-1], "no table 'events_fts'"),
        (lines({**bus_event(), "table": "events_fts_data"})[:-1], "no table 'events_fts_data'"),
        (lines({**bus_event(), "table": "bus_events; DROP TABLE events"})[:-1], "no table"),
        (lines({**bus_event(), "row": []})[:-1], "Line 2"),
        (lines({**bus_event(), "row": {"seq": 1}})[:-1], "needs 'type'"),
        (lines(bus_event(extra=1))[:-1], "has no column 'extra'"),
        (lines(bus_event(subject_id=True))[:-1], "true is not a value"),
        (lines(bus_event(subject_id=["a"]))[:-1], "is not a value"),
        (lines(bus_event(subject_id={"blob": "%"}))[:-1], "Line 2"),
        (lines(bus_event(subject_id={"real": "nan"}))[:-1], "is not a value"),
        (lines(bus_event(subject_id={"blob": "AA==", "text": ""}))[:-1], "is not a value"),
        (lines(bus_event(subject_id=float("nan")))[:-1], "NaN is not JSON"),
        (lines(bus_event(subject_id="\ud800"))[:-1], "refuses it"),
        (lines(bus_event(subject_id={"blob": "AA=="}))[:-1], "refuses it"),
        (lines(bus_event(seq=2**63))[:-1], "refuses it"),
        (lines(bus_event(type=None))[:-1], "refuses it"),
        (b'{"more":"AA=="}', "did not begin"),
        (b'{"file":"state/x","mode":"rwx","text":""}', "Line 2"),
        (b'{"file":"state/x","mode":"0600","base64":"!"}', "Line 2"),
        (b'{"file":"state/x","mode":"0600"}', "has no 'base64'"),
        *((lines({"file": path, "mode": "0600", "text": "x"})[:-1], "not a path") for path in OUTSIDE),
        (b'{"directory":"../state","mode":"0700"}', "not a path"),
    ],
)
def test_a_hostile_line_is_refused_with_its_number(new: Home, line: bytes, reason: str) -> None:
    with pytest.raises(CareError) as caught:
        imported(lines(header(events=sql.BASELINE)) + line + b"\n" + lines(DIRECTORY), new)
    assert "Line 2" in caught.value.message
    assert reason in caught.value.message
    assert "Nothing changed" in caught.value.hint
    assert not new.root.exists()


def test_the_line_that_a_table_refuses_is_found_among_many(new: Home) -> None:
    many = [bus_event(seq=number) for number in [*range(1, 500), 400, *range(501, 600)]]
    with pytest.raises(CareError, match=r"Line 501 .*UNIQUE"):
        imported(lines(header(events=sql.BASELINE), *many, DIRECTORY), new)


def test_rows_that_contradict_each_other_are_refused(new: Home) -> None:
    thread = {"channel": "c", "external_id": "1", "kind": "", "title": None, "parent_thread_id": None,
              "metadata_json": "{}", "created_at": "", "updated_at": ""}  # fmt: skip
    twice = [{"ledger": "events", "table": "threads", "row": {**thread, "id": name}} for name in "ab"]
    with pytest.raises(CareError, match="contradict each other"):
        imported(_sealed(header(events=sql.BASELINE), *twice), new)


@pytest.mark.parametrize(
    ("second", "reason"),
    [
        (FILE, "comes twice"),
        ({"directory": "state/x", "mode": "0700"}, "comes twice"),
        ({**FILE, "file": "state/x/y"}, "Line 3"),
    ],
)
def test_files_that_stand_in_each_others_place_are_refused(
    new: Home, second: dict[str, str], reason: str
) -> None:
    with pytest.raises(CareError, match=reason):
        imported(lines(header(events=sql.BASELINE), FILE, second), new)
    assert not new.root.exists()


@pytest.mark.parametrize(
    "first", [b"", b"\n", b"hello\n", b"{}\n", b"[]\n", lines({"nexus_export": 1}), lines(header(events="x"))]
)
def test_a_file_of_something_else_is_refused(new: Home, first: bytes) -> None:
    with pytest.raises(CareError, match="Not a file from `nexus export`"):
        imported(first, new)


def test_a_file_of_a_newer_nexus_is_refused(new: Home) -> None:
    with pytest.raises(CareError, match="newer Nexus"):
        imported(lines({**header(), "nexus_export": 2}), new)
    with pytest.raises(CareError, match="schema 99"):
        imported(lines(header(events=999)), new)
    with pytest.raises(CareError, match="does not exist"):
        imported(lines(header(secrets=1)), new)


def test_a_setuid_bit_does_not_come_along(new: Home) -> None:
    imported(_sealed(header(), {"file": "state/x", "mode": "6755", "text": ""}), new)
    assert (new.state / "x").stat().st_mode & 0o7777 == 0o755


def test_memory_does_not_grow_with_the_home(home: Home, new: Home, tmp_path: Path) -> None:
    megabyte = "0123456789abcdef" * 65536
    connection = writing(home, "events")
    for _ in range(48):
        with connection:
            events.append(connection, [events.NewEvent(channel="cli", content=megabyte)])
    connection.close()
    tracemalloc.start()
    try:
        with transfer.open_output(str(tmp_path / "large.jsonl")) as stream:
            transfer.write(home, stream)
        with transfer.open_input(str(tmp_path / "large.jsonl")) as stream:
            transfer.read(stream, new)
        assert tracemalloc.get_traced_memory()[1] < 24 * 1024 * 1024
    finally:
        tracemalloc.stop()


def _sealed(*records: dict[str, Any]) -> bytes:
    """A file with the last line that belongs to it."""
    tally = Tally(Header.parse(records[0]))
    for record in records[1:]:
        tally.add([lines(record)])
        if "row" in record:
            tally.rows[record["ledger"]][record["table"]] += 1
        tally.files += "file" in record
    return lines(*records) + tally.last_line()
