"""Writes the checkpoints beside it and the predictions of their models, once: later versions must predict the same.

    python tests/models/checkpoints/make.py NAME...

trains each NAME of MODELS for some updates on a few letters, in a folder of its own, and writes NAME.pt, NAME.json
(token numbers and the log-probabilities of the next ones) and dict.txt. Needs fairseq-preprocess and fairseq-train on
the PATH.
"""

import json
import subprocess
import sys
import tempfile
from argparse import Namespace
from pathlib import Path

import torch
from fairseq import checkpoint_utils, utils

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]
STREAMS = (
    "--task streaming_language_modeling --criterion streaming_lm --tokens-per-sample 8 --memory-in-checkpoint replay"
    " --decoder-embed-dim 8 --decoder-attention-heads 2"
)
SPANS = f"{STREAMS} --attention-span 6 --adaptive-span --span-ramp 2 --span-init 0.5"
MODELS = {
    "all_attention_lm_tiny": f"{SPANS} --persistent-vectors 4 --dropout 0.1",
    "span_transformer_lm_tiny": f"{SPANS} --decoder-ffn-embed-dim 8 --decoder-normalize-before --adaptive-input"
    " --adaptive-input-cutoff 6,9 --adaptive-softmax-cutoff 6,9 --adaptive-input-factor 2 --adaptive-softmax-factor 2"
    " --tie-adaptive-weights --tie-adaptive-proj",
    "feedback_lm_tiny": f"{SPANS} --decoder-ffn-embed-dim 8 --dropout 0.1",
    "transformer_xl_lm_tiny": f"{STREAMS} --decoder-ffn-embed-dim 8 --mem-len 6 --cross-head-p 0.5 --skip-schedule"
    " linear",
    "active_memory_lm_tiny": "--task language_modeling --sample-break-mode eos --max-target-positions 13"
    " --decoder-embed-dim 8 --decoder-ffn-embed-dim 8 --decoder-head-dim 4 --kernel-size 4",
}
TOKENS = [[2, 4, 5, 6, 7, 8, 9, 10, 11, 2, 5, 4, 3], [2, 11, 11, 11, 4, 2, 2, 9, 8, 7, 6, 5, 4]]


def train(name: str, folder: Path) -> None:
    """Paths are relative to the folder: the checkpoint says nothing about where it was made."""
    (folder / "fairseq_plugins").symlink_to(ROOT / "fairseq_plugins")
    (folder / "text").write_text("a b c d e f g h\nh g f e d c b a\na a b b c c\n" * 20)
    run(folder, "fairseq-preprocess --only-source --trainpref text --validpref text --destdir data")
    run(
        folder,
        f"fairseq-train data --user-dir fairseq_plugins --arch {name} {MODELS[name]} --optimizer adam --lr 0.01"
        " --batch-size 4 --max-update 40 --cpu --no-save-optimizer-state --no-epoch-checkpoints --save-dir saved",
    )


def run(folder: Path, command: str) -> None:
    subprocess.run(command.split(), cwd=folder, check=True, capture_output=True)


@torch.no_grad()
def log_probs(checkpoint: Path, data: Path) -> list:
    """The log-probabilities of a checkpoint's model after TOKENS [B, M, V]."""
    (model,), *_ = checkpoint_utils.load_model_ensemble_and_task([str(checkpoint)], arg_overrides={"data": str(data)})
    model.eval()
    return model.get_normalized_probs(model(torch.tensor(TOKENS)), log_probs=True).tolist()


def main(names: list[str]) -> None:
    utils.import_user_module(Namespace(user_dir=str(ROOT / "fairseq_plugins")))
    for name in names or MODELS:
        with tempfile.TemporaryDirectory() as folder:
            train(name, Path(folder))
            (HERE / "dict.txt").write_bytes((Path(folder) / "data/dict.txt").read_bytes())
            (HERE / f"{name}.pt").write_bytes((Path(folder) / "saved/checkpoint_last.pt").read_bytes())
        said = log_probs(HERE / f"{name}.pt", HERE)
        (HERE / f"{name}.json").write_text(json.dumps({"tokens": TOKENS, "log_probs": said}) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
