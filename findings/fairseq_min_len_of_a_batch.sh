#!/usr/bin/env bash
# fairseq-fixed 0.12.3.1 (fairseq 0.12): whether a language model honours --min-len depends on the other prompts of its
# batch.
#
# Guess: --min-len 9 gives at least nine symbols for a prompt of one, alone or beside a prompt of eleven, since a batch is
# a matter of speed. Seen: alone it is continued to nine; beside the longer one it ends at once, with the prompt as the
# result and another score. --min-len is looked at only in steps that lie behind the longest prompt of the batch.
#
# torch 2.6 and later refuse to load fairseq's checkpoints, so TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD is set for our own.
# numpy is 1.26, since --sample-break-mode eos needs np.compat. The script fails if that changes.
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
for split, lines in {"train": 400, "valid": 10}.items():
    with open(split, "w") as file:
        for _ in range(lines):
            print(*random.choices("abcdefghij", k=random.randint(1, 3)), file=file)
PYTHON
{
    fairseq-preprocess --only-source --trainpref train --validpref valid --destdir data
    fairseq-train data --task language_modeling --sample-break-mode eos --arch transformer_lm --decoder-layers 1 \
        --decoder-embed-dim 16 --decoder-ffn-embed-dim 16 --decoder-attention-heads 2 --optimizer adam --lr 0.01 \
        --batch-size 50 --max-epoch 3 --cpu --num-workers 0 --save-dir checkpoints --no-epoch-checkpoints
} >log 2>&1 || { cat log; exit 2; }

# symbols BATCH_SIZE: what the prompt of one symbol becomes
symbols() {
    printf 'a\na b c d e f g h i j a\n' | fairseq-interactive data --task language_modeling --cpu --beam 1 --min-len 9 \
        --max-len-b 30 --path checkpoints/checkpoint_last.pt --buffer-size 2 --batch-size "$1" 2>log | grep '^H-0' | cut -f 3
}
alone=$(symbols 1)
beside=$(symbols 2)
echo "the prompt 'a' with --min-len 9, alone: $alone"
echo "the prompt 'a' with --min-len 9, beside a longer one: $beside"
(($(wc -w <<<"$alone") >= 9)) && [[ $beside == a ]]
