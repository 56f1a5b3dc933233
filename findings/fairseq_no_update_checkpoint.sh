#!/usr/bin/env bash
# fairseq-fixed 0.12.3.1 (fairseq 0.12): --save-interval-updates writes no checkpoint of an update that ends an epoch.
#
# Guess: 8 updates, with --save-interval-updates 2 and --no-epoch-checkpoints, leave checkpoints of the updates 2, 4, 6
# and 8, whatever the length of an epoch. Seen: with epochs of four updates only those of 2 and 6 are there, and with
# epochs of two updates none at all. So an average of the last checkpoints by update is of others, or of nothing.
#
# The script fails if that changes.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
export PATH=$folder/venv/bin:$PATH
pip install --quiet torch==2.13.0 numpy==1.26.4 antlr4-python3-runtime==4.9.3 bitarray==3.12.3 cffi==2.1.1 cython==3.3.1 \
    hydra-core==1.3.2 omegaconf==2.3.0 packaging==26.3 regex==2026.11.15 sacrebleu==2.6.0 scikit-learn==1.9.1 tqdm==4.70.1 \
    "setuptools<81" wheel
pip install --quiet --no-deps --no-build-isolation fairseq-fixed==0.12.3.1
pip list 2>log | grep -E "^(fairseq-fixed|numpy|torch) "

python - <<'PYTHON'
for split, lines in {"train": 32, "valid": 4}.items():
    for side in "ab":
        open(f"{split}.{side}", "w").write("w x y z\n" * lines)
PYTHON
fairseq-preprocess -s a -t b --trainpref train --validpref valid --destdir data >log 2>&1

# saved BATCH_SIZE: the names of the checkpoints of 8 updates, each of so many of the 32 sentences
saved() {
    fairseq-train data --arch transformer_tiny --optimizer adam --lr 0.001 --batch-size "$1" --max-update 8 --cpu \
        --num-workers 0 --save-interval-updates 2 --no-epoch-checkpoints --no-last-checkpoints --disable-validation \
        --save-dir "checkpoints$1" >log 2>&1 || { cat log >&2; exit 2; }
    (cd "checkpoints$1" && shopt -s nullglob && echo checkpoint*)
}
four=$(saved 8)
two=$(saved 16)
echo "epochs of four updates: $four"
echo "epochs of two updates: ${two:-no checkpoint}"
[[ $four == "checkpoint_1_2.pt checkpoint_2_6.pt" && ! $two ]]
