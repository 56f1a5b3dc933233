"""From raw to raw: the commands that preprocess/parallel.py prints, and translate at its limits."""

import io
import os
import re
import shlex
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from sentences import sentences, write_parallel

from fairseq_plugins.text.levels import Bytes
from fairseq_plugins.text.prepared import PreparedText
from fairseq_plugins.text.tokenisers import Plain
from fairseq_plugins.tools.lib.translator import Translated
from fairseq_plugins.tools.translate import decode, translate

TINY = (
    "--arch feedback_transformer_tiny --dropout 0 --lr 0.01 --warmup-updates 30 --max-update 120 --max-source-positions"
    " 60 --cpu --num-workers 0 --log-format none"
)


pytestmark = pytest.mark.slow
ROOT = Path(__file__).resolve().parents[2]
BEST = "runs/mine/checkpoint_best.pt"


@dataclass(frozen=True)
class Work:
    """A folder in which a text was prepared and a model trained, and the commands that were printed, by their names."""

    folder: Path
    programs: Path
    commands: dict[str, str]

    def run(self, command: str, input: str | bytes = "") -> subprocess.CompletedProcess:
        variables = {
            **os.environ, "PATH": f"{self.programs}:{os.environ['PATH']}", "PYTHONWARNINGS": "ignore",
            "CUDA_VISIBLE_DEVICES": "",
        }  # fmt: skip
        input = input if isinstance(input, bytes) else input.encode()
        words = ["bash", "-euo", "pipefail", "-c", command]
        return subprocess.run(words, cwd=self.folder, env=variables, input=input, capture_output=True)

    def translate(self, raw: str | bytes, options: str = "", checkpoints: str = BEST) -> subprocess.CompletedProcess:
        return self.run(f"python -m fairseq_plugins.tools.translate {checkpoints} --beam 2 --cpu {options}", raw)


@pytest.fixture(scope="module")
def work(run, programs, tmp_path_factory) -> Work:
    """Chinese to English, prepared and trained with the commands that were printed, and a smaller model."""
    folder = tmp_path_factory.mktemp("work")
    (folder / "fairseq_plugins").symlink_to(ROOT / "fairseq_plugins")
    write_parallel(folder / "raw", "zh", "en", train=300, valid=10, test=15)
    script = ["python", ROOT / "preprocess/parallel.py", "--workers", 1]
    said = run(*script, "--raw", "raw", "--source", "zh", "--target", "en", "--out", "mine", cwd=folder).stdout
    said = said.partition("\nready: mine/bin\n")[2].replace("\\\n", " ")
    printed = [line for line in said.splitlines() if line and line[0] != "#"]
    program = re.compile(r"(?:.* \| )?(?:python -m fairseq_plugins.tools.)?([\w-]+)")
    work = Work(folder, programs, {program.match(each)[1]: each for each in printed})
    done = work.run(f"{work.commands['fairseq-train']} {TINY}")
    assert done.returncode == 0, done.stderr.decode()[-3000:]
    return work


@pytest.fixture(scope="module")
def generated(work) -> str:
    """What fairseq-generate printed for the test set."""
    done = work.run(work.commands["fairseq-generate"].replace(" > ", " --cpu > "))
    assert done.returncode == 0, done.stderr.decode()[-3000:]
    return (work.folder / "runs/mine/test.txt").read_text(encoding="utf-8")


def brought_back(log: str) -> list[str]:
    """The D- lines in the order of the data."""
    found = {int(number): text for number, text in re.findall(r"^D-(\d+)\t[^\t]*\t(.*)$", log, re.MULTILINE)}
    return [found[number] for number in sorted(found)]


def test_the_commands_that_are_printed_go_from_raw_text_to_scores(work, generated):
    assert set(work.commands) == {
        "fairseq-train", "fairseq-generate", "score_translations", "translate", "fairseq-interactive",
    }  # fmt: skip
    done = work.run(work.commands["score_translations"])
    scores = dict(re.findall(r"^(tokenised BLEU|sacreBLEU|chrF) = ([\d.]+)", done.stdout.decode(), re.MULTILINE))
    assert len(scores) == 3 and float(scores["sacreBLEU"]) > 10, done.stderr


