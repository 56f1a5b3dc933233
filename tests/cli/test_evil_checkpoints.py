"""A checkpoint whose settings are code, in each command and tool that reads one: none of it runs."""

import json

import pytest
import torch

from fairseq_plugins import compat  # noqa: F401  (allows torch.load to read fairseq's checkpoints)

CODE = "__import__('os').mkdir('RAN') or [2]"
FROM_PRETRAINED = """
import sys, fairseq_plugins
from fairseq import hub_utils
hub_utils.from_pretrained(sys.argv[1], "evil.pt", sys.argv[2])
"""


def own(settings):
    settings["adaptive_softmax_cutoff"] = CODE


def convolutions(settings):
    """The checkpoint chooses the architecture, and this one reads more of its settings so."""
    settings.update(_name="fconv", arch="fconv", encoder_layers=CODE, encoder_embed_path=None, decoder_embed_path=None)


def characters(settings):
    settings.update(_name="transformer_lm", character_embeddings=True, character_filters=CODE)


# command -> status; None where it has to be refused
COMMANDS = {
    "generate": (None, "fairseq-generate {data} --path {evil}"),
    "interactive": (None, "fairseq-interactive {data} --path {evil}"),
    "validate": (None, "fairseq-validate {data} --path {evil} --task translation --max-tokens 600"),
    "length penalty": (
        None,
        "python -m fairseq_plugins.tools.tune_length_penalty {data} --path {evil} --out tuned --lenpen 1 -- --beam 1",
    ),
    # These read the weights only; a training has settings of its own.
    "finetune": (0, "fairseq-train {data} {flags} --max-update 2 --finetune-from-model {evil} --save-dir tuned"),
    "restore": (
        0,
        "fairseq-train {data} {flags} --max-update 2 --restore-file {evil} --reset-optimizer --reset-dataloader"
        " --save-dir tuned",
    ),
    "average": (0, "python -m fairseq_plugins.tools.average_checkpoints {evil} --output average.pt"),
}


@pytest.fixture
def evil(trained, tmp_path):
    """evil(change) -> a checkpoint of whose settings some are code."""

    def make(change):
        state = torch.load(trained.checkpoint, weights_only=False)
        change(state["cfg"]["model"] if isinstance(state["cfg"]["model"], dict) else vars(state["cfg"]["model"]))
        torch.save(state, tmp_path / "evil.pt")
        return tmp_path / "evil.pt"

    return make


@pytest.mark.parametrize("name", COMMANDS)
def test_no_command_runs_it(name, evil, run, reverse_corpus, tiny_flags, user_dir, tmp_path):
    status, command = COMMANDS[name]
    command = command.format(data=reverse_corpus.bin, evil=evil(own), flags=" ".join(tiny_flags)).split()
    if command[0].startswith("fairseq"):
        command += ["--user-dir", user_dir, "--cpu"]
    here = {} if command[0].startswith("fairseq") else {"PYTHONPATH": str(user_dir.parent)}
    done = run(*command, cwd=tmp_path, check=False, input="a b\n", env=here)
    assert not list(tmp_path.rglob("RAN")), done.stdout + done.stderr
    assert "Traceback" not in done.stderr, done.stderr
    if status is None:
        assert done.returncode and "could be code and was not evaluated" in done.stdout + done.stderr, done.stderr
    else:
        assert done.returncode == status, done.stderr


def test_it_names_no_file_to_empty(trained, run, reverse_corpus, user_dir, tmp_path):
    """fairseq-validate builds the criterion of the checkpoint, and this one opens a file."""
    state = torch.load(trained.checkpoint, weights_only=False)
    (tmp_path / "mine.txt").write_text("mine")
    criterion = {"_name": "sentence_ranking", "ranking_head_name": "x", "num_classes": 2}
    state["cfg"]["criterion"] = {**criterion, "save_predictions": str(tmp_path / "mine.txt")}
    torch.save(state, tmp_path / "evil.pt")
    command = ["fairseq-validate", reverse_corpus.bin, "--path", tmp_path / "evil.pt", "--task", "translation"]
    run(*command, "--max-tokens", 600, "--user-dir", user_dir, "--cpu", check=False)
    assert (tmp_path / "mine.txt").read_text() == "mine"


@pytest.mark.parametrize("change", [convolutions, characters])
def test_it_may_choose_another_architecture(change, evil, run, reverse_corpus, user_dir, tmp_path):
    command = ["fairseq-generate", reverse_corpus.bin, "--path", evil(change), "--user-dir", user_dir, "--cpu"]
    done = run(*command, cwd=tmp_path, check=False)
    assert done.returncode and not list(tmp_path.rglob("RAN"))
    assert "could be code and was not evaluated" in done.stderr, done.stderr


def test_a_pretrained_model_from_python(evil, run, reverse_corpus, tmp_path, user_dir):
    command = ["python", "-c", FROM_PRETRAINED, evil(own).parent, reverse_corpus.bin]
    done = run(*command, cwd=tmp_path, check=False, env={"PYTHONPATH": str(user_dir.parent)})
    assert done.returncode and not list(tmp_path.rglob("RAN"))
    assert "could be code and was not evaluated" in done.stderr, done.stderr


def test_rows_of_a_table_are_text(run, user_dir, tmp_path):
    (tmp_path / "results.jsonl").write_text(json.dumps({"cell": CODE, CODE: CODE}) + "\n")
    done = run("python", user_dir / "tools/results_table.py", "show", tmp_path / "results.jsonl", cwd=tmp_path)
    assert CODE in done.stdout and not list(tmp_path.rglob("RAN"))
