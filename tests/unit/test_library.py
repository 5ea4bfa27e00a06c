"""The memory as a library: a home of its own, users kept apart, and nothing of an agent loaded for it."""

import asyncio
import inspect
import json
import struct
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import apsw
import pytest
from click.testing import CliRunner

from nexus import AsyncMemory, Fact, Hit, Memory, NexusError
from nexus.app import App
from nexus.cli import program
from nexus.config import LedgersConfig, MemoryConfig
from nexus.errors import HomeMissingError, LedgerClosedError, MissingError, UsageError
from nexus.home import Home
from nexus.ledgers import Ledgers
from nexus.library.items import Message
from nexus.memory import operations, succession
from nexus.memory.embedding import embed_new
from nexus.memory.embedding import open_vectors as open_vectors
from nexus.memory.recall.item import PATIENT_MS, Query
from nexus.memory.recall.recall import Recall
from nexus.request import Visibility

_HEAVY = {
    "dbos",
    "fastapi",
    "starlette",
    "anthropic",
    "openai",
    "pydantic_ai",
    "sqlalchemy",
    "nexus.channels",
}


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    with Memory(tmp_path / "notes", create=True) as opened:
        yield opened


def texts(hits: Sequence[Hit]) -> list[str]:
    return [hit.text for hit in hits]


def ask(memory: Memory, ledger: str, query: str) -> list[tuple[Any, ...]]:
    connection = apsw.Connection(str(memory.home.ledger(ledger)), flags=apsw.SQLITE_OPEN_READONLY)
    rows = [tuple(row) for row in connection.execute(query)]
    connection.close()
    return rows


def test_what_is_added_is_found_with_its_source_and_what_replaced_it(memory: Memory) -> None:
    made = memory.add("Clara keeps bees", about="Clara", at=datetime(2026, 3, 1, tzinfo=UTC))
    said = memory.add_messages([{"role": "user", "content": "The key is behind the fuse box", "name": "Ada"}])

    [key] = memory.search("Where is the key?", limit=1)
    assert (key.id, key.kind, key.strength, key.speaker) == (said.messages[0], "event", "strong", "Ada")
    [bees] = memory.search("Does Clara keep bees?", limit=1)
    assert (bees.id, bees.text, bees.kind, bees.replaced_by) == (made, "Clara keeps bees", "fact", None)
    assert bees.at == datetime(2026, 3, 1, tzinfo=UTC)
    assert ask(memory, "events", f"SELECT content FROM events WHERE id = '{bees.source}'") == [(bees.text,)]

    new = memory.correct(made, "Clara sold her bees")
    hits = {hit.id: hit for hit in memory.search("Does Clara keep bees?")}
    replaced = hits[made].replaced_by
    assert replaced is not None
    assert (replaced.id, replaced.text, replaced.how) == (new, "Clara sold her bees", "changed")
    assert hits[new].about == bees.about
    assert {hit.strength for hit in memory.search("Who won the regatta?")} <= {"weak"}


def test_a_new_home_is_complete_for_every_other_command(memory: Memory) -> None:
    memory.add("The spare key hangs behind the fuse box")
    root = str(memory.home.root)
    found = CliRunner().invoke(program, ["--home", root, "recall", "Where is the spare key?", "--json"])
    assert found.exit_code == 0, found.output
    assert "fuse box" in found.output
    made = CliRunner().invoke(program, ["--home", root, "init", "--yes", "--no-mcp", "--no-test"])
    assert "is complete" in made.output


def test_without_create_a_missing_home_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(HomeMissingError, match="No Nexus home"):
        Memory(tmp_path / "nowhere")
    assert not (tmp_path / "nowhere").exists()


