"""Averaging and tuning on checkpoints that fairseq-train wrote."""

import json
from pathlib import Path

import pytest
import torch

from fairseq_plugins.errors import UserError
from fairseq_plugins.text.levels import Bytes, Words
from fairseq_plugins.text.prepared import PreparedText
from fairseq_plugins.text.tokenisers import Plain
from fairseq_plugins.tools import tune_length_penalty
from fairseq_plugins.tools.average_checkpoints import average, last_checkpoints, to_average
from fairseq_plugins.tools.lib.generation_log import read_generation

TIED = ("encoder.embed_tokens.weight", "decoder.embed_tokens.weight", "decoder.output_projection.weight")


def save(path, extra_state={}, **parameters):
    """A checkpoint with the parts that fairseq's loader reads."""
    state = {"model": parameters, "args": None, "optimizer_history": [{"best_loss": 0.0}], "extra_state": extra_state}
    torch.save(state, path)
    return path


@pytest.fixture(scope="module")
def training(run, user_dir, tmp_path_factory):
    """A folder with binarised data (``bin``) and checkpoints by epoch and update (``save``), embeddings shared."""
    folder = tmp_path_factory.mktemp("run")
    words = ["red", "old", "king", "dog", "sees", "runs"]
    for split, number in (("train", 64), ("valid", 9), ("test", 5)):
        pairs = [[words[(n * k + k) % 6] for k in range(1, 3 + n % 4)] for n in range(number)]
        (folder / f"{split}.a").write_text("".join(" ".join(pair) + "\n" for pair in pairs))
        (folder / f"{split}.b").write_text("".join(" ".join(reversed(pair)) + "\n" for pair in pairs))
    files = [word for split in ("train", "valid", "test") for word in (f"--{split}pref", folder / split)]
    run("fairseq-preprocess", *"-s a -t b --joined-dictionary".split(), *files, "--destdir", folder / "bin")
    sizes = "--{0}-layers 1 --{0}-embed-dim 8 --{0}-ffn-embed-dim 8 --{0}-attention-heads 2"
    run(
        "fairseq-train", folder / "bin", "--user-dir", user_dir, "--save-dir", folder / "save",
        *[word for side in ("encoder", "decoder") for word in sizes.format(side).split()],
        *"--arch transformer --share-all-embeddings --optimizer adam --lr 0.01 --max-tokens 60 --max-epoch 3".split(),
        *"--save-interval-updates 2 --disable-validation --log-format none --cpu".split(),
    )  # fmt: skip
    return folder


def test_averaged_parameters_are_means_and_shared_ones_stay_shared(training, run, tool, user_dir):
    output, saved = training / "average.pt", training / "save"
    done = tool("average_checkpoints", saved, "--last", 2, "--output", output)
    assert "averaging 2 checkpoints: checkpoint2.pt checkpoint3.pt" in done.stdout, done.stderr
    paths = (saved / "checkpoint2.pt", saved / "checkpoint3.pt", output)
    two, three, mean = (torch.load(path, weights_only=False)["model"] for path in paths)
    assert mean.keys() == three.keys()
    for name in mean:
        expected = ((two[name].double() + three[name].double()) / 2).to(mean[name].dtype)
        torch.testing.assert_close(mean[name], expected, rtol=0, atol=0)
    assert not torch.equal(mean[TIED[0]], three[TIED[0]])
    assert len({mean[name].data_ptr() for name in TIED}) == 1
    assert output.stat().st_size < paths[1].stat().st_size  # the file holds a shared tensor once
    generate = ["fairseq-generate", training / "bin", "--path", output, "--user-dir", user_dir, "--cpu", "--beam", 2]
    assert "Generate test with beam=2" in run(*generate, "--required-batch-size-multiple", 1).stdout


def test_parameters_tied_in_one_checkpoint_only_are_averaged_apart(tmp_path):
    shared = torch.ones(2)
    tied = save(tmp_path / "tied.pt", a=shared, b=shared)
    apart = save(tmp_path / "apart.pt", a=torch.zeros(2), b=torch.full((2,), 3.0))
    for paths in ([tied, apart], [apart, tied]):
        model = average(paths)["model"]
        assert model["a"].tolist() == [0.5, 0.5] and model["b"].tolist() == [2.0, 2.0]


