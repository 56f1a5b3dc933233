"""GLUE for fairseq's sentence_prediction: what the files say, no more and no less, in the order of their rows."""

from collections import Counter

import pytest
from fairseq.data import Dictionary, indexed_dataset
from fairseq.data.encoders.gpt2_bpe_utils import get_encoder
from glue import BPE_FILES, TASKS, learn_encoding, read_rows


def lines(path):
    return path.read_text(encoding="utf-8").split("\n")[:-1]


def rows(file):
    return [line.split("\t") for line in lines(file)]


def binarised(out, task, part, split):
    """The lines of a binarised part, as the text that was binarised."""
    folder = out / task / "bin" / part
    dictionary = Dictionary.load(str(folder / "dict.txt"))
    data = indexed_dataset.make_dataset(str(folder / split), impl="mmap")
    return [dictionary.string(data[number]) for number in range(len(data))]


def sentences(out, task, part, split, bpe_dir):
    encoder = get_encoder(str(bpe_dir / "encoder.json"), str(bpe_dir / "vocab.bpe"))
    return [encoder.decode(map(int, line.split())) for line in binarised(out, task, part, split)]


def test_sentences_and_labels_are_the_columns_of_the_files(script, generated, tmp_path):
    raw, out = generated("glue", train=30, valid=10), tmp_path / "out"
    spoiled = raw / "MNLI" / "train.tsv"
    spoiled.write_text("\ufeff" + spoiled.read_text().replace("\n", "\na row of another length\n", 1))
    odd = 'He said "oh",  n’t \x85 😀 '
    dev = raw / "MNLI" / "dev_matched.tsv"
    dev.write_text(dev.read_text() + f"0\t{odd}\tnothing\tneutral\n")
    done = script("glue", "--raw", raw, "--out", out, "--tasks", "MNLI", "--learn-bpe", 40, "--workers", 1)
    assert done.returncode == 0, done.stderr
    assert "train.tsv 31 rows in, 30 out (contradiction 10, entailment 10, neutral 10), 1 dropped" in done.stdout
    expected = [row for row in rows(spoiled)[1:] if len(row) == 4]
    for part, column in (("input0", 1), ("input1", 2)):
        assert sentences(out, "MNLI", part, "train", out / "bpe") == [row[column] for row in expected]
    assert binarised(out, "MNLI", "label", "train") == [row[3] for row in expected]
    assert sentences(out, "MNLI", "input0", "valid", out / "bpe")[-1] == odd.strip()
    assert ", 0.0% unknown" in done.stdout and "100.0% unknown" not in done.stdout

    again = script("glue", "--raw", raw, "--out", out, "--tasks", "MNLI", "--learn-bpe", 40, "--workers", 1)
    assert again.stdout.count("(done before)") == 6 and "bpe: " in again.stdout


def test_no_task_is_left_in_an_encoding_that_is_learned_anew(script, generated, tmp_path):
    raw, out = generated("glue", train=12, valid=6), tmp_path / "out"

    def prepare(*tasks):
        return script("glue", "--raw", raw, "--out", out, "--learn-bpe", 20, "--workers", 1, "--tasks", *tasks)

    assert prepare("CoLA").returncode == 0
    before = (out / "bpe" / "vocab.bpe").read_bytes()
    done = prepare("SST-2")
    assert done.returncode == 1 and "holds CoLA in the encoding that --learn-bpe would replace" in done.stderr
    assert (out / "bpe" / "vocab.bpe").read_bytes() == before and not (out / "SST-2").exists()
    assert prepare("SST-2", "CoLA").returncode == 0
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


def no_column(file):
    file.write_text(file.read_text().replace("Quality", "quality"))


def strange_label(file):
    file.write_text(file.read_text() + "2\t1\t2\ta\tb\n")


def only_header(file):
    file.write_text(file.read_text().split("\n")[0] + "\n")


@pytest.mark.parametrize("spoil, options, sentence", [
    (no_column, [], "train.tsv has no column 'Quality': its first line must name the columns"),
    (strange_label, [], "train.tsv line 10: the label '2' is not one of 0, 1."),
    (only_header, [], "train.tsv has no rows below its header"),
    (lambda file: file.unlink(), [], "has no MRPC/train.tsv: get the task from https://gluebenchmark.com/tasks"),
    (lambda file: None, ["--bpe-dir", "."], "--bpe-dir . has no encoder.json: get it from https://"),
])  # fmt: skip
def test_broken_input_is_named(spoil, options, sentence, script, generated, tmp_path):
    raw = generated("glue", train=8, valid=4)
    spoil(raw / "MRPC" / "train.tsv")
    done = script("glue", "--raw", raw, "--out", tmp_path, "--tasks", "MRPC", *options)
    assert done.returncode == 1 and "Traceback" not in done.stderr
    assert done.stderr.startswith("glue.py: error: ") and sentence in done.stderr
    assert not (tmp_path / "MRPC" / "bin").exists()


def test_without_raw_text_it_says_where_to_get_it(script, tmp_path):
    done = script("glue", "--out", tmp_path)
    assert done.returncode == 1 and done.stderr.startswith("glue.py: error: --raw is missing: get the .tsv files")
