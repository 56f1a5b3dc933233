"""Options that cannot stand together are refused by the commands' own parsers, and those that can are not."""

import functools
import re
from unittest import mock

import pytest
from fairseq import options

from fairseq_plugins.errors import UserError
from fairseq_plugins.options import combinations

TRAIN = "data --arch transformer_tiny --optimizer adam --max-update 10"
PARSERS = {
    "train": (options.get_training_parser, TRAIN),
    "generate": (options.get_generation_parser, "data --path model.pt"),
    "interactive": (options.get_interactive_generation_parser, "data --path model.pt"),
    "eval-lm": (options.get_eval_lm_parser, "data --path model.pt"),
    "validate": (options.get_validation_parser, "data --path model.pt --task translation"),
}


def parse(command, flags):
    make, needed = PARSERS[command]
    return options.parse_args_and_arch(make(), needed.split() + flags.split())


@functools.cache
def said(command):
    """The error message, where no optional package is installed."""
    with mock.patch.object(combinations, "installed", lambda name: False), pytest.raises(UserError) as refused:
        parse(*command.split(maxsplit=1))
    return str(refused.value)


# A command, the sentence that refuses it, and the command with the advice followed
WRONG = [
    ("train --criterion ppo --update-freq 2", "adds up updates of PPO that are to follow one another",
     "train --criterion ppo"),
    ("train --write-checkpoints-asynchronously", "writes checkpoints that are not verified", "train"),
    ("generate --sampling", "--sampling draws --beam 5 outputs, and prints all of them: set --nbest 1",
     "generate --sampling --nbest 5"),
    ("interactive --sampling --nbest 2", "--sampling draws --beam 5 outputs, and prints all of them: set --nbest 2",
     "interactive --sampling --nbest 5"),
    ("generate --nbest 6", "--nbest 6 is more than --beam 5 finds", "generate --nbest 6 --beam 6"),
    ("generate --min-len 201", "--max-len-b 200 is below --min-len 201", "generate --min-len 201 --max-len-b 201"),
    ("generate --max-len-b 0", "--max-len-b 0 is below --min-len 1", "generate --max-len-b 0 --min-len 0"),
    ("generate --max-len-b -1 --min-len 0", "--max-len-b -1 is below --min-len 0",
     "generate --max-len-b 0 --min-len 0"),
    ("generate --diverse-beam-groups 3", "--diverse-beam-groups 3 does not divide --beam 5",
     "generate --diverse-beam-groups 5"),
    ("generate --sampling-topk 3", "--sampling-topk 3 needs --sampling",
     "generate --sampling-topk 3 --sampling --nbest 5"),
    ("generate --sampling-topp 0.5", "--sampling-topp 0.5 needs --sampling",
     "generate --sampling-topp 0.5 --sampling --nbest 5"),
    ("generate --match-source-len --diversity-rate 0.5", "exclude one another", "generate --match-source-len"),
    ("generate --match-source-len --min-len 2", "whatever --min-len 2 says; leave --min-len out",
     "generate --match-source-len"),
    ("generate --constraints", "--constraints is for fairseq-interactive", "interactive --constraints"),
    ("generate --replace-unk", "--replace-unk does not work in this version of fairseq", "generate --print-alignment"),
    ("interactive --print-alignment soft", "--print-alignment soft is for fairseq-generate",
     "interactive --print-alignment hard"),
    ("generate --num-shards 2 --shard-id 2", "--shard-id 2 is too large for --num-shards 2",
     "generate --num-shards 2 --shard-id 1"),
    ("generate --distributed-world-size 2 --distributed-rank 2", "too large for --distributed-world-size 2, since",
     "generate --distributed-world-size 2"),
    ("train --num-shards 2", "--num-shards is for fairseq-generate", "train"),
    ("validate --num-shards 2", "--num-shards is for fairseq-generate", "validate"),
    ("interactive --num-shards 2", "--num-shards is for fairseq-generate", "interactive"),
    ("eval-lm --path=", "--path is missing", "eval-lm"),
    ("eval-lm --path a.pt:b.pt", "--path a.pt:b.pt names several checkpoints", "eval-lm --path a.pt"),
    ("validate --model-overrides {'int8':True}", "int8 has no effect in fairseq-validate", "validate"),
    ("validate --path a.pt:b.pt", "--path a.pt:b.pt names several checkpoints", "validate --path b.pt"),
    ("eval-lm --context-window 1024", "--context-window 1024 is not below --tokens-per-sample 1024",
     "eval-lm --context-window 1023"),
    ("train --lr-scheduler inverse_sqrt --warmup-updates 0", "inverse_sqrt needs --warmup-updates",
     "train --lr-scheduler inverse_sqrt --warmup-updates 1"),
    ("train --lr-scheduler polynomial_decay", "polynomial_decay needs --total-num-update",
     "train --lr-scheduler polynomial_decay --total-num-update 9"),
    ("train --lr-scheduler cosine --max-update 0", "cosine needs --lr-period-updates",
     "train --lr-scheduler cosine --lr-period-updates 4 --max-update 0"),
    ("train --lr-scheduler cosine --warmup-updates 10", "cosine needs --lr-period-updates",
     "train --lr-scheduler cosine --warmup-updates 10 --max-update 11"),
    ("train --lr-scheduler cosine --min-lr 0.5", "--min-lr 0.5 is not below --lr",
     "train --lr-scheduler cosine --min-lr 0.1"),
    ("train --arch all_attention_lm_tiny --persistent-vectors 0 --persistent-integration head-split",
     "--persistent-integration head-split needs --persistent-vectors above 0",
     "train --arch all_attention_lm_tiny --persistent-vectors 0 --persistent-integration all-attn"),
    ("train --lr-scheduler cosine_wave --t-mult 3", "--t-mult and --lr-shrink have no meaning",
     "train --lr-scheduler cosine_wave"),
    ("train --lr-scheduler cosine_wave --lr-shrink 0.5", "--t-mult and --lr-shrink have no meaning",
     "train --lr-scheduler cosine_wave"),
    ("train --lr-scheduler step --min-lr 0.25", "--min-lr 0.25 is not below --lr",
     "train --lr-scheduler step --min-lr 0.1"),
    ("train --lr-scheduler step --lr-decay 2", "step needs --lr-decay", "train --lr-scheduler step --lr-decay 1"),
    ("train --lr-scheduler triangular --max-lr 1 --lr-period-updates 1", "triangular needs --lr-period-updates",
     "train --lr-scheduler triangular --max-lr 1 --lr-period-updates 2"),
    ("train --lr-scheduler triangular", "--max-lr is missing",
     "train --lr-scheduler triangular --max-lr 1 --lr-period-updates 2"),
    ("train --lr-scheduler tri_stage", "tri_stage needs --decay-steps",
     "train --lr-scheduler tri_stage --decay-steps 1"),
    ("train --lr-scheduler tri_stage --phase-ratio 0.2,0.2,0.2",
     "--phase-ratio needs --max-update, and three fractions",
     "train --lr-scheduler tri_stage --phase-ratio 0.25,0.25,0.5 --max-update 2"),
    ("train --lr-scheduler reduce_lr_on_plateau --lr-shrink 1", "reduce_lr_on_plateau needs --lr-shrink below 1",
     "train --lr-scheduler reduce_lr_on_plateau --lr-shrink 0.5"),
    ("train --lr-scheduler manual --epoch2lr x", "--epoch2lr x is not a dictionary",
     "train --lr-scheduler manual --epoch2lr {'1-3':0.1,'4':0.01}"),
    ("train --lr-scheduler manual --epoch2lr {1:0.1}", "--epoch2lr {1: 0.1} does not fit; write it as",
     "train --lr-scheduler manual --epoch2lr {'1-3':0.1,'4':0.01}"),
    ("train --lr-scheduler manual --epoch2lr {'1':-1}", "--epoch2lr {'1': -1} does not fit; write it as",
     "train --lr-scheduler manual --epoch2lr {'1-3':0.1,'4':0.01}"),
    ("train --encoder-embed-dim 2", "--encoder-embed-dim 2 is too small for sinusoidal positions",
     "train --encoder-embed-dim 4"),
    ("train --decoder-embed-dim 3", "--decoder-embed-dim 3 is too small for sinusoidal positions",
     "train --decoder-embed-dim 4"),
    ("train --adaptive-softmax-cutoff 5",
     "--adaptive-softmax-cutoff needs --criterion adaptive_loss, not cross_entropy",
     "train --adaptive-softmax-cutoff 5 --criterion adaptive_loss"),
    ("train --criterion adaptive_loss --adaptive-softmax-cutoff 9,5",
     r"--adaptive-softmax-cutoff \[9, 5\] is not in ascending order",
     "train --criterion adaptive_loss --adaptive-softmax-cutoff 5,9"),
    ("train --adaptive-softmax-factor 2", "--adaptive-softmax-factor 2.0 would have no effect without", "train"),
    ("train --arch feedback_lm --task streaming_language_modeling --adaptive-input-factor 2",
     "--adaptive-input-factor 2.0 would have no effect without",
     "train --arch feedback_lm --task streaming_language_modeling --adaptive-input-factor 2 --adaptive-input"),
    ("train --arch lstm_stream_lm_toy --task streaming_language_modeling --decoder-attention-heads 4",
     "--decoder-attention-heads 4 has no meaning for an LSTM",
     "train --arch lstm_stream_lm_toy --task streaming_language_modeling"),
    ("train --ddp-backend fully_sharded", "fully_sharded needs the package fairscale",
     "train --ddp-backend legacy_ddp"),
    ("train --cpu-offload", "--cpu-offload belongs to --ddp-backend fully_sharded", "train"),
    ("train --zero-sharding os", "--zero-sharding os needs the package fairscale", "train"),
    ("train --pipeline-model-parallel", "--pipeline-model-parallel needs the package fairscale", "train"),
    ("train --model-parallel-size 2", "--model-parallel-size 2 needs fairseq's copy of Megatron", "train"),
    ("train --tpu", "--tpu needs the package torch_xla", "train"),
    ("train --use-plasma-view", "--use-plasma-view needs a pyarrow with plasma", "train"),
    ("train --optimizer composite", "--optimizer composite needs parameter groups in a configuration",
     "train --optimizer sgd"),
    ("generate --model-overrides {'mem_len':64", "--model-overrides {'mem_len':64 is not a dictionary; write it as",
     "generate --model-overrides {'mem_len':64}"),
    ("generate --model-overrides [1]", r"--model-overrides \[1\] is not a dictionary", "generate --model-overrides {}"),
    ("train --optimizer-overrides x", "--optimizer-overrides x is not a dictionary",
     "train --optimizer-overrides {'dropout':0.1}"),
    ("train --optimizer-overrides {'lr':-1}", "--optimizer-overrides: --lr -1 does not fit",
     "train --optimizer-overrides {'lr':0}"),
    ("generate --model-overrides {'dropout':2}", "--model-overrides: --dropout 2 does not fit",
     "generate --model-overrides {'dropout':1}"),
    ("train --eval-bleu --eval-bleu-args x", "--eval-bleu-args x is not a dictionary in JSON",
     'train --eval-bleu --eval-bleu-args {"beam":4}'),
    ('train --eval-bleu --eval-bleu-args {"beam":0}', "--eval-bleu-args: --beam 0 does not fit",
     'train --eval-bleu --eval-bleu-args {"beam":1}'),
    ('train --eval-bleu --eval-bleu-args {"beam":2,"min_len":300}', "--eval-bleu-args: --max-len-b 200 is below",
     'train --eval-bleu --eval-bleu-args {"beam":2,"min_len":300,"max_len_b":300}'),
    ("train --disable-validation --best-checkpoint-metric ppl", "metric ppl has no effect with --disable-validation",
     "train --best-checkpoint-metric ppl"),
    ("train --disable-validation --keep-best-checkpoints 2", "--keep-best-checkpoints 2 keeps none",
     "train --keep-best-checkpoints 2"),
    ("train --combine-val --valid-subset valid,test", "--valid-subset valid,test does not go with it",
     "train --combine-val"),
    ("train --task synthetic_stream --train-subset train2", "--task synthetic_stream draws its own data",
     "train --task synthetic_stream"),
    ("train --disable-validation --patience 3", "--patience 3 never ends a training", "train --patience 3"),
]  # fmt: skip

