"""The one process of Uchide inside a sandbox: process 1 of its own process namespace.

It reads requests from its standard input and answers on its standard output, one at a time. A message is two
big-endian unsigned 64-bit lengths, that many bytes of JSON and that many bytes of data. Being process 1 nothing inside
can kill it, being undumpable nothing inside can look into it, and when it ends the kernel ends everything else.
Run by the interpreter that runs Uchide, with `-I -S`; standard library only.
"""

import ctypes
import errno
import fcntl
import json
import os
import resource
import select
import signal
import stat
import struct
import sys
import time

CHUNK = 1 << 16
FRAME = struct.Struct(">QQ")
OUTPUT_MAX = 1 << 30  # a command that prints more than this is killed
SOCKET_KB = 208  # what one socket may hold in kernel memory that no process shows
INODE_KB = 1
FAST_POLL_S, SLOW_POLL_S = 0.02, 0.1
TICKS = os.sysconf("SC_CLK_TCK")
PAGE_KB = os.sysconf("SC_PAGE_SIZE") // 1024


class Output:
    """First and last bytes of a stream; the middle is only counted."""

    def __init__(self, limit):
        self.head_max = limit - limit // 2
        self.tail_max = limit // 2
        self.head = bytearray()
        self.tail = bytearray()
        self.total = 0

    def add(self, data):
        self.total += len(data)
        room = self.head_max - len(self.head)
        if room > 0:
            self.head += data[:room]
            data = data[room:]
        if data:
            self.tail += data
            if len(self.tail) > 2 * self.tail_max + CHUNK:
                self._trim()

    def _trim(self):
        del self.tail[: max(0, len(self.tail) - self.tail_max)]

    def value(self):
        """Return the bytes kept and how many were left out."""
        self._trim()
        kept = bytes(self.head) + bytes(self.tail)
        return kept, self.total - len(kept)


class Usage:
    """What everything but this process uses now."""

    def __init__(self, disks):
        self.disks = disks

    @staticmethod
    def pids():
        return [int(name) for name in os.listdir("/proc") if name.isdigit() and name != "1"]

    def cpu_s(self):
        """CPU seconds of this process, of all it has reaped and of all that live."""
        ticks = 0
        for pid in self.pids() if anyone_alive() else ():
            ticks += sum(int(value) for value in stat_fields(pid)[11:15])
        own, reaped = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
        return ticks / TICKS + own.ru_utime + own.ru_stime + reaped.ru_utime + reaped.ru_stime

    def hidden_kb(self):
        """Memory that belongs to no process: files, sockets, System V segments."""
        total = 0
        for disk in self.disks:
            info = os.statvfs(disk)
            total += (info.f_blocks - info.f_bfree) * info.f_frsize // 1024
            total += (info.f_files - info.f_ffree) * INODE_KB
        sockets = read_text("/proc/net/sockstat").split()
        total += SOCKET_KB * int(sockets[2]) if len(sockets) > 2 else 0
        for line in read_text("/proc/sysvipc/shm").splitlines()[1:]:
            total += sum(int(value) for value in line.split()[-2:]) // 1024
        return total

    def resident(self, pids):
        """Return resident KiB and the number of threads of `pids` together."""
        kb = threads = 0
        for pid in pids:
            fields = stat_fields(pid)
            if fields:
                kb += int(fields[21]) * PAGE_KB
                threads += int(fields[17])
        return kb, threads

    def over(self, limits):
        """Name the limit that is exceeded now, or return an empty text."""
        pids = self.pids()
        rough, threads = self.resident(pids)
        if len(pids) > limits["processes"] or threads > limits["threads"]:
            return "processes"
        limit_kb = limits["memory_mb"] * 1024
        hidden = self.hidden_kb()
        if hidden + rough <= limit_kb:
            return ""
        return "memory" if hidden + sum(private_kb(pid) for pid in pids) > limit_kb else ""


