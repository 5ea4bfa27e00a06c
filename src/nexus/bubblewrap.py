"""How a sandbox is put together: the arguments of bubblewrap, and its complaints in our words."""

import ctypes
import errno
import os
import platform
import shutil
import stat
import sys
import sysconfig
import tempfile
from collections.abc import Generator, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path

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
_ALLOW = 0x7FFF0000
_ERROR = 0x00050000
_REFUSE = _ERROR | errno.EPERM
_EQUAL, _GREATER, _MASKED = 4, 6, 7
_REFUSED = (
    # The kernel's keyrings: a session's keys are inherited through every namespace.
    *("add_key", "keyctl", "request_key"),
    # Memory that is in no process, so that the watch could not see it.
    *("memfd_create", "memfd_secret", "shmget", "msgget", "semget", "mq_open"),
    # Rearranging what is mounted and shared.
    *("mount", "umount2", "pivot_root", "chroot", "unshare", "setns"),
    *("open_tree", "move_mount", "fsopen", "fsconfig", "fsmount", "fspick", "mount_setattr"),
    *("open_by_handle_at", "quotactl", "quotactl_fd", "swapon", "swapoff"),
    # Parts of the kernel that tools don't need.
    *("bpf", "perf_event_open", "userfaultfd", "io_uring_setup", "io_uring_enter", "io_uring_register"),
    *("init_module", "finit_module", "delete_module", "kexec_load", "kexec_file_load", "reboot"),
    *("syslog", "acct", "modify_ldt", "uselib", "vm86", "vm86old", "lookup_dcookie"),
)
# Kinds of sockets that stay: unix, IPv4, IPv6 and netlink (which lists interfaces). Among the others
# are those that lead from a virtual machine to its host, whatever the network namespace.
_KEPT_FAMILIES = (0, 1, 2, 10, 16)
# Calls that set a file's mode, by the position of the mode among their arguments.
_SETS_MODE = {"chmod": 1, "fchmod": 1, "fchmodat": 2, "fchmodat2": 2, "creat": 1, "mknod": 1, "mknodat": 2}
# Calls that set it if they create a file, by the positions of the flags and the mode.
_MAY_CREATE = {"open": (1, 2), "openat": (2, 3)}
_CREATES = (os.O_CREAT, os.O_TMPFILE & ~os.O_DIRECTORY)
# Their arguments are in memory, which a filter cannot read. Programs fall back to the older call.
_UNREADABLE = ("openat2",)
# The same on every kind of processor; a libseccomp older than the kernel may not know them.
_NUMBERS = {"openat2": 437, "fchmodat2": 452}


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
            hint="Run Nexus on Linux, or in a Linux virtual machine. On macOS, NEXUS_SEATBELT=1 enables an "
            "experimental one.",
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


def python_folders() -> set[Path]:
    """Where Python and everything that this process may import lie, beside the system's own directories."""
    places = {Path(sys.base_prefix).resolve(), *map(Path, import_path())}
    outer = {place for place in places if not place.is_relative_to("/usr")}
    return {
        place for place in outer if not any(place != each and place.is_relative_to(each) for each in outer)
    }


def import_path() -> Iterator[str]:
    """The folders that this process imports from."""
    for entry in sys.path:
        place = Path(entry).resolve()
        if entry and place.is_dir() and place != Path(tempfile.gettempdir()).resolve():
            yield str(place)


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
                for place in order_places(spec)
                for part in (
                    _mount_arguments(place, keep(_open_granted(place.path)))
                    if isinstance(place, Grant)
                    else ("--tmpfs", str(place))
                )
            ),
            *(part for place in (*_find_covered(spec), Path("/")) for part in ("--remount-ro", str(place))),
            *("--chdir", str(spec.directory)),
            *("--seccomp", str(keep(_write_memory_file(compile_filter())))),
            *(("--json-status-fd", str(watch[0]), "--block-fd", str(watch[1])) if watch else ()),
        ]
        if any("\0" in argument for argument in arguments):
            raise SandboxError("A path or a variable of the environment contains a zero byte")
        held = keep(_write_memory_file(b"".join(os.fsencode(argument) + b"\0" for argument in arguments)))
        yield held, opened


