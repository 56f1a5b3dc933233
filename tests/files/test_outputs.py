"""A command that cannot write its files ends in one sentence that names them."""

import limits
import pytest
from outputs import SLOW, WRITERS, Site, refused

from fairseq_plugins.files import sealed

SOME = ["fairseq-train, memories", "fairseq-preprocess --destdir", "preprocess/text.py, byte", "results_table add"]


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Site:
    return Site(tmp_path_factory.mktemp("site"))


@pytest.fixture
def allowed(tmp_path):
    def check(limit: str) -> None:
        if not limits.allowed(limit, tmp_path):
            pytest.skip("this machine lets nobody have a file system of one's own")

    return check


@pytest.mark.parametrize("limit", limits.LIMITS)
@pytest.mark.parametrize("name", [name for name in WRITERS if name not in SLOW])
def test_one_sentence_names_what_cannot_be_written(name, limit, site, allowed, tmp_path, monkeypatch):
    allowed(limit)
    monkeypatch.setattr(sealed, "PAUSE", 0)
    (out := tmp_path / "out").mkdir()
    done = limits.run(limit, out, *WRITERS[name](site, out))
    if name == "fairseq-train --log-file" and limit != "read-only":  # a training does not end for that
        assert done.returncode == 0 and f"warning: {out}/a.log cannot be written" in done.output
    else:
        assert not refused(done, out), done.output[-3000:]
