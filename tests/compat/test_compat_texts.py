"""Data and checkpoints whose dictionaries or codes do not belong together: where fairseq takes one word for another."""

import os
import shutil
from argparse import Namespace
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from fairseq import checkpoint_utils, tasks
from fairseq.data import Dictionary
from fairseq.data.encoders.subword_nmt_bpe import SubwordNMTBPE
from fairseq.dataclass.configs import CheckpointConfig
from fairseq.tasks.translation import TranslationConfig
from fakes import Trainer, write_checkpoint
from omegaconf import OmegaConf

from fairseq_plugins.errors import UserError
from fairseq_plugins.models.feedback_transformer import FeedbackTransformerModel
from fairseq_plugins.text.keeping import Record, refuse_other_preparation
from fairseq_plugins.text.levels import Bytes, Characters
from fairseq_plugins.text.prepared import FILE, PreparedText
from fairseq_plugins.text.tokenisers import Plain
from fairseq_plugins.tools.average_checkpoints import average

LETTERS = {"en": "abcdefgh", "de": "stuvwxyz"}
LAST = "checkpoint_last.pt"


def write(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


def exchange(dictionary: Path) -> None:
    """Exchange the first two lines: as many words, in another order."""
    first, second, *others = dictionary.read_text().splitlines(keepends=True)
    dictionary.write_text("".join([second, first, *others]))


def other_counts(dictionary: Path) -> None:
    dictionary.write_text("".join(f"{line.split()[0]} 7\n" for line in dictionary.read_text().splitlines()))


@pytest.fixture(scope="module")
def site(run, user_dir, tmp_path_factory):
    """A plain translation: what fairseq-preprocess and fairseq-train wrote."""
    folder = tmp_path_factory.mktemp("plain")
    for side, letters in LETTERS.items():
        lines = [" ".join(letters[-number:]) for number in range(1, 9)]  # the last letter is the most frequent
        (folder / f"train.{side}").write_text("\n".join(lines) + "\n")
    raw = folder / "train"
    run(*"fairseq-preprocess -s en -t de --trainpref".split(), raw, "--validpref", raw, "--destdir", folder / "bin")
    flags = "--arch feedback_transformer_tiny --cpu --optimizer adam --max-tokens 100 --num-workers 0 --max-update 2"
    run("fairseq-train", folder / "bin", "--user-dir", user_dir, *flags.split(), "--save-dir", folder / "runs")
    return SimpleNamespace(data=folder / "bin", runs=folder / "runs")


@pytest.fixture
def copy(site, tmp_path):
    """The same in a folder of the test's own."""
    for name in ("data", "runs"):
        shutil.copytree(getattr(site, name), tmp_path / name)
    return SimpleNamespace(data=tmp_path / "data", runs=tmp_path / "runs", checkpoint=tmp_path / "runs" / LAST)


def load(checkpoint: Path, data: Path, source="en", target="de", fairseqs=False):
    load = checkpoint_utils.load_model_ensemble_and_task
    while fairseqs and hasattr(load, "__wrapped__"):
        load = load.__wrapped__
    return load([str(checkpoint)], {"data": str(data), "source_lang": source, "target_lang": target})


def test_a_folder_with_a_plain_model_is_complete(copy):
    assert {path.name for path in copy.runs.glob("dict*")} == {"dict.en.txt", "dict.de.txt"}
    shutil.rmtree(copy.data)
    translator = FeedbackTransformerModel.from_pretrained(copy.runs, LAST)
    assert isinstance(translator.translate("a b c"), str)
    translator.translate("a b")


@pytest.mark.parametrize("alone", [False, True])
def test_no_dictionary_in_another_order(copy, alone, tmp_path):
    """Even for a checkpoint that was copied away without the files beside it."""
    checkpoint = shutil.copy(copy.checkpoint, tmp_path / "alone.pt") if alone else copy.checkpoint
    other_counts(copy.data / "dict.de.txt")
    load(checkpoint, copy.data)
    exchange(copy.data / "dict.de.txt")
    load(checkpoint, copy.data, fairseqs=True)  # and translates by wrong words
    with pytest.raises(UserError, match=f"{checkpoint} is of a text with other symbols than {copy.data}.*dict.de.txt"):
        load(checkpoint, copy.data)


def test_exchanged_languages_have_other_dictionaries(copy):
    shutil.copy(copy.data / "dict.en.txt", copy.data / "dict.xx.txt")
    load(copy.checkpoint, copy.data, "xx", "de")  # another name of the same symbols
    with pytest.raises(UserError, match="other symbols than .*dict.de.txt"):
        load(copy.checkpoint, copy.data, "de", "en")


def translation(data: Path):
    config = TranslationConfig(data=str(data), source_lang="en", target_lang="de", _name="translation")
    return tasks.setup_task(OmegaConf.structured(config))


def test_a_task_that_is_there_already_is_asked_for_its_dictionaries(copy):
    exchange(copy.data / "dict.en.txt")
    task = translation(copy.data)
    with pytest.raises(UserError, match="other symbols than .*dict.en.txt"):
        checkpoint_utils.load_model_ensemble([str(copy.checkpoint)], task=task)
    task = translation(copy.runs)
    checkpoint_utils.load_model_ensemble([str(copy.checkpoint)], task=task)


def test_a_dictionary_beside_a_checkpoint_is_checked_when_it_is_used(copy):
    exchange(copy.runs / "dict.de.txt")
    load(copy.checkpoint, copy.data)
    with pytest.raises(UserError, match=f"{copy.runs}/dict.de.txt is damaged or of another text"):
        FeedbackTransformerModel.from_pretrained(copy.runs, LAST)
    shutil.copy(copy.data / "dict.de.txt", copy.runs)  # as the sentence says
    FeedbackTransformerModel.from_pretrained(copy.runs, LAST)


def test_a_checkpoint_of_an_earlier_version_loads_as_before(copy, tmp_path):
    state = torch.load(copy.checkpoint)
    del state["extra_state"]["text"]
    (tmp_path / "earlier").mkdir()
    torch.save(state, tmp_path / "earlier/model.pt")
    exchange(copy.data / "dict.de.txt")
    load(tmp_path / "earlier/model.pt", copy.data)
    shutil.copy(copy.runs / "dict.de.txt", tmp_path / "earlier")
    with pytest.raises(UserError, match="other symbols"):
        load(tmp_path / "earlier/model.pt", copy.data)


def test_an_average_knows_its_text(copy, tmp_path):
    torch.save(average([copy.checkpoint]), tmp_path / "average.pt")
    load(tmp_path / "average.pt", copy.data)
    exchange(copy.data / "dict.en.txt")
    with pytest.raises(UserError, match="other symbols"):
        load(tmp_path / "average.pt", copy.data)


BAD = ({"../../../etc/hostname": "x"}, {"/dev/zero": "x"}, {"..": "x"}, {"a" * 256: "x"}, {3: "x"}, {"name": 3})


def test_the_record_of_a_checkpoint_is_checked(copy, tmp_path):
    PreparedText(Plain(), Plain(), Characters(), "de", "en").save(tmp_path)
    prepared = PreparedText.load(tmp_path).content
    good = torch.load(copy.checkpoint)["extra_state"]["text"]
    for bad in ([], {"symbols": 3}, {"symbols": {"source": 3}}, {"more": 1}, good | {"languages": ["en"]},
                good | {"prepared": {"level": []}}, *(good | {"prepared": prepared | {"files": files}} for files in BAD)
                ):  # fmt: skip
        with pytest.raises(UserError, match="a.pt has another text than the suite saves"):
            Record.of_checkpoint("a.pt", {"extra_state": {"text": bad}})
    os.mkfifo(tmp_path / "pipe")
    for name in ("none", "pipe"):
        record = Record(prepared=prepared | {"files": {name: "x"}})
        with pytest.raises(UserError, match=f"{name}, which a.pt needs, is missing: copy it"):
            refuse_other_preparation(record, Path("a.pt"), tmp_path)


@pytest.fixture
def trainer(tmp_path):
    """A training with the data in the folder bin."""
    options = Namespace(data=str(tmp_path / "bin"))
    return Trainer(options, task=SimpleNamespace(cfg=options))


def checkpoint_of(data: Path, path: Path, with_record=True) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    record = {"text": Record.of_data(data, None).as_state()} if with_record else {}
    return write_checkpoint(path, extra_state={"train_iterator": {"epoch": 1}, "metrics": None, **record})


@pytest.mark.parametrize("option", ["finetune_from_model", "restore_file"])
@pytest.mark.parametrize("with_record", [False, True])
def test_a_training_does_not_start_from_a_model_of_other_symbols(trainer, option, with_record, tmp_path):
    data, other = tmp_path / "bin", tmp_path / "other"
    write(data / "dict.txt", "a 2\nb 1\n")
    write(other / "dict.txt", "b 2\na 1\n")
    model = checkpoint_of(other, other / "model.pt", with_record)
    cfg = CheckpointConfig(save_dir=str(tmp_path / "runs"), **{option: str(model)})
    with pytest.raises(UserError, match=f"{other}/model.pt is of a text with other symbols than {data}"):
        checkpoint_utils.load_checkpoint(cfg, trainer)


def test_labels_may_be_others_for_fine_tuning_only(trainer, tmp_path):
    data, other = tmp_path / "bin", tmp_path / "other"
    for folder, labels in ((data, "yes 2\nno 1\n"), (other, "no 2\nyes 1\n")):
        write(folder / "input0/dict.txt", "a 2\nb 1\n")
        write(folder / "label/dict.txt", labels)
    model = str(checkpoint_of(other, other / "model.pt"))
    save = str(tmp_path / "runs")
    checkpoint_utils.load_checkpoint(CheckpointConfig(save_dir=save, finetune_from_model=model), trainer)
    checkpoint_utils.load_checkpoint(CheckpointConfig(save_dir=save, restore_file=model, reset_optimizer=True), trainer)
    with pytest.raises(UserError, match="other symbols than .*label/dict.txt"):
        checkpoint_utils.load_checkpoint(CheckpointConfig(save_dir=save, restore_file=model), trainer)


def test_a_training_does_not_begin_beside_a_model_of_other_text(trainer, tmp_path):
    data, runs = tmp_path / "bin", tmp_path / "runs"
    for folder, lower in ((data, True), (runs, False)):
        folder.mkdir()
        PreparedText(Plain(lower), Plain(lower), Bytes()).save(folder)
    checkpoint_of(runs, runs / LAST)
    with pytest.raises(UserError, match=f"{runs} holds a model of differently prepared text: give another --save-dir"):
        checkpoint_utils.load_checkpoint(CheckpointConfig(save_dir=str(runs)), trainer)


def test_a_model_that_is_not_loaded_is_not_asked_for_its_symbols(trainer, tmp_path, monkeypatch):
    """--restore-file is checkpoint_last.pt by default, which is in --save-dir, not in the working folder."""
    write(tmp_path / "bin/dict.txt", "a 2\nb 1\n")
    write(tmp_path / "dict.txt", "b 2\na 1\n")
    checkpoint_of(tmp_path, tmp_path / LAST)
    monkeypatch.chdir(tmp_path)
    trainer.load_checkpoint = lambda path, *others, **more: os.path.exists(path) or None
    assert checkpoint_utils.load_checkpoint(CheckpointConfig(save_dir=str(tmp_path / "runs")), trainer)[0] is None


def test_the_users_own_dictionary_is_not_overwritten(trainer, tmp_path):
    write(tmp_path / "bin/dict.txt", "a 2\nb 1\n")
    write(tmp_path / "mine/dict.txt", "b 2\na 1\n")
    with pytest.raises(UserError, match="mine holds .* give another --save-dir, or delete .*mine/dict.txt"):
        checkpoint_utils.load_checkpoint(CheckpointConfig(save_dir=str(tmp_path / "mine")), trainer)


def test_a_model_that_lost_prepared_text_json_is_refused(copy, tmp_path):
    """Its raw text would be taken for symbols."""
    state = torch.load(copy.checkpoint)
    PreparedText(Plain(), Plain(), Characters(), "en", "de").save(copy.data)
    PreparedText(Plain(), Plain(), Characters(), "en", "de").save(copy.runs)
    state["extra_state"]["text"] = Record.of_data(copy.data, ("en", "de")).as_state()
    torch.save(state, copy.checkpoint)
    FeedbackTransformerModel.from_pretrained(copy.runs, LAST)
    PreparedText(Plain(lower=True), Plain(), Characters(), "en", "de").save(copy.runs)
    with pytest.raises(UserError, match=f"{copy.runs / FILE} is of a text that was prepared otherwise"):
        FeedbackTransformerModel.from_pretrained(copy.runs, LAST)
    (copy.runs / FILE).unlink()
    with pytest.raises(UserError, match=f"{copy.runs} has lost its {FILE}"):
        FeedbackTransformerModel.from_pretrained(copy.runs, LAST)
    FeedbackTransformerModel.from_pretrained(copy.runs, LAST, bpe=None)
    shutil.copy(copy.data / FILE, copy.runs)
    FeedbackTransformerModel.from_pretrained(copy.runs, LAST)


def shards(tmp_path, **dictionaries) -> dict[str, str]:
    for name, symbols in dictionaries.items():
        for dictionary in ("dict.en.txt", "dict.de.txt", "dict.txt"):
            write(tmp_path / name / dictionary, symbols)
    return ":".join(str(tmp_path / name) for name in dictionaries)


@pytest.mark.parametrize("task", ["translation", "language_modeling", "streaming_language_modeling", "labelled_stream"])
def test_shards_have_the_dictionary_of_the_first(task, tmp_path):
    def set_up(data):
        config = tasks.TASK_DATACLASS_REGISTRY[task](data=data, _name=task)
        if task == "translation":
            config.source_lang, config.target_lang = "en", "de"
        return tasks.setup_task(OmegaConf.structured(config))

    set_up(shards(tmp_path, a="x 3\ny 1\n", b="x 1\ny 1\n"))
    for other in ("y 3\nx 1\n", "x 3\n"):
        data = shards(tmp_path, a="x 3\ny 1\n", b="x 1\ny 1\n", c=other)
        with pytest.raises(UserError, match=f"data folders {tmp_path}/a and {tmp_path}/c have different dictionaries"):
            set_up(data)


def test_shards_are_prepared_in_the_same_way(tmp_path):
    data = shards(tmp_path, a="x 3\n", b="x 1\n")
    for name, lower in (("a", True), ("b", False)):
        PreparedText(Plain(lower), Plain(lower), Characters()).save(tmp_path / name)
    with pytest.raises(UserError, match=f"text of the data folders {tmp_path}/a and {tmp_path}/b was prepared diff"):
        tasks.setup_task(Namespace(task="language_modeling", data=data))


DAMAGED = {
    b"a\n": "the dictionary FILE has the line 'a' instead of <token>",
    b"a x\n": "the dictionary FILE has the line 'a' instead of <token>",
    b"a 1\n\nb 1\n": "the dictionary FILE has the line '' instead of <token>",
    b"a 1\na 1\n": "the dictionary FILE has 'a' twice",
    b"\xff 1\n": "FILE is not UTF-8",
}


@pytest.mark.parametrize("content, said", DAMAGED.items())
def test_a_damaged_dictionary_is_named(content, said, tmp_path):
    file = str(tmp_path / "dict.txt")
    Path(file).write_bytes(content)
    with pytest.raises(UserError, match=f"{said.replace('FILE', file)}.*; copy it again"):
        Dictionary.load(file)
    with pytest.raises(FileNotFoundError):
        Dictionary.load(str(tmp_path / "none"))


@pytest.mark.parametrize("codes", [b"#version: 0.2\na b c\n", b"#version: x\na b\n", b"#version:\n", b"\xff b\n"])
def test_damaged_codes_do_not_end_the_program(codes, tmp_path):
    (tmp_path / "codes").write_bytes(codes)
    cfg = SimpleNamespace(bpe_codes=str(tmp_path / "codes"), bpe_separator="@@")
    with pytest.raises((SystemExit, ValueError, IndexError)):
        SubwordNMTBPE.__init__.__wrapped__(object.__new__(SubwordNMTBPE), cfg)
    with pytest.raises(UserError, match=f"--bpe-codes {tmp_path}/codes is damaged"):
        SubwordNMTBPE(cfg)