def test_sums_are_kept_in_double_precision(tmp_path):
    # in half precision every one of the small numbers would be lost
    values = torch.tensor([1.0] + 7 * [3e-4], dtype=torch.float16)
    paths = [save(tmp_path / f"{n}.pt", a=value[None]) for n, value in enumerate(values)]
    mean = average(paths)["model"]["a"]
    assert mean.dtype == torch.float32 and mean.item() == values.double().mean().float().item()


def test_models_of_other_symbols_are_not_averaged(tmp_path):
    one, same, other = (
        save(tmp_path / f"{n}.pt", a=torch.ones(2), extra_state={"text": {"symbols": {"source": sums}}})
        for n, sums in enumerate(["3f", "3f", "4a"])
    )
    average([one, same])
    with pytest.raises(UserError, match="2.pt is of a text with other symbols than .*0.pt"):
        average([one, same, other])


def test_no_memory_belongs_to_an_average(tmp_path):
    path = save(tmp_path / "a.pt", a=torch.ones(2), extra_state={"identity": "3f", "val_loss": 2.0})
    extra_state = average([path, path])["extra_state"]
    assert "identity" not in extra_state and extra_state["val_loss"] == 2.0


def test_checkpoints_are_taken_by_update_or_epoch(training):
    save = training / "save"
    assert [path.name for path in last_checkpoints(save, 3, "epoch")] == [f"checkpoint{n}.pt" for n in (1, 2, 3)]
    updates = [int(path.stem.split("_")[2]) for path in last_checkpoints(save, 2, "update")]
    assert updates == sorted(updates)[-2:] and all(update % 2 == 0 for update in updates)
    with pytest.raises(UserError, match="holds 3 checkpoints by epoch, fewer than --last 4"):
        last_checkpoints(save, 4, "epoch")


@pytest.mark.parametrize("name", ["checkpoint3.pt", "checkpoint_last.pt"])
def test_no_average_takes_the_place_of_a_checkpoint(name, training, tool):
    checkpoint = training / "save" / name
    before = checkpoint.read_bytes()
    done = tool("average_checkpoints", training / "save", "--last", 2, "--output", checkpoint)
    assert done.returncode and f"{name} is a checkpoint already; name another file" in done.stderr
    assert checkpoint.read_bytes() == before


def test_an_average_takes_its_text_along_but_replaces_no_other(tmp_path, tool):
    for name, lower in (("one", True), ("same", True), ("other", False)):
        (tmp_path / name).mkdir()
        save(tmp_path / name / "model.pt", a=torch.ones(2))
        PreparedText(Plain(lower), Plain(lower), Bytes()).save(tmp_path / name)
    output = tmp_path / "averages/average.pt"
    for name in ("one", "same"):
        done = tool("average_checkpoints", tmp_path / name / "model.pt", "--output", output)
        assert done.returncode == 0, done.stderr
    before = (output.parent / "prepared_text.json").read_bytes()
    done = tool("average_checkpoints", tmp_path / "other/model.pt", "--output", output.with_name("other.pt"))
    assert done.returncode and "--output: " in done.stderr and "prepared otherwise than that of" in done.stderr
    assert (output.parent / "prepared_text.json").read_bytes() == before


@pytest.mark.parametrize(
    "inputs, last, by, sentence",
    [
        (["a", "b"], 2, None, "--last takes one folder, not 2"),
        (["a.pt"], None, "update", "--by needs --last"),
        (["a.pt", "b.pt", "./a.pt"], None, None, "a.pt is named twice"),
    ],
)
def test_flags_that_do_not_go_together_are_refused(inputs, last, by, sentence):
    with pytest.raises(UserError, match=sentence):
        to_average([*map(Path, inputs)], last, by)


def test_no_copy_counts_twice(training):
    """fairseq copies the last checkpoint to checkpoint_last.pt."""
    names = [training / "save" / name for name in ("checkpoint2.pt", "checkpoint3.pt", "checkpoint_last.pt")]
    assert to_average(names[:2], None, None) == names[:2]
    with pytest.raises(UserError, match="checkpoint_last.pt is a copy of .*checkpoint3.pt, which would count twice"):
        to_average(names, None, None)