def read_text(path):
    """Return the content, or nothing when the process it is about has gone."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except (OSError, ValueError):
        return ""


def stat_fields(pid):
    """Fields 3 and on of /proc/PID/stat; nothing for a process that has gone."""
    return read_text("/proc/%d/stat" % pid).rpartition(")")[2].split()


def private_kb(pid):
    """Proportional anonymous and shared memory; resident memory where the process hides it."""
    values = {}
    for line in read_text("/proc/%d/smaps_rollup" % pid).splitlines()[1:]:
        name, _, rest = line.partition(":")
        values[name] = int(rest.split()[0])
    if "Pss_Anon" in values:
        return values["Pss_Anon"] + values["Pss_Shmem"]
    if "Pss" in values:
        return values["Pss"]
    fields = read_text("/proc/%d/statm" % pid).split()
    return int(fields[1]) * PAGE_KB if fields else 0


def anyone_alive():
    try:
        os.kill(-1, 0)
    except ProcessLookupError:
        return False
    return True


class Guest:
    """The server. One request at a time; `background` are output pipes of processes that outlived their command."""

    def __init__(self, requests, replies, settings):
        self.requests = requests
        self.replies = replies
        self.limits = settings["limits"]
        self.usage = Usage(settings["disks"])
        self.background = set()
        self.wake_in, wake_out = os.pipe()
        for fd in (self.wake_in, wake_out):
            os.set_blocking(fd, False)
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # for process 1 that means: ignored
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(wake_out, warn_on_full_buffer=False)

    # --- messages ---
    def serve(self, fill):
        """Fill the tree by the command `fill`, say so, then answer requests for ever."""
        self.reply(*self.run(fill, b"", fill["fd"]) if fill else ({"returncode": 0}, b""))
        operations = {"run": self.run, "write": self.write, "read": self.read, "cpu": self.cpu}
        while True:
            self.idle()
            head, data = self.receive()
            try:
                answer, payload = operations[head["op"]](head, data)
            except OSError as error:
                answer = {"errno": error.errno, "error": "%s: %s" % (error.strerror or error, error.filename)}
                payload = b""
            self.reply(answer, payload)

    def exactly(self, size):
        data = bytearray()
        while len(data) < size:
            chunk = os.read(self.requests, min(size - len(data), 1 << 20))
            if not chunk:
                os._exit(0)  # the host has gone: the kernel now ends everything else
            data += chunk
        return bytes(data)

    def receive(self):
        head, data = FRAME.unpack(self.exactly(FRAME.size))
        return json.loads(self.exactly(head).decode("utf-8")), self.exactly(data)

    def reply(self, head, data=b""):
        text = json.dumps(head).encode("utf-8")
        view = memoryview(FRAME.pack(len(text), len(data)) + text + data)
        while view:
            view = view[os.write(self.replies, view) :]

    def idle(self):
        """Wait for the next request; processes left behind are still reaped, read from and watched."""
        while True:
            ready = self.wait([self.requests], [], SLOW_POLL_S if anyone_alive() else None)[0]
            self.reap(None)
            if self.requests in ready:
                return
            if self.usage.over(self.limits):
                self.kill_all()

    def wait(self, reading, writing, timeout):
        """select() that also wakes for dead children and throws away the output of background processes."""
        poller = select.poll()
        poller.register(self.requests, 0)
        for fd in [self.wake_in, *reading, *self.background]:
            poller.register(fd, select.POLLIN)
        for fd in writing:
            poller.register(fd, select.POLLOUT)
        found = poller.poll(None if timeout is None else max(0, timeout) * 1000)
        if (self.requests, select.POLLHUP) in found:
            os._exit(0)
        events = [fd for fd, _ in found]
        if self.wake_in in events:
            drain(self.wake_in, None, CHUNK)
        for fd in self.background.intersection(events):
            if drain(fd, None, CHUNK):
                os.close(fd)
                self.background.discard(fd)
        return [fd for fd in reading if fd in events], [fd for fd in writing if fd in events]

    # --- processes ---
    def reap(self, wanted):
        """Reap every dead child; return the wait status of `wanted` if it was one of them."""
        found = None
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return found
            if pid == 0:
                return found
            if pid == wanted:
                found = status

    def kill_all(self):
        """Kill every process but this one and wait until none is left."""
        deadline = time.monotonic() + 20
        while anyone_alive():
            try:
                os.kill(-1, signal.SIGKILL)
            except ProcessLookupError:
                pass
            self.reap(None)
            if time.monotonic() > deadline:
                os._exit(70)  # unkillable processes: give the whole sandbox up
            time.sleep(0.001)
        self.reap(None)
        for fd in self.background:
            os.close(fd)
        self.background.clear()

    def start(self, head, has_input, in_read):
        """Fork and execute; return pid, the pipe with its output, the pipe to its input or None, and the failure."""
        out_read, out_write = os.pipe()
        fail_read, fail_write = os.pipe()
        in_write = None
        if has_input:
            in_read, in_write = os.pipe()
        elif in_read is None:
            in_read = os.open("/dev/null", os.O_RDONLY)
        pid = os.fork()
        if pid == 0:
            become(head, self.limits, in_read, out_write, fail_write)
        for fd in (out_write, fail_write, in_read):
            os.close(fd)
        failure = os.read(fail_read, 4096).decode("utf-8")
        os.close(fail_read)
        for fd in (out_read, in_write):
            if fd is not None:
                os.set_blocking(fd, False)
        return pid, out_read, in_write, failure

    def run(self, head, data, in_read=None):
        """Run one command to its end; its input is `data` or what `in_read` gives."""
        cpu_before, started = self.usage.cpu_s(), time.monotonic()
        output = Output(head["output_limit"])
        pid, out_fd, in_fd, failure = self.start(head, bool(data), in_read)
        if failure:
            output.add(failure.encode("utf-8"))
        status, killed = self.follow(pid, out_fd, in_fd, data, output, started + head["timeout_s"])
        kept, omitted = output.value()
        answer = {
            "returncode": None if killed else exit_code(status),
            "killed": killed,
            "omitted": omitted,
            "wall_s": time.monotonic() - started,
            "cpu_s": max(0.0, self.usage.cpu_s() - cpu_before),
        }
        return answer, kept

    def follow(self, pid, out_fd, in_fd, data, output, deadline):
        """Move bytes and watch limits until the command ends or is killed; return wait status and why killed."""
        view, poll_s, next_poll = memoryview(data), FAST_POLL_S, time.monotonic() + FAST_POLL_S
        status, killed, ended = None, "", False
        while status is None and not killed:
            reading = [] if ended else [out_fd]
            timeout = max(0.0, min(next_poll, deadline) - time.monotonic())
            ready, writable = self.wait(reading, [] if in_fd is None else [in_fd], timeout)
            if ready:
                ended = drain(out_fd, output, 1 << 20)
            if writable:
                view = feed(in_fd, view)
                if not view:
                    os.close(in_fd)
                    in_fd = None
            status = self.reap(pid)
            now = time.monotonic()
            if now >= deadline:
                killed = "timeout"
            elif output.total > OUTPUT_MAX:
                killed = "output"
            elif now >= next_poll:
                killed = self.usage.over(self.limits)
                poll_s = min(SLOW_POLL_S, poll_s * 1.5)
                next_poll = time.monotonic() + poll_s
        if in_fd is not None:
            os.close(in_fd)
        if status is not None:
            killed = ""
        if killed:
            self.kill_all()
        if ended or drain(out_fd, output, 1 << 20) or killed:
            os.close(out_fd)
        else:
            self.background.add(out_fd)
        return status, killed

    # --- files ---
    def write(self, head, data):
        """Write beside the place and rename: no link or pipe put there by the agent is followed."""
        path = head["path"]
        os.makedirs(os.path.dirname(path), exist_ok=True)
        fresh = "%s.%d.uchide" % (path, time.monotonic_ns())
        fd = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, head["mode"])
        try:
            view = memoryview(data)
            while view:
                view = view[os.write(fd, view) :]
            os.fchmod(fd, head["mode"])
            os.rename(fresh, path)
        except OSError:
            os.unlink(fresh)
            raise
        finally:
            os.close(fd)
        return {}, b""

    def read(self, head, _data):
        fd = os.open(head["path"], os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY)
        try:
            if not stat.S_ISREG(os.fstat(fd).st_mode):
                raise OSError(errno.EINVAL, "not a regular file", head["path"])
            parts, left = [], head["limit"] + 1
            while left:
                chunk = os.read(fd, min(left, 1 << 20))
                if not chunk:
                    break
                parts.append(chunk)
                left -= len(chunk)
            if not left:
                raise OSError(errno.EFBIG, "larger than %d bytes" % head["limit"], head["path"])
            return {}, b"".join(parts)
        finally:
            os.close(fd)

    def cpu(self, _head, _data):
        return {"seconds": self.usage.cpu_s()}, b""


def drain(fd, output, most):
    """Read what is there, at most about `most` bytes; return True at the end of the stream."""
    while most > 0:
        try:
            data = os.read(fd, CHUNK)
        except BlockingIOError:
            return False
        if not data:
            return True
        if output is not None:
            output.add(data)
        most -= len(data)
    return False


def feed(fd, view):
    """Write what fits; return the rest, nothing when nobody reads any more."""
    try:
        return view[os.write(fd, view[:CHUNK]) :]
    except BlockingIOError:
        return view
    except BrokenPipeError:
        return view[:0]


def exit_code(status):
    """A shell's convention turned back: minus the signal when a signal ended it."""
    return -os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)


