"""Runs one command and leaves nothing of it behind. Started by `geode.tools.sandbox` as a program of its own.

It makes itself the reaper of its descendants (PR_SET_CHILD_SUBREAPER), so that even a process that left the session and
lost its parent comes back to it, counts them against a limit, and ends all of them when the command ends, when the
limit is passed, or when its standard input closes, which happens when geode closes it or dies. A program of its own,
because being a reaper is a property of a whole process and would get in the way of geode's other children.

The limit on processes is the kernel's own where it can be: a pids control group where one can be made (root), else
RLIMIT_NPROC (which does not bind root). Counting is what is left for root without control groups: it runs with
real-time priority there, since a fork bomb starves everything else.

Standard input: one line of JSON, then nothing until it is closed. Descriptor `status`: one JSON object at the end.
Imports the standard library only.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import resource
import select
import signal
import sys
import time
from typing import Any

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_TICK_MS = 20
_END_S = 5.0
_MANY = 512
_SLACK = 4
"""Processes of the sandbox itself."""


def main() -> None:
    request = json.loads(_line(0))
    prctl = _prctl()
    prctl(_PR_SET_CHILD_SUBREAPER, 1)
    _stay_responsive()
    group = PidsGroup.make(request["processes"] + _SLACK) if request["processes"] else None
    failure_r, failure_w = os.pipe()
    child = os.fork()
    if child == 0:
        _become(request, prctl, failure_w, group)
    os.close(failure_w)
    for descriptor in (1, 2):  # so that the readers see the end as soon as the last process is gone
        os.close(descriptor)
    failure = _all(failure_r).decode("utf-8", "replace")
    outcome = _watch(child, request["processes"] + _SLACK if request["processes"] else 0, group)
    outcome["left"] = _end_all(group)
    outcome["failure"] = failure
    os.write(request["status"], json.dumps(outcome).encode())


class PidsGroup:
    """A control group with a limit on tasks, made below this process's own."""

    def __init__(self, path: str) -> None:
        self.path = path

    @classmethod
    def make(cls, limit: int) -> PidsGroup | None:
        """None where there is no pids controller that this user may use."""
        for parent in _group_parents():
            _tidy(parent)
            path = f"{parent}/geode-{os.getpid()}-{time.monotonic_ns()}"
            try:
                os.mkdir(path)
            except OSError:
                continue
            group = cls(path)
            try:
                group._write("pids.max", str(limit))
            except OSError:
                group.remove()
                continue
            return group
        return None

    def join(self) -> None:
        self._write("cgroup.procs", "0")

    def hit(self) -> bool:
        """The limit has stopped a fork."""
        with contextlib.suppress(OSError, ValueError), open(f"{self.path}/pids.events") as file:
            return int(file.read().split()[1]) > 0
        return False

    def members(self) -> set[int]:
        with contextlib.suppress(OSError), open(f"{self.path}/cgroup.procs") as file:
            return set(map(int, file.read().split())) - {0, os.getpid()}
        return set()

    def remove(self) -> None:
        with contextlib.suppress(OSError):
            os.rmdir(self.path)

    def _write(self, name: str, text: str) -> None:
        with open(f"{self.path}/{name}", "w") as file:
            file.write(text)


def _tidy(parent: str) -> None:
    """Removes empty groups whose supervisor was killed before it could."""
    with contextlib.suppress(OSError):
        for name in os.listdir(parent):
            if name.startswith("geode-") and not os.path.exists(f"/proc/{name.split('-')[1]}"):
                with contextlib.suppress(OSError):
                    os.rmdir(f"{parent}/{name}")


def _group_parents() -> list[str]:
    found = []
    with contextlib.suppress(OSError), open("/proc/self/cgroup") as file:
        for line in file.read().splitlines():
            _, controllers, path = line.split(":", 2)
            if controllers == "pids":
                found.append(f"/sys/fs/cgroup/pids{path.rstrip('/')}")
            elif controllers == "":
                found.append(f"/sys/fs/cgroup{path.rstrip('/')}")
    return [parent for parent in found if os.access(f"{parent}/cgroup.procs", os.W_OK)]


def _stay_responsive() -> None:
    """A command that starts many processes must not starve the one that counts them. Children are not affected."""
    with contextlib.suppress(OSError, AttributeError):
        os.sched_setscheduler(0, os.SCHED_FIFO | os.SCHED_RESET_ON_FORK, os.sched_param(1))


