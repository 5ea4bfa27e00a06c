"""The sandbox for macOS: its profile as text everywhere, and the real one on a Mac."""

import sys
from pathlib import Path

import pytest

from nexus.broker.tools import Limits, Sandbox, seatbelt
from nexus.bubblewrap import Grant, Spec
from nexus.errors import SandboxError

on_a_mac = pytest.mark.skipif(sys.platform != "darwin", reason="Seatbelt is part of macOS")


def spec(*grants: Grant, hidden: tuple[Path, ...] = (), network: bool = False) -> Spec:
    return Spec(
        grants=grants,
        hidden=hidden,
        network=network,
        temporary_bytes=1,
        environment={"PATH": "/bin", "HOME": "/tmp"},
        directory=Path("/"),
    )


def rules(made: Spec) -> list[str]:
    return seatbelt.write_profile(made, Path("/private/t")).splitlines()


def test_nothing_is_allowed_but_the_system_and_the_sandboxes_own_directory() -> None:
    lines = rules(spec())
    assert lines[:2] == ["(version 1)", "(deny default)"]
    assert not [line for line in lines if "network" in line]
    written = [line for line in lines if "file-write*" in line]
    assert written == [
        '(allow file-write* (literal "/dev/null") (literal "/dev/zero") (literal "/dev/tty") '
        '(literal "/dev/dtracehelper"))',
        '(allow file-read* file-write* (subpath "/private/t"))',
    ]
    assert not [
        line for line in lines if '"/Users' in line or '"/private/etc"' in line or '"/private/var"' in line
    ]
    assert "(allow network*)" in rules(spec(network=True))


def test_the_innermost_grant_has_the_last_word(tmp_path: Path) -> None:
    inner, secret = tmp_path / "inner", tmp_path / "secret"
    lines = rules(spec(Grant(path=inner), Grant(path=tmp_path, writable=True), hidden=(secret,)))
    places = [line for line in lines if str(tmp_path) in line]
    assert places == [
        f'(allow file-read* file-write* (subpath "{tmp_path}"))',
        f'(allow network-outbound (remote unix-socket (subpath "{tmp_path}")))',
        f'(allow file-read* (subpath "{inner}"))',
        f'(deny file-write* (subpath "{inner}"))',
        f'(allow network-outbound (remote unix-socket (subpath "{inner}")))',
        f'(deny file-read-data file-write* (subpath "{secret}"))',
        f'(deny network-outbound (remote unix-socket (subpath "{secret}")))',
    ]


def test_a_path_is_quoted_and_no_link(tmp_path: Path) -> None:
    odd = tmp_path / 'a") (allow default) "\\'
    quoted = str(odd).replace("\\", "\\\\").replace('"', '\\"')
    assert f'(allow file-read* (subpath "{quoted}"))' in rules(spec(Grant(path=odd)))
    with pytest.raises(SandboxError, match="character"):
        rules(spec(Grant(path=tmp_path / "a\nb")))
    (tmp_path / "link").symlink_to(tmp_path)
    with pytest.raises(SandboxError, match="symbolic link"):
        rules(spec(Grant(path=tmp_path / "link")))


def test_a_program_starts_in_its_own_directory_with_limits() -> None:
    made = seatbelt.command(["echo", "$HOME; x"], spec(), ["-t 5", "-c 0"], Path("/private/a b"))
    assert made[:2] == ["/usr/bin/sandbox-exec", "-p"]
    shell = "ulimit -t 5; ulimit -c 0; cd '/private/a b' && exec \"$@\""
    assert made[3:] == ["/bin/sh", "-c", shell, "sh", "echo", "$HOME; x"]
    assert seatbelt.environment(spec(), Path("/t")) == {"PATH": "/bin", "HOME": "/t", "TMPDIR": "/t"}


async def test_a_program_is_started_limited_and_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Everything but the kernel's part: a program in the place of `sandbox-exec` allows everything."""
    program = tmp_path / "sandbox-exec"
    program.write_text('#!/bin/sh\nshift 2\nexec "$@"\n')
    program.chmod(0o700)
    monkeypatch.setattr(seatbelt, "PROGRAM", str(program))
    monkeypatch.setattr(seatbelt, "is_enabled", lambda: True)
    sandbox = Sandbox(environment={"WORD": "tea"})
    done = await sandbox.run(["sh", "-c", "cat; echo $WORD; pwd; exit 3"], stdin=b"hello\n")
    *said, place = done.stdout.decode().split()
    assert (said, done.exit_code, done.killed_by) == (["hello", "tea"], 3, None)
    assert not Path(place).exists(), "its directory is gone"
    late = await sandbox.run(["sh", "-c", "sleep 60 & sleep 60"], limits=Limits(timeout_ms=200))
    assert (late.exit_code, late.killed_by) == (None, "timeout")
    loud = await sandbox.run(["yes"], limits=Limits(output_bytes=1000))
    assert (len(loud.stdout), loud.killed_by, loud.truncated) == (1000, "output", True)


@on_a_mac
async def test_on_a_mac_a_program_reaches_only_what_was_granted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NEXUS_SEATBELT", "1")
    root = tmp_path.resolve()
    granted, read_only, secret = (root / name for name in ("granted", "read-only", "secret"))
    for place in (granted, read_only, secret):
        place.mkdir()
        (place / "file").write_text(place.name)
    sandbox = Sandbox(grants=(Grant(path=granted, writable=True), Grant(path=read_only)))

    async def run(command: str) -> tuple[int | None, str]:
        done = await sandbox.run(["/bin/sh", "-c", command])
        return done.exit_code, done.stdout.decode() + done.stderr.decode()

    assert await run(f"cat {granted}/file {read_only}/file") == (0, "grantedread-only")
    assert (await run(f"echo x > {granted}/new && echo y > $TMPDIR/own"))[0] == 0
    for refused in (
        f"cat {secret}/file",
        f"echo x > {read_only}/file",
        f"ls {secret}",
        "cat ~root/x /etc/master.passwd",
    ):
        assert (await run(refused))[0] != 0, refused
    assert (await run("/usr/bin/nc -z -G 2 1.1.1.1 53"))[0] != 0
    assert (await run(f"ls {Path.home()}"))[0] != 0
