"""How a sandbox is put together: the arguments of bubblewrap, and its complaints in our words."""

import errno
import os
import platform
import shutil
import sys
import sysconfig
from collections.abc import Generator, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from nexus import seccomp
from nexus.errors import SandboxError

_INSTALL = (
    "Install bubblewrap 0.8 or newer: `apt-get install bubblewrap`, `dnf install bubblewrap` or "
    "`pacman -S bubblewrap`. Without it no tool runs."
)
_UID = 1000
_SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
# What programs need in order to start and to show times and text; nothing here is secret.
_SETTINGS = (
    "/etc/alternatives",
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
    "/etc/localtime",
    "/etc/mime.types",
    "/etc/terminfo",
)
_NETWORK_SETTINGS = (
    "/etc/resolv.conf",
    "/etc/ssl/certs",
    "/etc/ssl/openssl.cnf",
    "/etc/pki/ca-trust/extracted",
    "/etc/pki/tls/certs",
    "/usr/share/ca-certificates",
)
_FILES = {
    "/etc/passwd": f"nexus:x:{_UID}:{_UID}:Nexus:/tmp:/bin/bash\n",
    "/etc/group": f"nexus:x:{_UID}:\n",
    "/etc/hosts": "127.0.0.1 localhost\n::1 localhost\n",
    "/etc/nsswitch.conf": "passwd: files\ngroup: files\nhosts: files dns\n",
}
_PROCESSES = "cgroup.procs"
# A 0 moves whoever writes it. `$0` is the file, and `$@` the command.
_JOIN = 'echo 0 > "$0" && exec "$@"'
_NEVER = frozenset(map(Path, ("/", "/etc", "/home", "/run", "/tmp", "/var", *_SYSTEM)))  # noqa: S108 - places that are refused
_NEVER_BELOW = tuple(map(Path, ("/dev", "/proc", "/sys")))


@dataclass(frozen=True, kw_only=True)
class Grant:
    """A directory that can be seen inside, at the same path, with everything below it."""

    path: Path
    writable: bool = False

    def __str__(self) -> str:
        return f"{self.path} ({'writable' if self.writable else 'read-only'})"


@dataclass(frozen=True, kw_only=True)
class Spec:
    """Everything about a sandbox that is decided before it starts."""

    grants: tuple[Grant, ...]
    hidden: tuple[Path, ...]
    """Directories that a grant above them does not show; a grant below them does."""
    network: bool
    temporary_bytes: int
    environment: Mapping[str, str]
    directory: Path
    cgroup: Path | None = None
    """The cgroup that all its processes are in; None: the one of whoever starts it."""


def find_program() -> str:
    """Where bubblewrap is, or an error that says how to get it."""
    found = shutil.which("bwrap")
    if found is None and platform.system() != "Linux":
        raise SandboxError(
            f"Tools need a sandbox, and none is available for {platform.system()}",
            hint="Run Nexus on Linux, or in a Linux virtual machine.",
        )
    if found is None:
        raise SandboxError("Tools need a sandbox, and bubblewrap is not installed", hint=_INSTALL)
    return found


@cache
def package_folders() -> list[str]:
    """Where packages are installed: the interpreter in a sandbox knows nothing of an environment."""
    own = [sysconfig.get_path(name) for name in ("purelib", "platlib")]
    linked = [entry for entry in sys.path if Path(entry).name == "site-packages"]
    return list(dict.fromkeys(os.path.realpath(path) for path in (*own, *linked)))


@cache
def python_program(file: str) -> tuple[list[str], tuple[Grant, ...]]:
    """The command of one of our scripts, and what its sandbox must show: Python, it, and packages."""
    script = Path(file).resolve()
    shown = {Path(sys.base_prefix).resolve(), script.parent, *map(Path, package_folders())}
    grants = tuple(Grant(path=path) for path in sorted(shown) if not path.is_relative_to("/usr"))
    # Without `site`: where a system has packages of its own, they would come before those installed here.
    return [os.path.realpath(sys.executable), "-I", "-S", "-B", str(script)], grants


