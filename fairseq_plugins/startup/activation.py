"""As soon as both fairseq and ``fairseq_plugins`` are imported, fairseq is patched, and learns the names of the suite's
tasks, models, criterions, optimisers and encoders.

A subpackage that needs fairseq imports it first, in its ``__init__.py``. So fairseq is patched before any other line of
the subpackage runs.
"""

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.abc import MetaPathFinder
from pkgutil import iter_modules

from fairseq_plugins.startup.late_imports import late

# fairseq needs these only to score sentence classification, and they take a quarter of its import time
SCORES = ("sklearn", "sklearn.metrics", "scipy.stats")
# the modules that give their names to fairseq: these, and all of these subpackages
MODULES = ("agents.model", "agents.rmsprop", "agents.task", "text.encoder")
SUBPACKAGES = ("agents.criterions", "criterions", "models", "optim", "synthetic", "tasks")


def when_fairseq_is_imported() -> None:
    """Call ``activate`` now if fairseq is imported, else right after its import."""
    if sys.modules.get("fairseq"):
        activate()
    else:
        sys.meta_path.insert(0, AfterFairseq())


class AfterFairseq(MetaPathFinder):
    """Finds fairseq as Python does, and calls ``activate`` at the end of its import."""

    def find_spec(self, name, path=None, target=None):
        if name != "fairseq":
            return None
        others = [finder for finder in sys.meta_path if finder is not self]
        spec = next(filter(None, (finder.find_spec(name, path, target) for finder in others)), None)
        if spec and spec.loader:
            run = spec.loader.exec_module

            def run_and_activate(module):
                with unchanged_log(), late(*SCORES):
                    run(module)
                activate()

            spec.loader.exec_module = run_and_activate  # type: ignore[method-assign]
        return spec


@contextmanager
def unchanged_log() -> Iterator[None]:
    """Keep the handlers and the level of the root logger.

    One of fairseq's models sets them up for debugging. Then every program with fairseq prints its debug messages, and
    a command of fairseq cannot set up its own log.
    """
    handlers, level = logging.root.handlers[:], logging.root.level
    try:
        yield
    finally:
        logging.root.handlers[:] = handlers
        logging.root.setLevel(level)


def activate() -> None:
    from fairseq_plugins.compat import every_patch
    from fairseq_plugins.startup import error_hook

    error_hook.install()
    every_patch.apply()
    for name in SUBPACKAGES:
        package = import_module(f"fairseq_plugins.{name}")
        for module in iter_modules(package.__path__):
            import_module(f"{package.__name__}.{module.name}")
    for name in MODULES:
        import_module(f"fairseq_plugins.{name}")