def become(head, limits, in_fd, out_fd, fail_fd):
    """In the forked child: turn into the command, or report through `fail_fd` why that is impossible."""
    name = head["cwd"]
    try:
        os.setsid()
        for source, target in ((in_fd, 0), (out_fd, 1), (out_fd, 2)):
            os.dup2(source, target)
        for number, value in limits["rlimits"]:
            hard = resource.getrlimit(number)[1]
            value = value if hard == resource.RLIM_INFINITY else min(value, hard)
            resource.setrlimit(number, (value, value))
        for number in (signal.SIGPIPE, signal.SIGXFSZ):
            signal.signal(number, signal.SIG_DFL)
        os.chdir(head["cwd"])
        name = head["argv"][0]
        os.execvpe(head["argv"][0], head["argv"], head["env"])
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        os.write(fail_fd, ("%s: %s\n" % (name, reason)).encode("utf-8", "replace")[:4000])
    finally:
        os._exit(127)


def main():
    settings = json.loads(sys.argv[1])
    with open("/proc/self/oom_score_adj", "w") as file:
        file.write("1000")
    if ctypes.CDLL(None).prctl(4, 0, 0, 0, 0) != 0:  # PR_SET_DUMPABLE
        sys.exit("prctl(PR_SET_DUMPABLE) failed")
    requests = fcntl.fcntl(0, fcntl.F_DUPFD_CLOEXEC, 100)
    replies = fcntl.fcntl(1, fcntl.F_DUPFD_CLOEXEC, 100)
    kept = {requests, replies, settings["fill"]["fd"] if settings["fill"] else -1}
    for fd in [int(name) for name in os.listdir("/proc/self/fd")]:
        if fd > 2 and fd not in kept:
            try:
                os.close(fd)
            except OSError:  # the folder's own, closed since
                pass
    null = os.open("/dev/null", os.O_RDWR)
    os.dup2(null, 0)
    os.dup2(null, 1)
    os.umask(0o022)
    Guest(requests, replies, settings).serve(settings["fill"])


if __name__ == "__main__":
    main()
