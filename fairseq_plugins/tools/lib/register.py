"""Register tasks and models, for tools that load a model or parse a command in their own process.

fairseq's ``--user-dir`` registers nothing if the package was imported before, which is so in these tools.
"""

from pathlib import Path

from fairseq.models import import_models
from fairseq.tasks import import_tasks

PACKAGE = Path(__file__).resolve().parents[2]


def register() -> None:
    """Register the names of all our tasks, models and architectures with fairseq."""
    import_tasks(str(PACKAGE / "tasks"), "fairseq_plugins.tasks")
    import_models(str(PACKAGE / "models"), "fairseq_plugins.models")
