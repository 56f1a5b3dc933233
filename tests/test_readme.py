"""What the README points at is there."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def test_every_file_that_the_readme_names_exists():
    text = (ROOT / "README.md").read_text()
    links = re.findall(r"\]\((?!https?:)([^)]+)\)", text)
    paths = re.findall(r"\b((?:recipes|benchmarks|preprocess|tests|fairseq_plugins)/[\w/]*\w\.(?:py|sh|md))\b", text)
    assert links and paths
    assert [name for name in links + paths if not (ROOT / name).exists()] == []
