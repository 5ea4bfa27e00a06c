"""Copies of homes: up to date while a home is open, whole when it is brought back."""

import asyncio
import os
import re
import shutil
import signal
import threading
from collections.abc import AsyncIterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any, cast
from unittest.mock import AsyncMock

import apsw
import boto3  # pyright: ignore[reportMissingTypeStubs]  it ships none
import httpx
import pytest
from moto.server import ThreadedMotoServer

from apps import app_on
from hosts import host_on, make_homes, write_settings
from memory_writers import quiet, rows
from new_homes import new_home
from nexus.config import LedgersConfig
from nexus.home import LEDGERS, Home
from nexus.hosting import packed, replication
from nexus.hosting.local import LocalRegistry
from nexus.hosting.pool import Bounds
from nexus.hosting.replication import DamagedCopyError, ReplicaError, Replicas
from nexus.ledgers import Ledgers, forgetting, reconcile, sql
from nexus.ledgers.forgetting import removal
from nexus.testing import ModelServer

ID = "hom_1"


def made(root: Path) -> Home:
    home = new_home(root)
    (home.state / "PROMPT.md").write_text("Be brief.")
    return home


@pytest.fixture
async def replicas(tmp_path: Path) -> AsyncIterator[Replicas]:
    root = tmp_path / "host"
    (root / "run").mkdir(parents=True)
    async with Replicas(root, f"file://{tmp_path}/copies") as replicas:
        yield replicas


def said(home: Home) -> list[str]:
    with closing(apsw.Connection(str(home.ledger("events")))) as connection:
        return [str(row[0]) for row in connection.execute("SELECT content FROM events ORDER BY seq")]


async def test_a_home_comes_back_whole_on_another_host(
    replicas: Replicas, server: ModelServer, tmp_path: Path
) -> None:
    home = made(tmp_path / "host" / "homes" / "anna")
    server.script("In the blue tin.", "Under the bed.")
    async with app_on(home, server) as app:
        await replicas.follow(ID, home)
        await (await app.send("Where is the tea?")).result()
        await replicas.sync(ID)
        await quiet(app)
    await replicas.leave(ID)
    there = Home(tmp_path / "other" / "anna")
    await replicas.bring_back(ID, there)
    assert said(there) == ["Where is the tea?", "In the blue tin."]
    assert (there.state / "PROMPT.md").read_text() == "Be brief."
    assert all(there.ledger(name).stat().st_mode & 0o077 == 0 for name in LEDGERS)
    async with app_on(there, server) as app:
        await (await app.send("And the cat?")).result()
        answers = await rows(app, "events", "SELECT content FROM events WHERE direction = 'outbound'")
    assert [text for (text,) in answers] == ["In the blue tin.", "Under the bed."]
    assert not reconcile.is_due(there)


async def test_copies_go_on_after_litestream_was_killed(replicas: Replicas, tmp_path: Path) -> None:
    home = made(tmp_path / "host" / "homes" / "anna")
    await replicas.follow(ID, home)
    before = replicas.pid
    assert before is not None
    os.kill(before, signal.SIGKILL)
    while replicas.pid in (before, None):
        await asyncio.sleep(0.05)
    (home.state / "PROMPT.md").write_text("Be kind.")
    await replicas.leave(ID)
    there = Home(tmp_path / "other" / "anna")
    await replicas.bring_back(ID, there)
    assert (there.state / "PROMPT.md").read_text() == "Be kind."


# Commits between two syncs: somewhere in the last two hundred the WAL is long enough to be written back.
COMMITS = (100, 50, 30, 30, 10, 10, 10, 200, 40)


@pytest.fixture
async def slow(tmp_path: Path) -> AsyncIterator[Replicas]:
    """Copies that are made only when they are asked for."""
    root = tmp_path / "host"
    (root / "run").mkdir(parents=True)
    async with Replicas(root, f"file://{tmp_path}/copies", sync_interval="1h") as replicas:
        yield replicas


def insert(connection: apsw.Connection, number: int) -> None:
    connection.execute("INSERT INTO scrap VALUES (?, ?, ?)", (number, number * 7919 % 10007, "x" * 50))


async def written(ledgers: Ledgers, slow: Replicas, home_id: str = ID) -> int:
    def prepare(connection: apsw.Connection) -> None:
        connection.execute("CREATE TABLE scrap (a INT UNIQUE, b TEXT UNIQUE, c TEXT)").fetchall()

    await ledgers.runtime.write(prepare)
    await slow.sync(home_id)
    number = 0
    for commits in COMMITS:
        for _ in range(commits):
            await ledgers.runtime.write(insert, number := number + 1)
        await slow.sync(home_id)
    return number