def test_two_users_claras_never_meet(memory: Memory) -> None:
    mine = memory.add("Clara keeps bees in Ghent", about="Clara", scope="user:7", entities=["Ghent"])
    theirs = memory.add("Clara collects stamps from Ghent", about="Clara", scope="user:8")
    memory.add_messages([{"role": "user", "content": "Clara's pin board is green"}], scope="user:8")

    assert texts(memory.search("What does Clara do in Ghent?", scope="user:7")) == [
        "Clara keeps bees in Ghent"
    ]
    assert texts(memory.search("Clara", scope="user:7", about="Clara")) == ["Clara keeps bees in Ghent"]
    assert memory.search("Clara", scope="user:7", about="Clara's pin board") == []
    assert memory.search("What does Clara do?", scope="user:9") == []
    assert "stamps" not in str(memory.search("Which stamps are collected?", scope="user:7", about="clara"))
    assert len(memory.search("Clara Ghent")) >= 2  # without a scope: the whole home

    for attempt in (
        lambda: memory.correct(theirs, "Clara sold her stamps", scope="user:7"),
        lambda: memory.forget(theirs, scope="user:7"),
        lambda: memory.add("Clara has no stamps", scope="user:7", replaces=[theirs]),
        lambda: memory.forget(memory.search("pin board", scope="user:8")[0].id, scope="user:7"),
    ):
        with pytest.raises(MissingError, match="in this scope"):
            attempt()
    assert ask(memory, "memory", "SELECT count(*) FROM facts") == [(2,)]
    assert ask(memory, "events", "SELECT count(*) FROM events WHERE kind = 'note'") == [(2,)]

    [one], [other] = (memory.search("Clara", scope=scope, kinds=["fact"]) for scope in ("user:7", "user:8"))
    assert one.about != other.about
    assert one.id == mine
    assert ask(memory, "identity", "SELECT count(*) FROM merge_candidates") == [(0,)]


def test_an_entity_of_another_scope_cannot_be_named_by_its_id(memory: Memory) -> None:
    memory.add("Clara keeps bees", about="Clara", scope="user:8")
    [hit] = memory.search("bees", scope="user:8")
    memory.add("This one is about something else", about=hit.about, scope="user:7")
    [other] = memory.search("about something else", scope="user:7")
    assert other.about != hit.about


async def test_what_others_call_somebody_says_nothing_in_ones_own_scope(tmp_path: Path) -> None:
    async with AsyncMemory(tmp_path / "notes", create=True) as memory:
        await memory.add("Clara keeps bees", about="Clara", scope="user:8")
        await memory.add_messages([{"role": "user", "content": "Clara likes tea"}], scope="user:7")
        [hit] = await memory.search("bees", scope="user:8")
        async with Ledgers(memory.home, LedgersConfig()) as opened:
            await operations.Memory(opened).run("alias", {"entity": hit.about, "alias": ["Bumblebee"]})
        assert texts(await memory.search("bees", scope="user:8", about="Bumblebee")) == ["Clara keeps bees"]
        assert await memory.search("tea", scope="user:7", about="Bumblebee") == []


async def test_one_users_fact_is_found_by_its_words_among_those_of_many(tmp_path: Path) -> None:
    async with AsyncMemory(tmp_path / "notes", create=True) as memory:
        mine = await memory.add("In her shed behind the mill Clara mends clocks", scope="user:7")
        for number in range(8):
            facts = [f"Clara mends clock {n}" for n in range(50)]
            await memory.add_many(facts, scope=f"other:{number}")
        async with Ledgers(memory.home, LedgersConfig()) as opened:
            visible = Visibility(channels=frozenset({"library:user:7"}))
            found = await Recall(opened, None, visible=visible).find(
                Query(text="What does Clara mend?", deadline_ms=PATIENT_MS)
            )
    assert [match.item.id for match in found.results] == [mine]


def test_names_of_scopes_do_not_disturb_the_homes_own(memory: Memory) -> None:
    memory.add("Clara keeps bees", about="Clara", scope="user:7")
    memory.add("Clara collects stamps", about="Clara", scope="user:8")
    memory.add("Clara is my sister", about="Clara")
    memory.add("Clara lives in Porto", about="clara")
    [[own]] = ask(memory, "identity", "SELECT count(*) FROM entities WHERE scope = ''")
    assert own == 1
    facts = f"""SELECT count(*) FROM facts WHERE source_entity_id = '{memory.search("sister")[0].about}'"""
    assert ask(memory, "memory", facts) == [(2,)]


def test_a_slash_in_a_scope_or_a_name_makes_no_two_entities_one(memory: Memory) -> None:
    memory.add("Bob plans a launch", about="b/c", scope="a")
    memory.add("Carl likes tea", about="c", scope="a/b")
    [bob], [carl] = (memory.search("plans tea", scope=scope, kinds=["fact"]) for scope in ("a", "a/b"))
    assert bob.about != carl.about


async def test_a_statement_in_one_scope_never_replaces_one_in_another(tmp_path: Path) -> None:
    async with AsyncMemory(tmp_path / "notes", create=True) as memory:
        at = [datetime(2026, month, 1, tzinfo=UTC) for month in (1, 2, 3)]
        said = "The meeting with the accountant"
        old = await memory.add(f"{said} is on Monday at 10:00", scope="user:7", at=at[0])
        await memory.add(f"{said} has been moved to Friday at 14:00", scope="user:8", at=at[1])
        mine = await memory.add(f"{said} has been moved to Friday at 16:00", scope="user:7", at=at[2])
        home = memory.home
    async with Ledgers(home, LedgersConfig()) as opened:
        vectors = await open_vectors(opened, MemoryConfig())
        await embed_new(opened, vectors)
        await opened.memory.write(lambda c: c.execute("DELETE FROM fact_successions").fetchall())
        await opened.memory.write(lambda c: c.execute("DELETE FROM succession_progress").fetchall())
        await succession.derive(opened, vectors)
        query = "SELECT old_fact_id, new_fact_id FROM fact_successions"
        links = await opened.memory.read(lambda c: [tuple(row) for row in c.execute(query)])
    assert links == [(old, mine)]


def test_a_correction_without_a_scope_stays_in_the_facts_scope(memory: Memory) -> None:
    made = memory.add("Clara keeps bees", about="Clara", scope="user:7")
    new = memory.correct(made, "Clara keeps goats", how="corrected")
    hits = memory.search("What does Clara keep?", scope="user:7")
    assert {hit.id for hit in hits} >= {new}
    [[metadata]] = ask(memory, "memory", f"SELECT metadata_json FROM facts WHERE id = '{new}'")
    assert json.loads(metadata)["speaker"] == "user:7"


@pytest.mark.parametrize("scope", ["", "  ", "x" * 201])
def test_an_empty_scope_is_an_error_and_not_the_whole_home(memory: Memory, scope: str) -> None:
    with pytest.raises(UsageError, match="A scope has"):
        memory.search("anything", scope=scope)
    with pytest.raises(UsageError, match="A scope has"):
        memory.forget_scope(scope)


def test_of_corrections_at_the_same_moment_one_is_recorded(memory: Memory) -> None:
    for number in range(4):
        fact = memory.add(f"Zed {number} lives in a town", scope="user:7")

        def correct(village: int, fact: str = fact) -> str | None:
            try:
                return memory.correct(fact, f"Zed lives in village {village} near {fact}", scope="user:7")
            except UsageError:
                return None

        with ThreadPoolExecutor(3) as pool:
            assert sum(made is not None for made in pool.map(correct, range(3))) == 1
    facts = ask(memory, "memory", "SELECT fact FROM facts ORDER BY fact")
    assert ask(memory, "events", "SELECT content FROM events WHERE kind = 'note' ORDER BY content") == facts


def test_replaces_goes_the_way_of_the_tool(memory: Memory) -> None:
    old = memory.add("The dentist is on Monday")
    new = memory.add("The dentist is on Friday", replaces=[old], how="corrected")
    assert ask(memory, "memory", "SELECT old_fact_id, new_fact_id, how, basis FROM fact_successions") == [
        (old, new, "corrected", "stated")
    ]
    with pytest.raises(MissingError, match="Unknown fact"):
        memory.add("The dentist is closed", replaces=["fact_01NOWHERE"])
    theirs = memory.add("The dentist is on Sunday", scope="user:7")
    with pytest.raises(UsageError, match="is of the scope 'user:7'"):
        memory.add("The dentist is closed", replaces=[theirs])
    with pytest.raises(UsageError, match="is no fact"):
        memory.add("The dentist is closed", replaces=memory.add_messages(TALK).messages)
    assert ask(memory, "events", "SELECT count(*) FROM events WHERE content = 'The dentist is closed'") == [
        (0,)
    ]


def test_many_facts_are_few_transactions(memory: Memory) -> None:
    memory.add("The first fact opens every file", about="File", scope="user:7")
    before = {name: _commits(memory.home, name) for name in ("events", "identity")}
    facts = [Fact(text=f"Box {n} holds the papers of {1900 + n}", about=f"Box {n % 5}") for n in range(300)]
    made = memory.add_many(["A plain string is a fact too", *facts], scope="user:7")
    assert len(set(made)) == 301
    after = {name: _commits(memory.home, name) for name in before}
    assert {name: after[name] - before[name] for name in after} == {"events": 1, "identity": 1}
    # What is embedded meanwhile writes into the memory ledger too.
    assert ask(memory, "memory", "SELECT count(DISTINCT created_at) FROM facts WHERE seq > 1") == [(1,)]
    assert ask(memory, "identity", "SELECT count(*) FROM entities") == [(6,)]
    [hit] = memory.search("Which box has the papers of 1950?", scope="user:7", limit=1)
    assert (hit.id, hit.text) == (made[51], "Box 50 holds the papers of 1950")


def _commits(home: Home, ledger: str) -> int:
    """How many transactions stand in a ledger's WAL: the frames that end one."""
    wal = Path(f"{home.ledger(ledger)}-wal").read_bytes()
    page, salts = struct.unpack(">I", wal[8:12])[0], wal[16:24]
    frames = range(32, len(wal), 24 + page)
    return sum(wal[at + 8 : at + 16] == salts and wal[at + 4 : at + 8] != bytes(4) for at in frames)


def test_many_threads_share_one_memory(memory: Memory) -> None:
    def work(number: int) -> list[str]:
        return [memory.add(f"Shelf {number} has book {n}", about="Library") for n in range(5)]

    with ThreadPoolExecutor(8) as pool:
        made = [id_ for some in pool.map(work, range(8)) for id_ in some]
    assert len(set(made)) == 40
    assert ask(memory, "identity", "SELECT canonical_name FROM entities") == [("Library",)]
    assert ask(memory, "memory", "SELECT count(*) FROM facts") == [(40,)]


def test_several_instances_in_one_process_see_each_others_facts(tmp_path: Path) -> None:
    with ThreadPoolExecutor(4) as pool:
        root = tmp_path / "notes"
        opened = [each.result() for each in [pool.submit(Memory, root, create=True) for _ in range(4)]]
    with Memory(tmp_path / "other", create=True) as other:
        for number, each in enumerate(opened):
            each.add(f"Instance {number} was here", about="Instance")
        assert len(opened[0].search("Which instance was here?")) == 4
        assert ask(opened[0], "identity", "SELECT count(*) FROM entities") == [(1,)]
        assert other.search("Which instance was here?") == []
    for each in opened:
        each.close()


TALK: list[Message] = [
    {"role": "user", "content": "I moved to Porto in May. My door code is on the fridge."},
    {"role": "assistant", "content": [{"type": "text", "text": "Noted: Porto."}]},
    {"role": "user", "content": "", "name": "nothing"},
]


def _extract(messages: Sequence[Message]) -> list[Fact | str]:
    assert [message["role"] for message in messages] == ["user", "assistant"]
    return [
        Fact(text="The user lives in Porto", about="Porto", message=0),
        "The password is hunter2!",
        Fact(text="The assistant took note of Porto", message=1),
    ]


async def _extract_later(messages: Sequence[Message]) -> list[Fact | str]:
    await asyncio.sleep(0)
    return _extract(messages)


@pytest.mark.parametrize("extract", [_extract, _extract_later])
def test_facts_are_extracted_by_the_callers_own_callable(memory: Memory, extract: Any) -> None:
    recorded = memory.add_messages(TALK, scope="user:7", extract=extract)
    assert (len(recorded.messages), len(recorded.facts)) == (2, 2)
    rows = ask(memory, "memory", "SELECT source_event_id, confidence, source_type FROM facts ORDER BY seq")
    assert rows == [(event, 0.8, "mentioned") for event in recorded.messages]
    assert "The user lives in Porto" in texts(memory.search("Where does the user live?", scope="user:7"))
    # The words of the conversation stay; what was refused as a fact is in no fact.
    assert ask(memory, "memory", "SELECT count(*) FROM facts WHERE fact LIKE '%hunter2%'") == [(0,)]


def test_an_extracted_fact_that_cannot_be_written_takes_no_other_along(memory: Memory) -> None:
    old = memory.add("The user lives in Ghent", scope="user:7")

    def extract(_: Sequence[Message]) -> list[Fact | str]:
        return [
            Fact(text="The user owns a cat", message=-7),
            Fact(text="Of an unknown fact", replaces=("fact_nope",)),
            Fact(text="Of no fact", replaces=("nope",)),
            "The password is hunter2!",
            Fact(text="The user lives in Porto", replaces=(old,)),
            "The user likes tea",
        ]

    recorded = memory.add_messages(TALK, scope="user:7", extract=extract)
    known = ask(memory, "memory", "SELECT id, fact FROM facts ORDER BY seq")[1:]
    assert [row[0] for row in known] == list(recorded.facts)
    assert [row[1] for row in known] == [
        "The user owns a cat",
        "The user lives in Porto",
        "The user likes tea",
    ]


def test_a_conversation_can_be_continued_in_its_thread(memory: Memory) -> None:
    for said in ("The boiler is out again", "It needs a new valve"):
        memory.add_messages([{"role": "user", "content": said}], thread="boiler", scope="user:7")
    memory.add_messages([{"role": "user", "content": "Else"}], thread="boiler", scope="user:8")
    counts = "SELECT count(*) FROM events GROUP BY thread_id ORDER BY 1"
    assert ask(memory, "events", counts) == [(1,), (2,)]


def test_a_secret_is_neither_remembered_nor_recorded(memory: Memory) -> None:
    made = memory.add("The safe is in the cellar")
    for attempt in (
        lambda: memory.add("The password is hunter2!"),
        lambda: memory.add_many(["The tea is in the tin", "The password is hunter2!"]),
        lambda: memory.correct(made, "The password is hunter2!"),
    ):
        with pytest.raises(UsageError, match="doesn't store passwords"):
            attempt()
    assert ask(memory, "events", "SELECT content FROM events") == [("The safe is in the cellar",)]


def test_what_is_forgotten_is_in_no_file(memory: Memory) -> None:
    made = memory.add("Clara keeps xylophagous beetles", about="Clara", scope="user:7")
    kept = memory.add("Clara plays the cello", about="Clara", scope="user:7")
    said = memory.add_messages(
        [{"role": "user", "content": "My xylophagous beetles escaped"}], scope="user:7"
    )
    memory.forget(made, scope="user:7")
    memory.forget(said.messages[0])
    assert [hit.id for hit in memory.search("What about Clara?", scope="user:7")] == [kept]
    assert not [file for file in memory.home.data.iterdir() if b"xylophagous" in file.read_bytes()]
    with pytest.raises(MissingError):
        memory.forget(made)
    with pytest.raises(UsageError, match="no fact or message"):
        memory.forget("Clara")


def test_the_command_that_forgets_a_fact_takes_its_note_along(memory: Memory) -> None:
    made = memory.add("Clara keeps xylophagous beetles")
    done = CliRunner().invoke(program, ["--home", str(memory.home.root), "forget", "fact", made, "--yes"])
    assert done.exit_code == 0, done.output
    assert ask(memory, "events", "SELECT count(*) FROM events") == [(0,)]


