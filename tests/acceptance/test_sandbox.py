"""What a program inside the sandbox can reach, tried from inside with the tricks that are known.

A trick must do no harm where the sandbox fails: it aims only at what its test made.
"""

import asyncio
import contextlib
import os
import platform
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from nexus.broker.tools import Grant, Limits, Outcome, Sandbox, availability
from nexus.config import LedgersConfig
from nexus.errors import SandboxError
from nexus.home import LEDGERS, Home
from nexus.ledgers import Database, Ledgers, attach

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="bubblewrap is a program for Linux")

SECRET = "the-secret-outside"
MIB = 1024 * 1024


@dataclass(frozen=True)
class Place:
    """Three directories side by side: one writable, one read-only, and one that was not granted."""

    root: Path
    sandbox: Sandbox

    @property
    def writable(self) -> Path:
        return self.root / "writable"

    @property
    def readonly(self) -> Path:
        return self.root / "readonly"

    @property
    def outside(self) -> Path:
        return self.root / "outside"

    @property
    def secret(self) -> Path:
        return self.outside / "secret"

    async def bash(self, command: str, **limits: int) -> Outcome:
        chosen = replace(self.sandbox.limits, **limits)
        return await self.sandbox.run(["bash", "-c", command], directory=self.writable, limits=chosen)

    async def python(self, script: str, **limits: int) -> Outcome:
        chosen = replace(self.sandbox.limits, **limits)
        return await self.sandbox.run(["python3", "-c", script], directory=self.writable, limits=chosen)

    def untouched(self) -> bool:
        kept = {path.name: path.read_text() for path in self.outside.iterdir()}
        read_only = {path.name: path.read_text() for path in self.readonly.iterdir()}
        return kept == {"secret": SECRET} and read_only == {"kept": "kept"}


@pytest.fixture
def place(tmp_path: Path) -> Place:
    root = tmp_path.resolve() / "place"
    limits = Limits(timeout_ms=60_000)
    grants = (Grant(path=root / "writable", writable=True), Grant(path=root / "readonly"))
    made = Place(root, Sandbox(grants=grants, limits=limits))
    for directory in (made.writable, made.readonly, made.outside):
        directory.mkdir(parents=True)
    made.secret.write_text(SECRET)
    (made.readonly / "kept").write_text("kept")
    (made.writable / "link").symlink_to(made.secret)
    (made.writable / "folder-link").symlink_to(made.outside)
    (made.writable / "relative-link").symlink_to("../outside")
    return made


def running(marker: str) -> bool:
    """Whether any process of the host has these words on its command line."""
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if marker.encode() in path.read_bytes():
                return True
    return False


async def gone(marker: str) -> bool:
    deadline = time.monotonic() + 20
    while running(marker) and time.monotonic() < deadline:
        await asyncio.sleep(0.05)
    return not running(marker)


async def test_a_sandbox_is_available_here() -> None:
    assert await availability() is None


async def test_what_was_granted_can_be_used(place: Place) -> None:
    done = await place.bash(
        f"echo new > file && cat file {place.readonly}/kept && echo && pwd && whoami && hostname"
    )

    assert (done.exit_code, done.stderr) == (0, b"")
    assert done.stdout.decode().split() == ["new", "kept", str(place.writable), "nexus", "nexus"]
    assert (place.writable / "file").read_text() == "new\n"


