"""benchmarks/same_text.py on a few lines, with the libraries that are installed in any case."""

import gzip
import re
import subprocess
import sys


def run(root, *options):
    command = [sys.executable, "benchmarks/same_text.py", *options]
    done = subprocess.run(command, cwd=root, env={"PYTHONPATH": str(root)}, capture_output=True, text=True, check=True)
    return re.findall(r"^\| (.+?) \| (.+?) \| [\d.]+ \| (.+?) \|$", done.stdout, re.M)


def test_our_table_of_words_gives_the_text_of_subword_nmt(request):
    rows = {(what, library): same for what, library, same in run(request.config.rootpath, "--lines", "200")}
    assert rows["Moses tokens", "sacremoses"] == rows["merges, applied", "ours"] == "200 of 200"


def test_texts_of_the_user_may_be_packed(request, tmp_path):
    for language in ("de", "en"):
        with gzip.open(tmp_path / f"text.{language}.gz", "wt") as file:
            file.write("am 20. November .\n" * 3)
    rows = run(request.config.rootpath, "--text", *map(str, sorted(tmp_path.iterdir())), "--lines", "5")
    assert {same for _, library, same in rows if library in ("sacremoses", "ours")} == {"5 of 5"}