def join_command(spec: Spec) -> tuple[str, ...]:
    """Before a command: it enters the cgroup of the sandbox by itself, so nothing of it is ever outside."""
    return () if spec.cgroup is None else ("/bin/sh", "-c", _JOIN, str(spec.cgroup / _PROCESSES))


def join(spec: Spec) -> None:
    """Enter the cgroup of a sandbox that this process is about to become."""
    if spec.cgroup is not None:
        try:
            (spec.cgroup / _PROCESSES).write_text("0", encoding="ascii")
        except OSError as error:
            raise explain(f"{spec.cgroup / _PROCESSES}: {error.strerror}") from error


@contextmanager
def prepare(spec: Spec, watch: tuple[int, int] | None = None) -> Generator[tuple[int, list[int]]]:
    """The descriptor that holds the arguments, and every descriptor that bubblewrap needs with it.

    Arguments go through a descriptor, so that other users' `ps` shows no path and no variable. `watch` are
    those on which bubblewrap tells its status, and waits before it starts the program.
    """
    with ExitStack() as stack:
        opened: list[int] = []

        def keep(descriptor: int) -> int:
            stack.callback(os.close, descriptor)
            opened.append(descriptor)
            return descriptor

        arguments = [
            *_isolation_arguments(spec),
            *_root_arguments(spec),
            *(
                part
                for path, text in _FILES.items()
                for part in ("--file", str(keep(_write_memory_file(text.encode()))), path)
            ),
            *(
                part
                for place in _order_places(spec)
                for part in (
                    _mount_arguments(place, keep(_open_granted(place.path)))
                    if isinstance(place, Grant)
                    else ("--tmpfs", str(place))
                )
            ),
            *(part for place in (*_find_covered(spec), Path("/")) for part in ("--remount-ro", str(place))),
            *("--chdir", str(spec.directory)),
            *("--seccomp", str(keep(_write_memory_file(seccomp.compile_filter())))),
            *(("--json-status-fd", str(watch[0]), "--block-fd", str(watch[1])) if watch else ()),
        ]
        if any("\0" in argument for argument in arguments):
            raise SandboxError("A path or a variable of the environment contains a zero byte")
        held = keep(_write_memory_file(b"".join(os.fsencode(argument) + b"\0" for argument in arguments)))
        yield held, opened


def explain(complaint: str) -> SandboxError:
    """Bubblewrap's words when it gave up before the program ran, with what to do."""
    told = complaint.strip().removeprefix("bwrap: ") or "bubblewrap ended without a word"
    if "execvp" in told:
        return SandboxError(
            f"The program cannot be started in the sandbox: {told}",
            hint="Only programs below /usr and in the granted directories are there.",
        )
    if "nknown option" in told:
        return SandboxError(f"The installed bubblewrap is too old: {told}", hint=_INSTALL)
    if _PROCESSES in told:
        return SandboxError(
            f"The sandbox can't enter the cgroup of its home: {told}", hint="Restart the host."
        )
    if os.strerror(errno.EAGAIN) in told:
        return SandboxError(
            "No more processes can be started",
            hint="Wait until others have ended, or have the limit raised: `nexus host limit --processes`.",
        )
    if "chdir" in told:
        return SandboxError(
            f"The working directory is not in the sandbox: {told}", hint="Grant it, or choose a granted one."
        )
    return SandboxError(f"Can't set up the sandbox: {told}", hint=_namespace_hint())


def _namespace_hint() -> str:
    if _read_sysctl("kernel/apparmor_restrict_unprivileged_userns") == "1":
        return (
            "AppArmor forbids user namespaces to ordinary programs here. Allow them to bwrap: install "
            "`apparmor-profiles`, copy /usr/share/apparmor/extra-profiles/bwrap-userns-restrict to "
            "/etc/apparmor.d/ and run `sudo systemctl reload apparmor`."
        )
    if _read_sysctl("kernel/unprivileged_userns_clone") == "0":
        return "User namespaces are off: run `sudo sysctl -w kernel.unprivileged_userns_clone=1`."
    if _read_sysctl("user/max_user_namespaces") == "0":
        return "User namespaces are off: run `sudo sysctl -w user.max_user_namespaces=15000`."
    return (
        "Inside a container, allow it to make user namespaces (for Docker: "
        "`--security-opt seccomp=unconfined --security-opt systempaths=unconfined`)."
    )


