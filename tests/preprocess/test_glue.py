"""GLUE for fairseq's sentence_prediction: what the files say, no more and no less, in the order of their rows."""

from collections import Counter

import pytest
from fairseq.data.encoders.gpt2_bpe_utils import get_encoder
from glue import BPE_FILES, TASKS, learn_encoding, read_rows
from prepared_data import lines, symbols


def rows(file):
    return [line.split("\t") for line in lines(file)]


def binarised(out, task, part, split):
    """The lines of a binarised part, as the text that was binarised."""
    folder = out / task / "bin" / part
    return [" ".join(line[:-1]) for line in symbols(folder / split, folder / "dict.txt")]


def sentences(out, task, part, split, bpe_dir):
    encoder = get_encoder(str(bpe_dir / "encoder.json"), str(bpe_dir / "vocab.bpe"))
    return [encoder.decode(map(int, line.split())) for line in binarised(out, task, part, split)]


def test_sentences_and_labels_are_the_columns_of_the_files(prepare, generated, tmp_path):
    raw, out = generated("glue", train=30, valid=10), tmp_path / "out"
    spoiled = raw / "MNLI" / "train.tsv"
    spoiled.write_text("\ufeff" + spoiled.read_text().replace("\n", "\na row of another length\n", 1))
    odd = 'He said "oh",  n’t \x85 😀 '
    dev = raw / "MNLI" / "dev_matched.tsv"
    dev.write_text(dev.read_text() + f"0\t{odd}\tnothing\tneutral\n")
    command = "glue", "--raw", raw, "--out", out, "--tasks", "MNLI", "--learn-bpe", 40, "--workers", 1
    said = prepare(*command)
    assert "train.tsv 31 rows in, 30 out (contradiction 10, entailment 10, neutral 10), 1 dropped" in said
    expected = [row for row in rows(spoiled)[1:] if len(row) == 4]
    for part, column in (("input0", 1), ("input1", 2)):
        assert sentences(out, "MNLI", part, "train", out / "bpe") == [row[column] for row in expected]
    assert binarised(out, "MNLI", "label", "train") == [row[3] for row in expected]
    assert sentences(out, "MNLI", "input0", "valid", out / "bpe")[-1] == odd.strip()
    assert ", 0.0% unknown" in said and "100.0% unknown" not in said

    again = prepare(*command)
    assert again.count("(done before)") == 6 and "bpe: " in again


def test_no_task_is_left_in_an_encoding_that_is_learned_anew(prepare, refused, generated, tmp_path):
    raw, out = generated("glue", train=12, valid=6), tmp_path / "out"
    command = "glue", "--raw", raw, "--out", out, "--learn-bpe", 20, "--workers", 1, "--tasks"
    prepare(*command, "CoLA")
    before = (out / "bpe" / "vocab.bpe").read_bytes()
    assert "holds CoLA in the encoding that --learn-bpe would replace" in refused(*command, "SST-2")
    assert (out / "bpe" / "vocab.bpe").read_bytes() == before and not (out / "SST-2").exists()
    prepare(*command, "SST-2", "CoLA")
    assert (out / "bpe" / "vocab.bpe").read_bytes() != before
    for task in ("SST-2", "CoLA"):
        assert sentences(out, task, "input0", "valid", out / "bpe") == lines(out / task / "text" / "valid.input0")


def test_every_task_is_read_from_the_columns_that_its_header_names(generated):
    raw = generated("glue", train=12, valid=6)
    for name, task in TASKS.items():
        for split, number in (("train", 12), ("valid", 6)):
            dropped = Counter()
            *inputs, labels = zip(*read_rows(task, raw / name / task.file(split), dropped))
            assert len(labels) == number and set(labels) == set(task.labels) and not dropped
            assert all(len(sentence.split()) > 2 for column in inputs for sentence in column)
    acceptable = read_rows(TASKS["CoLA"], raw / "CoLA" / "train.tsv", Counter())
    assert all(sentence.endswith(".") == (label == "1") for sentence, label in acceptable)


def test_a_learned_encoding_is_in_the_files_of_gpt_2_and_undone_by_its_decoder(tmp_path):
    sample = tmp_path / "sample"
    sample.write_text("low lower lowest, newer newest: low low\n" * 3)
    said = learn_encoding([sample], 12, *(tmp_path / name for name in BPE_FILES))
    assert said == "12 merges requested, 12 learned"
    encoder = get_encoder(str(tmp_path / "encoder.json"), str(tmp_path / "vocab.bpe"))
    assert len(encoder.encode(" low")) == 1 < len(encoder.encode(" owl"))
    unseen = "Ünseen \t words 😀"
    assert encoder.decode(encoder.encode(unseen)) == unseen
    types = {line.split()[0] for line in lines(tmp_path / "dict.txt")}
    assert types == {str(number) for number in encoder.encoder.values()} and len(types) == 256 + 12


HEADER = "Quality\t#1 ID\t#2 ID\t#1 String\t#2 String\n"


@pytest.mark.parametrize("content, options, sentence", [
    (HEADER.lower(), [], "train.tsv has no column '#1 String': its first line must name the columns"),
    (HEADER + "2\t1\t2\ta\tb\n", [], "train.tsv line 2: the label '2' is not one of 0, 1."),
    (HEADER, [], "train.tsv has no rows below its header"),
    (None, [], "has no MRPC/train.tsv: get the task from https://gluebenchmark.com/tasks"),
    (HEADER + "1\t1\t2\ta\tb\n", ["--bpe-dir", "."], "--bpe-dir . has no encoder.json: get it from https://"),
])  # fmt: skip
def test_broken_input_is_named(content, options, sentence, refused, tmp_path):
    raw = tmp_path / "MRPC"
    raw.mkdir()
    for name in ("train.tsv", "dev.tsv"):
        (raw / name).write_text(content or HEADER)
    if content is None:
        (raw / "train.tsv").unlink()
    assert sentence in refused("glue", "--raw", tmp_path, "--out", tmp_path / "out", "--tasks", "MRPC", *options)
    assert not (tmp_path / "out/MRPC/bin").exists()


def test_without_raw_text_it_says_where_to_get_it(refused, tmp_path):
    assert "--raw is missing: get the .tsv files" in refused("glue", "--out", tmp_path)
