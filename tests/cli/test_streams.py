"""Streaming language models through the real commands: resuming, several ranks, evaluation, generation."""

import math
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
from trainings import BIN, assert_same_weights, hypotheses, torchrun, weights

ARCH = "span_transformer_lm_tiny"
TASK = ["--task", "streaming_language_modeling"]
UPDATES = 40
SPANS = "--adaptive-span --span-init 0.2 --span-ramp 4 --span-loss 0.01".split()
FEW_BLOCKS = "--tokens-per-sample 40 --block-warmup 0 --block-warmup-updates 0".split()  # six or so an epoch


@dataclass(frozen=True)
class Corpus:
    """Lines of characters with _ for the space, and what fairseq-preprocess made of them."""

    text: Path
    bin: Path

    def tokens(self, split):
        """Without end-of-line, and the number of lines."""
        lines = (self.text / f"{split}.txt").read_text().splitlines()
        return sum(len(line.split()) for line in lines), len(lines)


@pytest.fixture(scope="session")
def characters(run, tmp_path_factory) -> Corpus:
    folder = tmp_path_factory.mktemp("characters")
    draw = torch.Generator().manual_seed(1)

    def line():
        letters, letter = [], 0
        for _ in range(int(torch.randint(5, 25, (), generator=draw))):
            letter = (letter + int(torch.randint(3, (), generator=draw))) % 6
            letters.append("abcde_"[letter])
        return " ".join(letters) + "\n"

    for split, lines in {"train": 60, "valid": 12, "test": 15}.items():
        (folder / f"{split}.txt").write_text("".join(line() for _ in range(lines)))
    (folder / "short.txt").write_text("a\n")
    prefixes = [word for split in ("train", "valid") for word in (f"--{split}pref", folder / f"{split}.txt")]
    run(
        "fairseq-preprocess", "--only-source", *prefixes, "--testpref", f"{folder / 'test.txt'},{folder / 'short.txt'}",
        "--destdir", folder / "bin",
    )  # fmt: skip
    return Corpus(folder, folder / "bin")


@pytest.fixture(scope="session")
def command(characters, user_dir):
    """fairseq-train, with everything that makes resuming hard: dropout, a random offset, blocks of two lengths."""
    return (
        f"fairseq-train {characters.bin} --user-dir {user_dir} --arch {ARCH} --dropout 0.3 --criterion streaming_lm"
        " --optimizer adam --lr 0.003 --batch-size 4 --tokens-per-sample 16 --stream-offset random --block-warmup 8"
        " --block-warmup-updates 34 --cpu --num-workers 0 --no-progress-bar --log-format simple --log-interval 1"
    ).split() + TASK


@pytest.fixture(scope="session")
def whole(run, command, tmp_path_factory):
    """A training that was not interrupted: its folder and the losses of its updates."""
    folder = tmp_path_factory.mktemp("whole")
    done = run(*command, "--max-update", UPDATES, "--save-interval-updates", 7, "--save-dir", folder)
    assert list(losses(done)) == list(range(1, UPDATES + 1))
    return folder, losses(done)


@pytest.fixture
def copied(whole, tmp_path):
    """A copy of that folder, which a test may damage."""
    return shutil.copytree(whole[0], tmp_path / "copy")


def losses(done) -> dict[int, str]:
    """The loss of every update, as printed."""
    lines = re.findall(r"train_inner \|.* loss=([^,]+),.* num_updates=(\d+)", done.stdout)
    return {int(update): loss for loss, update in lines}


def after(update, losses):
    return {later: loss for later, loss in losses.items() if later > update}


def assert_resumed_exactly(run, command, folder: Path) -> Path:
    """A training that goes on from its fifth update ends with the same weights, in the folder again. Returns the
    checkpoint of that update."""
    whole = run(*command, "--save-interval-updates", 5, "--save-dir", folder / "whole")
    (checkpoint,) = (folder / "whole").glob("checkpoint_*_5.pt")
    resumed = run(*command, "--restore-file", checkpoint, "--save-dir", folder / "again")
    assert losses(resumed) == after(5, losses(whole)) != {}
    assert_same_weights(folder / "whole", folder / "again")
    return checkpoint


