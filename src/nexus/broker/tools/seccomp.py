"""The system calls that a sandbox refuses, compiled by libseccomp into what the kernel loads.

Mounts and namespaces are the boundary. This closes what they leave open: keys of the user's session,
sockets that no namespace confines, memory that is charged to no process, and rarely used parts of the
kernel in which most ways out of a sandbox were found.
"""

import ctypes
import errno
import os
from functools import cache

from nexus.errors import SandboxError

_ALLOW = 0x7FFF0000
_REFUSE = 0x00050000 | errno.EPERM
_EQUAL, _GREATER = 4, 6

_REFUSED = (
    # The kernel's keyrings: a session's keys are inherited through every namespace.
    *("add_key", "keyctl", "request_key"),
    # Memory that is in no process, so that the watch could not see it.
    *("memfd_create", "memfd_secret", "shmget"),
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


class _Comparison(ctypes.Structure):
    _fields_ = (
        ("argument", ctypes.c_uint),
        ("operator", ctypes.c_int),
        ("value", ctypes.c_uint64),
        ("second", ctypes.c_uint64),
    )


@cache
def program() -> bytes:
    """The filter for this machine's kind of processor."""
    library = _library()
    context = library.seccomp_init(_ALLOW)
    try:
        for name in _REFUSED:
            _refuse(library, context, name)
        for family in range(max(_KEPT_FAMILIES)):
            if family not in _KEPT_FAMILIES:
                _refuse(library, context, "socket", _Comparison(0, _EQUAL, family))
        _refuse(library, context, "socket", _Comparison(0, _GREATER, max(_KEPT_FAMILIES)))
        return _exported(library, context)
    finally:
        library.seccomp_release(context)


def _refuse(library: ctypes.CDLL, context: int, name: str, *when: _Comparison) -> None:
    number = library.seccomp_syscall_resolve_name(name.encode())
    if number < 0:
        return  # this kind of processor, or this version of the library, has no such call
    comparisons = (_Comparison * len(when))(*when)
    failed = library.seccomp_rule_add_array(context, _REFUSE, number, len(when), comparisons)
    if failed:
        raise SandboxError(f"libseccomp cannot refuse the system call {name}: {os.strerror(-failed)}")


def _exported(library: ctypes.CDLL, context: int) -> bytes:
    descriptor = os.memfd_create("filter")
    try:
        failed = library.seccomp_export_bpf(context, descriptor)
        if failed:
            raise SandboxError(f"libseccomp cannot make a filter: {os.strerror(-failed)}")
        return os.pread(descriptor, os.fstat(descriptor).st_size, 0)
    finally:
        os.close(descriptor)


def _library() -> ctypes.CDLL:
    try:
        library = ctypes.CDLL("libseccomp.so.2")
    except OSError as error:
        raise SandboxError(
            "Tools run in a sandbox, and libseccomp is not installed",
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
