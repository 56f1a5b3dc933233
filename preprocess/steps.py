"""Steps of a preparation: each is done once and never half.

A step writes under temporary names. Only when it is finished are these renamed and is a stamp written, which holds the
step's options and the size and time of every file it read and wrote. The same command called again goes on behind the
last stamp; another option, a changed input, or an output that is missing or cut makes its step run again.
"""

import argparse
import fcntl
import json
import os
import shutil
import sys
import time
from pathlib import Path

from numeric import whole


class InputError(ValueError):
    """What is wrong with the user's files or options, in one sentence that names them and the way out."""


class Steps:
    def __init__(self, out: Path):
        self.out = out
        self.stamps = out / ".steps"
        self.stamps.mkdir(parents=True, exist_ok=True)
        self.lock = open(self.stamps / "lock", "w")
        try:
            # lockf, not flock: the system frees it with this process, whatever children outlive it
            fcntl.lockf(self.lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            # two recipes started side by side share their data: the second finds every step done
            print(f"--out {out} is being prepared by another process: waiting for its end", flush=True)
            fcntl.lockf(self.lock, fcntl.LOCK_EX)
        except OSError as error:  # some network file systems know no locks
            print(f"--out {out} cannot be locked ({error.strerror}): start no second preparation into it", flush=True)

    def run(self, name, inputs, outputs, options, work) -> None:
        """Do ``work(*temporary_outputs)``, which returns one line of report, unless it is done already.

        ``outputs`` are files or folders below ``out``; ``options`` is what else ``work`` depends on.
        """
        stamp = self.stamps / f"{name}.json"
        options = json.loads(json.dumps(options))
        done = _read(stamp)
        if done and done == dict(_state(inputs, outputs), options=options, report=done.get("report")):
            print(f"{name}: {done['report']} (done before)", flush=True)
            return
        stamp.unlink(missing_ok=True)
        started = time.monotonic()
        partial = [path.with_name(path.name + ".partial") for path in outputs]
        for path in partial:
            path.parent.mkdir(parents=True, exist_ok=True)
            _remove(path)
        report = work(*partial)
        for path, temporary in zip(outputs, partial):
            _remove(path)
            os.replace(temporary, path)
        write_text(stamp, json.dumps(dict(_state(inputs, outputs), options=options, report=report), indent=1))
        print(f"{name}: {report} ({time.monotonic() - started:.1f} s)", flush=True)


def write_text(path: Path, text: str) -> None:
    partial = path.with_name(path.name + ".partial")
    partial.write_text(text, encoding="utf-8")
    os.replace(partial, path)


def add_workers(parser: argparse.ArgumentParser) -> None:
    """--workers, for scripts with steps that run in several processes."""
    parser.add_argument(
        "--workers", type=whole(1), metavar="N", default=min(8, os.cpu_count()), help="processes (%(default)s)"
    )


def command_line(main) -> None:
    """Run a script's ``main``; what the user can mend is said in one sentence on stderr, with exit status 1."""
    try:
        main()
    except InputError as error:
        sys.exit(f"{Path(sys.argv[0]).name}: error: {error}")
    except OSError as error:
        sys.exit(f"{Path(sys.argv[0]).name}: error: {error.filename}: {error.strerror}")
    except KeyboardInterrupt:
        sys.exit(f"{Path(sys.argv[0]).name}: interrupted; the same command goes on where it stopped")


def _state(inputs, outputs) -> dict:
    return {"inputs": _fingerprints(inputs), "outputs": _fingerprints(outputs)}


def _fingerprints(paths) -> dict:
    files = [
        file for path in paths for file in (sorted(path.rglob("*")) if path.is_dir() else [path]) if file.is_file()
    ]
    return {str(file): [file.stat().st_size, file.stat().st_mtime_ns] for file in files}


def _read(stamp: Path):
    try:
        return json.loads(stamp.read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):
        return None


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
