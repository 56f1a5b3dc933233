#!/usr/bin/env bash
# Figure 8, char-PTB, 6 layers: a single layer as memory, or the average of all, instead of their weighted sum. The
# paper gives its numbers in the figure only. It reports that higher layers are better memories, that the first layer's
# output is as good as the Transformer, that the average works reasonably well and that the weighted sum matches the best.
# Layer 0 is the embedding. Ten trainings; we have not run them to the end. Draws memory.png.
#
# From the paper (section 7.6, Table 9): sizes, span and dropout (in the architectures), Adam with learning rate 0.0015,
# 1,000 updates of linear warm-up, the gradient clipped at norm 1, 2,048 streams in blocks of 128, 15,000 updates or
# fewer if the validation loss stops decreasing, 1,000 more at a tenth of the rate. Ours: the loss has stopped decreasing
# when ten validations in a row, one every 400 updates, bring no lower loss; the checkpoint with the lowest validation
# loss is used; one stream scores every token of dev and test once, ends of lines included (--batch-size 1); fp32.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"
SETTINGS+=([STREAMS]=2048 [VALID_STREAMS]=64 [BLOCK]=128 [LEARNING_RATE]=0.0015 [WARM_UP]=1000 [UPDATES]=15000
    [FINE_TUNING]=1000 [EPOCHS]=20)
WORDS+=([ANY_SIZE]="" [SMALLER]=""
    [MEMORIES]="layer-0 layer-1 layer-2 layer-3 layer-4 layer-5 layer-6 average weighted")
CHOICES+=([SPLIT_STREAMS]="")
SMOKE_SETTINGS+=([STREAMS]=8 [VALID_STREAMS]=2 [BLOCK]=32 [LEARNING_RATE]=0.005 [WARM_UP]=10 [UPDATES]=40
    [FINE_TUNING]=10 [EPOCHS]=1 [ANY_SIZE]=--any-size [MEMORIES]="layer-1 average"
    [SMALLER]="--decoder-layers 2 --decoder-embed-dim 32 --decoder-ffn-embed-dim 64 --decoder-attention-heads 2
        --attention-span 64")
begin "$@"
share_streams
TRAINING=(--task streaming_language_modeling --criterion streaming_lm --tokens-per-sample "$BLOCK" "${STREAM_FLAGS[@]}"
    --stream-offset random --optimizer adam --clip-norm 1 --lr-scheduler fixed --warmup-updates "$WARM_UP"
    --validate-interval "$EPOCHS" --save-interval "$EPOCHS" --patience 10 --no-epoch-checkpoints)
EVALUATION=(--batch-size 1 --tokens-per-sample "$BLOCK")

prepare char_ptb "${ANY_SIZE[@]}"
for memory in "${MEMORIES[@]}"; do
    train_twice "feedback-$memory" "$UPDATES" "$FINE_TUNING" --arch feedback_lm_char_ptb --feedback-memory "$memory"
done
train_twice transformer "$UPDATES" "$FINE_TUNING" --arch span_transformer_lm_twin_char_ptb
first_node_only
for memory in "${MEMORIES[@]}"; do row_drawn "feedback-$memory" char-PTB; done
row_drawn transformer char-PTB
plot memory.png rows "$OUT" --metric "dev bpc" "test bpc"
table