async def test_a_copy_is_whole_when_a_wal_begins_anew_between_two_syncs(
    slow: Replicas, tmp_path: Path
) -> None:
    home = replace(made(tmp_path / "host" / "homes" / "anna"), is_copied=True)
    async with Ledgers(home, LedgersConfig()) as ledgers:
        await slow.follow(ID, home)
        count = await written(ledgers, slow)
    await slow.leave(ID)
    there = Home(tmp_path / "other" / "anna")
    await slow.bring_back(ID, there)
    with closing(apsw.Connection(str(there.ledger("runtime")))) as connection:
        assert connection.execute("SELECT count(*) FROM scrap").get == count


async def test_a_damaged_copy_is_refused(slow: Replicas, tmp_path: Path) -> None:
    errors: list[str] = []
    # On a busy machine Litestream may look between two commits, which keeps a copy whole.
    for home_id in ("hom_1", "hom_2", "hom_3"):
        home = made(tmp_path / "host" / "homes" / home_id)
        async with Ledgers(home, LedgersConfig()) as ledgers:
            await slow.follow(home_id, home)
            # Not as a host does it: this one writes its WAL back itself. If all copies are whole after all,
            # Litestream has learned to cope with that, and `Home.is_copied` may go.
            await written(ledgers, slow, home_id)
        await slow.leave(home_id)
        there = Home(tmp_path / "other" / home_id)
        try:
            await slow.bring_back(home_id, there)
        except ReplicaError as error:
            errors.append(str(error))
            break
    assert ["the runtime ledger is damaged" in each for each in errors] == [True]
    assert not there.root.exists()


def test_files_that_come_and_go_meanwhile_are_no_hindrance(tmp_path: Path) -> None:
    home = made(tmp_path / "anna")
    database, is_over = tmp_path / "packed.db", threading.Event()

    def come_and_go() -> None:
        while not is_over.is_set():
            for number in range(50):
                (home.state / f"{number}.lock").touch()
            for number in range(50):
                (home.state / f"{number}.lock").unlink()

    going = threading.Thread(target=come_and_go)
    going.start()
    try:
        for _ in range(40):
            packed.pack(home, database)
    finally:
        is_over.set()
        going.join()
    assert packed.pack(home, database) >= 0
    assert packed.pack(home, database) == 0


async def test_damaged_files_of_a_copy_are_told_apart_and_keep_no_message(
    replicas: Replicas, tmp_path: Path
) -> None:
    home = made(tmp_path / "host" / "homes" / "anna")
    await replicas.follow(ID, home)
    await replicas.leave(ID)
    copy = tmp_path / "copies" / ID
    shutil.rmtree(copy / "files")
    shutil.copytree(copy / "events", copy / "files")
    with pytest.raises(DamagedCopyError, match="the home's files is damaged"):
        await replicas.bring_back(ID, Home(tmp_path / "other" / "anna"))
    assert await replicas.read_messages(ID, 0) == []


@pytest.mark.parametrize("has_copies", [True, False])
def test_who_writes_the_wal_of_the_table_of_homes_back(tmp_path: Path, *, has_copies: bool) -> None:
    with LocalRegistry(tmp_path, checkpoints=not has_copies) as registry:
        for number in range(500):
            registry.add(f"home-{number}")
        frames = (tmp_path / "host.db-wal").stat().st_size // 4120
    assert (frames > 1200) == has_copies


async def test_what_was_forgotten_leaves_the_copy(replicas: Replicas, tmp_path: Path) -> None:
    home = made(tmp_path / "host" / "homes" / "anna")
    copy = tmp_path / "copies" / ID

    def pieces() -> set[int]:
        return {file.stat().st_ino for file in copy.rglob("*.ltx")}

    await replicas.follow(ID, home)
    with closing(apsw.Connection(str(home.ledger("memory")))) as connection:
        connection.execute("CREATE TABLE scrap (text TEXT); INSERT INTO scrap VALUES ('xyzzy')").fetchall()
        await replicas.sync(ID)
        connection.execute("DROP TABLE scrap; VACUUM").fetchall()
        with_it = pieces()
        # So that no new file gets the number of an old one.
        kept = [file.open("rb") for file in copy.rglob("*.ltx")]
        async with replicas.forgetting(ID):
            busy, _, _ = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()[0]
            assert not busy, "nobody else reads the log"
    assert pieces()
    assert not pieces() & with_it
    for file in kept:
        file.close()
    await replicas.leave(ID)
    there = Home(tmp_path / "other" / "anna")
    await replicas.bring_back(ID, there)
    assert b"xyzzy" not in there.ledger("memory").read_bytes()