def _read_sysctl(name: str) -> str:
    try:
        return (Path("/proc/sys") / name).read_text(encoding="ascii").strip()
    except OSError:
        return ""


def _isolation_arguments(spec: Spec) -> Iterator[str]:
    yield from ("--unshare-all", "--unshare-user", "--disable-userns", "--die-with-parent", "--new-session")
    if spec.network:
        yield "--share-net"
    yield from ("--uid", str(_UID), "--gid", str(_UID), "--hostname", "nexus", "--cap-drop", "ALL")
    yield "--clearenv"
    for name, value in spec.environment.items():
        yield from ("--setenv", name, value)


def _root_arguments(spec: Spec) -> Iterator[str]:
    size = str(spec.temporary_bytes)
    for path in map(Path, _SYSTEM):
        if path.is_symlink():
            yield from ("--symlink", str(path.readlink()), str(path))
        elif path.is_dir():
            yield from ("--ro-bind", str(path), str(path))
    for setting in (*_SETTINGS, *(_NETWORK_SETTINGS if spec.network else ())):
        yield from ("--ro-bind-try", setting, setting)
    # Read-only /proc: as root, some of its files could otherwise be written without any capability.
    yield from ("--proc", "/proc", "--remount-ro", "/proc")
    yield from ("--dev", "/dev", "--size", size, "--tmpfs", "/dev/shm", "--remount-ro", "/dev")  # noqa: S108 - paths inside of the sandbox
    yield from ("--perms", "1777", "--size", size, "--tmpfs", "/tmp")  # noqa: S108 - paths inside of the sandbox
    yield from ("--dir", "/var", "--symlink", "/tmp", "/var/tmp", "--dir", "/run")  # noqa: S108 - paths inside of the sandbox


def _order_places(spec: Spec) -> list[Grant | Path]:
    """Outer directories first, so that a grant inside another one says the last word.

    A hidden directory comes after a grant of itself: granting it whole shows nothing of it.
    """
    places: list[Grant | Path] = [*spec.grants, *_find_covered(spec)]
    return sorted(places, key=lambda place: len((place.path if isinstance(place, Grant) else place).parts))


def _find_covered(spec: Spec) -> list[Path]:
    """The hidden directories that a grant would show."""
    return [place for place in spec.hidden if any(place.is_relative_to(grant.path) for grant in spec.grants)]


def _mount_arguments(grant: Grant, descriptor: int) -> tuple[str, str, str]:
    return ("--bind-fd" if grant.writable else "--ro-bind-fd", str(descriptor), str(grant.path))


def _open_granted(path: Path) -> int:
    """The directory itself, reached through no symbolic link.

    An agent that can write beside a granted directory could otherwise put a link in its place, and
    have the next sandbox mount what the link points to.
    """
    if not path.is_absolute() or ".." in path.parts or path in _NEVER:
        raise SandboxError(
            f"{path} cannot be granted", hint="Grant a directory of your own, by its full path."
        )
    if any(path.is_relative_to(place) for place in _NEVER_BELOW):
        raise SandboxError(f"{path} cannot be granted: it belongs to the system")
    flags = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    held = os.open("/", flags)
    try:
        for part in path.parts[1:]:
            inner = os.open(part, flags, dir_fd=held)
            os.close(held)
            held = inner
    except OSError as error:
        os.close(held)
        real = os.path.realpath(path)
        hint = f"Grant {real} instead." if real != str(path) else "Make the directory first."
        raise SandboxError(f"{path} cannot be granted: {error.strerror}", hint=hint) from error
    return held


def _write_memory_file(content: bytes) -> int:
    descriptor = os.memfd_create("nexus")
    os.write(descriptor, content)
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor
