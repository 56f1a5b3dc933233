"""Each message that names a way out is followed by it, and works: fairseq's commands on a CPU.

A case is a command that fails, its sentence, and the command with the advice followed.
"""

import re
import shlex
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest
import sentencepiece
import torch
from in_forks import run_forked
from reversals import write_reversals
from warm import Done

from fairseq_plugins.error_messages import ERROR_MESSAGES
from fairseq_plugins.errors import UserError
from fairseq_plugins.tools.lib.generation_log import read_generation

PLUGINS = f"--user-dir {Path(__file__).resolve().parents[2] / 'fairseq_plugins'}"
UPDATES = (
    "--cpu --num-workers 0 --no-progress-bar --log-format simple --max-update 2 --lr 0.005 --no-save --save-dir {save}"
)
TRAIN = f"fairseq-train {{data}}/pairs {PLUGINS} {UPDATES} --max-tokens 400"
MODEL = f"{PLUGINS} --cpu --path {{models}}/pairs/checkpoint_last.pt"
FEEDBACK = "--arch feedback_transformer_tiny --dropout 0 --criterion label_smoothed_cross_entropy"
LINES = "--task language_modeling --arch active_memory_lm_tiny --criterion cross_entropy --tokens-per-sample 16"
STREAMS = "--task streaming_language_modeling --arch transformer_xl_lm_tiny --criterion streaming_lm --batch-size 4"
LABELS = (
    "--task sentence_prediction --criterion sentence_prediction --num-classes 2 --max-positions 64 --arch roberta"
    " --encoder-layers 1 --encoder-embed-dim 16 --encoder-ffn-embed-dim 16 --encoder-attention-heads 2"
)
PREPROCESS = f"fairseq-preprocess {PLUGINS} --source-lang src --target-lang tgt --trainpref {{raw}}/train"

# What commands begin with; {save} is an empty folder, {copy} has the data of pairs and their model.pt
BASES = {
    "train": f"{TRAIN} --optimizer adam {FEEDBACK}",
    "train with": f"{TRAIN} {FEEDBACK}",
    "train without a size": f"fairseq-train {{data}}/pairs {PLUGINS} {UPDATES} --optimizer adam {FEEDBACK}",
    "train tiny": f"{TRAIN} --optimizer adam --arch transformer_tiny --criterion cross_entropy",
    "train other data": f"fairseq-train {PLUGINS} {UPDATES} --max-tokens 400 --optimizer adam {FEEDBACK}",
    "train lines": f"fairseq-train {PLUGINS} {UPDATES} --max-tokens 200 {LINES} --optimizer adam",
    "train streams": f"fairseq-train {PLUGINS} {UPDATES} {STREAMS} --tokens-per-sample 16 --optimizer adam",
    "train labels": f"fairseq-train {{data}}/labels {PLUGINS} {UPDATES} --max-tokens 400 {LABELS} --optimizer adam",
    "generate": f"fairseq-generate {{data}}/pairs {MODEL}",
    "generate other data": f"fairseq-generate {MODEL}",
    "generate with": f"fairseq-generate {{data}}/pairs {PLUGINS} --cpu",
    "interactive": f"fairseq-interactive {{data}}/pairs {MODEL}",
    "validate": f"fairseq-validate {PLUGINS} --cpu --task translation --max-tokens 400",
    "eval-lm": f"fairseq-eval-lm {{data}}/lines {PLUGINS} --cpu",
    "preprocess": PREPROCESS,
}
LM = "--task streaming_language_modeling --path {models}/streams/checkpoint_last.pt"


class Case(NamedTuple):
    """
    Attributes:
        base: the name of what both commands begin with, in BASES
        wrong, right: the rest of the command that fails, and of the one that follows the advice
        words: what the sentence says
        damage: what happens to {copy} before the command that fails; the other one has another copy
        then: what the second command begins with, if that is not the same
    """

    base: str
    wrong: str
    words: str
    right: str = ""
    damage: Callable[[Path], object] | None = None
    then: str | None = None


def other_lengths(copy: Path) -> None:
    for ending in ("bin", "idx"):
        shutil.copy(copy / f"pairs/valid.src-tgt.src.{ending}", copy / f"pairs/train.src-tgt.src.{ending}")


def without_optimizer(copy: Path) -> None:
    state = torch.load(copy / "model.pt", weights_only=False)
    torch.save({**state, "last_optimizer_state": None}, copy / "model.pt")


def of_fewer_parameters(copy: Path) -> None:
    state = torch.load(copy / "model.pt", weights_only=False)
    state["last_optimizer_state"]["param_groups"][0]["params"].pop()
    torch.save(state, copy / "model.pt")


def more_words(copy: Path) -> None:
    for side in ("src", "tgt"):
        with open(copy / f"pairs/dict.{side}.txt", "a") as dictionary:
            dictionary.write("z 1\n")


RAISED = "--max-source-positions 12 --max-target-positions 12"
OVERRIDDEN = RAISED + """ --model-overrides "{'max_source_positions': 12, 'max_target_positions': 12}\""""
SKIPPED = "--skip-invalid-size-inputs-valid-test"
SHORT = "--max-source-positions 8 --max-target-positions 8"
LONG = "{data}/long"
OF_SHORT = "--path {models}/short/checkpoint_last.pt"
LINES_IN = "--input {raw}/long.src"
TOO_LONG = f"sentence 0 .* is longer than the .8, 8. tokens .* give {re.escape(OVERRIDDEN)}, or .* with {SKIPPED}"
RESTORE = "--restore-file {copy}/model.pt"
PRUNED = """--model-overrides "{'encoder_layers_to_keep': '0,1', 'decoder_layers_to_keep': '0,1'}\""""
ADAPTIVE = "--criterion adaptive_loss --ddp-backend legacy_ddp"

CASES = [
    # data
    Case("generate", "--gen-subset dev", "no split dev.*--gen-subset", "--gen-subset test"),
    Case("train", "--train-subset all", "no split all.*--train-subset", "--train-subset train"),
    Case("train labels", "--valid-subset dev", "there is no .*/dev; choose another split", "--valid-subset valid"),
    Case("train other data", "{copy}/pairs", "dict.tgt.txt is missing; give a data folder", "{copy}/pairs",
         lambda copy: (copy / "pairs/dict.tgt.txt").unlink()),
    Case("preprocess", "--destdir {save} --srcdict {raw}/dict.src.txt",
         "dict.src.txt is missing.*--srcdict or --tgtdict that is there",
         "--destdir {save} --srcdict {data}/pairs/dict.src.txt"),
    Case("train", "--source-lang xx --target-lang tgt", "dict.xx.txt", "--source-lang src --target-lang tgt"),
    Case("train other data", "{raw}", "data folder holds no files .* give it the --destdir, and name the languages",
         "{data}/pairs --source-lang src --target-lang tgt"),
    Case("train other data", "{copy}/pairs", "has 'a' twice; copy it again", "{copy}/pairs",
         lambda copy: (copy / "pairs/dict.src.txt").write_text("a 1\na 1\n")),
    Case("train other data", "{copy}/pairs", "different numbers of sentences; make both again from the same files",
         "{copy}/pairs", other_lengths),
    Case("train other data", "{data}/empty", "valid.src-tgt.src.bin holds no sentence", "{data}/pairs"),
    Case("train", "--max-source-positions 1", "no sentence is short enough: raise", RAISED),
    Case("train", "--max-tokens 1", "no sentence is short enough: raise --max-tokens", "--max-tokens 20"),
    Case("generate", "--max-tokens 1", "longer than the 1 tokens of --max-tokens", "--max-tokens 20"),
    Case("train", "--max-tokens-valid 1", "longer than the 1 tokens of .*--max-tokens-valid", "--max-tokens-valid 20"),
    # training sets side by side
    Case("train other data", "{data}/both", "further validation sets.*--combine-val .*--ignore-unused-valid-subsets",
         "{data}/both --combine-val"),
    Case("train other data", "{data}/both", "further validation sets.*--combine-val .*--ignore-unused-valid-subsets",
         "{data}/both --ignore-unused-valid-subsets"),
    # lengths
    *(
        Case(base, f"{LONG} {OF_SHORT}", TOO_LONG, f"{LONG} {OF_SHORT} {way}")
        for base in ("generate other data", "validate")
        for way in (OVERRIDDEN, SKIPPED)
    ),
    *(
        Case("interactive", f"{OF_SHORT} {LINES_IN}", "model-overrides", f"{OF_SHORT} {LINES_IN} {way}")
        for way in (OVERRIDDEN, SKIPPED)
    ),
    *(
        Case("train other data", f"{LONG} {SHORT}", f"give {RAISED}, or", f"{LONG} {way}")
        for way in (RAISED, f"{SHORT} {SKIPPED}")
    ),
    # forms of data
    Case("train", "--dataset-impl raw", "of the form mmap, not raw: leave --dataset-impl out"),
    Case("train", "--dataset-impl lazy", "of the form mmap, not lazy: leave --dataset-impl out"),
    Case("train lines", "{data}/lines --dataset-impl raw", "leave --dataset-impl out", "{data}/lines"),
    Case("train other data", "{data}/raw_pairs", "text that was not binarised: give --dataset-impl raw",
         "{data}/raw_pairs --dataset-impl raw"),
    # checkpoints
    Case("generate", "--path none.pt", "none.pt does not exist; --path takes one that fairseq-train wrote"),
    Case("generate with", "", "--path is missing", "--path {models}/pairs/checkpoint_last.pt"),
    Case("eval-lm", "--task streaming_language_modeling", "--path is missing", LM),
    Case("validate", "{data}/pairs --path none.pt", "none.pt does not exist",
         f"{{data}}/pairs {MODEL.split('cpu')[1]}"),
    Case("eval-lm", LM + ":b.pt", "names several checkpoints.*: give each on its own", LM),
    Case("train", "--finetune-from-model none.pt", "--finetune-from-model none.pt does not exist; give it a checkpoint",
         "--finetune-from-model {copy}/model.pt"),
    Case("train", "--restore-file none.pt", "none.pt does not exist; leave the flag out to start"),
    Case("generate other data", "{copy}/pairs",
         "is of a text with other symbols than .*: give the data folder of its training", "{copy}/pairs", more_words),
    Case("train", f"{RESTORE} --encoder-layers 3 --max-update 4",
         "another architecture .*; give --arch and the model flags of its training", f"{RESTORE} --max-update 4"),
    Case("train", f"{RESTORE} --encoder-layers 3",
         "or start a new one in another --save-dir and without --restore-file", "--encoder-layers 3"),
    Case("generate", "--model-overrides \"{'encoder_layers': 3}\"", "leave out --model-overrides"),
    Case("train with", f"{RESTORE} --optimizer sgd --max-update 4", "trained with the Optimizer .*; use the same one",
         f"{RESTORE} --optimizer adam --max-update 4"),
    Case("train with", f"{RESTORE} --optimizer sgd --max-update 4", "or pass --reset-optimizer",
         f"{RESTORE} --optimizer sgd --max-update 4 --reset-optimizer"),
    Case("train", f"{RESTORE} --max-update 4",
         "optimiser state of the checkpoint is for another model; .* pass --reset-optimizer",
         f"{RESTORE} --max-update 4 --reset-optimizer", of_fewer_parameters),
    Case("train", f"{RESTORE} --max-update 4",
         "holds no state of the optimiser: .* or with a new optimiser .--reset-optimizer.",
         f"{RESTORE} --max-update 4 --reset-optimizer", without_optimizer),
    Case("train", f"{RESTORE} --max-update 4",
         "holds no state of the optimiser: start from the weights alone .--finetune-from-model.",
         "--finetune-from-model {copy}/model.pt --max-update 4", without_optimizer),
    # flags
    Case("train", "--lr 0.1,0.2 --lr-scheduler inverse_sqrt --warmup-updates 2", "takes one --lr",
         "--lr 0.1,0.2 --lr-scheduler fixed"),
    Case("train", "--lr-scheduler triangular --lr-period-updates 4 --max-lr 0.001", "raise --max-lr",
         "--lr-scheduler triangular --lr-period-updates 4 --max-lr 0.1"),
    Case("train", "--lr-scheduler pass_through", "choose another scheduler", "--lr-scheduler fixed"),
    Case("train tiny", "--encoder-layers-to-keep 0", "do not work as flags"),
    Case("train tiny", "--encoder-layers-to-keep 0", f"prune a trained model with {PRUNED}",
         "--path {models}/tiny/checkpoint_last.pt " + PRUNED, then="generate with"),
    Case("train with", "--arch transformer_tiny --optimizer adam --adaptive-softmax-cutoff 4,100 " + ADAPTIVE,
         "cut-off above the size of the dictionary; leave out that one",
         "--arch transformer_tiny --optimizer adam --adaptive-softmax-cutoff 4 " + ADAPTIVE),
    Case("generate", "--min-len 1500 --max-len-b 2000",
         "--min-len 1500 is above the .* tokens that the model takes; lower it", "--min-len 15"),
    Case("generate", "--print-step", "leave them out"),
    Case("generate", "--retain-iter-history", "leave them out"),
    Case("train with", "--optimizer lamb", "choose another --optimizer", "--optimizer sgd"),
    Case("interactive", "--bpe gpt2 --gpt2-encoder-json {raw}/none.json", "cannot use .*none.json: no such file"),
    Case("interactive", "--tokenizer moses", "source_lang has a wrong value or none .*: give its flag",
         "--tokenizer moses --source-lang src --target-lang tgt"),
    Case("interactive", "--bpe sentencepiece", "sentencepiece_model is missing; give it as a flag",
         "--bpe sentencepiece --sentencepiece-model {raw}/pieces.model"),
    Case("interactive", "--batch-size 4", "raise --buffer-size", "--batch-size 4 --buffer-size 4"),
    Case("train tiny", "--encoder-attention-heads 3", "make --encoder-embed-dim a multiple",
         "--encoder-attention-heads 2"),
    Case("train", "--encoder-attention-heads 3", "Choose a multiple of 3, for example 66",
         "--encoder-attention-heads 3 --encoder-embed-dim 66"),
    Case("train", "--share-all-embeddings --decoder-embed-dim 48",
         "make --encoder-embed-dim and --decoder-embed-dim equal",
         "--share-all-embeddings --encoder-embed-dim 48 --decoder-embed-dim 48"),
    Case("train", "--share-all-embeddings --decoder-embed-dim 48", "or leave it out", "--decoder-embed-dim 48"),
    Case("train other data", "{data}/apart --arch feedback_transformer_wmt --encoder-layers 1 --decoder-layers 1",
         "fairseq-preprocess --joined-dictionary",
         "{data}/pairs --arch feedback_transformer_wmt --encoder-layers 1 --decoder-layers 1"),
    Case("train other data", "{data}/apart --arch feedback_transformer_wmt", "or choose another --arch",
         "{data}/apart"),
    Case("train with", "--arch lstm --encoder-layers 1 --share-all-embeddings --encoder-embed-dim 32 --optimizer adam",
         "make .* equal", "--arch lstm --encoder-layers 1 --optimizer adam --encoder-embed-dim 32"),
    Case("train with",
         "--arch lstm --encoder-layers 1 --share-decoder-input-output-embed --decoder-embed-dim 32 --optimizer adam",
         "--share-decoder-input-output-embed needs",
         "--arch lstm --encoder-layers 1 --optimizer adam --decoder-embed-dim 32"),
    Case("train tiny", "--share-all-embeddings --decoder-embed-path {raw}/none", "leave --decoder-embed-path out",
         "--share-all-embeddings"),
    Case("train without a size", "", "give the batch size, with --max-tokens or --batch-size", "--batch-size 9"),
    Case("train tiny", "--criterion adaptive_loss --adaptive-softmax-cutoff 4", "needs --ddp-backend legacy_ddp",
         "--criterion adaptive_loss --adaptive-softmax-cutoff 4 --ddp-backend legacy_ddp"),
    Case("train", "--fp16 --bf16", "choose one", "--bf16"),
    Case("train tiny", "--quant-noise-scalar 0.5", "leave it out"),
    Case("train", "--lr 1e30 --max-update 20", "training diverged.*lower --lr", "--lr 0.001 --max-update 20"),
    Case("generate", "--sampling --sampling-topk 100 --nbest 5", "lower it", "--sampling --sampling-topk 5 --nbest 5"),
    Case("generate", "--model-overrides \"{'dropout': 'x'}\"", "or other --model-overrides",
         "--model-overrides \"{'dropout': 0.1}\""),
    Case("train lines", "{data}/lines --arch transformer_lm --task masked_lm", "choose another --arch or --task",
         "{data}/lines --arch transformer_lm --decoder-layers 1"),
    Case("preprocess", "--destdir {data}/pairs", "choose another --destdir", "--destdir {save}"),
    Case("preprocess", "--destdir {copy}/pairs --joined-dictionary --srcdict {copy}/pairs/dict.src.txt",
         "use the dictionaries that are there",
         "--destdir {copy}/pairs --srcdict {copy}/pairs/dict.src.txt --tgtdict {copy}/pairs/dict.tgt.txt"),
    Case("preprocess",
         "--destdir {save} --joined-dictionary --srcdict {data}/pairs/dict.src.txt --tgtdict {data}/pairs/dict.tgt.txt",
         "cannot use both", "--destdir {save} --joined-dictionary --srcdict {data}/pairs/dict.src.txt"),
    Case("train", "--save-dir {copy}/model.pt", "model.pt.*check the path", "--save-dir {copy}/new"),
]  # fmt: skip


class Site:
    """Data and models that all cases share, made in seconds."""

    def __init__(self, folder: Path):
        self.folder, self.done = folder, {}
        self.places = {name: folder / name for name in ("raw", "data", "models")}
        raw = write_reversals(folder / "raw", {"train": 60, "valid": 10, "test": 6, "train1": 20, "valid1": 5})
        for side, text in ("src", "a b c d e f g h a b c\na b\n"), ("tgt", "c b a h g f e d c b a\nb a\n"):
            (raw / f"long.{side}").write_text(text)
        for split in ("train", "valid"):
            text = (raw / f"{split}.src").read_text()
            (raw / f"{split}.up").write_text(text.upper())
            (raw / f"{split}.label").write_text("".join("ab"[line < "e"] + "\n" for line in text.splitlines()))
        pieces = {"model_prefix": raw / "pieces", "model_type": "char", "vocab_size": 12, "hard_vocab_limit": False}
        sentencepiece.SentencePieceTrainer.train(input=raw / "train.src", minloglevel=2, **pieces)
        everything = "--validpref {raw}/valid --testpref {raw}/test --destdir {data}"
        known = "--srcdict {data}/pairs/dict.src.txt"
        self.make(f"{PREPROCESS} {everything}/pairs --joined-dictionary")
        self.make(f"{PREPROCESS} {everything}/raw_pairs {known} --joined-dictionary --dataset-impl raw")
        self.make(
            f"{PREPROCESS} --validpref {{raw}}/valid,{{raw}}/valid1 --destdir {{data}}/both {known} --joined-dictionary"
        )
        self.make(f"{PREPROCESS}1 --destdir {{data}}/second {known} --joined-dictionary")
        for file in (folder / "data/second").glob("train.*"):
            shutil.copy(file, folder / "data/both" / file.name.replace("train", "train1"))
        (raw / "empty.src").touch(), (raw / "empty.tgt").touch()
        self.make(f"{PREPROCESS} --validpref {{raw}}/empty --destdir {{data}}/empty {known} --joined-dictionary")
        long = PREPROCESS.replace("/train", "/long --validpref {raw}/long --testpref {raw}/long")
        self.make(f"{long} --destdir {{data}}/long {known} --joined-dictionary")
        self.make(f"{PREPROCESS.replace('lang tgt', 'lang up')} --validpref {{raw}}/valid --destdir {{data}}/apart")
        one = (
            "fairseq-preprocess --only-source --trainpref {raw}/train.%s --validpref {raw}/valid.%s --destdir {data}/%s"
        )
        self.make(one % ("src", "src", "lines") + " --testpref {raw}/test.src")
        self.make(one % ("src", "src", "labels/input0"))
        self.make(one % ("label", "label", "labels/label"))
        models = {"pairs": "train", "tiny": "train tiny", "streams": "train streams", "short": "train"}
        for name, base in models.items():
            more = {"short": SHORT, "streams": "{data}/lines"}.get(name, "")
            self.make(BASES[base].replace("--no-save --save-dir {save}", f"--save-dir {{models}}/{name} {more}"))

    def make(self, command: str) -> None:
        done = self.run(command)
        assert done.verdict == "honoured", done.output[-3000:]

    def run(self, command: str, damage: Callable | None = None) -> Done:
        """What comes of a command, in an empty {save}, with a new {copy}. The same command is run once."""
        if (command, damage) not in self.done:
            self.done[command, damage] = self._run(command, damage)
        return self.done[command, damage]

    def _run(self, command: str, damage: Callable | None) -> Done:
        work = self.folder / "work"
        shutil.rmtree(work, ignore_errors=True)
        (work / "save").mkdir(parents=True)
        if "{copy}" in command:
            shutil.copytree(self.folder / "data/pairs", work / "copy/pairs")
            shutil.copy(self.folder / "models/pairs/checkpoint_last.pt", work / "copy/model.pt")
        if damage:
            damage(work / "copy")
        places = {**self.places, "save": work / "save", "copy": work / "copy"}
        for name, place in places.items():
            command = command.replace(f"{{{name}}}", str(place))
        return run_forked(shlex.split(command), self.folder / "log")


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    return Site(tmp_path_factory.mktemp("site"))


