"""The system calls that a sandbox refuses, compiled by libseccomp into what the kernel loads.

Mounts and namespaces are the boundary. This closes what they leave open: keys of the user's session,
sockets that no namespace confines, memory that is charged to no process, setuid programs that other
users of the host could run, and rarely used parts of the kernel in which most ways out of a sandbox were
found.
"""

import ctypes
import errno
import os
import stat
from collections.abc import Iterator
from functools import cache

from nexus.errors import SandboxError

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


class _Comparison(ctypes.Structure):
    _fields_ = (
        ("argument", ctypes.c_uint),
        ("operator", ctypes.c_int),
        ("value", ctypes.c_uint64),
        ("second", ctypes.c_uint64),
    )


@cache
def compile_filter() -> bytes:
    """The filter for this machine's kind of processor."""
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
