"""Broken input ends in one sentence that names the file, with status 1 and without a traceback."""

import gzip
from hashlib import sha1

import cnndm
import pytest

from fairseq_plugins.errors import UserError


def spoil_lines(raw):
    (raw / "train.en").write_text("only one\n")


def spoil_empty(raw):
    (raw / "valid.lomi").write_text("")


def spoil_encoding(raw):
    (raw / "train.lomi").write_bytes(b"good\n" * 4 + b"caf\xe9\n" + b"good\n" * 195)


def spoil_missing(raw):
    (raw / "test.en").unlink()


def spoil_gzip(raw):
    whole = gzip.compress((raw / "train.en").read_bytes())
    (raw / "train.en").unlink()
    (raw / "train.en.gz").write_bytes(whole[: len(whole) // 2])


def spoil_folder(raw):
    raw.rename(raw.with_name("moved"))


def spoil_everything(raw):
    for language in ("en", "lomi"):
        (raw / f"train.{language}").write_text("\n" * 5)


@pytest.mark.parametrize(
    "spoil, sentence",
    [
        (spoil_lines, "train.en has 1 lines but {raw}/train.lomi has 200: give two files with as many lines"),
        (spoil_empty, "valid.lomi is empty"),
        (spoil_encoding, "train.lomi is not UTF-8 in line 5"),
        (spoil_missing, "has no test text for 'en': put test.en there"),
        (spoil_gzip, "train.en.gz is damaged after line"),
        (spoil_everything, "is left after cleaning (dropped: 5 empty): raise the limit"),
        (spoil_folder, "--raw {raw} is not a folder that exists"),
    ],
)
def test_parallel_text(spoil, sentence, script, generated, tmp_path):
    raw = generated("parallel")
    spoil(raw)
    done = script("parallel", "--raw", raw, "--source", "en", "--target", "lomi", "--out", tmp_path, "--workers", 1)
    assert done.returncode == 1
    assert done.stderr.startswith("parallel.py: error: ") and sentence.format(raw=raw) in done.stderr
    assert "Traceback" not in done.stderr and not (tmp_path / "bin").exists()


@pytest.mark.parametrize(
    "line, sentence",
    [
        ('{"id": "1", "article": "cut', "holds no JSON in line 2"),
        ('{"id": "1", "article": "no highlights"}', "has no text field 'highlights' in line 2"),
        ('["a list"]', "has no text field 'id' in line 2"),
    ],
)
def test_records(line, sentence, script, generated, tmp_path):
    raw = generated("cnndm", 5, 5, 5)
    records = (raw / "train.jsonl").read_text().splitlines()
    (raw / "train.jsonl").write_text("\n".join([records[0], line, *records[2:]]) + "\n")
    done = script("cnndm", "--raw", raw, "--out", tmp_path)
    assert done.returncode == 1 and f"train.jsonl {sentence}" in done.stderr and "Traceback" not in done.stderr


def test_story_that_is_not_utf8(tmp_path):
    (tmp_path / "all_train.txt").write_text("http://cnn/1\n")
    story = tmp_path / "cnn_stories/cnn/stories" / f"{sha1(b'http://cnn/1').hexdigest()}.story"
    story.parent.mkdir(parents=True)
    story.write_bytes(b"It rained.\n\n@highlight\n\ncaf\xe9\n")
    with pytest.raises(UserError, match=f"{story} is not UTF-8 in line 5"):
        cnndm._write_records(tmp_path, tmp_path / "all_train.txt", tmp_path / "train.jsonl")


@pytest.mark.parametrize(
    "options, sentence",
    [
        (["--train", "nowhere.jsonl"], "has no nowhere.jsonl"),
        (["--train", "train.jsonl:1-9"], "train.jsonl has 5 records from line 1 on, but lines up to 9 were requested"),
        (["--valid", "valid.jsonl:4-2"], "--valid valid.jsonl:4-2 is not a range of lines"),
    ],
)
def test_record_options(options, sentence, script, generated, tmp_path):
    done = script("cnndm", "--raw", generated("cnndm", 5, 5, 5), "--out", tmp_path, *options)
    assert done.returncode == 1 and sentence in done.stderr and "Traceback" not in done.stderr


def test_options_that_would_spoil_the_experiment(script, generated, tmp_path):
    raw = generated("iwslt14_deen")
    done = script("iwslt14_deen", "--raw", raw, "--out", tmp_path, "--train-prefix", "valid")
    assert done.returncode == 1 and "valid.de would be used for two of train, valid and test" in done.stderr
    done = script("iwslt14_deen", "--raw", raw, "--out", raw / "out")
    assert done.returncode == 1 and "lies in --raw" in done.stderr
