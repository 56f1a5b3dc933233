"""Signs of life of a long command: after ten silent seconds it says how far it is.

On a terminal the state of the work is one line that replaces itself. Elsewhere, as in a file, it is a line of its own
every ten seconds.
"""

import shutil
import sys
import threading
import time

SILENCE = 10  # seconds
LOCK = threading.Lock()


class Display:
    """Shows the lines of some work, and between them its state, inside the `with` block.

    Args:
        work: an object whose ``state(now)`` says how far it is; ``now`` is of ``time.monotonic``
        stream: stderr, as it is when the work begins
        pause: seconds of silence before the state is shown on a terminal
    """

    def __init__(self, work, stream=None, pause: float = 1):
        self.work, self.stream = work, stream or sys.stderr
        self.terminal = self.stream.isatty()
        self.pause = pause if self.terminal else SILENCE
        self.shown = time.monotonic()
        self.ended = threading.Event()
        self.thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.ended.set()
        self.thread.join()
        self._write("")

    def line(self, text: str) -> None:
        """Show a line."""
        self._write(f"{text}\n")

    def _write(self, text: str) -> None:
        with LOCK:
            self.stream.write(("\r\x1b[2K" if self.terminal else "") + text)
            self.stream.flush()
            self.shown = time.monotonic()

    def _watch(self) -> None:
        while not self.ended.wait(1):
            self.tick(time.monotonic())

    def tick(self, now: float) -> None:
        """Show the state, if it is time to."""
        if now - self.shown < self.pause - 1:  # the next tick is a second away
            return
        text = self.work.state(now)
        if self.terminal:
            self._write(text[: shutil.get_terminal_size().columns - 1])
        else:
            self.line(text)
        self.shown = now
