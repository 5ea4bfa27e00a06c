"""The sandbox on macOS, experimental: a Seatbelt profile from the description that drives bubblewrap.

Seatbelt says what a program may touch. Unlike a namespace it hides neither names of files nor processes, and
Apple calls `sandbox-exec` deprecated. So it is off unless NEXUS_SEATBELT=1 is set.
"""

import os
import shlex
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from nexus.bubblewrap import Grant, Spec, order_places
from nexus.errors import SandboxError

PROGRAM: Final = "/usr/bin/sandbox-exec"
_VARIABLE: Final = "NEXUS_SEATBELT"
# What programs need in order to start; nothing here is a person's.
_SYSTEM: Final = (
    *("/bin", "/sbin", "/usr/bin", "/usr/lib", "/usr/libexec", "/usr/sbin", "/usr/share", "/usr/local"),
    *("/opt/homebrew", "/System", "/Library/Apple", "/Library/Developer", "/Library/Frameworks"),
    *("/private/etc/localtime", "/private/var/db/timezone", "/private/var/db/dyld"),
    *("/private/var/select", "/dev"),
)
_NETWORK_FILES: Final = ("/private/etc/hosts", "/private/etc/resolv.conf", "/private/etc/ssl")
_DEVICES: Final = ("/dev/null", "/dev/zero", "/dev/tty", "/dev/dtracehelper")
_SERVICES: Final = ("com.apple.system.opendirectoryd.libinfo", "com.apple.system.logger")
_NETWORK_SERVICES: Final = (
    *("com.apple.dnssd.service", "com.apple.SystemConfiguration.configd", "com.apple.trustd.agent"),
    "com.apple.networkd",
)


def is_enabled() -> bool:
    """Whether this is a Mac whose owner asked for the experiment."""
    return sys.platform == "darwin" and os.environ.get(_VARIABLE) == "1"


def write_profile(spec: Spec, temporary: Path) -> str:
    """Write the profile of a sandbox with a temporary directory: the last rule that matches counts."""
    lines = [
        "(version 1)",
        "(deny default)",
        "(allow process-exec process-fork)",
        "(allow signal (target same-sandbox))",
        "(allow process-info* (target same-sandbox))",
        "(allow sysctl-read)",
        "(allow ipc-posix-sem)",
        # Where a file is, not what is in it: every path is resolved from the root.
        "(allow file-read-metadata)",
        '(allow file-read* (literal "/"))',
        _rule("allow file-read*", map(Path, _SYSTEM)),
        f"(allow file-write* {_filters('literal', map(Path, _DEVICES))})",
        f"(allow mach-lookup {_names(_SERVICES)})",
        "(allow system-socket)",
    ]
    if spec.network:
        lines += [
            "(allow network*)",
            _rule("allow file-read*", map(Path, _NETWORK_FILES)),
            f"(allow mach-lookup {_names(_NETWORK_SERVICES)})",
        ]
    lines += _place_rules(spec)
    lines.append(_rule("allow file-read* file-write*", [temporary]))
    lines.append("(deny file-write-setugid)")
    return "\n".join(lines) + "\n"


def command(argv: Iterable[str], spec: Spec, limits: Iterable[str], temporary: Path) -> list[str]:
    """The command that runs a program in the sandbox; `limits` are the arguments of `ulimit`."""
    shell = "; ".join(
        [*(f"ulimit {limit}" for limit in limits), f"cd {shlex.quote(_place(spec, temporary))}"]
    )
    return [
        PROGRAM,
        "-p",
        write_profile(spec, temporary),
        "/bin/sh",
        "-c",
        f'{shell} && exec "$@"',
        "sh",
        *argv,
    ]


def environment(spec: Spec, temporary: Path) -> dict[str, str]:
    """The environment of a program: its home and temporary directory are the sandbox's own."""
    return {**spec.environment, "HOME": str(temporary), "TMPDIR": str(temporary)}


def _place(spec: Spec, temporary: Path) -> str:
    """Where a program starts. The root and /tmp mean the sandbox's own directory."""
    is_own = spec.directory in (Path("/"), Path("/tmp"))  # noqa: S108 - nothing is written there
    return str(temporary if is_own else spec.directory)


def _place_rules(spec: Spec) -> Iterator[str]:
    for place in order_places(spec):
        if not isinstance(place, Grant):
            yield _rule("deny file-read-data file-write*", [place])
            yield f"(deny network-outbound (remote unix-socket (subpath {_quote(str(place))})))"
            continue
        # A link could be put in the place of a directory after this look: Seatbelt judges the real path, so
        # what the link leads to is refused.
        if os.path.realpath(place.path) != str(place.path):
            raise SandboxError(
                f"{place.path} cannot be granted: it is reached through a symbolic link",
                hint=f"Grant {os.path.realpath(place.path)} instead.",
            )
        yield _rule("allow file-read* file-write*" if place.writable else "allow file-read*", [place.path])
        if not place.writable:
            yield _rule("deny file-write*", [place.path])
        # As under bubblewrap: a socket that can be seen can be connected to.
        yield f"(allow network-outbound (remote unix-socket (subpath {_quote(str(place.path))})))"


def _rule(action: str, places: Iterable[Path]) -> str:
    return f"({action} {_filters('subpath', places)})"


def _filters(kind: str, places: Iterable[Path]) -> str:
    return " ".join(f"({kind} {_quote(str(place))})" for place in places)


def _names(services: Iterable[str]) -> str:
    return " ".join(f"(global-name {_quote(name)})" for name in services)


def _quote(text: str) -> str:
    if not text.isprintable():
        raise SandboxError(f"A path has a character that can't be granted: {text!r}")
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