def _become(request: dict[str, Any], prctl: Any, failure: int, group: PidsGroup | None) -> None:
    try:
        os.setsid()
        prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if group is not None:
            group.join()
        for name, value in request["limits"].items():
            _limit(getattr(resource, name), value)
        for number in (signal.SIGPIPE, signal.SIGINT):  # Python ignores or handles these
            signal.signal(number, signal.SIG_DFL)
        null = os.open(os.devnull, os.O_RDONLY)
        os.dup2(null, 0)
        os.chdir(request["cwd"])
        os.closerange(3, failure)
        os.closerange(failure + 1, 256)
        os.execv(request["argv"][0], request["argv"])
    except BaseException as error:
        os.write(failure, str(error).encode("utf-8", "replace")[:500])
    os._exit(127)


def _limit(kind: int, value: int) -> None:
    _, hard = resource.getrlimit(kind)
    if hard != resource.RLIM_INFINITY:
        value = min(value, hard)
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(kind, (value, value))


def _watch(child: int, processes: int, group: PidsGroup | None) -> dict[str, Any]:
    """Waits for the child's end, the end of standard input, or too many processes."""
    code: int | None = None
    poll = select.poll()
    poll.register(0, select.POLLIN | select.POLLHUP)
    with contextlib.suppress(OSError, AttributeError):
        poll.register(os.pidfd_open(child), select.POLLIN)
    cause = "exit"
    while code is None:
        ready = {fd for fd, _ in poll.poll(_TICK_MS)}
        code = _reap(child)
        if code is not None:
            break
        if 0 in ready:
            cause = "closed"
            break
        if processes and (group.hit() if group is not None else _count(processes) > processes):
            cause = "processes"
            break
    # what is still there besides the command itself ran on in the background
    background = len(_descendants(_MANY)) if cause == "exit" else 0
    return {"code": code, "cause": cause, "background": background}


def _reap(child: int) -> int | None:
    """The child's exit code once it has ended. A bounded number at a time: orphans may come faster than they go."""
    code = None
    with contextlib.suppress(ChildProcessError):
        for _ in range(_MANY):
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                break
            if pid == child:
                code = os.waitstatus_to_exitcode(status)
    return code


def _end_all(group: PidsGroup | None) -> int:
    """Ends every descendant: each is stopped when it is found, so that it starts no other, then killed. How many are
    left (processes of another user, started by a set-user-id program).
    """
    end = time.monotonic() + _END_S
    while time.monotonic() < end:
        stopped: set[int] = set()
        while time.monotonic() < end:
            fresh = _descendants(_MANY, stop=stopped)
            if group is not None:
                fresh |= group.members()
            fresh -= stopped
            if not fresh:
                break
            for pid in fresh:
                _kill(pid, signal.SIGSTOP)
            stopped |= fresh
        for pid in stopped:
            _kill(pid, signal.SIGKILL)
        try:
            for _ in range(10 * _MANY):
                if not os.waitpid(-1, os.WNOHANG)[0]:
                    break
        except ChildProcessError:
            if group is None or not group.members():
                break
        time.sleep(0.002)
    if group is not None:
        group.remove()
    return len(_descendants(_MANY))


def _kill(pid: int, number: int) -> None:
    with contextlib.suppress(OSError):
        os.kill(pid, number)


def _descendants(enough: int, stop: set[int] | None = None) -> set[int]:
    """Processes below this one, at most about `enough` of them that are not in `stop` already."""
    found: set[int] = set()
    fresh = 0
    open_ends = [os.getpid()]
    while open_ends and fresh <= enough:
        for child in _children(open_ends.pop()):
            if child not in found:
                found.add(child)
                open_ends.append(child)
                if stop is None or child not in stop:
                    fresh += 1
                    if stop is not None:
                        _kill(child, signal.SIGSTOP)
    return found


def _count(enough: int) -> int:
    """Processes and threads below this one; counting stops once there are more than enough."""
    total = 0
    for pid in _descendants(enough):
        with contextlib.suppress(OSError):
            total += len(os.listdir(f"/proc/{pid}/task"))
        if total > enough:
            break
    return total


def _children(pid: int) -> list[int]:
    found: list[int] = []
    try:
        threads = os.listdir(f"/proc/{pid}/task")
    except OSError:
        return found
    for thread in threads:
        with contextlib.suppress(OSError), open(f"/proc/{pid}/task/{thread}/children", "rb") as file:
            found += map(int, file.read().split())
    return found


def _prctl() -> Any:
    function = getattr(ctypes.CDLL(None), "prctl", None)
    return function if function is not None else lambda *_: -1


def _line(descriptor: int) -> bytes:
    data = b""
    while not data.endswith(b"\n"):
        part = os.read(descriptor, 1 << 16)
        if not part:
            sys.exit(1)
        data += part
    return data


def _all(descriptor: int) -> bytes:
    parts = []
    while part := os.read(descriptor, 4096):
        parts.append(part)
    os.close(descriptor)
    return b"".join(parts)


if __name__ == "__main__":
    main()
