"""The tests of tools share a way to run them."""

import pytest


@pytest.fixture
def tool(run):
    """tool(name, ...) runs a tool, which may fail."""

    def call(name, *arguments):
        return run("python", "-m", f"fairseq_plugins.tools.{name}", *arguments, check=False)

    return call