def order_places(spec: Spec) -> list[Grant | Path]:
    """Outer directories first, so that a grant inside another one says the last word.

    A hidden directory comes after a grant of itself: granting it whole shows nothing of it.
    """
    places: list[Grant | Path] = [*spec.grants, *_find_covered(spec)]
    return sorted(places, key=lambda place: len((place.path if isinstance(place, Grant) else place).parts))


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


class _Comparison(ctypes.Structure):
    _fields_ = (
        ("argument", ctypes.c_uint),
        ("operator", ctypes.c_int),
        ("value", ctypes.c_uint64),
        ("second", ctypes.c_uint64),
    )


@cache
def compile_filter() -> bytes:
    """The system calls that a sandbox refuses, compiled by libseccomp for this machine's kind of processor.

    Mounts and namespaces are the boundary. This closes what they leave open: keys of the user's session,
    sockets that no namespace confines, memory that is charged to no process, setuid programs that other
    users of the host could run, and rarely used parts of the kernel in which most ways out of a sandbox were
    found.
    """
    library = _load_library()
    context = library.seccomp_init(_ALLOW)
    try:
        for name in _REFUSED:
            _refuse(library, context, name)
        for family in range(max(_KEPT_FAMILIES)):
            if family not in _KEPT_FAMILIES:
                _refuse(library, context, "socket", _Comparison(0, _EQUAL, family))
        _refuse(library, context, "socket", _Comparison(0, _GREATER, max(_KEPT_FAMILIES)))
        for name, conditions in _find_setid_calls():
            _refuse(library, context, name, *conditions)
        for name in _UNREADABLE:
            _refuse(library, context, name, action=_ERROR | errno.ENOSYS)
        return _export(library, context)
    finally:
        library.seccomp_release(context)


def _find_setid_calls() -> Iterator[tuple[str, tuple[_Comparison, ...]]]:
    """Every way to give a file the setuid or setgid bit.

    In a granted directory such a file would run with the rights of whoever runs Nexus, for anybody on the
    host who can reach it.
    """
    for bit in (stat.S_ISUID, stat.S_ISGID):
        for name, mode in _SETS_MODE.items():
            yield name, (_has_bits(mode, bit),)
        for name, (flags, mode) in _MAY_CREATE.items():
            for creates in _CREATES:
                yield name, (_has_bits(flags, creates), _has_bits(mode, bit))


def _has_bits(argument: int, bit: int) -> _Comparison:
    return _Comparison(argument, _MASKED, bit, bit)


def _refuse(library: ctypes.CDLL, context: int, name: str, *when: _Comparison, action: int = _REFUSE) -> None:
    number: int = library.seccomp_syscall_resolve_name(name.encode())
    if number < 0:
        number = _NUMBERS.get(name, number)
    if number < 0:
        return  # this kind of processor, or this version of the library, has no such call
    comparisons = (_Comparison * len(when))(*when)
    failed = library.seccomp_rule_add_array(context, action, number, len(when), comparisons)
    if failed:
        raise SandboxError(f"libseccomp cannot refuse the system call {name}: {os.strerror(-failed)}")


def _export(library: ctypes.CDLL, context: int) -> bytes:
    descriptor = os.memfd_create("filter")
    try:
        failed = library.seccomp_export_bpf(context, descriptor)
        if failed:
            raise SandboxError(f"libseccomp cannot make a filter: {os.strerror(-failed)}")
        return os.pread(descriptor, os.fstat(descriptor).st_size, 0)
    finally:
        os.close(descriptor)


def _load_library() -> ctypes.CDLL:
    try:
        library = ctypes.CDLL("libseccomp.so.2")
    except OSError as error:
        raise SandboxError(
            "Tools need a sandbox, and libseccomp is not installed",
            hint="Install it: `apt-get install libseccomp2`, `dnf install libseccomp` or "
            "`pacman -S libseccomp`.",
        ) from error
    library.seccomp_init.restype = ctypes.c_void_p
    library.seccomp_init.argtypes = (ctypes.c_uint32,)
    library.seccomp_release.argtypes = (ctypes.c_void_p,)
    library.seccomp_syscall_resolve_name.argtypes = (ctypes.c_char_p,)
    library.seccomp_rule_add_array.argtypes = (
        ctypes.c_void_p,
        ctypes.c_uint32,
        ctypes.c_int,
        ctypes.c_uint,
        ctypes.POINTER(_Comparison),
    )
    library.seccomp_export_bpf.argtypes = (ctypes.c_void_p, ctypes.c_int)
    return library