def test_a_whole_scope_is_forgotten_and_no_other(memory: Memory) -> None:
    for scope in ("user:7", "user:70"):
        text = "Clara keeps xylophagous beetles" if scope == "user:7" else "Clara sings"
        memory.add(text, about="Clara", scope=scope)
        memory.add_messages([{"role": "user", "content": "Hello from here"}], scope=scope)
    memory.forget_scope("user:7")
    assert memory.search("What about Clara? Hello", scope="user:7") == []
    assert "Clara sings" in texts(memory.search("What about Clara?", scope="user:70"))
    assert ask(memory, "identity", "SELECT scope FROM entities") == [("library:user:70",)]
    assert ask(memory, "events", "SELECT DISTINCT channel FROM threads") == [("library:user:70",)]
    assert not [file for file in memory.home.data.iterdir() if b"xylophagous" in file.read_bytes()]


def test_forgetting_in_a_scope_leaves_the_owners_contacts_and_messages(memory: Memory) -> None:
    said = memory.add_messages([{"role": "user", "content": "Alice wrote about the flat"}]).messages[0]
    address = "alice@example.com"
    with closing(apsw.Connection(str(memory.home.ledger("identity")))) as identity:
        identity.execute(
            "INSERT INTO contacts (id, channel, display_name) VALUES ('con_1', 'email', 'Alice')"
        )
        identity.execute(
            "INSERT INTO contact_identifiers (contact_id, channel, type, identifier, normalized) "
            "VALUES ('con_1', 'email', 'email', ?, ?)",
            (address, address),
        )
    with closing(apsw.Connection(str(memory.home.ledger("events")))) as events:
        events.execute(
            "INSERT OR REPLACE INTO event_participants (event_id, role, identifier, contact_id) "
            "VALUES (?, 'sender', ?, 'con_1')",
            (said, address),
        )
    memory.forget(memory.add("Alice is a customer", about=address, scope="user:7"), scope="user:7")
    memory.add("Alice is still a customer", about=address, scope="user:7")
    memory.forget_scope("user:7")
    assert ask(memory, "identity", "SELECT id FROM contacts") == [("con_1",)]
    assert ask(memory, "events", "SELECT id FROM events") == [(said,)]


async def test_a_home_that_an_agent_has_open_is_shared(home: Home) -> None:
    async with App.open(home) as app:
        with Memory(home) as memory:
            made = await asyncio.to_thread(memory.add, "The spare key hangs behind the fuse box")
            found = await app.recall("Where is the spare key?")
            assert found.results[0].item.id == made
            await app.remember("The tea is in the blue tin")
            [tea] = await asyncio.to_thread(memory.search, "Where is the tea?", limit=1)
            assert tea.text == "The tea is in the blue tin"
            await asyncio.to_thread(memory.forget, made)
            found = await app.recall("Where is the spare key?")
            assert made not in {match.item.id for match in found.results}


def test_closing_leaves_no_thread_and_no_lock(tmp_path: Path) -> None:
    memory = Memory(tmp_path / "notes", create=True)
    memory.add_many([f"Note {n} is about the number {n}" for n in range(50)])
    memory.close()
    memory.close()
    assert not [thread for thread in threading.enumerate() if thread.name == "nexus-memory"]
    with pytest.raises(LedgerClosedError, match="closed"):
        memory.search("anything")


def test_closing_ends_the_calls_that_are_under_way(tmp_path: Path) -> None:
    memory = Memory(tmp_path / "notes", create=True)
    is_extracting, may_end = threading.Event(), threading.Event()

    def extract(_: Sequence[Message]) -> list[str]:
        is_extracting.set()
        may_end.wait()
        return []

    with ThreadPoolExecutor(5) as pool:
        try:
            call = pool.submit(memory.add_messages, TALK, extract=extract)
            assert is_extracting.wait(30)
            for closer in [pool.submit(memory.close) for _ in range(4)]:
                closer.result(30)
            with pytest.raises(LedgerClosedError, match="closed"):
                call.result(30)
        finally:
            may_end.set()


def test_a_coroutine_that_it_runs_cannot_wait_for_it(memory: Memory) -> None:
    async def search(_: Sequence[Message]) -> list[str]:
        return texts(memory.search("anything"))

    async def close(_: Sequence[Message]) -> list[str]:
        memory.close()
        return []

    for extract in (search, close):
        with pytest.raises(UsageError, match="AsyncMemory"):
            memory.add_messages(TALK, extract=extract)
    assert memory.search("Porto")


