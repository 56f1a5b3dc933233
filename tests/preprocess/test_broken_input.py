"""Broken input ends in one sentence that names the file, with status 1 and without a traceback."""

from hashlib import sha1

import cnndm
import pytest

from fairseq_plugins.errors import UserError


@pytest.mark.parametrize(
    "name, content, sentence",
    [
        (
            "train.en",
            "only one\n",
            "train.en has 1 lines but {raw}/train.lomi has 200: give two files with as many lines",
        ),
        ("valid.lomi", "", "valid.lomi is empty"),
        ("test.en", None, "has no test text for 'en': put test.en there"),
        ("train.en", "\n" * 200, "is left after cleaning (dropped: 200 empty): raise the limit"),
        ("", None, "--raw {raw} is not a folder that exists"),
    ],
)
def test_parallel_text(name, content, sentence, refused, generated, tmp_path):
    raw = generated("parallel")
    if content is None:
        (raw / name).rename(tmp_path / "moved")
    else:
        (raw / name).write_text(content)
    said = refused("parallel", "--raw", raw, "--source", "en", "--target", "lomi", "--out", tmp_path, "--workers", 1)
    assert sentence.format(raw=raw) in said and not (tmp_path / "bin").exists()


@pytest.mark.parametrize(
    "line, sentence",
    [
        ('{"id": "1", "article": "cut', "holds no JSON in line 2"),
        ('{"id": "1", "article": "no highlights"}', "has no text field 'highlights' in line 2"),
        ('["a list"]', "has no text field 'id' in line 2"),
    ],
)
def test_records(line, sentence, refused, generated, tmp_path):
    raw = generated("cnndm", 5, 5, 5)
    records = (raw / "train.jsonl").read_text().splitlines()
    (raw / "train.jsonl").write_text("\n".join([records[0], line, *records[2:]]) + "\n")
    assert f"train.jsonl {sentence}" in refused("cnndm", "--raw", raw, "--out", tmp_path)


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
def test_record_options(options, sentence, refused, generated, tmp_path):
    assert sentence in refused("cnndm", "--raw", generated("cnndm", 5, 5, 5), "--out", tmp_path, *options)


def test_options_that_would_spoil_the_experiment(refused, generated, tmp_path):
    raw = generated("iwslt14_deen")
    said = refused("iwslt14_deen", "--raw", raw, "--out", tmp_path, "--train-prefix", "valid")
    assert "valid.de would be used for two of train, valid and test" in said
    assert "lies in --raw" in refused("iwslt14_deen", "--raw", raw, "--out", raw / "out")
