"""The best checkpoint, and which ones are kept, through the real commands."""

import re
from types import SimpleNamespace

import pytest
import torch
from fairseq.logging import metrics
from trainings import assert_same_weights

from fairseq_plugins.agents.criterions.a2c import A2CCriterion
from fairseq_plugins.compat import best_metric
from fairseq_plugins.criterions.label_cross_entropy import LabelCrossEntropyCriterion
from fairseq_plugins.criterions.streaming_lm import StreamingLMCriterion

AGENT = (
    "--task reinforcement_learning --criterion a2c --arch lstm_agent_tiny --environment fairseq_plugins/Corridor-v0"
    " --bptt 6 --batch-size 8 --updates-per-epoch 2 --test-episodes 8 --optimizer sgd --lr 0.01 --clip-norm 1 --cpu"
    " --num-workers 0 --no-progress-bar --log-format simple"
).split()


@pytest.mark.parametrize("raw_bytes", [None, 1])
def test_language_models_declare_what_they_log(raw_bytes):
    words = SimpleNamespace(pad=lambda: 1)
    task = SimpleNamespace(bits_name="bits_per_word", datasets={"valid": 0}, target_dictionary=words)
    task.bytes_per_token = {"valid": raw_bytes}.get
    log = {"nll_loss": 1, "ntokens": 1, "bits/bits_per_word": 1} | ({"raw_bytes": 1} if raw_bytes else {})
    check(StreamingLMCriterion(task), log)


@pytest.mark.parametrize("criterion", [A2CCriterion, LabelCrossEntropyCriterion])
def test_a_criterion_logs_what_it_declares(criterion):
    check(criterion, dict.fromkeys("loss nll_loss ntokens sample_size episodes".split(), 1))


def check(criterion, log):
    with metrics.aggregate(new_root=True) as values:
        criterion.reduce_metrics([log])
    assert set(values.get_smoothed_values()) == {*criterion.LOGGED}


@pytest.fixture
def agents(run, user_dir):
    def agents(*flags, **kwargs):
        return run("fairseq-train", "--user-dir", user_dir, *AGENT, *flags, **kwargs)

    return agents


def scores(done, name="reward") -> list[float]:
    return [float(number) for number in re.findall(rf"valid \|.* {name} (\S+) \|", done.stdout)]


def content(folder, name) -> SimpleNamespace:
    state = torch.load(folder / name)
    return SimpleNamespace(
        updates=state["optimizer_history"][-1]["num_updates"], best=state["extra_state"]["best"], cfg=state["cfg"]
    )


def test_the_best_agents_have_the_highest_rewards(agents, tmp_path):
    """Also if the training stops in the middle; each has its memory. The one that is named on the command line wins."""
    flags = "--keep-best-checkpoints 2 --no-epoch-checkpoints --save-interval-updates 4 --save-dir".split() + [tmp_path]
    first = agents("--max-epoch", 3, *flags)
    rewards = scores(first) + scores(agents("--max-epoch", 6, *flags))
    ranked = sorted(((reward, 2 * epoch) for epoch, reward in enumerate(rewards, start=1)), reverse=True)
    assert len(ranked) == 6
    best = {path.name: content(tmp_path, path.name).updates for path in tmp_path.glob("checkpoint.best_reward_*.pt")}
    assert sorted(best.values()) == sorted(updates for _, updates in ranked[:2])
    assert content(tmp_path, "checkpoint_best.pt").updates == ranked[0][1]
    assert content(tmp_path, "checkpoint_last.pt").best == pytest.approx(max(rewards), abs=1e-3)
    there = {*best, *(f"checkpoint_{name}.pt" for name in ("best", "last", "2_4", "4_8", "6_12"))}
    assert {path.name for path in tmp_path.glob("*.pt")} == there
    assert {path.name.removesuffix(".memory-0-of-1") for path in tmp_path.glob("*.memory-*")} == there | {"newest"}
    changed = agents("--max-epoch", 7, *flags, "--best-checkpoint-metric", "loss", "--patience", 1)
    assert "the best value so far is of another metric" in changed.stdout
    assert content(tmp_path, "checkpoint_best.pt").updates == 14


def test_a_metric_that_there_is_not(run, reverse_corpus, tiny_flags, user_dir, tmp_path):
    command = ["fairseq-train", reverse_corpus.bin, "--user-dir", user_dir, *tiny_flags, "--max-update", 1]
    done = run(*command, "--save-dir", tmp_path, "--best-checkpoint-metric", "bleu", check=False)
    assert "--best-checkpoint-metric bleu is no value" in done.stderr, done.stderr[-2000:]
    assert "add --eval-bleu, or choose one of loss, nll_loss, ppl" in done.stderr
    assert "begin training" not in done.stdout and not list(tmp_path.glob("*.pt"))


def test_a_trial_changes_nothing(run, reverse_corpus, tiny_flags, user_dir, tmp_path):
    """The look before the first update, which a metric of fairseq's criterion needs: same weights, same figures. And
    the last epoch is saved that --save-interval leaves out; a better BLEU score is higher."""
    command = ["fairseq-train", reverse_corpus.bin, "--user-dir", user_dir, *tiny_flags, "--dropout", 0.1]
    command += ["--max-epoch", 1, "--save-interval", 2, "--max-tokens", 4000]
    for metric in ("loss", "ppl"):
        run(*command, "--save-dir", tmp_path / metric, "--best-checkpoint-metric", metric)
    assert_same_weights(tmp_path / "loss", tmp_path / "ppl")


class Trial(SimpleNamespace):
    """A trainer whose validations give these values, batch by batch."""

    def __init__(self, *batches, criterion=None, **task):
        cfg = SimpleNamespace(dataset=SimpleNamespace(valid_subset="valid,test"), task=SimpleNamespace(**task))
        loader = SimpleNamespace(next_epoch_itr=lambda **unused: iter(batches))
        super().__init__(cfg=cfg, task=None, get_criterion=lambda: criterion, get_valid_iterator=lambda subset: loader)

    def valid_step(self, sample):
        for name in sample.split():
            metrics.log_scalar(name, 1)


@pytest.mark.parametrize("trial, metric, words", [
    (Trial("loss ppl"), "ppl", None),
    (Trial("loss", "loss f1"), "f1", None),  # only where something is found
    (Trial("loss wps", "loss"), "f1", "f1 is no value .* gives; choose one of loss.$"),
    (Trial("loss", eval_bleu=True), "bleu", None),  # nothing is translated yet
    (Trial("loss", eval_bleu=False), "bleu", "; add --eval-bleu, or choose one of loss"),
    (Trial("loss"), "bleu", "; choose one of loss"),
    (Trial("loss success", criterion=A2CCriterion), "success", None),  # the environments tell it
    (Trial("loss", criterion=A2CCriterion), "success", "success is no value .* gives; choose one of loss.$"),
])  # fmt: skip
def test_the_values_that_there_are(trial, metric, words):
    before = torch.get_rng_state()
    if words is None:
        best_metric.check_metric(metric, trial)
    else:
        with pytest.raises(best_metric.UserError, match=words):
            best_metric.check_metric(metric, trial)
    assert torch.equal(before, torch.get_rng_state())