# Resuming


def test_killed(run, command, whole, tmp_path):
    """By the system, in the middle of its work; the command is repeated as it was."""
    train = [*command, "--max-update", UPDATES, "--save-interval-updates", 3, "--save-dir", tmp_path]
    train = [BIN / train[0], *map(str, train[1:])]
    with subprocess.Popen(train, stdout=subprocess.PIPE, text=True) as training:
        for line in training.stdout:
            if "num_updates=20" in line:
                training.kill()
                break
    done = run(*train)
    assert min(losses(done)) > 18
    assert losses(done) == after(min(losses(done)) - 1, whole[1])
    assert_same_weights(tmp_path, whole[0])


def test_a_training_that_has_ended_is_left_as_it_is(run, command, whole, copied):
    """The command that killed trainings are gone on with may be given once more than needed."""
    done = run(*command, "--max-update", UPDATES, "--save-dir", copied)
    assert not losses(done) and f"update {UPDATES} of --max-update {UPDATES}: this training has ended" in done.stdout
    for file in whole[0].iterdir():
        assert (copied / file.name).read_bytes() == file.read_bytes()


def test_patience_is_saved(run, command, tmp_path):
    """A training that learns nothing ends after three validations without a better one, resumed or not. The validation
    at a stop is none of them, where there would be none without the stop."""
    train = [*command, "--lr", 0, "--save-interval-updates", 3, "--patience", 3, "--save-dir", tmp_path]
    for stop in (6, 7):
        run(*train, "--max-update", stop)
    assert max(losses(run(*train))) == 12
    done = run(*train)
    assert not losses(done) and "no better validation within --patience 3: this training has ended" in done.stdout
    assert max(losses(run(*train, "--patience", 5))) == 18


def test_replayed(run, command, whole, copied, tmp_path):
    (checkpoint,) = copied.glob("checkpoint_*_35.pt")
    for file in copied.glob("*memory*"):
        file.unlink()
    done = run(
        *command, "--memory-in-checkpoint", "replay", "--max-update", 36, "--restore-file", checkpoint,
        "--save-dir", tmp_path / "save",
    )  # fmt: skip
    assert "will differ slightly" in done.stdout
    assert float(losses(done)[36]) == pytest.approx(float(whole[1][36]), abs=0.1)
    assert not list((tmp_path / "save").glob("*memory*"))


def cut_memory(folder):
    """Under both of its names: one alone is no loss."""
    for name in ("checkpoint_last.pt", "newest"):
        file = folder / f"{name}.memory-0-of-1"
        file.write_bytes(file.read_bytes()[:-9])


def test_a_resume_that_cannot_be_exact_is_refused(run, command, copied):
    cut_memory(copied)
    done = run(*command, "--max-update", 45, "--save-dir", copied, check=False)
    told = [line for line in done.stderr.splitlines() if line.startswith("fairseq_plugins: error: ")]
    assert done.returncode and len(told) == 1, done.stderr[-3000:]
    assert "checkpoint_last.pt.memory-0-of-1 is damaged" in told[0]


def test_a_new_optimiser_goes_on_in_the_middle_of_an_epoch(run, command, copied):
    """Which makes fairseq count updates from 0."""
    done = run(*command, "--max-update", 3, "--save-dir", copied, "--reset-optimizer")
    assert list(losses(done)) == [1, 2, 3]


@pytest.mark.parametrize("option", ["--finetune-from-model", "--restore-file"])
def test_where_no_memory_is_wanted_a_damaged_one_is_no_obstacle(run, command, copied, option, tmp_path):
    cut_memory(copied)
    new = ["--reset-dataloader"] if option == "--restore-file" else []
    options = [option, copied / "checkpoint_last.pt", *new, "--max-update", UPDATES + 2, "--save-dir", tmp_path / "new"]
    assert losses(run(*command, *options))


def test_a_diverging_training_stops_and_keeps_the_last_good_checkpoint(run, command, copied):
    before = (copied / "checkpoint_last.pt").read_bytes()
    diverge = ["--reset-lr-scheduler", "--lr", 1000, "--max-update", 90]
    done = run(*command, "--save-dir", copied, *diverge, check=False)
    assert done.returncode
    assert re.search(r"error: training diverged at update \d+, block \d+ .*--lr", done.stderr), done.stderr[-3000:]
    assert (copied / "checkpoint_last.pt").read_bytes() == before


