"""Launcher that limits files and network, and then runs a command under these limits.

`confined` returns the command line. The launcher itself runs as a script in this interpreter::

    python confinement.py FOLDER PROGRAM ARGUMENTS...

Each limit survives the start of the program. The program may write below one folder only (Landlock,
Linux 5.13), has a loopback device as its only network (a network namespace), and has its home, its
cache and its temporary files in the folder. What the system does not offer is left out: `offered`
returns what holds here. The module uses the standard library only.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import os
import resource
import socket
import struct
import subprocess
import sys
from collections.abc import Callable
from typing import Any

# system calls of Landlock, the same number on all architectures
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_REFER, _TRUNCATE = 1 << 13, 1 << 14  # of Landlock's second and third version
_NEW_USER, _NEW_NETWORK = 0x10000000, 0x40000000  # of unshare
_FILE_BYTES = 2**31  # largest file that the program may write
_VARIABLES = (
    "HOME",
    "TMPDIR",
    "XDG_CACHE_HOME",
    "XDG_CONFIG_HOME",
    "XDG_DATA_HOME",
    "MPLCONFIGDIR",
    "NUMBA_CACHE_DIR",
    "IPYTHONDIR",
)
LIMITS = ("files", "network", "size of files")


_SYSTEM: Any = ctypes.CDLL(None, use_errno=True)


def confined(folder: str, command: list[str]) -> list[str]:
    """Return the command line that runs `command` under limits; it may write below
    `folder` only.
    """
    return [sys.executable, "-I", "-S", os.path.abspath(__file__), folder, *command]


@functools.cache
def offered() -> tuple[str, ...]:
    """Return the limits that this system enforces, among `LIMITS`, found by a trial in a child
    process.
    """
    done = subprocess.run(
        confined(os.getcwd(), []),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        check=False,
    )
    return tuple(name for name in LIMITS if name in done.stdout.splitlines())


def described() -> str:
    """Return one sentence on the limits that hold, and on those that this system does not offer."""
    effects = {
        "files": "no file is written outside of the working folder",
        "network": "the network is cut off",
        "size of files": "a file has at most 2 GiB",
    }
    has = offered()
    if not has:
        return "imports and calls run without limits on files and network"
    missing = ", ".join(name for name in LIMITS if name not in has)
    sentence = "; ".join(effects[name] for name in has)
    return f"{sentence} (this system does not limit: {missing})" if missing else sentence


def _call(number: int, *arguments: Any) -> int:
    """Return the result of a system call. Raise OSError if it fails."""
    found = int(_SYSTEM.syscall(ctypes.c_long(number), *arguments))
    if found < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return found


def _limit_files(folder: str) -> None:
    """Forbid writing outside of `folder` and the usual devices. Raise OSError if the system has no
    Landlock.
    """
    version = _call(_CREATE_RULESET, None, ctypes.c_size_t(0), ctypes.c_uint(1))
    # all access rights of Landlock's first version, but to execute, to read a file or a folder.
    rights = 0b1111111110010 | (_REFER if version >= 2 else 0) | (_TRUNCATE if version >= 3 else 0)
    ruleset = _call(
        _CREATE_RULESET, ctypes.byref(ctypes.c_uint64(rights)), ctypes.c_size_t(8), ctypes.c_uint(0)
    )
    for path in (
        folder,
        "/dev/shm",
        "/dev/null",
        "/dev/zero",
        "/dev/full",
        "/dev/tty",
        "/dev/ptmx",
        "/dev/pts",
    ):
        with contextlib.suppress(OSError):
            place = os.open(path, os.O_PATH | os.O_CLOEXEC)
            # a rule on a file, instead of a folder, may give fewer rights
            allowed = rights if os.path.isdir(path) else rights & (0b10 | _TRUNCATE)
            rule = ctypes.create_string_buffer(struct.pack("=Qi", allowed, place), 12)
            _call(_ADD_RULE, ctypes.c_int(ruleset), ctypes.c_int(1), rule, ctypes.c_uint(0))
            os.close(place)
    # PR_SET_NO_NEW_PRIVS
    if _SYSTEM.prctl(38, 1, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "prctl")
    _call(_RESTRICT_SELF, ctypes.c_int(ruleset), ctypes.c_uint(0))
    os.close(ruleset)


def _cut_network() -> None:
    """Enter a network namespace that has a loopback device only. Raise OSError if the system does
    not allow this.
    """
    user, group = os.getuid(), os.getgid()
    if _SYSTEM.unshare(_NEW_NETWORK):
        if _SYSTEM.unshare(_NEW_USER | _NEW_NETWORK):
            raise OSError(ctypes.get_errno(), "unshare")
        for name, text in (
            ("setgroups", "deny"),
            ("uid_map", f"{user} {user} 1"),
            ("gid_map", f"{group} {group} 1"),
        ):
            with open(f"/proc/self/{name}", "w", encoding="ascii") as file:
                file.write(text)
    # without a loopback device, libraries that talk to their own processes fail
    with contextlib.suppress(OSError):
        import fcntl

        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as device:
            fcntl.ioctl(device, 0x8914, struct.pack("16sH14x", b"lo", 1))


def main() -> None:
    """Set the limits that the system offers, and replace this process by the program; without a
    program, print the names of the limits.
    """
    folder, command = sys.argv[1], sys.argv[2:]
    os.environ.update(dict.fromkeys(_VARIABLES, folder), PYTHONDONTWRITEBYTECODE="1")
    size = (_FILE_BYTES, _FILE_BYTES)
    limits: dict[str, Callable[[], None]] = {
        "size of files": functools.partial(resource.setrlimit, resource.RLIMIT_FSIZE, size),
        "network": _cut_network,
        "files": functools.partial(_limit_files, folder),
    }
    for name, limit in limits.items():
        with contextlib.suppress(Exception):  # not offered here, which `offered` tells the user
            limit()
            if not command:  # a trial
                print(name, flush=True)
    if command:
        os.execv(command[0], command)


if __name__ == "__main__":
    main()
