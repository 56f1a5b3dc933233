#!/usr/bin/env bash
# fairseq-fixed 0.12.3.1 (fairseq 0.12): a training that stops within its second epoch and goes on sees some sentences
# twice in that epoch, and others never.
#
# Guess: fairseq-train resumes at the batch where it stopped, so each of 200 sentences comes once an epoch, as in the
# unbroken training. Seen: batches are made with the random seed + epoch of the epoch in which the process started, and
# are kept. The process that began in epoch 1 and the one that goes on in epoch 2 cut the sentences differently: in
# epoch 2, 188 of the 200 come once, 6 twice and 6 never. Nothing is logged.
#
# torch 2.6 and later refuse to load fairseq's checkpoints, so TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD is set for our own.
# The script fails if that changes.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
export PATH=$folder/venv/bin:$PATH TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD=1
pip install --quiet torch==2.13.0 numpy==2.4.6 antlr4-python3-runtime==4.9.3 bitarray==3.12.3 cffi==2.1.1 cython==3.3.1 \
    hydra-core==1.3.2 omegaconf==2.3.0 packaging==26.3 regex==2026.11.15 sacrebleu==2.6.0 scikit-learn==1.9.1 tqdm==4.70.1 \
    "setuptools<81" wheel
pip install --quiet --no-deps --no-build-isolation fairseq-fixed==0.12.3.1

python - <<'PYTHON'
import random

random.seed(1)
for split, lines in {"train": 200, "valid": 10}.items():
    with open(f"{split}.a", "w") as source, open(f"{split}.b", "w") as target:
        for _ in range(lines):
            words = random.choices("abcdefghij", k=random.randint(2, 20))
            print(*words, file=source)
            print(*reversed(words), file=target)
PYTHON
mkdir plugin
cat >plugin/__init__.py <<'PYTHON'
import os

from fairseq.criterions import register_criterion
from fairseq.criterions.cross_entropy import CrossEntropyCriterion


@register_criterion("cross_entropy_seen")
class CrossEntropySeen(CrossEntropyCriterion):
    """Writes the numbers of the sentences of every update into the file SEEN."""

    def forward(self, model, sample, reduce=True):
        if model.training:
            with open(os.environ["SEEN"], "a") as file:
                print(*sample["id"].tolist(), file=file)
        return super().forward(model, sample, reduce)
PYTHON
fairseq-preprocess -s a -t b --trainpref train --validpref valid --destdir data >log 2>&1

train() {
    fairseq-train data --user-dir plugin --criterion cross_entropy_seen --arch transformer_tiny --optimizer adam \
        --lr 0.001 --max-tokens 200 --required-batch-size-multiple 1 --cpu --num-workers 0 "$@" >log 2>&1 || { cat log; exit 2; }
}
SEEN=unbroken train --max-epoch 2 --no-save
updates=$(($(wc -l <unbroken) / 2))
SEEN=resumed train --max-update $((updates + updates / 2)) --save-dir checkpoints # a first process
SEEN=resumed train --max-epoch 2 --save-dir checkpoints                           # goes on

python -W ignore - "$updates" <<'PYTHON'
import sys
from collections import Counter
from importlib.metadata import version

import torch


def second_epoch(file: str) -> dict[int, int]:
    """How many of the 200 sentences come how often."""
    often = Counter(word for line in open(file).read().splitlines()[int(sys.argv[1]) :] for word in line.split())
    return dict(sorted(Counter(often[str(number)] for number in range(200)).items()))


print(f"fairseq-fixed {version('fairseq-fixed')}, torch {torch.__version__}")
for training in ("unbroken", "resumed"):
    print(f"{training}: sentences in epoch 2, by how often they come: {second_epoch(training)}")
resumed = second_epoch("resumed")
sys.exit(not (second_epoch("unbroken") == {1: 200} and resumed.get(0, 0) > 0 and resumed.get(2, 0) > 0))
PYTHON
