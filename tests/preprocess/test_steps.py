"""An interrupted preparation is resumed, and never uses a truncated file."""

import errno
import os
import re
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from lib import steps

from fairseq_plugins.errors import UserError
from fairseq_plugins.tools.lib import signs_of_life

PARALLEL = Path(steps.__file__).parents[1] / "parallel.py"
OPTIONS = ["--source", "en", "--target", "lomi", "--workers", "1"]


def files(out):
    return {
        path.relative_to(out): path.read_bytes()
        for path in sorted(out.rglob("*"))
        if path.is_file() and path.suffix not in (".json", ".log")
    }


def fresh(done) -> list[str]:
    """The steps that were not done before."""
    said = done.stdout.partition("\nready: ")[0].splitlines()
    return [line.split(":")[0] for line in said if "(done before)" not in line]


def test_a_killed_run_goes_on_and_ends_like_one_that_was_not_killed(script, generated, tmp_path):
    raw = generated("parallel")
    command = ["parallel", "--raw", raw, "--bpe", "150", *OPTIONS]
    whole = script(*command, "--out", tmp_path / "whole")
    assert whole.returncode == 0, whole.stderr

    words = [sys.executable, PARALLEL, *map(str, command[1:]), "--out", tmp_path / "killed"]
    killed = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    for line in killed.stdout:
        if line.startswith("tokenise-valid.en"):
            killed.kill()
            break
    killed.wait()
    killed.stdout.close()
    again = script(*command, "--out", tmp_path / "killed")
    assert again.returncode == 0, again.stderr
    assert "tokenise-train.en: 200 lines in, 200 out (done before)" in again.stdout
    assert "encode-test.lomi: 21 lines in, 21 out (done before)" not in again.stdout
    assert files(tmp_path / "killed") == files(tmp_path / "whole")

    # nothing is left to do; then one file is cut, and what was made of it is made again, no more
    third = script(*command, "--out", tmp_path / "killed")
    assert not fresh(third)
    cut = tmp_path / "killed" / "bpe" / "train.en"
    cut.write_bytes(cut.read_bytes()[:1000])
    resumed = script(*command, "--out", tmp_path / "killed")
    assert fresh(resumed) == ["encode-train.en", "binarise"]
    assert files(tmp_path / "killed") == files(tmp_path / "whole")

    # another option makes its own step and those behind it run, and no others
    other = script(*command, "--bpe", "100", "--out", tmp_path / "killed")
    steps_done = fresh(other)
    assert steps_done[0] == "learn-bpe" and "binarise" in steps_done
    assert not any(name.startswith("tokenise") for name in steps_done)
    assert files(tmp_path / "killed") != files(tmp_path / "whole")


def test_a_second_preparation_of_the_same_folder_waits_for_the_first(tmp_path):
    held = steps.Steps(tmp_path / "out")
    code = "import sys; from lib import steps; steps.Steps(steps.Path(sys.argv[1])); print('mine')"
    words = [sys.executable, "-u", "-c", code, held.out]
    second = subprocess.Popen(words, cwd=PARALLEL.parent, stdout=subprocess.PIPE, text=True)
    assert second.stdout.readline() == f"--out {held.out} is being prepared by another process: waiting until it ends\n"
    assert second.poll() is None
    held.lock.close()
    assert second.communicate()[0] == "mine\n"


def test_a_file_system_without_locks_gets_a_warning(tmp_path, monkeypatch, capsys):
    def unknown(*_):
        raise OSError(errno.ENOSYS, "Function not implemented")

    monkeypatch.setattr("fairseq_plugins.files.steps.fcntl.lockf", unknown)
    steps.Steps(tmp_path)
    assert capsys.readouterr().out.startswith(f"--out {tmp_path} cannot be locked (Function not implemented)")


def test_a_folder_that_is_done_needs_no_writing(tmp_path, read_only, capsys):
    source, made = tmp_path / "source", tmp_path / "out/made"
    source.write_text("text")

    def prepare(copies):
        todo = steps.Steps(tmp_path / "out")
        todo.forget("no such step")
        todo.run(
            "copy", [source], [made], {"copies": copies}, lambda file: file.write_text("text" * copies) and "copied"
        )

    prepare(1)
    read_only(tmp_path / "out")
    prepare(1)
    assert capsys.readouterr().out.endswith("copy: copied (done before)\n")
    said = "with other options, as its step copy shows, and cannot be written .Read-only file system.: give the options"
    with pytest.raises(UserError, match=said):
        prepare(2)
    with pytest.raises(UserError, match="step copy shows"):
        steps.Steps(tmp_path / "out").forget("copy")
    assert made.read_text() == "text"


def test_a_folder_that_cannot_be_written_and_was_not_prepared_is_refused(tmp_path, read_only):
    (tmp_path / "out").mkdir()
    read_only(tmp_path / "out")
    with pytest.raises(UserError, match="out cannot be filled .Read-only file system.: give another folder"):
        steps.Steps(tmp_path / "out")


@pytest.mark.parametrize("raw", ["made", "made/below", "."])
def test_no_step_writes_over_raw_text(raw, tmp_path):
    todo, text = steps.Steps(tmp_path / "out"), tmp_path / "out" / raw / "text"
    text.parent.mkdir(parents=True, exist_ok=True)
    text.write_text("raw")
    output = tmp_path / "out" / ("text" if raw == "." else "made")
    todo.run("copy", [text], [tmp_path / "out/copy"], {}, lambda file: file.write_text("raw") and "copied")
    with pytest.raises(UserError, match="out: .* would be written over raw text, .*text: choose another folder"):
        todo.run("make", [tmp_path / "out/copy"], [output], {}, lambda file: file.write_text("x") and "made")
    assert text.read_text() == "raw"