READING = {
    "path": "cat {secret}",
    "dots": "cat {writable}/../outside/secret ../outside/secret",
    "file link": "cat link",
    "folder link": "cat folder-link/secret relative-link/secret",
    "new link": "ln -s {secret} mine; cat mine",
    "hard link": "ln {secret} mine; cat mine",
    "root of the first process": "cat /proc/1/root{secret} /proc/1/cwd{secret} /proc/1/cwd/../../{secret}",
    "own root": "cat /proc/self/root{secret} /proc/self/cwd/../outside/secret",
    "tasks": "cat /proc/*/task/*/root{secret}",
    "descriptors": 'for fd in /proc/[0-9]*/fd/*; do cat "$fd/{secret}" "$fd/../{secret}"; done',
    "chroot": "chroot /proc/1/root cat {secret}; chroot /proc/self/root cat {secret}",
    "bind mount": "mkdir -p /tmp/m; mount --bind / /tmp/m && cat /tmp/m{secret}",
    "user namespace": "unshare -Urm cat {secret}; unshare -Um cat {secret}; unshare -U cat {secret}",
    "enter a namespace": "nsenter -t 1 -m -- cat {secret}; nsenter --mount=/proc/1/ns/mnt cat {secret}",
    "unmount": "umount -l {writable}; umount -l {readonly}; cat {secret}",
    "overlay": (
        "cd /tmp; mkdir u w o; mount -t overlay o -o lowerdir=/,upperdir=/tmp/u,workdir=/tmp/w /tmp/o;"
        "cat /tmp/o{secret}"
    ),
    "devices": (
        "for n in 'b 8 0' 'b 254 0' 'b 253 0' 'b 259 0' 'c 1 1'; do mknod d $n && head -c 1M d; rm -f d; done"
    ),
    "mounted device": (
        "mkdir /tmp/m; for d in /dev/vda /dev/sda /dev/nvme0n1; do"
        " mount -o ro $d /tmp/m; cat /tmp/m{secret}; done"
    ),
    "kernel memory": "head -c 64 /proc/kcore /dev/mem /dev/kmem /proc/kmsg; dmesg",
    "files of others": "cat /proc/*/environ /proc/*/maps /etc/shadow /etc/ssh/*_key ~/.ssh/* /root/.ssh/*",
}


@pytest.mark.parametrize("trick", READING.values(), ids=READING.keys())
async def test_no_trick_reads_what_was_not_granted(place: Place, trick: str) -> None:
    names = {"secret": place.secret, "writable": place.writable, "readonly": place.readonly}

    done = await place.bash(trick.format(**names))

    assert done.killed_by is None
    assert SECRET.encode() not in done.stdout + done.stderr
    assert place.untouched()


WRITING = {
    "path": "echo x > {secret}; echo x > {outside}/new; mkdir -p {outside}/more && touch {outside}/more/new",
    "file link": "echo x > link",
    "folder link": "echo x > folder-link/new; echo x > relative-link/secret; rm -f folder-link/secret",
    "dots": "echo x > ../outside/new; echo x > ../readonly/new; rm -rf ../outside/secret",
    "read-only": "cd {readonly}; echo x > kept; touch new; rm -f kept; chmod 777 .",
    "rename": "mv {readonly}/kept {readonly}/other; mv -T {writable} {readonly}; mv {readonly} {writable}/r",
    "hard link": "ln {readonly}/kept mine && echo x > mine",
    "remount": (
        "mount -o remount,rw {readonly}; mount -o remount,rw,bind {readonly}; echo x > {readonly}/kept"
    ),
    "mount over": (
        "mount --bind {writable} {readonly}; mount -t tmpfs none {readonly}; echo x > {readonly}/kept"
    ),
    "unmount": "umount {readonly}; umount -l {readonly}; echo x > {readonly}/kept",
    "user namespace": "unshare -Urm bash -c 'mount -o remount,rw,bind {readonly}; echo x > {readonly}/kept'",
    "descriptor": "exec 3< {readonly}/kept; echo x > /proc/self/fd/3; echo x >> /dev/fd/3",
    "root of the first process": "echo x > /proc/1/root{readonly}/kept; echo x > /proc/1/root{secret}",
    "move a parent": "mv {root} {root}2; mkdir {root}/more; rmdir {root}",
    "map": (
        'python3 -c \'import mmap, os; file = os.open("{readonly}/kept", os.O_RDONLY);'
        'mmap.mmap(file, 0)[0:1] = b"x"\''
    ),
    "attributes": "cd {readonly}; chown 0 kept; touch -d 2000-01-01 kept; truncate -s 0 kept; chmod 777 kept",
}