def test_a_forked_process_cannot_wait_for_it(tmp_path: Path) -> None:
    code = f"""
import os, signal
from nexus import Memory, UsageError
memory = Memory({str(tmp_path / "notes")!r}, create=True)
child = os.fork()
if not child:
    signal.alarm(30)
    for call in (lambda: memory.search("anything"), memory.close):
        try:
            call()
        except UsageError as error:
            assert "fork" in str(error)
        else:
            os._exit(1)
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
memory.close()
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_only_the_memory_is_imported() -> None:
    code = "import nexus, sys; nexus.Memory; nexus.AsyncMemory; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert "nexus.library" in loaded
    assert not loaded & _HEAVY
    assert not [name for name in loaded if name.startswith(("nexus.engine", "nexus.broker", "nexus.app"))]


def test_using_it_imports_no_more_of_the_agent(tmp_path: Path) -> None:
    code = f"""
import sys
from nexus import Memory
with Memory({str(tmp_path / "notes")!r}, create=True) as memory:
    made = memory.add("Clara keeps bees", about="Clara")
    memory.search("bees"); memory.correct(made, "Clara sold her bees"); memory.forget(made)
print(*sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert not loaded & _HEAVY
    assert not [name for name in loaded if name.startswith(("nexus.engine", "nexus.broker", "nexus.app"))]


class Blocking:
    """A `Memory` that is used as an `AsyncMemory`: one script for both."""

    def __init__(self, root: Path) -> None:
        self._memory = Memory(root, create=True)

    async def __aenter__(self) -> "Blocking":
        return self

    async def __aexit__(self, *_: object) -> None:
        await asyncio.to_thread(self._memory.close)

    def __getattr__(self, name: str) -> Any:
        async def call(*args: Any, **kwargs: Any) -> Any:
            return await asyncio.to_thread(getattr(self._memory, name), *args, **kwargs)

        return call


async def _story(memory: Any) -> list[Any]:
    made = await memory.add("Clara keeps bees", about="Clara", scope="user:7", confidence=0.9)
    many = await memory.add_many(["The tea is in the blue tin", Fact(text="Leo plays chess", about="Leo")])
    recorded = await memory.add_messages(TALK, thread="move", scope="user:7", extract=_extract)
    await memory.correct(made, "Clara sold her bees", scope="user:7", how="corrected")
    told: list[Any] = [len(many), len(recorded.messages), len(recorded.facts)]
    for question, scope in (
        ("Does Clara keep bees?", "user:7"),
        ("Where is the tea?", None),
        ("Porto", "user:8"),
    ):
        hits = await memory.search(question, scope=scope, limit=1)
        told.append([(hit.text, hit.kind, hit.replaced_by and hit.replaced_by.how) for hit in hits])
    await memory.forget(many[0])
    await memory.forget_scope("user:7")
    told.append([hit.text for hit in await memory.search("Does Leo play chess?", limit=1)])
    for attempt in (memory.forget(made), memory.add(" "), memory.search("x", scope="")):
        try:
            told.append(await attempt)
        except NexusError as error:
            told.append((type(error).__name__, error.message.replace(made, "ID"), error.hint))
    return told


async def test_both_memories_tell_the_same(tmp_path: Path) -> None:
    async with AsyncMemory(tmp_path / "one", create=True) as memory:
        one = await _story(memory)
    async with Blocking(tmp_path / "two") as memory:
        two = await _story(memory)
    assert one == two
    assert one[-1][0] == "UsageError"


def test_both_memories_have_the_same_methods() -> None:
    def methods(kind: type) -> dict[str, tuple[str, str | None]]:
        return {
            name: (str(inspect.signature(value)), value.__doc__)
            for name, value in vars(kind).items()
            if inspect.isfunction(value) and not name.startswith("_")
        }

    assert methods(Memory) == methods(AsyncMemory)