def test_a_folder_that_fairseq_cannot_name_is_refused(tmp_path):
    with pytest.raises(UserError, match="data:v2 has a ':' in it"):
        steps.Steps(tmp_path / "data:v2")


def test_a_failed_step_leaves_no_output_and_no_stamp(tmp_path):
    todo = steps.Steps(tmp_path)

    def fail(path):
        path.write_text("half")
        raise UserError("broken")

    with pytest.raises(UserError):
        todo.run("work", [], [tmp_path / "whole"], {}, fail)
    assert not (tmp_path / "whole").exists()
    todo.run("work", [], [tmp_path / "whole"], {}, lambda path: str(path.write_text("whole")))
    assert (tmp_path / "whole").read_text() == "whole"


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO])
def test_a_file_that_cannot_be_written_is_named(tmp_path, number):
    """What was there before stays, and nothing is left of the new one."""
    todo = steps.Steps(tmp_path)
    whole = tmp_path / "whole"
    whole.write_text("before")

    def fail(path):
        path.write_text("half")
        raise OSError(number, os.strerror(number))

    with pytest.raises(UserError, match=rf"{whole} could not be written \({os.strerror(number)}\)"):
        todo.run("work", [], [whole], {}, fail)
    assert whole.read_text() == "before" and not list(tmp_path.glob("*.partial"))


@pytest.mark.parametrize("kilobytes", [2, 9, 14])
def test_a_quota_ends_a_preparation_in_one_sentence(kilobytes, generated, tmp_path):
    """Whichever step meets it; with more room the same command goes on."""
    command = [sys.executable, PARALLEL, "--raw", generated("parallel"), "--bpe", "150", *OPTIONS, "--out", tmp_path]
    limit = ["bash", "-c", f'ulimit -f {kilobytes} && exec "$@"', "quota", *command]
    done = subprocess.run(limit, capture_output=True, text=True)
    assert done.returncode == 1
    said = rf"^parallel.py: error: {tmp_path}/\S+ .*could not be written \(File too large\)"
    assert re.search(said, done.stderr, re.MULTILINE) and "Traceback" not in done.stderr
    assert not list(tmp_path.rglob("*.partial"))
    assert subprocess.run(command, capture_output=True).returncode == 0


def test_a_folder_stays_prepared_however_it_is_written_and_wherever_it_lies(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "raw").mkdir()
    (tmp_path / "raw/text").write_text("a b")

    def prepare(raw, out):
        todo = steps.Steps(Path(out))
        first, second = todo.out / "first", todo.out / "second"
        todo.run("first", [Path(raw) / "text"], [first], {}, lambda path: str(path.write_text("a")))
        todo.run("second", [first], [second], {}, lambda path: str(path.write_text("b")))
        todo.lock.close()
        return capsys.readouterr().out.count("(done before)")

    assert prepare("raw", "data") == 0
    (tmp_path / "link").symlink_to("data")
    for out in ("data", tmp_path / "data", "raw/../data", "link"):
        assert prepare("raw", out) == 2
    assert prepare(tmp_path / "data/../raw", "data") == 2
    os.rename("data", "moved")
    os.rename("raw", "raw2")
    assert prepare("raw2", "moved") == 2
    (tmp_path / "raw2/text").write_text("a c")
    assert prepare("raw2", "moved") == 0


def test_a_long_step_says_that_it_is_still_at_work(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(signs_of_life, "SILENCE", 1)
    said = threading.Event()
    monkeypatch.setattr(steps, "_size", lambda paths: said.set() or 1_500_000)
    todo = steps.Steps(tmp_path)
    todo.run("work", [], [tmp_path / "whole"], {}, lambda path: str(path.write_text(f"{said.wait(60)}")))
    assert re.match(r"work: \d+ s so far, 1\.5 MB written\n", capsys.readouterr().err)
    assert (tmp_path / "whole").read_text() == "True"


@pytest.mark.parametrize("fails", [False, True])
@pytest.mark.parametrize(
    "change", [lambda file: file.write_text("new"), Path.unlink, lambda file: os.utime(file, (1, 1))]
)
def test_an_input_that_changes_while_it_is_read_leaves_no_old_output(tmp_path, change, fails):
    source, other, made = tmp_path / "source", tmp_path / "other", tmp_path / "out/made"
    source.write_text("old")
    other.write_text("other")

    def work(path):
        path.write_text(source.read_text())
        if source.read_text() == "old":
            change(source)
            if fails:
                raise UserError("source is cut")
        return "copied"

    def prepare():
        todo = steps.Steps(tmp_path / "out")
        todo.run("copy", [other, source], [made], {}, work)

    with pytest.raises(UserError, match=f"{source} changed while the step copy read it, .* same command again"):
        prepare()
    assert not made.exists() and not [*tmp_path.rglob("*.partial"), *tmp_path.rglob("*.json")]
    source.write_text("newer")
    prepare()
    assert made.read_text() == "newer"


def test_an_input_that_changes_right_after_the_work_is_read_again(tmp_path, monkeypatch):
    source, made = tmp_path / "source", tmp_path / "out/made"
    source.write_text("old")

    def replace(one, two):
        if two == made:
            source.write_text("newer")
        os.rename(one, two)

    monkeypatch.setattr(os, "replace", replace)
    for text in ("old", "newer"):
        todo = steps.Steps(tmp_path / "out")
        todo.run("copy", [source], [made], {}, lambda path: f"{path.write_text(source.read_text())} characters")
        todo.lock.close()
        assert made.read_text() == text
