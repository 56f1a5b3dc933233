"""Run a command where its output cannot be written, in a fork of this process, which has imported everything.

    done = run("full", folder, "python", "-m", "fairseq_plugins.tools.report", "--out", folder / "report.html")

A quota works everywhere. The other limits need root, or a system that lets users have file systems of their own.
"""

import contextlib
import ctypes
import importlib
import logging
import os
import resource
import runpy
import signal
import subprocess
import sys
import warnings
from pathlib import Path

import fairseq.models  # noqa: F401  (it takes the time, and needs to write)
import fairseq.tasks  # noqa: F401
import torch._dynamo  # noqa: F401  (every optimiser of torch imports it)
from warm import Done

from fairseq_plugins.compat.data import stop_readers

NEW_MOUNTS, NEW_USER = 0x00020000, 0x10000000  # CLONE_NEWNS and CLONE_NEWUSER of <sched.h>


def quota(folder: Path, kilobytes: int = 0) -> None:
    """No file may grow beyond this size, wherever it is."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (1024 * kilobytes,) * 2)


def read_only(folder: Path) -> None:
    """The folder lies on a file system that cannot be written."""
    own_mounts()
    mount("--bind", folder, folder)
    mount("-o", "remount,ro,bind", folder)


def full(folder: Path, kilobytes: int = 0) -> None:
    """The folder lies on a disk with room for so much."""
    own_mounts()
    mount("-t", "tmpfs", "-o", f"size={kilobytes + 4}k", "tmpfs", folder)
    (folder / "rest").write_bytes(bytes(4096))


LIMITS = {"quota": quota, "read-only": read_only, "full": full}


def own_mounts() -> None:
    """Mounts from now on are seen by this process and its children only."""
    user, group = os.getuid(), os.getgid()
    if ctypes.CDLL(None, use_errno=True).unshare(NEW_MOUNTS | (NEW_USER if user else 0)):
        raise OSError(ctypes.get_errno(), "no file systems of one's own")
    if user:
        for name, text in {"setgroups": "deny", "uid_map": f"0 {user} 1", "gid_map": f"0 {group} 1"}.items():
            Path("/proc/self", name).write_text(text)
    mount("--make-rprivate", "/")


def mount(*words) -> None:
    subprocess.run(["mount", *words], check=True, stderr=subprocess.DEVNULL)


def allowed(limit: str, folder: Path) -> bool:
    """Does this limit work on this machine?"""
    return run(limit, folder, "true").returncode == 0


def run(limit: str | None, folder: Path, *command, before=lambda: None, **size) -> Done:
    """Run a command whose folder for outputs this is.

    Args:
        limit: one of LIMITS, or None
        before: is called in the fork before the command
    """
    output, end = os.pipe()
    child = os.fork()
    if child == 0:
        status = 99
        try:
            os.dup2(end, 1), os.dup2(end, 2)
            sys.stdout, sys.stderr = (open(number, "w", closefd=False) for number in (1, 2))  # noqa: SIM115
            sys.stdin = open(os.devnull)  # noqa: SIM115
            signal.signal(signal.SIGINT, signal.default_int_handler)  # as Python begins; pytest-xdist changes it
            if limit:
                LIMITS[limit](folder, **size)
            before()
            status = ended(*map(str, command))
        finally:
            os._exit(status)
    os.close(end)
    with open(output, errors="replace") as said:
        text = said.read()
    return Done(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), text)


def ended(*command: str) -> int:
    """Run the command in this process, and end as Python ends. Returns the exit status."""
    status = 0
    try:
        become(*command)
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else int(end.code is not None)
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
    except KeyboardInterrupt as error:
        sys.excepthook(type(error), error, error.__traceback__)
        status = 128 + signal.SIGINT
    except BaseException as error:
        sys.excepthook(type(error), error, error.__traceback__)
        status = 1
    stop_readers()  # a fork does not call functions that are registered for Python's end
    with contextlib.suppress(AttributeError, OSError, ValueError):
        sys.stdout.flush()
    sys.stderr.flush()
    return status


def become(*command: str) -> None:
    warnings.simplefilter("ignore")
    logging.disable(logging.NOTSET)  # a test may have called a tool, which disables it for its process
    if command[0].startswith("fairseq-"):
        logging.root.handlers.clear()
        logging.basicConfig(level=logging.INFO, stream=sys.stdout)
        sys.argv = [*command]
        module = importlib.import_module("fairseq_cli." + command[0].removeprefix("fairseq-").replace("-", "_"))
        sys.exit(module.cli_main())
    if command[:2] == ("python", "-m"):
        sys.argv = [*command[2:]]
        runpy.run_module(command[2], run_name="__main__", alter_sys=True)
    elif command[0] == "python":
        sys.argv = [*command[1:]]
        sys.path.insert(0, os.path.dirname(os.path.abspath(command[1])))
        runpy.run_path(command[1], run_name="__main__")