def test_every_way_to_translate_says_the_same(work, generated):
    raw = (work.folder / "raw/test.zh").read_text(encoding="utf-8")
    _, _, command = work.commands["translate"].partition(" | ")
    done = work.run(command, raw)
    assert done.returncode == 0, done.stderr.decode()
    translations = done.stdout.decode().splitlines()
    assert translations == brought_back(generated)
    assert work.run(work.commands["translate"]).stdout.decode().splitlines() == translations[:3]
    assert {*"".join(translations)} <= {*"".join(sentences("en", 300))}
    first = "".join(raw.splitlines(keepends=True)[:2])
    done = work.run(work.commands["fairseq-interactive"] + " --cpu", first)
    assert brought_back(done.stdout.decode()) == translations[:2]


@pytest.mark.skipif(not torch.cpu._is_vnni_supported(), reason="the processor has no products of eight bits")
def test_eight_bits_go_through_fairseqs_commands_too(work):
    raw = "".join(line + "\n" for line in sentences("zh", 20))
    ours = work.translate(raw, "--beam 5 --int8")
    override = " --cpu --model-overrides \"{'int8': True}\""
    exact, int8 = (work.run(work.commands["fairseq-interactive"] + more, raw) for more in (" --cpu", override))
    assert ours.stdout.decode().splitlines() == brought_back(int8.stdout.decode()), ours.stderr.decode()
    scores = [re.findall(r"^D-\d+\t(\S+)", done.stdout.decode(), re.MULTILINE) for done in (exact, int8)]
    assert scores[0] != scores[1] and [*map(float, scores[0])] == pytest.approx([*map(float, scores[1])], abs=0.1)
    refused = work.run(work.commands["fairseq-interactive"] + override + " --fp16", raw)
    assert refused.returncode and "int8 is for float32 on a CPU" in refused.stderr.decode()


def test_each_line_gives_one_line(work):
    """Empty ones, over-long ones, strange separators; in small buffers as in a large one."""
    long = "".join(sentences("zh", 30))
    lines = ["女孩看见月亮。", "", "  \t ", long, "老人\u2028喜欢\x1c大海。\r", "月" * 150, "女孩看见月亮。"]
    raw = "".join(line + "\n" for line in lines)
    done = work.translate(raw)
    assert done.returncode == 0, done.stderr.decode()
    out = done.stdout.decode().split("\n")
    assert len(out) == len(lines) + 1 and out[-1] == ""
    assert out[1] == out[2] == "" and out[0] == out[6] != ""
    assert len(out[3]) > 2 * max(map(len, sentences("en", 100)))  # of several sentences
    said = done.stderr.decode()
    assert said.count("translated in parts: line 4, 6\n") == 1
    small = work.translate(raw.removesuffix("\n"), "--buffer 2 --max-tokens 20")
    assert small.stdout == done.stdout and "translated in parts: line 4, 6\n" in small.stderr.decode()


def test_lines_with_unknown_symbols_are_named(work, tmp_path, capsys):
    """Of pieces none are unknown."""
    said = "with symbols that the model does not know, so perhaps translated badly: line "
    assert said not in work.translate("女孩看见月亮。\nж\n").stderr.decode()
    some = SimpleNamespace(translate=lambda lines: Translated(lines, [], list(range(1, 12))))
    (tmp_path / "raw").write_text("a\n" * 12)
    with open(tmp_path / "raw", "rb") as raw:
        translate(some, raw, io.BytesIO(), buffer=20)
    assert capsys.readouterr().err.endswith(f"{said}2, 3, 4, 5, 6, 7, 8, 9, 10, 11 and 1 more\n")


class Terminal(io.BytesIO):
    def isatty(self):
        return True


@pytest.mark.parametrize("target, bar", [(Terminal, False), (io.BytesIO, True)])
def test_at_a_terminal_no_bar_stands_between_lines_of_text(target, bar, tmp_path, monkeypatch):
    (tmp_path / "raw").write_text("one\ntwo\n")
    echo = SimpleNamespace(translate=lambda lines: Translated(lines, [], []))
    said, out = Terminal(), target()
    monkeypatch.setattr("sys.stderr", io.TextIOWrapper(said, write_through=True))
    with open(tmp_path / "raw", "rb") as raw:
        translate(echo, raw, out, buffer=1)
    assert out.getvalue() == b"one\ntwo\n"
    assert (b"translate: " in said.getvalue()) == bar


