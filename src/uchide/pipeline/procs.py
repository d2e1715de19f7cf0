"""Processes that end with the one that started them, and the way they are stopped."""

import ctypes
import os
import signal

_PR_SET_PDEATHSIG = 1


def die_with_parent(parent: int | None = None) -> None:
    """Have the kernel kill this process (SIGKILL) when its parent dies, in whatever way.

    `parent` is the expected parent's pid: when it is gone already, this process ends at once.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0) != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    if parent is not None and os.getppid() != parent:
        os.kill(os.getpid(), signal.SIGKILL)


def signal_group(pid: int, number: signal.Signals) -> None:
    """Signal a process group that this process started, if it is still there."""
    try:
        os.killpg(pid, number)
    except ProcessLookupError:
        return