# Two ranks


@pytest.fixture(scope="module")
def descent(run, command, tmp_path_factory):
    """A training by gradient descent, over three epochs, and its folder. Adam divides by gradients, and where they are
    next to nothing, their rounding shows."""
    command = [*command, *FEW_BLOCKS, "--dropout", 0, "--max-update", 15, "--optimizer", "sgd", "--lr", 0.3]
    folder = tmp_path_factory.mktemp("descent")
    assert "epoch 003" in run(*command, "--save-dir", folder).stdout
    return command, folder


@pytest.mark.parametrize("groups, backend", [(1, "pytorch_ddp"), (2, "pytorch_ddp"), (2, "legacy_ddp")])
def test_two_ranks_are_one_with_twice_the_streams(run, descent, groups, backend, tmp_path):
    """Also in later epochs, where both start with an empty memory. They send gradients once, after the last group."""
    command, whole = descent
    two = ["--batch-size", 2, "--split-streams", groups, "--ddp-backend", backend]
    torchrun(run, command, *two, "--save-dir", tmp_path)
    assert_same_weights(whole, tmp_path, rtol=1e-4, atol=1e-5)


# Groups of streams


def test_groups_of_streams_resume_exactly_and_in_another_number(run, command, tmp_path):
    command = [*command, *FEW_BLOCKS, "--split-streams", 2, "--max-update", 15]
    checkpoint = assert_resumed_exactly(run, command, tmp_path)
    one = [*command, "--restore-file", checkpoint, "--dropout", 0, "--max-update", 6]
    other = [*one, "--split-streams", 1]
    assert losses(run(*one, "--save-dir", tmp_path / "2")) == losses(run(*other, "--save-dir", tmp_path / "1"))


# Out of memory


def test_out_of_memory_ends_every_rank_in_a_sentence(run, command, user_dir, tmp_path):
    """The criterion runs out of memory with more than two streams at a time, in rank 1. fairseq's own way is to go on
    without the batch."""
    (tmp_path / "starved").mkdir()
    (tmp_path / "starved/__init__.py").write_text(f"""
import os, sys
sys.path.insert(0, {str(user_dir.parent)!r})
import torch, fairseq_plugins
from fairseq.criterions import register_criterion
from fairseq.dataclass import FairseqDataclass
from fairseq_plugins.criterions.streaming_lm import StreamingLMCriterion

@register_criterion("starved", dataclass=FairseqDataclass)
class Starved(StreamingLMCriterion):
    def forward(self, model, sample, **options):
        if model.training and len(sample["target"]) > 2 and os.environ["RANK"] == "1":
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB")
        return super().forward(model, sample, **options)
""")
    starved = ["--user-dir", tmp_path / "starved", "--criterion", "starved", "--max-update", 3, "--save-dir", tmp_path]
    done = torchrun(run, command, *starved, check=False)
    said = "error: memory ran out with 4 streams at a time: train them in more groups, with --split-streams 2."
    assert done.returncode and said in done.stderr and not (tmp_path / "crash.pt").exists(), done.stderr[-3000:]


# Evaluation


@pytest.fixture
def use(run, characters, user_dir, whole):
    """use(command, options...): on the test split with the trained model, or that in another folder."""

    def use(command, *options, folder=whole[0], **kwargs):
        model = ["--path", folder / "checkpoint_last.pt", "--cpu", *TASK]
        return run(command, characters.bin, "--user-dir", user_dir, *model, *options, **kwargs)

    return use


def figures(done) -> dict[str, tuple[int, float]]:
    """Tokens and nats, with and without end-of-line."""
    lines = re.findall(r"(with|without) end-of-line: (\d+) tokens, ([\d.]+) nats,", done.stdout + done.stderr)
    return {name: (int(tokens), float(nats)) for name, tokens, nats in lines}