RIGHT = [
    "train --task translation_multi_simple_epoch --langtoks {'main':('src','tgt')} --sampling-weights {'main:en-de':1}",
    "generate --nbest 5 --lenpen -2 --unkpen -1 --min-len 0",
    "generate --max-len-a 2 --max-len-b -3",
    "generate --diversity-rate -1 --sampling-topk -1 --sampling-topp -1",
    "eval-lm --num-shards 2 --shard-id 1",
    "train --lr 0.1,0.2,0.3",
    "train --lr [5e-4,1e-4]",
    "train --lr 0 --clip-norm inf --patience -1 --keep-last-epochs -1",
    "train --max-update 0 --max-epoch 0 --seed 4000000000",
    "train --adam-betas (0.9,0.98)",
    "train --adam-betas [0.9,0.98]",
    "train --lr-scheduler cosine --warmup-updates 5",
    "train --lr-scheduler tri_stage --phase-ratio 0.25,0.25,0.5",
    "train --lr-scheduler manual --epoch2lr {'1-3':0.1}",
    "train --arch transformer_xl_lm_wikitext103 --task streaming_language_modeling",
    "train --optimizer-overrides {'lr':0.1}",
    "generate --model-overrides {'dropout':0.5,'data':'elsewhere'}",
    'train --eval-bleu --eval-bleu-args {"beam":4,"lenpen":1.0}',
    "train --disable-validation --patience -1 --keep-best-checkpoints -1",
    "train --disable-validation --task reinforcement_learning",
]


@pytest.mark.parametrize("command, words, followed", WRONG)
def test_a_refused_combination_and_its_way_out(command, words, followed):
    assert re.search(words, said(command))
    with mock.patch.object(combinations, "installed", lambda name: False):
        parse(*f"{followed} ".split(" ", maxsplit=1))


@pytest.mark.parametrize("command", RIGHT)
def test_right_together(command):
    parse(*command.split(maxsplit=1))


def test_what_is_installed_is_not_refused(monkeypatch):
    monkeypatch.setattr(combinations, "installed", lambda name: True)
    for flags in (
        "--ddp-backend fully_sharded --cpu-offload",
        "--zero-sharding os",
        "--tpu",
        "--model-parallel-size 2",
    ):
        parse("train", flags)


def test_every_combination_is_tried():
    told = [said(command) for command, *_ in WRONG]
    for words in combinations.SEARCH | combinations.COMMANDS:
        pattern = re.sub(r"\\{\w+\\}", ".*", re.escape(words))
        assert any(re.search(pattern, text) for text in told), words
