"""A converted model in every command that takes a model."""

import re
import shutil
import sys
from pathlib import Path

import pytest
import torch

from fairseq_plugins.tools.lib.load import load
from fairseq_plugins.tools.lib.scoring import score_stream

sys.path.insert(0, str(Path(__file__).parents[1] / "conversion"))
from golden_files import Golden
from xl_files import XLGolden


@pytest.mark.parametrize("name", ["allattn_adaptive_io_tied", "feedback_pre_sharekv_span", "txl_adaptive_div2"])
def test_every_command_takes_a_converted_model(name, run, user_dir, tmp_path):
    golden = XLGolden(name) if name.startswith("txl") else Golden(name)
    checkpoint, vocabulary = golden.save(tmp_path)
    ramp = ["--span-ramp", golden.ramp] if golden.ramp else []
    words = [checkpoint, "--from", golden.source, "--vocabulary", vocabulary, "--tokens-per-sample", 4, *ramp]
    folder = tmp_path / "model"
    told = run("python", "-m", "fairseq_plugins.tools.convert", *words, "--out", folder).stdout
    made = folder / "checkpoint_best.pt"

    text = [golden.symbols[(7 * place) % len(golden.symbols)] for place in range(40)]
    lines = " ".join(text).replace("<eos>", "\n")
    for split, copies in {"test.txt": 1, "train.txt": 30, "valid.txt": 2}.items():
        (tmp_path / split).write_text(f"{lines}\n" * copies)
    data, files = tmp_path / "data", [word for s in ("test", "train", "valid") for word in (f"--{s}pref", f"{s}.txt")]
    plugins = ["--user-dir", user_dir]
    preprocess = ["fairseq-preprocess", *plugins, "--only-source", "--srcdict", folder / "dict.txt", *files]
    run(*preprocess, "--destdir", data, cwd=tmp_path)
    shutil.copy(folder / "prepared_text.json", data)

    # each loss as from the model in this process: what that says is compared in tests/conversion
    flags = re.search(r"--task streaming_language_modeling .*?(?= --no-first-target)", told)[0].split()
    evaluate = ["fairseq-eval-lm", data, *plugins, *flags, "--no-first-target", "--path", made]
    done = run(*evaluate, "--batch-size", 1, "--num-workers", 0, "--output-word-probs")
    found = [float(nats) for nats in re.findall(r" \[(-\d+\.\d+)\]", done.stderr + done.stdout)]
    model, _, task = load(made, {"data": str(folder)}, cpu=True)
    dictionary = task.source_dictionary
    ends_lines = "--no-end-of-line" not in flags
    read = [symbol for symbol in text if ends_lines or symbol != "<eos>"]
    first, *others = [dictionary.eos() if symbol == "<eos>" else dictionary.index(symbol) for symbol in read]
    assert found[: len(others)] == pytest.approx(list(score_stream(model, others, first, 4)), abs=1e-5)
    assert len(found) == len(others) + ends_lines  # the last line ends

    tool = ["python", "-m"]
    sample = [*tool, "fairseq_plugins.tools.sample", "--path", made, "--prompt", "the"]
    assert run(*sample, "--length", 5).stdout.startswith("the")
    score = run(*tool, "fairseq_plugins.tools.score_text", made, tmp_path / "test.txt")
    assert len(score.stdout.splitlines()) == len(lines.splitlines())

    tune = re.search(r"--criterion streaming_lm --finetune-from-model .*", told)[0].split()
    train = ["fairseq-train", data, *plugins, *flags, *tune, "--optimizer", "adam", "--lr", "0.001", "--batch-size", 2]
    run(*train, "--max-update", 3, "--cpu", "--num-workers", 0, "--save-dir", tmp_path / "tuned")
    assert (tmp_path / "tuned/prepared_text.json").read_text() == (folder / "prepared_text.json").read_text()
    before, after = (torch.load(path)["model"] for path in (made, tmp_path / "tuned/checkpoint_last.pt"))
    assert 0 < max((after[name] - before[name]).abs().max() for name in before) < 0.01