@pytest.mark.parametrize("trick", WRITING.values(), ids=WRITING.keys())
async def test_no_trick_writes_what_was_not_granted_for_writing(place: Place, trick: str) -> None:
    names = {"secret": place.secret, "writable": place.writable, "readonly": place.readonly}
    names |= {"outside": place.outside, "root": place.root}
    before = sorted(path.name for path in place.root.parent.iterdir())

    done = await place.bash(trick.format(**names))

    assert done.killed_by is None
    assert place.untouched()
    assert sorted(path.name for path in place.root.parent.iterdir()) == before
    assert sorted(path.name for path in place.root.iterdir()) == ["outside", "readonly", "writable"]


async def test_files_cannot_be_opened_by_handle(place: Place) -> None:
    """A handle names an inode of the whole file system, so it would lead past every mount."""
    handle = 12 + 8
    script = f"""
import ctypes, os, struct
libc = ctypes.CDLL(None, use_errno=True)
top = os.open({str(place.writable)!r}, os.O_RDONLY)
for kind in (1, 2):
    request = ctypes.create_string_buffer(struct.pack('IiII', 8, kind, 2, 0), {handle})
    found = libc.open_by_handle_at(top, request, os.O_RDONLY)
    print('open' if found >= 0 else 'refused', os.strerror(ctypes.get_errno()))
"""
    done = await place.python(script)

    assert done.stdout.decode().splitlines() == ["refused Operation not permitted"] * 2


@pytest.mark.parametrize(
    "file",
    [
        "/proc/sys/kernel/core_pattern",
        "/proc/sys/vm/drop_caches",
        "/proc/self/oom_score_adj",
    ],
)
async def test_nothing_of_the_kernel_can_be_set(place: Place, file: str) -> None:
    done = await place.bash(f"[ -e {file} ] && : >> {file}")

    assert done.exit_code == 1
    assert b"Read-only file system" in done.stderr or b"Permission denied" in done.stderr


