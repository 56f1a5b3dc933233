"""The suite's tasks and models for tools that load a model or parse a command in their own process.

fairseq's ``--user-dir`` registers nothing of a package that has been imported already, as ours has been there.
"""

from pathlib import Path

from fairseq.models import import_models
from fairseq.tasks import import_tasks

PACKAGE = Path(__file__).resolve().parents[2]


def register() -> None:
    """Make the names of all tasks, models and architectures known to fairseq."""
    import_tasks(str(PACKAGE / "tasks"), "fairseq_plugins.tasks")
    import_models(str(PACKAGE / "models"), "fairseq_plugins.models")