@pytest.mark.parametrize("killed_in", [f"{ID}/next/memory", f"{ID}/memory"])
async def test_a_copy_is_whole_when_its_host_dies_while_it_is_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, killed_in: str
) -> None:
    home, copies, root = made(tmp_path / "homes" / "anna"), tmp_path / "copies", tmp_path / "host"
    delete = replication.delete_copy

    def die(address: str) -> None:
        delete(address)
        if address.endswith(killed_in):
            raise ReplicaError("killed")

    (root / "run").mkdir(parents=True)
    async with Replicas(root, f"file://{copies}") as replicas:
        with closing(apsw.Connection(str(home.ledger("memory")))) as connection:
            connection.execute("CREATE TABLE scrap AS SELECT 'xyzzy'").fetchall()
            await replicas.follow(ID, home)
            with monkeypatch.context() as patched:
                patched.setattr(replication, "delete_copy", die)
                with pytest.raises(ReplicaError, match="killed"):
                    async with replicas.forgetting(ID):
                        connection.execute("DROP TABLE scrap; VACUUM").fetchall()

    # With its disk lost, another host goes on from what is there.
    shutil.copytree(copies, tmp_path / "seen")
    there = Home(tmp_path / "other" / "anna")
    (tmp_path / "other-host" / "run").mkdir(parents=True)
    async with Replicas(tmp_path / "other-host", f"file://{tmp_path}/seen") as replicas:
        await replicas.bring_back(ID, there)
        assert (there.state / "PROMPT.md").read_text() == "Be brief."
        await replicas.follow(ID, there)
        assert not (tmp_path / "seen" / ID / "next").exists()

    # With its disk, it finishes when it opens the home again.
    kept = [file.open("rb") for file in copies.rglob("*.ltx")]
    async with Replicas(root, f"file://{copies}") as replicas:
        await replicas.follow(ID, home)
        assert not {os.fstat(file.fileno()).st_ino for file in kept} & {
            file.stat().st_ino for file in copies.rglob("*.ltx")
        }
        assert not (copies / ID / "next").exists()
        assert not replicas.is_outdated(ID)
        back = Home(tmp_path / "back" / "anna")
        await replicas.bring_back(ID, back)
    assert b"xyzzy" not in back.ledger("memory").read_bytes()
    for file in kept:
        file.close()


async def test_a_copy_that_is_not_there_is_an_error_and_leaves_nothing(
    replicas: Replicas, tmp_path: Path
) -> None:
    there = Home(tmp_path / "other" / "anna")
    with pytest.raises(ReplicaError, match="can't be read"):
        await replicas.bring_back("hom_2", there)
    assert not there.root.exists()


def test_packed_files_follow_those_of_the_home(tmp_path: Path) -> None:
    home, database = made(tmp_path / "home"), tmp_path / "files.db"
    script = home.scripts / "greet.py"
    script.write_text("print('hello')")
    script.chmod(0o700)
    (home.state / "link").symlink_to("/etc/passwd")
    assert packed.pack(home, database) > 0
    assert packed.pack(home, database) == 0
    script.write_text("print('good morning')")
    (home.state / "PROMPT.md").unlink()
    assert packed.pack(home, database) == 2
    there = Home(tmp_path / "there")
    packed.unpack(database, there)
    copied = there.scripts / "greet.py"
    assert (copied.read_text(), copied.stat().st_mode & 0o777) == ("print('good morning')", 0o700)
    assert not (there.state / "PROMPT.md").exists()
    assert not (there.state / "link").is_symlink()


async def test_packing_waits_for_another_writer(tmp_path: Path) -> None:
    home, database = made(tmp_path / "home"), tmp_path / "files.db"
    packed.pack(home, database)
    (home.state / "PROMPT.md").write_text("Be long.")
    with closing(apsw.Connection(str(database))) as other:
        other.execute("BEGIN IMMEDIATE; UPDATE files SET mode = mode + 0")
        packing = asyncio.create_task(asyncio.to_thread(packed.pack, home, database))
        await asyncio.wait({packing}, timeout=0.5)
        assert not packing.done()
        other.execute("COMMIT")
    assert await packing == 1


async def test_forgetting_in_a_hosted_home_reaches_its_copy(server: ModelServer, tmp_path: Path) -> None:
    root, copies = tmp_path / "host", tmp_path / "copies"
    (id_,) = make_homes(root, write_settings(tmp_path, server), "anna").values()
    async with host_on(root, copies=f"file://{copies}") as host, host.pool.use(id_) as opened:
        fact = (await opened.app.remember("The cat is called Minka.")).id
        assert opened.following is not None
        await opened.following
        kept = [file.open("rb") for file in (copies / id_).rglob("*.ltx")]
        before = {os.fstat(file.fileno()).st_ino for file in kept}
        assert before
        await opened.app.forget_fact(fact)
        assert not before & {file.stat().st_ino for file in (copies / id_).rglob("*.ltx")}
    for file in kept:
        file.close()


