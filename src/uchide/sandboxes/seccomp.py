"""The system calls that a sandbox does not have, as a classic BPF program for `bwrap --seccomp`.

Namespaces do not cover everything: AF_VSOCK reaches the host of a virtual machine, kernel keyrings belong to users,
memfd files and message queues are memory that no process shows. Those calls fail as if the kernel lacked them.
"""

import errno
import platform
import struct

from uchide.errors import SandboxUnavailable

ARCHES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
X32_BIT = 0x40000000
DENIED = {
    # name: (x86_64, aarch64)
    "memfd_create": (319, 279),
    "memfd_secret": (447, 447),
    "msgget": (68, 186),
    "mq_open": (240, 180),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "keyctl": (250, 219),
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "userfaultfd": (323, 282),
    "io_uring_setup": (425, 425),
    "open_by_handle_at": (304, 265),
    "fanotify_init": (300, 262),
    "kexec_load": (246, 104),
    "quotactl": (179, 60),
    "mount": (165, 40),
    "fsopen": (430, 430),
    "move_mount": (429, 429),
    "open_tree": (428, 428),
    "pivot_root": (155, 41),
    "syslog": (103, 116),
}
SOCKET = (41, 198)
FAMILIES = (1, 2, 10, 16)
"""AF_UNIX, AF_INET, AF_INET6, AF_NETLINK: the ones that a network namespace contains."""

LOAD, EQUAL, ABOVE, RETURN = 0x20, 0x15, 0x35, 0x06
ALLOW, KILL = 0x7FFF0000, 0x80000000
AT_NUMBER, AT_ARCH, AT_FIRST_ARGUMENT = 0, 4, 16


def deny(code: int) -> int:
    """Return the BPF verdict that makes the call fail with `code`."""
    return 0x00050000 | code


def filter_program(machine: str | None = None) -> bytes:
    """Return the filter for `machine` (default: this one). Raises SandboxUnavailable on an unknown machine."""
    name = machine or platform.machine()
    if name not in ARCHES:
        raise SandboxUnavailable(
            f"the sandbox has no system call filter for {name} machines", hint=f"known: {', '.join(ARCHES)}"
        )
    column = list(ARCHES).index(name)
    lines: list[tuple[int, int, int, int]] = [
        (LOAD, 0, 0, AT_ARCH),
        (EQUAL, 1, 0, ARCHES[name]),
        (RETURN, 0, 0, KILL),
        (LOAD, 0, 0, AT_NUMBER),
    ]
    if name == "x86_64":
        lines += [(ABOVE, 0, 1, X32_BIT), (RETURN, 0, 0, deny(errno.ENOSYS))]
    for numbers in DENIED.values():
        lines += [(EQUAL, 0, 1, numbers[column]), (RETURN, 0, 0, deny(errno.ENOSYS))]
    lines += [(EQUAL, 0, len(FAMILIES) + 2, SOCKET[column]), (LOAD, 0, 0, AT_FIRST_ARGUMENT)]
    lines += [(EQUAL, len(FAMILIES) - index, 0, family) for index, family in enumerate(FAMILIES)]
    lines += [(RETURN, 0, 0, deny(errno.EAFNOSUPPORT)), (RETURN, 0, 0, ALLOW)]
    return b"".join(struct.pack("<HBBI", *line) for line in lines)
