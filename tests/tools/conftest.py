"""The tests of tools share a way to run them."""

import logging

import pytest


@pytest.fixture
def tool(run):
    """tool(name, ...) runs a tool, which may fail."""

    def call(name, *arguments):
        return run("python", "-m", f"fairseq_plugins.tools.{name}", *arguments, check=False)

    return call


@pytest.fixture
def main(monkeypatch):
    """main(tool, ...) runs a tool in this process. It leaves the levels of logs as they were."""

    def call(tool, *arguments):
        monkeypatch.setattr("sys.argv", [tool.__name__, *map(str, arguments)])
        tool.main()

    yield call
    logging.disable(logging.NOTSET)
