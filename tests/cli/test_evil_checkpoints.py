"""A checkpoint whose settings are code, in commands that read it: none of it runs.

tests/compat/test_compat_settings.py and test_compat_names.py try every such setting and every way to load.
"""

import pytest
import torch

from fairseq_plugins import compat  # noqa: F401  (allows torch.load to read fairseq's checkpoints)

CODE = "__import__('os').mkdir('RAN') or [2]"

COMMANDS = {
    "generate": "fairseq-generate {data} --user-dir {plugins} --cpu --path evil.pt",
    # These read the weights only; a training has settings of its own.
    "finetune": "fairseq-train {data} --user-dir {plugins} --max-update 2 --finetune-from-model evil.pt --save-dir new",
    "average": "python -m fairseq_plugins.tools.average_checkpoints evil.pt --output average.pt",
}


@pytest.mark.parametrize("name", COMMANDS)
def test_no_command_runs_it(name, run, trained, reverse_corpus, tiny_flags, user_dir, tmp_path):
    state = torch.load(trained.checkpoint, weights_only=False)
    state["cfg"]["model"].adaptive_softmax_cutoff = CODE
    torch.save(state, tmp_path / "evil.pt")
    command = COMMANDS[name].format(data=reverse_corpus.bin, plugins=user_dir).split()
    flags = tiny_flags if name == "finetune" else []
    here = {"PYTHONPATH": str(user_dir.parent)} if name == "average" else {}
    done = run(*command, *flags, cwd=tmp_path, check=False, env=here)
    assert not list(tmp_path.rglob("RAN")) and "Traceback" not in done.stderr, done.stderr
    if name == "generate":
        assert done.returncode and "could be code and was not evaluated" in done.stderr, done.stderr
    else:
        assert done.returncode == 0, done.stderr
