"""A text of one's own, at every level, and the commands that are printed for it."""

import gzip
import json
import random
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from lib import splits
from prepared_data import symbols

from fairseq_plugins.text.prepared import PreparedText

SCRIPT = Path(splits.__file__).parents[1] / "text.py"
WORDS = "the old cat sees a red bird and sings кошка видит птицу 猫は鳥を見る".split()
LEVELS = {
    "byte": [],
    "char": [],
    "word": ["--min-count", 1],
    "bpe": ["--symbols", 90],
    "sentencepiece": ["--symbols", 330],
}


def written(lines: int, seed: int) -> str:
    """Lines with double spaces, tabs, special symbols of fairseq, and empty lines."""
    draw = random.Random(seed)
    spaces, odd = [" "] * 20 + ["  ", "\t"], ["", "", "<unk> and <pad>", "</s>", " indented"]
    return "".join(
        draw.choice(odd) + "".join(draw.choice(WORDS) + draw.choice(spaces) for _ in range(draw.randrange(9))) + "\n"
        for _ in range(lines)
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Two files in a folder, one of them .gz, neither with a newline at its end."""
    raw = tmp_path_factory.mktemp("raw")
    (raw / "a.txt").write_text(written(150, 1) + "the end", encoding="utf-8")
    (raw / "more").mkdir()
    (raw / "more" / "b.txt.gz").write_bytes(gzip.compress((written(90, 2) + "the end").encode()))
    (raw / ".hidden").write_bytes(b"\xff")
    return raw


def whole(raw) -> bytes:
    return (raw / "a.txt").read_bytes() + b"\n" + gzip.decompress((raw / "more" / "b.txt.gz").read_bytes())


@pytest.fixture
def prepare_text(prepare):
    """Run preprocess/text.py: prepare_text(raw, out, *options)."""
    return lambda raw, out, *options: prepare("text", "--raw", raw, "--out", out, "--workers", 2, *options)


def read(out, split) -> str:
    """The raw text that the binarised split stands for."""
    lines = symbols(out / "bin" / split, out / "bin" / "dict.txt")
    return "\n".join(map(PreparedText.load(out / "bin").decode, " ".join(sum(lines, [])).split("</s>")))


@pytest.mark.parametrize("level", LEVELS)
def test_the_data_is_the_text(level, prepare_text, folder, tmp_path):
    said = prepare_text(folder, tmp_path, "--level", level, *LEVELS[level])
    parts = {split: (tmp_path / "raw" / split).read_bytes() for split in splits.SPLITS}
    assert b"".join(parts.values()) == whole(folder)
    for split, part in parts.items():
        lines = part.decode().split("\n")
        if level in ("word", "bpe"):
            lines = [" ".join(line.split()) for line in lines]
        assert read(tmp_path, split) == "\n".join(lines)
    assert "test" in said and "0.0% unknown" in said
    assert ("white space" in said) == (level in ("word", "bpe"))
    assert PreparedText.load(tmp_path / "bin").raw_bytes == {split: len(part) for split, part in parts.items()}
    assert prepare_text(folder, tmp_path, "--level", level, *LEVELS[level]).count("(done before)") >= 5


def test_splits_have_the_shares_and_documents_stay_whole(prepare_text, folder, tmp_path):
    shares = ["--valid-share", 0.2, "--test-share", 0.1]
    prepare_text(folder, tmp_path / "lines", *shares)
    sizes = [(tmp_path / "lines" / "raw" / split).stat().st_size for split in splits.SPLITS]
    assert sizes == pytest.approx([0.7 * sum(sizes), 0.2 * sum(sizes), 0.1 * sum(sizes)], abs=200)
    prepare_text(folder, tmp_path / "documents", *shares, "--split-at", "document")
    train, valid, _ = ((tmp_path / "documents" / "raw" / split).read_text() for split in splits.SPLITS)
    assert train.splitlines()[-1].strip() == valid.splitlines()[-1].strip() == ""
    prepare_text(folder, tmp_path / "two", "--test-share", 0)
    assert not (tmp_path / "two" / "bin" / "test.bin").exists() and (tmp_path / "two" / "bin" / "valid.bin").exists()


def test_named_files_and_folders_are_the_splits(prepare, tmp_path):
    raw = tmp_path / "raw"
    (raw / "train").mkdir(parents=True)
    for name, text in {"train/1.txt": "One cat", "train/2.txt": "two Cats\n", "Valid.en": "Cat two\n"}.items():
        (raw / name).write_text(text)
    (tmp_path / "test.gz").write_bytes(gzip.compress(b"one bird\n"))
    options = ["--level", "word", "--lower", "--min-count", 2, "--out", tmp_path / "out"]
    said = prepare("text", "--raw", raw, tmp_path / "test.gz", *options)
    assert "test 1 line ends and 2 other tokens, 3 in all, 66.7% unknown" in said
    assert (tmp_path / "out" / "raw" / "train").read_text() == "One cat\ntwo Cats\n"
    assert read(tmp_path / "out", "valid") == "<unk> <unk>\n"
    assert (tmp_path / "out" / "text" / "valid").read_text() == "cat two\n"


def test_folders_of_splits_may_be_given_one_by_one(tmp_path):
    files = {split: [tmp_path / split / name for name in "ab"] for split in splits.SPLITS}
    for folder in files:
        (tmp_path / folder).mkdir()
        for file in files[folder]:
            file.touch()
    assert splits.find([tmp_path / split for split in files]) == files


def test_links_have_the_names_that_they_are_given(tmp_path):
    for number, split in enumerate(("train", "valid")):
        (tmp_path / f"abc{number}").write_text("words\n")
        (tmp_path / f"{split}.txt").symlink_to(f"abc{number}")
    files = [tmp_path / "train.txt", tmp_path / "valid.txt"]
    assert splits.find(files) == {"train": files[:1], "valid": files[1:]}


def test_folders_that_are_links_are_read_once(tmp_path):
    for name in ("text/a", "elsewhere/b"):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_text("words\n")
    (tmp_path / "text/link").symlink_to("../elsewhere")
    (tmp_path / "elsewhere/back").symlink_to("../text")
    assert splits.find([tmp_path / "text"])[None] == [tmp_path / "text/a", tmp_path / "text/link/b"]


@pytest.mark.parametrize("made", ["raw", "text", "bin"])
def test_raw_text_does_not_lie_where_the_splits_go(made, refused, tmp_path):
    (tmp_path / made).mkdir()
    (tmp_path / made / "book.txt").write_text("text\n")
    said = refused("text", "--raw", tmp_path / made / "book.txt", "--out", tmp_path)
    assert "which this script fills: choose another --out" in said
    assert [file.name for file in (tmp_path / made).iterdir()] == ["book.txt"]


def test_a_file_that_moved_to_another_split_is_read_there(prepare_text, tmp_path):
    for name, text in {"train/a": "a a\n", "train/b": "b b\n" * 20, "valid/c": "c c\n"}.items():
        file = tmp_path / f"raw/{name}.txt"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    prepare_text(tmp_path / "raw", tmp_path / "out")
    (tmp_path / "raw/train/b.txt").rename(tmp_path / "raw/valid/b.txt")
    prepare_text(tmp_path / "raw", tmp_path / "out")
    assert "b" not in (tmp_path / "out/raw/train").read_text()
    assert (tmp_path / "out/raw/valid").read_text().count("b b") == 20


def test_bytes_need_be_no_text_and_none_is_unknown(prepare_text, tmp_path):
    for split, content in {"train": b"\xff\x00a\n" * 20, "valid": b"\xfe\r\n", "test": bytes(range(256))}.items():
        (tmp_path / split).write_bytes(content)
    said = prepare_text(tmp_path, tmp_path.with_name("out_of_bytes"))
    assert "test 1 line ends and 255 other tokens, 256 in all, 0.0% unknown" in said
    assert "dictionary 260 types" in said


def commands(said: str) -> list[list[str]]:
    lines = said[said.index("# train") :].replace("\\\n", " ").splitlines()
    return [words for line in lines if (words := shlex.split(line, comments=True))]


@pytest.mark.parametrize("level", ["sentencepiece", pytest.param("word", marks=pytest.mark.slow)])
def test_the_printed_commands_work_as_they_stand(level, run, folder, tmp_path):
    """The figure of a file is the one of the split that was made of it, without the data folder."""
    (tmp_path / "fairseq_plugins").symlink_to(Path(SCRIPT).parents[1] / "fairseq_plugins")  # they run in the repository
    done = run(sys.executable, SCRIPT, "--raw", folder, "--level", level, "--out", "mine", cwd=tmp_path)
    train, evaluate, sample, score = commands(done.stdout)
    run(*train, "--max-update", 2, "--cpu", cwd=tmp_path)
    told = run(*evaluate, "--cpu", cwd=tmp_path)
    expected = re.search(r"([\d.]+) bits per byte of the raw text, (\d+) bytes(.*)", told.stdout + told.stderr)
    size = (tmp_path / "mine" / "raw" / "test").stat().st_size
    assert int(expected[2]) == size and ("<unk>" in expected[3]) == (level == "word")
    (tmp_path / "mine" / "raw" / "test").rename(tmp_path / "test")
    (tmp_path / "mine").rename(tmp_path / "gone")
    score = [tmp_path / "test" if word.endswith("raw/test") else word for word in score]
    done = run(*score, "--cpu", "--json-lines", cwd=tmp_path)
    *lines, figures = map(json.loads, done.stdout.splitlines())
    assert figures["bits_per_byte"] == pytest.approx(float(expected[1]), abs=1e-6)
    assert "\n".join(line["text"] for line in lines) == (tmp_path / "test").read_text().removesuffix("\n")
    assert sum(line["log_prob"] for line in lines) == pytest.approx(-figures["nats"])
    text = run(*sample, "--prompt", "the  old", "--cpu", "--length", 9, cwd=tmp_path).stdout
    assert text.startswith("the  old")  # the prompt as it was typed


@pytest.mark.parametrize(
    "files, options, sentence",
    [
        ({}, [], "holds no files: put the text there"),
        ({"a": "a\n"}, [], "the text is a single line: break it into more lines, or name files train, valid and test"),
        ({"a": ""}, [], "the text is empty: put text into its files"),
        ({"a": "a\n" + "long " * 99 + "\nb\n"}, [], "the text has too few lines: raise --test-share"),
        ({"a": "a b\n" * 99}, ["--level", "bpe"], "could be made a symbol: give more text"),
        ({"a": "good line\n" * 99}, ["--level", "bpe", "--symbols", 3], "more than --symbols 3"),
        ({"a": "a\n" * 99}, ["--split-at", "document"], "--split-at line cuts at every line"),
        ({"a": "a\n" * 99}, ["--valid-share", 0.6, "--test-share", 0.4], "whose sum is below 1"),
        ({"a": "a\n" * 99}, ["--valid-share", 1.5], "--valid-share: 1.5 does not fit"),
        ({"train.txt": "a\n"}, [], "has no file named valid: add it; or, if the text is not split yet, rename it"),
        ({"a": "a\n" * 99, "a.gz": "b\n"}, [], "a.gz, which is the same text: leave one of them out"),
        ({"train.txt": "a\n", "other": "a\n"}, [], "other is of no split, but"),
        ({"train": "a\n", "valid": "a\n"}, ["--valid-share", 0.1], "--valid-share is for a text that is not split"),
        ({"train": "a\n", "valid": ""}, [], "nothing is left for valid: its files are empty"),
        ({"a": "a\n" * 9 + "\udcff\n"}, ["--level", "char"], "a is not UTF-8 in line 10"),
        ({"a": "a\n"}, ["--symbols", 9], "--symbols is for --level bpe and sentencepiece, not byte"),
        ({"a": "a\n"}, ["--level", "char", "--min-count", 9], "--min-count is for --level word, not char"),
        ({"a": "ab\n" * 99}, ["--level", "sentencepiece", "--symbols", 9], "--symbols 9 is too small"),
    ],
)
def test_what_is_wrong_is_named(files, options, sentence, refused, tmp_path):
    (tmp_path / "raw").mkdir()
    for name, text in files.items():
        (tmp_path / "raw" / name).write_text(text, errors="surrogateescape")
    assert sentence in refused("text", "--raw", tmp_path / "raw", "--out", tmp_path / "out", *options)
    assert not (tmp_path / "out" / "bin").exists()


def test_a_reader_that_has_enough_is_no_error(tmp_path):
    (tmp_path / "a.txt").write_text("a\n" * 999)
    script = f"{sys.executable} {SCRIPT} --raw a.txt --out out | true; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", script], cwd=tmp_path, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (1, "")


def test_byte_pairs_know_every_word_of_known_characters(prepare_text, tmp_path):
    for split, text in {"train": "lower lowest\n" * 20, "valid": "slow low we er\n", "test": "two\n"}.items():
        (tmp_path / split).write_text(text)
    said = prepare_text(tmp_path, tmp_path.with_name("known"), "--level", "bpe", "--symbols", 20)
    assert re.search("valid 1 line .* 0.0% unknown; test", said) and "test 1 line ends and 3" in said


def test_what_an_earlier_command_made_does_not_stay(prepare, tmp_path):
    for split in splits.SPLITS:
        (tmp_path / split).write_text("some line\n" * 30)
    files, out = [tmp_path / split for split in splits.SPLITS], tmp_path / "out"
    for raw, level in ((files, "bpe"), (files[:2], "char")):
        prepare("text", "--raw", *raw, "--level", level, "--out", out)
    names = {path.relative_to(out).as_posix() for path in out.rglob("*")}
    assert {"raw/valid", "text/valid"} <= names and not {"raw/test", "text/test", "codes.bpe"} & names


def test_a_folder_is_not_prepared_into_itself(refused, tmp_path):
    assert "lies in --raw" in refused("text", "--raw", tmp_path, "--out", tmp_path / "out")
    assert not (tmp_path / "out").exists()


MEASURE = """
import resource, sys
from pathlib import Path
from lib import binarise, splits, symbols
from fairseq_plugins.text.levels import Bytes
from fairseq_plugins.text.prepared import PreparedText
from fairseq_plugins.text.tokenisers import Plain
raw, out = map(Path, sys.argv[1:])
splits.cut([raw], {"train": 0.9, "valid": 0.1}, "line", "strict", out / "train", out / "valid")
symbols.encode(PreparedText(Plain(), Plain(), Bytes()), out / "train", 1, out / "symbols")
binarise.write_dictionary(out / "dict.txt", binarise.count([out / "symbols"]))
binarise.binarise(out / "symbols", out / "made", binarise.Indices(out / "dict.txt"))
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


def test_a_larger_text_needs_no_more_memory(tmp_path):
    def peak(times: int) -> int:
        """In kilobytes, for a text of so many times 1.4 million bytes, with lines of 1.1 million bytes."""
        (tmp_path / "text").write_bytes((b"word " * 220_000 + b"\n" + b"short line\n" * 30_000) * times)
        command = [sys.executable, "-c", MEASURE, tmp_path / "text", tmp_path]
        done = subprocess.run(command, cwd=SCRIPT.parent, check=True, capture_output=True, text=True)
        return int(done.stdout)

    assert peak(5) - peak(2) < 4000
