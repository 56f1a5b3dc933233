#!/usr/bin/env bash
# fairseq-fixed 0.12.3.1 (fairseq 0.12): a Transformer with --share-decoder-input-output-embed and --adaptive-softmax-cutoff.
#
# Guess: an adaptive softmax has weights of its own, so the first flag has no effect beside it, or fairseq-train refuses the
# two together; and fairseq-generate loads what fairseq-train has saved. Seen: it trains and saves, and then neither
# fairseq-generate nor the same fairseq-train loads the checkpoint ('Unexpected key(s) in state_dict:
# "decoder.output_projection.weight"'). The file does not have this key. The loading code, which upgrades checkpoints of old
# versions, adds it whenever embeddings are shared.
#
# torch 2.6 and later refuse to load fairseq's checkpoints, so TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD is set for our own.
# The script fails if that changes.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
export PATH=$folder/venv/bin:$PATH TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD=1
pip install --quiet torch==2.13.0 numpy==1.26.4 antlr4-python3-runtime==4.9.3 bitarray==3.12.3 cffi==2.1.1 cython==3.3.1 \
    hydra-core==1.3.2 omegaconf==2.3.0 packaging==26.3 regex==2026.11.15 sacrebleu==2.6.0 scikit-learn==1.9.1 tqdm==4.70.1 \
    "setuptools<81" wheel
pip install --quiet --no-deps --no-build-isolation fairseq-fixed==0.12.3.1
pip list 2>log | grep -E "^(fairseq-fixed|numpy|torch) "

python - <<'PYTHON'
import random

random.seed(1)
for split, lines in {"train": 200, "valid": 10}.items():
    with open(f"{split}.de", "w") as source, open(f"{split}.en", "w") as target:
        for _ in range(lines):
            words = random.choices("abcdefghij", k=random.randint(1, 4))
            print(*words, file=source)
            print(*words, file=target)
PYTHON
fairseq-preprocess -s de -t en --trainpref train --validpref valid --destdir data >log 2>&1 || { cat log; exit 2; }

# train FOLDER EPOCHS [FLAG...]: a small Transformer with an adaptive softmax
train() {
    fairseq-train data --arch transformer --encoder-layers 1 --decoder-layers 1 --encoder-embed-dim 16 --decoder-embed-dim 16 \
        --encoder-ffn-embed-dim 16 --decoder-ffn-embed-dim 16 --encoder-attention-heads 2 --decoder-attention-heads 2 \
        --adaptive-softmax-cutoff 5,8 --criterion adaptive_loss --ddp-backend legacy_ddp --optimizer adam --lr 0.01 \
        --batch-size 50 --max-epoch "$2" --cpu --num-workers 0 --no-epoch-checkpoints --save-dir "$1" "${@:3}"
}
# loads FOLDER: whether fairseq-generate loads the checkpoint
loads() { fairseq-generate data --path "$1/checkpoint_last.pt" --gen-subset valid --cpu >log 2>&1; }

train apart 1 >log 2>&1 || { cat log; exit 2; }
loads apart && echo "without shared embeddings fairseq-generate loads the checkpoint"
train shared 1 --share-decoder-input-output-embed >log 2>&1 || { cat log; exit 2; }
python - <<'PYTHON'
import torch

saved = torch.load("shared/checkpoint_last.pt", weights_only=False)["model"]
print("keys with output_projection in the file:", [key for key in saved if "output_projection" in key])
PYTHON
loads shared && { echo "fairseq-generate loads it now"; exit 1; }
echo "with them it says: $(grep -o 'Unexpected key.*' log)"
train shared 2 --share-decoder-input-output-embed >log 2>&1 && { echo "fairseq-train goes on now"; exit 1; }
echo "fairseq-train says: $(grep -o 'Unexpected key.*' log | head -1)"
grep -q 'Unexpected key(s) in state_dict: "decoder.output_projection.weight"' log