def test_several_checkpoints_are_an_ensemble(work):
    same = work.translate("女孩看见月亮。\n", checkpoints=f"{BEST} {BEST}")
    assert same.stdout == work.translate("女孩看见月亮。\n").stdout != b""


def test_lines_are_answered_at_once_with_a_buffer_of_one(work):
    """The second line is sent when the first is answered."""
    options = "--buffer 1 --beam 1 --cpu"
    command = [work.programs / "python", "-m", "fairseq_plugins.tools.translate", BEST]
    process = subprocess.Popen(
        [*command, *options.split()], cwd=work.folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL, bufsize=0,
    )  # fmt: skip
    for line in sentences("zh", 2):
        process.stdin.write(f"{line}\n".encode())
        assert process.stdout.readline().endswith(b".\n")
    process.stdin.close()
    assert process.wait() == 0


def refused(done) -> str:
    """The one sentence of a refusal."""
    assert done.returncode == 1
    said = done.stderr.decode().splitlines()  # the progress, too
    (sentence,) = [line for line in said if line and not line.startswith("translate: ")]
    return sentence.partition("error: ")[2]


def test_text_that_is_not_utf8_is_refused(work):
    assert refused(work.translate("女孩\n".encode() + b"caf\xe9\n")).startswith("line 2 of the input is not UTF-8")


def test_the_text_is_found_beside_the_checkpoint_in_its_data_folder_or_by_the_flag(work):
    for name in ("alone", "bare"):
        (work.folder / name).mkdir()
    for file in (work.folder / "runs/mine").iterdir():
        if file.name != "checkpoint_last.pt":
            shutil.copy(file, work.folder / "alone")
    shutil.copy(work.folder / BEST, work.folder / "bare")
    line = "女孩看见月亮。\n"
    expected = work.translate(line, checkpoints="bare/checkpoint_best.pt").stdout
    (work.folder / "mine").rename(work.folder / "away")
    try:
        beside = work.translate(line, checkpoints="alone/checkpoint_best.pt")
        by_flag = work.translate(line, "--prepared-text away/bin", "bare/checkpoint_best.pt")
        nowhere = work.translate(line, checkpoints="bare/checkpoint_best.pt")
    finally:
        (work.folder / "away").rename(work.folder / "mine")
    assert beside.stdout == by_flag.stdout == expected != b""
    assert "neither its folder nor its data folder mine/bin has a prepared_text.json" in refused(nowhere)


def test_only_the_first_line_may_have_a_byte_order_mark():
    assert decode("\ufeffone\n".encode(), 1) == "one"
    assert decode("\ufefftwo\n".encode(), 2) == "\ufefftwo"  # as preparation reads a file


def test_fairseq_interactive_squeezes_lines_and_drops_a_byte_order_mark(work):
    lines = ["\ufeff女孩看见\t月亮。", "女孩看见 月亮。", "老人  喜欢\x1c大海。", "老人 喜欢 大海。"]
    done = work.run(work.commands["fairseq-interactive"] + " --cpu", "\n".join(lines) + "\n")
    symbols = re.findall(r"^S-\d+\t(.*)$", done.stdout.decode(), re.MULTILINE)
    assert symbols[0] == symbols[1] and symbols[2] == symbols[3] and len(symbols) == 4, done.stderr.decode()


def test_options_that_make_no_sense(work):
    assert refused(work.translate("", "--fp16")) == "--fp16 needs a GPU; leave it out."
    done = work.run("python -m fairseq_plugins.tools.translate nowhere.pt")
    assert refused(done).startswith("the checkpoint nowhere.pt does not exist")
    done = work.translate("月\n", f"--prepared-text {shlex.quote(str(work.folder))}")
    assert "prepared_text.json does not exist" in refused(done)
    PreparedText(Plain(), Plain(), Bytes()).save(work.folder / "lm")
    assert refused(work.translate("月\n", "--prepared-text lm")).startswith("the text of lm is not parallel")
