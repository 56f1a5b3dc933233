"""Steps of work that are done once, and completely or not at all.

The stamp of a step holds its options, and the size and time of every input and output. A step whose stamp agrees with
the files is done. A changed option or input, and a missing or truncated output, make it run again. A stamp does not
hold the paths of folders, so they may be spelled differently or be moved.
"""

import fcntl
import glob
import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

from fairseq_plugins.errors import UserError
from fairseq_plugins.files.reading import parse_json
from fairseq_plugins.files.whole import content, remove, replacing

STAMPS = ".steps"  # the folder of stamps and locks, in the folder of the outputs


@dataclass
class Step:
    """A step of work.

    Attributes:
        folder: of the outputs. Its folder .steps has the stamp
        outputs: files or folders
        options: everything beside the inputs that the work depends on, for JSON
    """

    name: str
    folder: Path
    inputs: list[Path]
    outputs: list[Path]
    options: Any

    @property
    def stamp(self) -> Path:
        return self.folder / STAMPS / f"{self.name}.json"

    @property
    def lock(self) -> Path:
        return self.stamp.with_suffix(".lock")

    def locked(self, say: Callable[[str], object]) -> TextIO:
        """Wait until no other process does the step; see ``lock``."""
        return lock(self.lock, str(self.outputs[0]), say)

    def done(self) -> dict[str, Any] | None:
        """The content of the stamp if the step is done. Its "report" is that of the work."""
        found = self.read()
        if found and found == self._state(self._fingerprints(self.inputs)) | {"report": found.get("report")}:
            return found
        return None

    def read(self) -> dict[str, Any] | None:
        """The content of the stamp, if there is a sound one."""
        try:
            found = parse_json(self.stamp.read_text(encoding="utf-8"))
        except (FileNotFoundError, ValueError):
            return None
        return found if isinstance(found, dict) else None

    def run(self, work: Callable[..., Any], whole: bool = True) -> Any:
        """Do the work, and write the stamp. Returns the report of the work.

        Args:
            work: is called with temporary names for the outputs
            whole: False if work takes no arguments, since its command writes the outputs

        Raises:
            UserError: an input has changed meanwhile
            OSError: an output could not be written
        """
        before = {path: self._fingerprints([path]) for path in self.inputs}
        self.stamp.unlink(missing_ok=True)
        for output in self.outputs:  # of a process that was killed
            for left in output.parent.glob(f"{glob.escape(output.name)}.[0-9]*.partial"):
                remove(left)
        with replacing(*self.outputs if whole else []) as temporary:
            with self._unchanged(before):
                report = work(*temporary)
            for output, new in zip(self.outputs, temporary):
                if output.is_dir() or new.is_dir():  # which no renaming replaces
                    remove(output)
        self.write(report, sum(before.values(), []))
        return report

    def write(self, report: Any, inputs: list | None = None) -> None:
        """Write the stamp.

        Args:
            inputs: their fingerprints before the work
        """
        state = self._state(self._fingerprints(self.inputs) if inputs is None else inputs)
        with replacing(self.stamp) as (temporary,):
            temporary.write_text(json.dumps(state | {"report": report}, indent=1), encoding="utf-8")

    def remove_made(self) -> None:
        """Remove the files that the step made before, but for its outputs and for files that are no longer the same."""
        for made in (self.read() or {}).get("outputs", []):
            path = self.folder / made[0]
            if not any(path.is_relative_to(output) for output in self.outputs) and self._fingerprints([path]) == [made]:
                path.unlink()

    @contextmanager
    def _unchanged(self, before: dict[Path, list]) -> Iterator[None]:
        """Fail if an input changes in this context, also if the context fails: that may be because of the change."""
        try:
            yield
        finally:
            if changed := [path for path, earlier in before.items() if self._fingerprints([path]) != earlier]:
                raise UserError(
                    f"{changed[0]} changed while the step {self.name} read it, so the step is not done: give the same"
                    " command again when nothing writes to it any more."
                )

    def _state(self, inputs: list) -> dict[str, Any]:
        options = json.loads(json.dumps(self.options))
        return {"inputs": inputs, "outputs": self._fingerprints(self.outputs), "options": options}

    def _fingerprints(self, paths: Iterable[Path]) -> list[list]:
        """The name, the size and the time of each file. Names are relative to the folder of the outputs, or to the
        file's own folder."""
        found = []
        for path in (path.resolve() for path in paths):
            start = self.folder.resolve() if path.is_relative_to(self.folder.resolve()) else path.parent
            for file in sorted(content(path)):
                if file.is_file():
                    state = file.stat()
                    found.append([file.relative_to(start).as_posix(), state.st_size, state.st_mtime_ns])
        return found


def lock(path: Path, made: str, say: Callable[[str], object], wait: bool = True) -> TextIO:
    """Wait until no other process has the lock of this file. It is held until the returned file is closed, or until the
    process ends; processes that it has started do not hold it.

    Args:
        made: the result of the work, for messages
        wait: or else raise BlockingIOError if another process has the lock
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    file = open(path, "w")  # noqa: SIM115  (see above)
    try:
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        if not wait:
            file.close()
            raise
        say(f"{made} is being prepared by another process: waiting until it ends")
        fcntl.lockf(file, fcntl.LOCK_EX)
    except OSError as error:  # some network file systems have no locks
        say(f"{made} cannot be locked ({error.strerror}): start no second process that prepares it")
    return file