def test_what_cannot_be_averaged_is_refused(training, tool, tmp_path):
    good = training / "save" / "checkpoint3.pt"
    save(tmp_path / "a.pt", a=torch.ones(2))
    save(tmp_path / "longer.pt", a=torch.ones(3))
    (tmp_path / "cut.pt").write_bytes(good.read_bytes()[:5000])
    for paths, sentence in (
        ([tmp_path / "a.pt", tmp_path / "longer.pt"], r"a has shape \(3,\) in .*longer.pt but \(2,\)"),
        ([good, tmp_path / "a.pt"], "differ in parameter"),
        ([tmp_path / "cut.pt"], "cut.pt is damaged"),
        ([tmp_path / "none.pt"], "none.pt does not exist"),
        ([tmp_path], "is a folder: name its checkpoints, or add --last"),
    ):
        with pytest.raises(UserError, match=sentence):
            average(paths)
    done = tool("average_checkpoints", good, "--output", tmp_path / "dict.txt")
    assert done.returncode == 2 and "is no name of a file that ends in .pt" in done.stderr
    done = tool("average_checkpoints", tmp_path / "cut.pt", "--output", tmp_path / "out.pt")
    assert done.returncode == 1 and "Traceback" not in done.stderr and not (tmp_path / "out.pt").exists()


def test_the_best_length_penalty_is_chosen_and_done_settings_are_not_run_again(training, tool):
    out = training / "tuning"
    command = ["tune_length_penalty", training / "bin", "--path", training / "save/checkpoint3.pt", "--out", out]
    command += "--lenpen -3 1.0 --max-len-b 6 -- --cpu --beam 2 --required-batch-size-multiple 1".split()
    first = tool(*command)
    assert first.returncode == 0, first.stderr
    best = json.loads((out / "best.json").read_text())
    assert first.stdout.split() == best["flags"] and best["score"] == max(point["score"] for point in best["points"])
    assert len(best["points"]) == 2 and "is the smallest or largest value that was tried" in first.stderr
    logs = sorted(out.glob("*.txt"))
    assert all(len(read_generation(log)) == 9 for log in logs) and len(logs) == 2

    times = [log.stat().st_mtime_ns for log in logs]
    assert tool(*command).stdout == first.stdout and [log.stat().st_mtime_ns for log in logs] == times


def test_done_settings_are_run_again_if_the_data_have_changed(tmp_path, monkeypatch, main):
    """The generation is a stand-in that counts how often it is called."""
    data, checkpoint = tmp_path / "a[b]", tmp_path / "model.pt"
    data.mkdir()
    for file in (checkpoint, *(data / name for name in ("valid.a-b.a.bin", "test.a-b.a.bin", "dict.a.txt"))):
        file.write_text("one")
    sizes, runs = {}, []
    text = PreparedText(Plain(), Plain(), Words(), "a", "b", sizes)
    text.save(data)

    def generate(command, output, log):
        output.write_text("T-0\tred king\nH-0\t-1\tred king\nGenerate valid\n")
        runs.append(command)

    monkeypatch.setattr(tune_length_penalty, "_generate", generate)
    words = [data, "--path", checkpoint, "--out", tmp_path / "out", "--lenpen", 1]
    changes = {"nothing": 1, "test.a-b.a.bin": 1, "valid.a-b.a.bin": 2, "dict.a.txt": 3, "prepared_text.json": 4}
    for name, expected in changes.items():
        if name == "prepared_text.json":
            sizes["valid"] = 3
        elif name != "nothing":
            (data / name).write_text((data / name).read_text() + " ")
        if name.endswith(("txt", "json")):
            text.save(data)  # it knows the dictionary
        for _ in range(2):
            main(tune_length_penalty, *words)
        assert len(runs) == expected, name


def test_a_failing_generation_is_named(training, tmp_path, main):
    checkpoint = training / "save/checkpoint3.pt"
    words = [tmp_path / "nowhere", "--path", checkpoint, "--out", tmp_path, "--lenpen", 1.0]
    with pytest.raises(UserError, match="^cannot use .*nowhere.*; this came from: fairseq-generate .*--lenpen 1 "):
        main(tune_length_penalty, *words, "--", "--cpu")
    assert not list(tmp_path.glob("*.txt"))
    with pytest.raises(UserError, match="--metric rougeLsum needs --references"):
        main(tune_length_penalty, *words, "--metric", "rougeLsum")


@pytest.mark.parametrize(
    "log, error",
    [
        ("50%|#\nfairseq_plugins: error: cannot use a/b:\n  check the path.\n", "cannot use a/b: check the path."),
        ("Traceback\n  at x\nRuntimeError: sizes of\n\ttensors differ\n", "RuntimeError: sizes of tensors differ"),
        ("one\nKilled\n", "Killed"),
        ("", "it failed and said nothing"),
    ],
)
def test_the_error_in_a_log_is_whole(log, error):
    assert tune_length_penalty.error_in(log) == error