def assert_every_token_is_evaluated_once(use, characters, **model):
    """In short blocks and in long ones, with the same figures; what the run with short ones printed."""
    tokens, lines = characters.tokens("test")
    short = use("fairseq-eval-lm", "--tokens-per-sample", 7, "--num-workers", 0, **model)
    whole = use("fairseq-eval-lm", "--tokens-per-sample", 300, "--num-workers", 1, **model)
    for done in (short, whole):
        assert figures(done)["with"][0] == tokens + lines
        assert figures(done)["without"][0] == tokens
        assert f"Evaluated {tokens + lines} tokens" in done.stdout + done.stderr
    for name in ("with", "without"):
        assert figures(short)[name][1] == pytest.approx(figures(whole)[name][1], abs=1e-5 * tokens)
    return short


def test_every_token_is_evaluated_once_whatever_the_blocks(use, characters):
    done = assert_every_token_is_evaluated_once(use, characters)
    fairseqs = re.search(r"Loss \(base 2\): ([\d.]+)", done.stdout + done.stderr)[1]
    tokens, nats = figures(done)["with"]
    assert nats / tokens / math.log(2) == pytest.approx(float(fairseqs), abs=1e-3)


def test_without_end_of_line(use, characters):
    done = use("fairseq-eval-lm", "--no-end-of-line", "--tokens-per-sample", 50, "--num-workers", 0)
    assert figures(done)["with"] == figures(done)["without"]
    assert figures(done)["with"][0] == characters.tokens("test")[0]


def test_fairseqs_own_criterion_and_fairseq_validate(run, command, user_dir, characters, tmp_path):
    """What fairseq-validate says of one stream is what fairseq-train said at its end."""
    options = ["--criterion", "cross_entropy", "--batch-size-valid", 1, "--max-update", 3]
    trained = run(*command, *options, "--save-dir", tmp_path)
    use = [characters.bin, "--user-dir", user_dir, *TASK, "--path", tmp_path / "checkpoint_last.pt", "--cpu"]
    validated = run("fairseq-validate", *use, "--batch-size", 1, "--num-workers", 0)
    (said,), (again,) = (re.findall(r"INFO \| valid \|.* loss ([\d.]+)", done.stdout) for done in (trained, validated))
    assert said == again


# Generation


def test_lines_of_a_split_as_prompts(use, characters):
    lines = (characters.text / "test.txt").read_text().splitlines()
    options = ["--sample-break-mode", "eos", "--prefix-size", 4, "--beam", 2, "--max-len-b", 10, "--batch-size", 4]
    texts = hypotheses(use("fairseq-generate", *options))
    assert len(texts) == len(lines)
    assert all(texts[number].split()[:4] == line.split()[:4] for number, line in enumerate(lines))


# Other models, with adaptive spans


@pytest.mark.parametrize("arch", ["all_attention_lm_tiny", "feedback_lm_tiny"])
def test_other_models_resume_evaluate_and_write(run, command, use, characters, arch, tmp_path):
    assert_resumed_exactly(run, [*command, "--arch", arch, *SPANS, "--max-update", 12], tmp_path)
    assert_every_token_is_evaluated_once(use, characters, folder=tmp_path / "again")
    prompts = "a b c\nd\n"
    options = ["--beam", 2, "--max-len-b", 12, "--buffer-size", 2, "--batch-size", 2]
    written = hypotheses(use("fairseq-interactive", *options, folder=tmp_path / "again", input=prompts))
    assert all(written[number].startswith(prompt) for number, prompt in enumerate(prompts.splitlines()))


def test_adaptive_spans_are_trained_in_bfloat16(run, command, tmp_path):
    """A high price of spans carries them to zero, and no further."""
    dear = [*SPANS, "--span-init", 0.01, "--span-loss", 1]
    done = run(*command, "--arch", "all_attention_lm_tiny", *dear, "--bf16", "--max-update", 20, "--save-dir", tmp_path)
    said = [float(loss) for loss in losses(done).values()]
    assert len(said) == 20 and sum(said[-4:]) < sum(said[:4])
    trained = weights(tmp_path)  # which fairseq saves in float32
    assert all(torch.equal(value, value.bfloat16().float()) for value in trained.values())
    ratios = [value for name, value in trained.items() if name.endswith("span_ratio")]
    assert len(ratios) == 2 and not torch.cat(ratios).any()
