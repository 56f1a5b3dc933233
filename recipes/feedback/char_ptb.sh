#!/usr/bin/env bash
# char-PTB with the sizes of Table 9, 6 layers and 10.7M parameters: the Feedback Transformer beside the Transformer,
# the pair that Figures 5, 8 and 9 start from. Draws curves.png, and memory.png: the share of each layer in the feedback
# memory, softmax(w) of equation 1, over the updates. We have not run it to the end.
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
WORDS+=([ANY_SIZE]="" [SMALLER]="")
CHOICES+=([SPLIT_STREAMS]="")
SMOKE_SETTINGS+=([STREAMS]=8 [VALID_STREAMS]=2 [BLOCK]=32 [LEARNING_RATE]=0.005 [WARM_UP]=10 [UPDATES]=40
    [FINE_TUNING]=10 [EPOCHS]=1 [ANY_SIZE]=--any-size
    [SMALLER]="--decoder-layers 2 --decoder-embed-dim 32 --decoder-ffn-embed-dim 64 --decoder-attention-heads 2
        --attention-span 64")
begin "$@"
share_streams
TRAINING=(--task streaming_language_modeling --criterion streaming_lm --tokens-per-sample "$BLOCK" "${STREAM_FLAGS[@]}"
    --stream-offset random --optimizer adam --clip-norm 1 --lr-scheduler fixed --warmup-updates "$WARM_UP"
    --validate-interval "$EPOCHS" --save-interval "$EPOCHS" --patience 10 --no-epoch-checkpoints)
EVALUATION=(--batch-size 1 --tokens-per-sample "$BLOCK")

prepare char_ptb "${ANY_SIZE[@]}"
train_twice feedback "$UPDATES" "$FINE_TUNING" --arch feedback_lm_char_ptb --log-learned
train_twice transformer "$UPDATES" "$FINE_TUNING" --arch span_transformer_lm_twin_char_ptb
first_node_only
row_drawn feedback char-PTB
row_drawn transformer char-PTB
plot curves.png curves "feedback=$OUT/feedback" "transformer=$OUT/transformer" --metric bpc
plot memory.png memory "$OUT/feedback"
table