async def test_the_program_has_no_capability_and_cannot_gain_one(place: Place) -> None:
    done = await place.bash(
        "grep -E '^(Cap|NoNewPrivs|Seccomp:)' /proc/self/status; unshare -U true && echo out"
    )

    lines = dict(line.split(":\t") for line in done.stdout.decode().splitlines())
    assert {lines[name] for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")} == {"0" * 16}
    assert (lines["NoNewPrivs"], lines["Seccomp"]) == ("1", "2")
    assert "out" not in lines


# Each gives `old` or a file `new` the mode in `m`; `call` is the C library's `syscall`.
SETTING_IDS = {
    "chmod": "os.chmod('old', m)",
    "fchmod": "os.fchmod(os.open('old', os.O_RDONLY), m)",
    "fchmodat": "os.chmod('old', m, dir_fd=os.open('.', os.O_RDONLY))",
    "fchmodat2": "call(452, -100, b'old', m, 0)",
    "open": "call(2, b'new', os.O_CREAT | os.O_WRONLY, m)",
    "openat": "os.open('new', os.O_CREAT | os.O_WRONLY, m)",
    "nameless": (
        "fd = os.open('.', os.O_TMPFILE | os.O_WRONLY, m)\n"
        "os.link(f'/proc/self/fd/{fd}', 'new', src_dir_fd=0, follow_symlinks=True)"
    ),
    "openat2": (
        "how = struct.pack('QQQ', os.O_CREAT | os.O_WRONLY, m, 0)\ncall(437, -100, b'new', how, len(how))"
    ),
    "creat": "call(85, b'new', m)",
    "mknod": "call(133, b'new', stat.S_IFREG | m, 0)",
    "mknodat": "os.mknod('new', stat.S_IFREG | m)",
    "copy": "shutil.copyfile('/bin/true', 'new'); subprocess.run(['chmod', oct(m)[2:], 'new'])",
}


TRY_EACH = """
import ctypes, os, shutil, stat, struct, subprocess, traceback
call = ctypes.CDLL(None).syscall
top = os.getcwd()
os.umask(0)
for name, way in WAYS.items():
    for m in (0o755, 0o4755, 0o2755, 0o6755):
        os.mkdir(f"{top}/{name}-{m:o}")
        os.chdir(f"{top}/{name}-{m:o}")
        open("old", "w").close()
        try:
            exec(way)
        except OSError:
            traceback.print_exc()
"""


@pytest.mark.skipif(platform.machine() != "x86_64", reason="calls are made by their numbers")
async def test_no_setuid_or_setgid_program_can_be_left_behind(place: Place) -> None:
    done = await place.python(f"WAYS = {SETTING_IDS!r}\n{TRY_EACH}")

    assert done.exit_code == 0, done.stderr
    modes = {path: path.lstat().st_mode for path in place.writable.glob("*-*/*")}
    assert [str(path) for path, mode in modes.items() if mode & 0o6000] == []
    ordinary = {path.parent.name for path, mode in modes.items() if mode & 0o7777 == 0o755}
    assert {f"{name}-755" for name in SETTING_IDS} - {"openat2-755"} <= ordinary, done.stderr


async def test_grants_are_mounted_without_setuid_programs_and_devices(place: Place) -> None:
    done = await place.bash("cat /proc/self/mountinfo")

    options = {line.split()[4]: line.split()[5].split(",") for line in done.stdout.decode().splitlines()}
    for path in (place.writable, place.readonly):
        assert {"nosuid", "nodev"} <= set(options[str(path)])


async def test_no_sandbox_and_so_no_new_privileges_can_be_made_inside(place: Place) -> None:
    done = await place.bash("bwrap --unshare-user --ro-bind / / true")

    assert done.exit_code == 1
    assert b"Creating new namespace failed" in done.stderr


def test_a_grant_reached_through_a_link_is_refused(place: Place) -> None:
    """Otherwise an agent could put a link in the place of a directory that is mounted next time."""
    for path in (place.writable / "folder-link", place.writable / "relative-link"):
        with pytest.raises(SandboxError) as caught:
            asyncio.run(Sandbox(grants=(Grant(path=path),)).run(["cat", str(path / "secret")]))
        assert str(place.outside) in caught.value.hint


async def test_an_inner_grant_says_the_last_word(place: Place) -> None:
    (place.writable / "skills").mkdir()
    inner = Grant(path=place.writable / "skills")
    sandbox = replace(place.sandbox, grants=(inner, *place.sandbox.grants))

    done = await sandbox.run(
        ["bash", "-c", "touch a; touch skills/b; mv skills old; rmdir skills; ls"], directory=place.writable
    )

    assert done.stdout.decode().split() == ["a", "folder-link", "link", "relative-link", "skills"]
    assert list((place.writable / "skills").iterdir()) == []


# Network


@pytest.fixture
def server() -> Iterator[int]:
    """A server on the host's loopback; answers with the secret."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        threading.Thread(target=_answer, args=(listening,), daemon=True).start()
        yield listening.getsockname()[1]
        listening.shutdown(socket.SHUT_RDWR)


def _answer(listening: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while True:
            connection, _ = listening.accept()
            with connection:
                connection.sendall(SECRET.encode())


async def test_the_host_s_loopback_is_reached_only_with_the_grant(place: Place, server: int) -> None:
    command = f"cat < /dev/tcp/127.0.0.1/{server}"

    without = await place.bash(command)
    granted = await replace(place.sandbox, network=True).run(["bash", "-c", command])

    assert (without.exit_code, without.stdout) == (1, b"")
    assert (granted.exit_code, granted.stdout) == (0, SECRET.encode())


async def test_without_the_grant_there_is_only_an_empty_loopback(place: Place) -> None:
    done = await place.bash(
        "tail -n +3 /proc/net/dev | cut -d: -f1; tail -n +2 /proc/net/route; getent hosts example.org"
    )

    assert done.stdout.decode().split() == ["lo"]


async def test_sockets_of_the_host_are_not_reached(place: Place) -> None:
    name = f"\0nexus-{os.getpid()}"
    outside = place.outside / "socket"
    with socket.socket(socket.AF_UNIX) as abstract, socket.socket(socket.AF_UNIX) as named:
        abstract.bind(name)
        abstract.listen()
        named.bind(str(outside))
        named.listen()
        done = await place.python(
            f"""
import socket
for address in ({name!r}, {str(outside)!r}):
    print(socket.socket(socket.AF_UNIX).connect_ex(address) != 0)
for wanted in ((2, 3, 1), (17, 3, 0), (40, 1, 0), (38, 5, 0)):
    try:
        socket.socket(*wanted)
        print('open', wanted)
    except PermissionError:
        print(True)
"""
        )
    outside.unlink()

    assert done.stdout.decode().split() == ["True"] * 6, done.stderr


# What else could leak


async def test_no_other_process_is_seen_or_signalled(place: Place) -> None:
    sleeper = subprocess.Popen(["sleep", "97531"])
    try:
        done = await place.bash(
            f"cat /proc/[0-9]*/cmdline | tr '\\0' ' '; ls -d /proc/[0-9]* | wc -l;kill -9 {sleeper.pid}"
        )
        assert b"97531" not in done.stdout
        assert b"No such process" in done.stderr
        assert int(done.stdout.split()[-1]) < 8
        assert sleeper.poll() is None
    finally:
        sleeper.kill()
        sleeper.wait()


async def test_no_variable_of_the_parent_leaks(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", SECRET)
    sandbox = replace(place.sandbox, environment={"GIVEN": "told"})

    done = await sandbox.run(["bash", "-c", "env; cat /proc/[0-9]*/environ | tr '\\0' '\\n'"])

    assert SECRET not in done.stdout.decode()
    names = {line.split("=")[0] for line in done.stdout.decode().splitlines()}
    assert names == {"GIVEN", "HOME", "LANG", "PATH", "PWD", "SHLVL", "TERM", "USER", "_"}


async def test_no_descriptor_of_the_parent_leaks(place: Place) -> None:
    held = os.open(place.secret, os.O_RDONLY)
    os.set_inheritable(held, True)
    try:
        done = await place.bash("readlink /proc/[0-9]*/fd/*; for n in {3..99}; do cat <&$n; done 2>/dev/null")
    finally:
        os.close(held)

    kinds = {line.split(":")[0] for line in done.stdout.decode().splitlines()}
    assert kinds <= {"/dev/null", "pipe", "anon_inode"}
    assert SECRET.encode() not in done.stdout


async def test_the_keys_of_the_session_cannot_be_read(place: Place) -> None:
    script = (
        "import ctypes; libc = ctypes.CDLL(None, use_errno=True);"
        "print(libc.syscall(250, 0, -3, 0), ctypes.get_errno())"
    )
    if os.uname().machine != "x86_64":
        pytest.skip("the number of the system call is that of x86_64")

    assert (await place.python(script)).stdout.split() == [b"-1", b"1"]


# Limits


async def healthy(place: Place) -> bool:
    return (await place.bash("echo well")).stdout == b"well\n"


BOMBS = {
    "shell": ":(){ :|:& };: ; sleep 60",
    "sleepers": "while :; do sleep 60 & done",
    "tight": "exec python3 -c 'import os\nwhile True:\n try: os.fork()\n except OSError: pass'",
}


@pytest.mark.parametrize("bomb", BOMBS.values(), ids=BOMBS.keys())
async def test_a_fork_bomb_ends_within_limits(place: Place, bomb: str) -> None:
    done = await place.bash(bomb, processes=64, timeout_ms=30_000)

    assert done.killed_by == "processes"
    assert done.duration_ms < 30_000
    assert await healthy(place)


MEMORY_BOMBS = {
    "slowly": "x = []\nwhile True: x.append(bytearray(1 << 20))",
    "shared": "import mmap\nm = mmap.mmap(-1, 4 << 30)\nfor i in range(0, 4 << 30, 4096): m[i] = 1",
    "many": (
        "import os, time\nfor i in range(32):\n"
        " if not os.fork(): x = b'x' * (16 << 20); time.sleep(60)\n"
        "time.sleep(60)"
    ),
}


@pytest.mark.parametrize("bomb", MEMORY_BOMBS.values(), ids=MEMORY_BOMBS.keys())
async def test_a_memory_bomb_ends_within_limits(place: Place, bomb: str) -> None:
    done = await place.python(bomb, memory_bytes=128 * MIB)

    assert done.killed_by == "memory"
    assert done.duration_ms < 30_000
    assert await healthy(place)


async def test_one_enormous_demand_for_memory_is_refused(place: Place) -> None:
    done = await place.python("bytearray(8 << 30)")

    assert b"MemoryError" in done.stderr


async def test_memory_that_belongs_to_no_process_cannot_be_had(place: Place) -> None:
    done = await place.bash(
        "head -c 1G /dev/zero > /tmp/big; head -c 1G /dev/zero > /dev/shm/big;"
        "stat -c %s /tmp/big /dev/shm/big;"
        "python3 -c 'import os; os.memfd_create(\"big\")'; touch /dev/new /new;"
        "for kind in '-M 1000000' '-Q' '-S 10'; do ipcmk $kind; done",
        temporary_bytes=8 * MIB,
    )

    assert [int(size) <= 8 * MIB for size in done.stdout.split()] == [True, True]
    assert b"PermissionError" in done.stderr
    assert done.stderr.count(b"ipcmk: create") == done.stderr.count(b"failed: Operation not permitted") == 3
    assert done.stderr.count(b"No space left") == 2
    assert done.stderr.count(b"Read-only file system") == 2


async def test_a_run_ends_when_the_host_is_short_of_memory(place: Place) -> None:
    done = await place.bash("sleep 60", host_reserve_bytes=1 << 60)

    assert done.killed_by == "memory"


@pytest.mark.parametrize("stream", ["", ">&2"])
async def test_a_gigabyte_of_output_is_cut_and_ended(place: Place, stream: str) -> None:
    done = await place.bash(f"head -c 1G /dev/zero {stream}", output_bytes=MIB)

    assert (done.killed_by, done.truncated) == ("output", True)
    assert len(done.stdout) + len(done.stderr) == MIB


async def test_time_runs_out_for_the_whole_tree(place: Place) -> None:
    done = await place.bash("trap '' TERM INT HUP; (setsid sleep 86421 &); sleep 86421", timeout_ms=500)

    assert done.killed_by == "timeout"
    assert done.duration_ms < 15_000
    assert await gone("86421")


async def test_a_process_that_only_computes_is_ended(place: Place) -> None:
    done = await place.bash("while :; do :; done", cpu_seconds=1)

    assert done.killed_by == "cpu"


async def test_a_file_grows_only_so_far(place: Place) -> None:
    await place.bash("head -c 10M /dev/zero > big", file_bytes=MIB)

    assert (place.writable / "big").stat().st_size == MIB


# Ledgers in a read-only grant


async def test_ledgers_in_a_read_only_grant_are_read_live_and_never_written(home: Home) -> None:
    sandbox = Sandbox(grants=(Grant(path=home.data.resolve()),))

    async def sqlite3(*arguments: str) -> Outcome:
        return await sandbox.run(["sqlite3", *arguments])

    async with Ledgers(home, LedgersConfig()) as ledgers:
        for name in LEDGERS:
            database: Database = getattr(ledgers, name)
            await database.read(lambda c: c.execute("SELECT 1 FROM sqlite_schema").fetchall())
        threads = "SELECT count(*) FROM threads"
        events = str(home.ledger("events"))
        assert (await sqlite3(events, threads)).stdout == b"0\n"
        await ledgers.events.write(
            lambda c: c.execute("INSERT INTO threads (id, channel) VALUES ('t', 'cli')").fetchall()
        )
        assert (await sqlite3(events, threads)).stdout == b"1\n"
        all_six = await sqlite3(
            "-init", str(attach.path(home, writes=False)), ":memory:", "PRAGMA database_list"
        )
        assert [name in all_six.stdout.decode() for name in LEDGERS] == [True] * 6
        for name in LEDGERS:
            refused = await sqlite3(str(home.ledger(name)), "PRAGMA query_only=0; CREATE TABLE planted (x)")
            assert refused.exit_code != 0
            assert b"readonly" in refused.stderr
        for command in ("journal_mode=DELETE", "wal_checkpoint(TRUNCATE)", "user_version=99"):
            await sqlite3(events, f"PRAGMA {command}")
        assert (await sqlite3(events, threads)).stdout == b"1\n"
