"""Runs a command under the system call filter of a systemd unit, without systemd running: UNIT COMMAND [ARGUMENT...]

As systemd does it, for an allow list: what is not in it kills the process, and calls that systemd does not know itself
are answered with ENOSYS. Needs systemd-analyze, which knows what is in each set, and libseccomp, which systemd uses.
"""

import ctypes
import os
import subprocess
import sys

KILL_PROCESS = 0x80000000
ALLOW = 0x7FFF0000
ENOSYS = 0x00050000 | 38


def members(name: str) -> set[str]:
    """The system calls of a set, those of the sets in it included."""
    if not name.startswith("@"):
        return {name}
    command = ["systemd-analyze", "--no-pager", "syscall-filter", name]
    lines = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()[1:]
    names = [line.strip() for line in lines if line.strip() and not line.strip().startswith("#")]
    return set().union(*(members(inner) for inner in names))


def allowed_by(unit: str) -> set[str]:
    with open(unit, encoding="utf-8") as file:
        lists = [line.split("=", 1)[1].strip() for line in file if line.startswith("SystemCallFilter=")]
    if not lists or lists[0].startswith("~"):
        sys.exit(f"{unit} has no SystemCallFilter that is an allow list")
    allowed = members("@default")
    for names in lists:
        listed = set().union(*(members(name) for name in names.removeprefix("~").split()))
        allowed = allowed - listed if names.startswith("~") else allowed | listed
    # SQLite gives its files to their folder's owner when it runs as root, which the unit does not.
    return allowed | {"fchown"} if os.geteuid() == 0 else allowed


def confine(allowed: set[str], known: set[str]) -> None:
    seccomp = ctypes.CDLL("libseccomp.so.2")
    seccomp.seccomp_init.restype = ctypes.c_void_p
    context = ctypes.c_void_p(seccomp.seccomp_init(ctypes.c_uint32(ENOSYS)))
    for name in known | allowed:
        number = seccomp.seccomp_syscall_resolve_name(name.encode())
        # Negative: not on this architecture.
        if number < 0:
            continue
        action = ctypes.c_uint32(ALLOW if name in allowed else KILL_PROCESS)
        check(seccomp.seccomp_rule_add(context, action, ctypes.c_int(number), ctypes.c_uint(0)))
    check(seccomp.seccomp_load(context))


def check(result: int) -> None:
    if result < 0:
        sys.exit(f"libseccomp: {os.strerror(-result)}")


_, unit, *command = sys.argv
confine(allowed_by(unit), members("@known"))
os.execvp(command[0], command)
