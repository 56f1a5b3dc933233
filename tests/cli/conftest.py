"""What the tests of commands share."""

import pytest
from warm import Warm


@pytest.fixture(scope="session")
def warm():
    """Run a command in a process that has imported everything: warm("fairseq-train", ..., log=file) -> Done."""
    with Warm() as warm:
        yield warm