# Sentences for what no command on a CPU can meet, or that other tests follow
ELSEWHERE = [
    r"errors\.(?:UserError",  # a process for each GPU
    "size mismatch for (",  # checkpoints of earlier versions, which have no record of their symbols
    "does not support flat params",  # --fp16, which needs a GPU
    "gradients are inconsistent",  # several ranks
    "gloo/transport",
    "Minimum loss scale",  # --fp16
    "CUDA out of memory",
]


def test_every_way_out_works(site):
    """One test, so that data and models are made once."""
    wrong, told = [], []
    for case in CASES:
        failed = site.run(f"{BASES[case.base]} {case.wrong}", case.damage)
        told += failed.told
        if failed.verdict != "refused" or not re.search(case.words, failed.told[0]):
            wrong.append(f"{case.base} {case.wrong}: {failed.verdict} {failed.told or failed.output[-500:]}")
        followed = site.run(f"{BASES[case.then or case.base]} {case.right}")
        if followed.verdict != "honoured":
            wrong.append(f"{case.base} {case.right}: {followed.verdict} {followed.told or followed.output[-500:]}")
    for pattern, words in ERROR_MESSAGES.items():
        sentence = re.sub(r"\\{\d\\}", ".*", re.escape(words.replace("{{", "{").replace("}}", "}")))
        if not any(re.search(sentence, text) for text in told) and not any(part in pattern for part in ELSEWHERE):
            wrong.append(f"no case meets the sentence {words!r}")
    assert not wrong, "\n".join(wrong)


def test_skipped_sentences_are_told_when_scored(site, tmp_path):
    left_out, whole = (
        site.run(f"{BASES['generate other data']} {LONG} {OF_SHORT} {way}").output for way in (SKIPPED, OVERRIDDEN)
    )
    (tmp_path / "out").write_text(left_out)
    with pytest.raises(UserError, match=f"generate without --num-shards and {SKIPPED}"):
        read_generation(tmp_path / "out")
    (tmp_path / "out").write_text(whole)
    assert len(read_generation(tmp_path / "out")) == 2