@pytest.mark.parametrize("is_disk_lost", [False, True])
async def test_forgetting_that_was_interrupted_is_finished_when_the_home_is_opened(
    server: ModelServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_disk_lost: bool
) -> None:
    root, copies = tmp_path / "host", tmp_path / "copies"
    (id_,) = make_homes(root, write_settings(tmp_path, server), "anna").values()
    async with host_on(root, copies=f"file://{copies}") as host, host.pool.use(id_) as opened:
        fact = (await opened.app.remember("The cat is called Minka.")).id
        with monkeypatch.context() as patched:
            # It dies once its plan is written down.
            patched.setattr(removal, "remove", AsyncMock(side_effect=asyncio.CancelledError))
            with pytest.raises(asyncio.CancelledError):
                await opened.app.forget_fact(fact)
    if is_disk_lost:
        shutil.rmtree(root / "homes" / "anna")
    async with host_on(root, copies=f"file://{copies}") as host, host.pool.use(id_) as opened:
        assert opened.checking is not None
        await opened.checking
        assert await forgetting.list_unfinished(opened.app.ledgers) == []
        assert await opened.app.ledgers.memory.read(sql.rows, "SELECT id FROM facts") == []


def pieces(endpoint: str) -> set[str]:
    """What the bucket holds of the home, by content."""
    listed = httpx.get(f"{endpoint}/homes?list-type=2&prefix=copies/{ID}/", timeout=60)
    return set(re.findall(r"<ETag>(.*?)</ETag>", listed.text))


def keys(endpoint: str) -> set[str | None]:
    """The keys that the pieces in a bucket are encrypted with."""
    client: Any = cast("Any", boto3).client("s3", endpoint_url=endpoint, region_name="us-east-1")
    pieces = client.list_objects_v2(Bucket="homes", Prefix=f"copies/{ID}/")["Contents"]
    return {client.head_object(Bucket="homes", Key=each["Key"]).get("SSEKMSKeyId") for each in pieces}


async def test_a_copy_can_be_in_a_bucket(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_CA_BUNDLE", raising=False)
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "test")
    storage = ThreadedMotoServer(ip_address="127.0.0.1", port=0)
    storage.start()
    try:
        address, port = storage.get_host_and_port()
        endpoint = f"http://{address}:{port}"
        assert httpx.put(f"{endpoint}/homes", timeout=60).is_success
        home = made(tmp_path / "host" / "homes" / "anna")
        url = f"s3://homes/copies?endpoint={endpoint}&region=us-east-1&forcePathStyle=true&sseKmsKeyId=ours"
        (tmp_path / "host" / "run").mkdir()
        async with Replicas(tmp_path / "host", url) as replicas:
            await replicas.follow(ID, home)
            (home.state / "PROMPT.md").write_text("Be kind.")
            before = pieces(endpoint)
            assert keys(endpoint) == {"ours"}, "every piece is encrypted with the key that the address names"
            async with replicas.forgetting(ID):
                pass
            await replicas.leave(ID)
            assert before
            assert not before & pieces(endpoint), "the history is gone"
            there = Home(tmp_path / "other" / "anna")
            await replicas.bring_back(ID, there)
        assert (there.state / "PROMPT.md").read_text() == "Be kind."
    finally:
        storage.stop()


async def test_a_cold_home_is_evicted_to_its_copy_and_comes_back(server: ModelServer, tmp_path: Path) -> None:
    root = tmp_path / "host"
    ids = make_homes(root, write_settings(tmp_path, server), "anna", "keys")
    anna, keys = (Home(root / "homes" / name) for name in ids)
    keys.secrets.mkdir()
    (keys.secrets / "provider").write_text("sk-1")
    bounds = Bounds(idle_s=0.0, evict_after_hours=1e-9)

    def left() -> list[Path]:
        return list((root / "run" / "replicas").glob(f"*{ids['anna']}*"))

    async with host_on(root, bounds, copies=f"file://{tmp_path}/copies") as host:
        for number in range(2):
            for id_ in ids.values():
                async with host.pool.use(id_) as opened:
                    await opened.app.remember(f"Cat {number} is grey.")
            async with asyncio.timeout(300):
                while len(host.pool) or anna.root.exists() or left():
                    await asyncio.sleep(0.05)
                    await host.pool.evict_cold()
        async with host.pool.use(ids["anna"]) as opened:
            facts = await opened.app.ledgers.memory.read(sql.rows, "SELECT fact FROM facts ORDER BY seq")
            assert [row[0] for row in facts] == ["Cat 0 is grey.", "Cat 1 is grey."]
        # Keys aren't copied.
        assert (keys.secrets / "provider").exists()
