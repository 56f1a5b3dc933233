"""mkdocs builds the site, and every link of it leads somewhere."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from pages import ROOT

MKDOCS = shutil.which("mkdocs", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")


@pytest.mark.skipif(MKDOCS is None, reason="mkdocs is not installed: pip install mkdocs pygments")
def test_the_site_builds(tmp_path):
    command = [MKDOCS, "build", "--strict", "--quiet", "--site-dir", tmp_path]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    introduction = (tmp_path / "introduction/index.html").read_text()
    assert 'src="../benchmarks/random_walk_gpu.png"' in introduction and 'src="../site/copy.js"' in introduction
    assert not re.findall(r'<(?:link|script)[^>]+(?:href|src)="(?:https?:)?//', introduction)
    assert "[data-bs-theme=dark]" in (tmp_path / "site/highlight.css").read_text()
    assert "Multi30k" in (tmp_path / "benchmarks/multi30k/index.html").read_text()
    assert 'href="../benchmarks/char_lm/"' in (tmp_path / "language_models/index.html").read_text()
