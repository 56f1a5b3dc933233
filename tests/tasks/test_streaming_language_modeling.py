"""The task with a very small model: memory, exact figures, refusals."""

import math
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from fairseq.criterions.cross_entropy import CrossEntropyCriterion
from fairseq.data import indexed_dataset
from fairseq.optim.amp_optimizer import AMPOptimizer
from fairseq.sequence_scorer import SequenceScorer
from omegaconf import OmegaConf

from fairseq_plugins.criterions import streaming_lm  # noqa: F401  (registered)
from fairseq_plugins.errors import OutOfMemory, UserError
from fairseq_plugins.files import sealed
from fairseq_plugins.models import active_memory_lm, all_attention_lm, feedback_transformer  # noqa: F401  (registered)
from fairseq_plugins.modules.span.stack import SpanMemory
from fairseq_plugins.streams import rank_files
from fairseq_plugins.text.levels import Words
from fairseq_plugins.text.prepared import PreparedText
from fairseq_plugins.text.tokenisers import Plain

SMALL = {"decoder_layers": 1, "decoder_embed_dim": 8, "decoder_attention_heads": 2, "persistent_vectors": 2}


def tokens_of(number, seed=1):
    tokens = np.random.default_rng(seed).integers(4, 44, number)
    tokens[9::10] = 2  # end of line
    return tokens


def sgd(model, lr=0.5):
    """An optimiser as the task sees it."""
    optimizer = torch.optim.SGD(model.parameters(), lr=lr)
    return SimpleNamespace(backward=lambda loss: loss.backward(), step=optimizer.step, zero_grad=optimizer.zero_grad)


def train(task, model, samples, optimizer=None, first=0):
    """Losses of one update for each sample."""
    optimizer = optimizer or sgd(model)
    if not samples[0]["block"]:
        task.begin_epoch(1, model)
    criterion = CrossEntropyCriterion(task, sentence_avg=False)
    losses = []
    for update, sample in enumerate(samples, start=first):
        optimizer.zero_grad()
        loss, size, _ = task.train_step(sample, model, criterion, optimizer, update)
        for parameter in model.parameters():
            parameter.grad /= size
        task.optimizer_step(optimizer, model, update)
        losses.append(loss.item() / size)
    return losses


def blocks(task, split="train", batch=2, training=False, epoch=1, **options):
    epochs = task.stream_iterator(task.datasets[split], batch, training=training, epoch=epoch, **options)
    return list(epochs.next_epoch_itr())


# Memory


def test_validation_in_the_middle_of_training_changes_nothing(make_task, model, dictionary):
    """Neither the split of its own nor the very split that is trained on."""
    losses = []
    for validate in (False, True):
        torch.manual_seed(3)
        copy = type(model)(dictionary).double()
        task = make_task({"train": tokens_of(100), "valid": tokens_of(60, 2)}, tokens_per_sample=5)
        samples = blocks(task)
        first = train(task, copy, samples[:4])
        if validate:
            criterion = CrossEntropyCriterion(task, sentence_avg=False)
            for split in ("valid", "train"):
                for sample in blocks(task, split):
                    task.valid_step(sample, copy, criterion)
            task.post_validate(copy, {}, None)
        losses.append(first + train(task, copy, samples[4:], first=4))
    assert losses[0] == losses[1]


def test_the_memory_matters_and_carries_no_gradient(make_task, model):
    task = make_task({"train": tokens_of(100)}, tokens_per_sample=5)
    sample = blocks(task)[1]
    task.training.groups[0].advance(SpanMemory([torch.ones(2, 6, 8, dtype=torch.float64)]), 5)
    (with_memory,) = train(task, model, [sample], sgd(model, lr=0))
    assert task.training.groups[0].position == 10 and not task.training.groups[0].tensors()[0].requires_grad
    with torch.no_grad():
        log_probs = model.get_normalized_probs(model(**sample["net_input"]), log_probs=True)
    without = -log_probs.gather(-1, sample["target"].unsqueeze(-1)).mean().item()
    assert abs(with_memory - without) > 1e-3


def test_the_sample_itself_stays_without_memory(make_task):
    """fairseq keeps one as its dummy batch."""
    task = make_task({"valid": tokens_of(60)})
    (sample,) = blocks(task, "valid")
    assert "memory" in task.with_memory(sample)["net_input"]
    assert "memory" not in sample["net_input"]


def test_a_block_that_does_not_follow_is_refused(make_task, model):
    task = make_task({"train": tokens_of(100)}, tokens_per_sample=5)
    samples = blocks(task)
    with pytest.raises(UserError, match="block 3 of train starts at token 15 .* is of 5 tokens: .* in order"):
        train(task, model, [samples[0], samples[3]])


@pytest.mark.parametrize("again", [0, 1, 2])
def test_a_block_fed_twice_means_that_gradients_were_not_finite(make_task, model, again):
    """fairseq feeds an update again to look for the culprit; it may have had several blocks."""
    task = make_task({"train": tokens_of(100)}, tokens_per_sample=5)
    samples = blocks(task)
    with pytest.raises(UserError, match=f"diverged at update 4, block {again} .*gradients are not finite"):
        train(task, model, [*samples[:3], samples[again]])


def test_what_fairseq_stumbled_over_is_not_taken_for_a_divergence(make_task, model):
    task = make_task({"train": tokens_of(100)}, tokens_per_sample=5)
    samples = blocks(task)
    with pytest.raises(FloatingPointError, match="inconsistent between workers"):  # fairseq's words
        try:
            train(task, model, samples[:2])
            raise FloatingPointError("Fatal error: gradients are inconsistent between workers.")
        except FloatingPointError:
            train(task, model, samples[1:2])


def test_an_epoch_begins_with_block_0_again(make_task, model):
    task = make_task({"train": tokens_of(30)}, tokens_per_sample=5)
    samples = blocks(task)
    assert train(task, model, samples, sgd(model, lr=0)) == train(task, model, samples, sgd(model, lr=0))


def test_an_empty_block_is_no_sign_of_a_low_loss(make_task, model):
    """The last block of a rank whose streams are one token shorter than the others."""
    task = make_task({"train": tokens_of(10)}, tokens_per_sample=5)
    (sample,) = blocks(task)
    padded = {**sample, "target": torch.full_like(sample["target"], task.dictionary.pad()), "ntokens": 0}
    task.train_step(padded, model, CrossEntropyCriterion(task, sentence_avg=False), sgd(model), 0)
    assert task.guard.blocks == 0


def test_amp_tries_an_update_again_with_the_memory_before_it(make_task, model):
    task = make_task({"train": tokens_of(100)}, tokens_per_sample=5)
    samples = blocks(task)
    amp = AMPOptimizer.__new__(AMPOptimizer)
    optimizer = sgd(model, lr=0)
    amp.backward, amp.step, amp.zero_grad = optimizer.backward, optimizer.step, optimizer.zero_grad
    losses = train(task, model, [samples[0], samples[1], samples[1], samples[1], samples[2]], amp)
    assert losses[1] == losses[2] == losses[3]
    assert train(task, model, samples[:3], sgd(model, lr=0)) == [losses[0], losses[1], losses[4]]


def test_the_model_is_called_after_every_update(make_task, model):
    task = make_task({"train": tokens_of(30)}, tokens_per_sample=5)
    called = []
    model.after_update = called.append
    samples = blocks(task)
    train(task, model, samples)
    assert called == [{}] * len(samples)


# Epochs


def test_a_random_offset_rotates_the_training_split_in_each_epoch_and_no_other(make_task):
    tokens = np.arange(10, 40)
    task = make_task({"train": tokens, "valid": tokens}, stream_offset="random", tokens_per_sample=30)
    starts = [blocks(task, batch=1, training=True, epoch=epoch, disable_iterator_cache=True)[0] for epoch in (1, 2, 3)]
    starts = [sample["target"][0, 0].item() for sample in starts]
    assert len(set(starts)) == 3
    assert [sample["target"][0, 0] for sample in blocks(task, "valid", batch=1)] == [10]
    again = make_task({"train": tokens}, stream_offset="random", tokens_per_sample=30)
    assert blocks(again, batch=1, training=True, epoch=2)[0]["target"][0, 0] == starts[1]


@pytest.mark.parametrize("given, expected", [(None, [6, 6, 6]), (4, [4, 4, 4, 4, 2])])
def test_validation_may_have_blocks_of_another_length(make_task, given, expected):
    """Training and fairseq-eval-lm keep to --tokens-per-sample."""
    tokens = {"train": tokens_of(36), "valid": tokens_of(36)}
    task = make_task(tokens, tokens_per_sample=6, valid_tokens_per_sample=given)

    def lengths(batches):
        return [sample["target"].size(1) for sample in batches]

    def epoch(split, **how):
        return task.get_batch_iterator(task.datasets[split], max_sentences=2, **how).next_epoch_itr()

    assert lengths(epoch("valid")) == expected
    assert lengths(epoch("train", grouped_shuffling=False)) == [6, 6, 6]
    assert len(task.eval_lm_dataloader(task.datasets["valid"], batch_size=2, num_workers=0)) == 3


# Evaluation


def evaluate(task, model, batch=1, softmax_batch=0):
    """As fairseq-eval-lm does; the figures, and the log-probability of every token in the order of the split."""
    scorer = SequenceScorer(task.dictionary, softmax_batch)
    evaluation = task.eval_lm_dataloader(task.datasets["test"], batch_size=batch, num_workers=0, data_buffer_size=0)
    scores = [[] for _ in range(batch)]
    for sample in evaluation:
        for row, hypotheses in enumerate(scorer.generate([model], sample)):
            scores[row].append(hypotheses[0]["positional_scores"])
    return evaluation.figures, torch.cat([torch.cat(row) for row in scores])


@pytest.mark.parametrize("softmax_batch", [1, 4, 100])
def test_the_softmax_in_pieces_gives_the_same_figures(make_task, model, softmax_batch):
    task = make_task({"test": tokens_of(61)}, tokens_per_sample=9)
    (figures, _), (expected, _) = evaluate(task, model, 2, softmax_batch), evaluate(task, model, 2)
    assert figures.all.tokens == expected.all.tokens == 61
    assert figures.all.nats == pytest.approx(expected.all.nats, abs=1e-9)
    assert figures.within_lines.tokens == 55


def test_streams_score_the_same_tokens_with_other_values_and_say_so(make_task, model, caplog):
    task = make_task({"test": tokens_of(123)}, tokens_per_sample=9)
    one, _ = evaluate(task, model)
    assert "empty memory" not in caplog.text
    with caplog.at_level("INFO"):
        four, _ = evaluate(task, model, batch=4)
    assert "each of the 4 streams starts from an empty memory" in caplog.text
    assert one.all.tokens == four.all.tokens
    assert 1e-6 < abs(one.all.nats - four.all.nats) < 0.05 * one.all.nats


def test_the_first_token_of_a_split_may_be_read_only(make_task, dictionary, tmp_path):
    tokens = tokens_of(11)
    dictionary.save(str(tmp_path / "dict.txt"))
    split = indexed_dataset.make_builder(str(tmp_path / "test.bin"), impl="mmap", vocab_size=len(dictionary))
    split.add_item(torch.from_numpy(tokens))
    split.finalize(str(tmp_path / "test.idx"))
    pairs = {}
    for only_read in (False, True):
        task = make_task(data=str(tmp_path), no_first_target=only_read, tokens_per_sample=4, dataset_impl=None)
        task.load_dataset("test")
        samples = blocks(task, "test", batch=1)
        pairs[only_read] = [
            torch.cat([part.flatten() for part in parts]).tolist()
            for parts in zip(*((sample["net_input"]["src_tokens"], sample["target"]) for sample in samples))
        ]
        assert [sample["target"].numel() for sample in samples] == ([4, 4, 2] if only_read else [4, 4, 3])
    assert pairs[False] == [[dictionary.eos(), *tokens[:-1]], [*tokens]]
    assert pairs[True] == [[*tokens[:-1]], [*tokens[1:]]]


def test_bytes_are_those_of_one_file(make_task, dictionary, tmp_path):
    """Of files that are read as one split, the bytes of the first alone are known."""
    dictionary.save(str(tmp_path / "dict.txt"))
    PreparedText(Plain(), Plain(), Words(), raw_bytes={"test": 33}).save(tmp_path)
    for name in ("test", "test1"):
        split = indexed_dataset.make_builder(str(tmp_path / f"{name}.bin"), impl="mmap", vocab_size=len(dictionary))
        split.add_item(torch.from_numpy(tokens_of(11)))
        split.finalize(str(tmp_path / f"{name}.idx"))
    known = []
    for combine in (False, True):
        task = make_task(data=str(tmp_path), tokens_per_sample=4, dataset_impl=None)
        task.load_dataset("test", combine=combine)
        known.append((len(task.dataset("test")), task.bytes_per_token("test")))
    assert known == [(11, 3), (22, None)]


# Checkpoints


def fake_trainer(model, updates=0):
    return SimpleNamespace(
        data_parallel_rank=0, data_parallel_world_size=1, cuda=False, device="cpu", get_model=lambda: model,
        get_num_updates=lambda: updates, checkpoint_identity="one",
    )  # fmt: skip


def in_epoch(blocks, epoch=2):
    return SimpleNamespace(iterations_in_epoch=blocks, epoch=epoch)


def saved(task, folder, model, updates=7):
    """checkpoint_last.pt (of no content) with the task's file."""
    last = folder / "checkpoint_last.pt"
    task.before_checkpoints(folder, fake_trainer(model, updates))
    last.touch()
    task.after_checkpoints([last], fake_trainer(model, updates))
    return last


@pytest.mark.parametrize("name, content", [
    ("memory", None),
    ("memory", {"caches": [], "position": 15}),
    ("memory", {"caches": [torch.ones(2, 6, 9)], "position": 15}),
    ("memory", {"caches": [torch.ones(3, 6, 8)], "position": 15}),
    ("memory", {"caches": [torch.full((2, 6, 8), math.nan)], "position": 15}),
    ("memory", {"caches": "text", "position": 15}),
    ("guard", {}),
    ("random", {"torch": torch.ones(3)}),
    ("random", 5),
])  # fmt: skip
def test_a_memory_of_another_model_is_refused(make_task, model, name, content, tmp_path):
    """Also where its checksum and its identity are right."""
    task = make_task({"train": tokens_of(100)}, tokens_per_sample=5, batch_size=2)
    train(task, model, blocks(task)[:3])
    last = saved(task, tmp_path, model)
    file = rank_files.file_beside(last, 0, 1)
    sealed.save({**torch.load(file), name: content}, file)
    with pytest.raises(UserError, match="checkpoint_last.pt does not fit this model, or was not saved by this suite"):
        make_task(batch_size=2).after_loading(last, fake_trainer(model, 7), in_epoch(3))


def test_only_in_the_middle_of_an_epoch_the_memory_is_needed(make_task, model, tmp_path):
    last = saved(make_task(), tmp_path, model)
    for file in tmp_path.glob("*memory*"):
        file.unlink()
    task = make_task()
    task.after_loading(last, fake_trainer(model, 7), in_epoch(0))
    with pytest.raises(UserError, match="memory of .*checkpoint_last.pt is missing .*checkpoint replay"):
        task.after_loading(last, fake_trainer(model, 7), in_epoch(3))


def test_the_guard_goes_on_at_an_epochs_start_too(make_task, model, tmp_path):
    task = make_task({"train": tokens_of(100)}, tokens_per_sample=5)
    train(task, model, blocks(task))
    resumed = make_task()
    resumed.after_loading(saved(task, tmp_path, model), fake_trainer(model, 7), in_epoch(0))
    assert resumed.guard.state_dict() == task.guard.state_dict() and resumed.training.groups[0].position == 0


def test_all_ranks_go_on_or_none_does(make_task, model, tmp_path, monkeypatch):
    """They must agree on whether the training has converged."""
    task = make_task({"train": tokens_of(100)}, tokens_per_sample=5)
    train(task, model, blocks(task))
    last, missing = saved(task, tmp_path, model), [True, False]
    monkeypatch.setattr("fairseq_plugins.streams.checkpoint.of_all_ranks", lambda trainer, found: [found, *missing])
    resumed = make_task()
    resumed.after_loading(last, fake_trainer(model, 7), in_epoch(0))
    assert resumed.guard.state_dict() == make_task().guard.state_dict() != task.guard.state_dict()


def test_streams_begun_anew_count_the_updates_before_them(make_task, model, tmp_path):
    """--reset-dataloader: the short blocks of --block-warmup, which only a training has, do not come back."""
    options = dict(tokens_per_sample=6, block_warmup=2, block_warmup_updates=3)
    task = make_task({"train": tokens_of(24)}, **options)
    for training, lengths in ((True, [2, 2, 2, 6]), (False, [6, 6])):
        assert [sample["target"].size(1) for sample in blocks(task, training=training)] == lengths
    anew = make_task({"train": tokens_of(24)}, **options)
    epochs = anew.stream_iterator(anew.datasets["train"], 2, training=True)
    anew.after_loading(saved(task, tmp_path, model), fake_trainer(model, 7), epochs)
    assert [sample["target"].size(1) for sample in epochs.next_epoch_itr()] == [6, 6]


@pytest.mark.parametrize("memory_length, groups", [(6, 1), (0, 1), (6, 2)])
def test_replay_rebuilds_the_memory_of_unchanged_parameters_exactly(
    make_task, model, memory_length, groups, tmp_path, caplog
):
    model.memory_length = memory_length
    options = dict(tokens_per_sample=5, memory_in_checkpoint="replay", split_streams=groups)
    task = make_task({"train": tokens_of(200)}, **options)
    epochs = task.stream_iterator(task.datasets["train"], 2, training=True)
    batches = epochs.next_epoch_itr()
    train(task, model, [next(batches) for _ in range(9)], sgd(model, lr=0))
    resumed = make_task({"train": tokens_of(200)}, **options)
    resumed.after_loading(tmp_path / "checkpoint_last.pt", fake_trainer(model), epochs)
    for again, memory in zip(resumed.training.groups, task.training.groups, strict=True):
        assert again.position == 45 and torch.equal(again.tensors()[0], memory.tensors()[0])
    assert f"from {12 if memory_length else 45} tokens" in caplog.text and "differ slightly" in caplog.text


# Refusals


@pytest.mark.parametrize("options, words", [
    (dict(add_bos_token=True), "--add-bos-token has no meaning"),
    (dict(output_dictionary_size=5), "--output-dictionary-size has no meaning"),
    (dict(max_loss_rise=-1), "--max-loss-rise -1 does not fit"),
    (dict(sample_break_mode="complete"), "--sample-break-mode complete would break"),
    (dict(tokens_per_sample=0), "--tokens-per-sample 0"),
    (dict(valid_tokens_per_sample=0), "--valid-tokens-per-sample 0 does not fit"),
    (dict(block_warmup=5), "--block-warmup and --block-warmup-updates"),
    (dict(block_warmup=5, block_warmup_updates=5, data="a:b"), "one data folder"),
])  # fmt: skip
def test_flags_without_meaning(make_task, options, words):
    with pytest.raises(UserError, match=words):
        make_task(**options)


@pytest.mark.parametrize("ask, words", [
    (lambda task, split: task.get_batch_iterator(split), "--batch-size"),
    (lambda task, split: task.get_batch_iterator(split, max_tokens=4, max_sentences=4), "--max-tokens"),
    (lambda task, split: task.get_batch_iterator(split, max_sentences=11), "10 tokens, fewer than its 11 streams"),
    (lambda task, split: task.eval_lm_dataloader(split, context_window=3), "--context-window"),
    (lambda task, split: task.eval_lm_dataloader(split, num_shards=2), "--num-shards"),
])  # fmt: skip
def test_batches_that_cannot_be(make_task, ask, words):
    task = make_task({"train": tokens_of(10)})
    with pytest.raises(UserError, match=words):
        ask(task, task.datasets["train"])


@pytest.mark.parametrize("groups, more", [(1, 2), (2, 6), (6, None)])
@pytest.mark.parametrize("error", [torch.OutOfMemoryError("CUDA out of memory"), RuntimeError("can't allocate memory")])
def test_out_of_memory_is_an_error_that_names_the_way_out(make_task, model, groups, more, error):
    task = make_task({"train": tokens_of(100), "valid": tokens_of(60)}, tokens_per_sample=5, split_streams=groups)
    starved = StarvedCriterion(task, error)
    with pytest.raises(OutOfMemory) as raised:
        task.train_step(blocks(task, batch=6)[0], model, starved, sgd(model), 0)
    way_out = f"with --split-streams {more}." if more else "with one stream at a time: lower --tokens-per-sample"
    assert way_out in str(raised.value) and f"with {6 // groups if more else 'one'} stream" in str(raised.value)
    with pytest.raises(OutOfMemory, match="in validation with 3 streams: lower --batch-size-valid"):
        task.valid_step(blocks(task, "valid", batch=3)[0], model, starved)


class StarvedCriterion(CrossEntropyCriterion):
    def __init__(self, task, error):
        super().__init__(task, sentence_avg=False)
        self.error = error

    def forward(self, *_, **__):
        raise self.error


def test_other_errors_stay_what_they_are(make_task, model):
    task = make_task({"train": tokens_of(100)}, tokens_per_sample=5)
    with pytest.raises(RuntimeError, match="^sizes differ$"):
        task.train_step(blocks(task)[0], model, StarvedCriterion(task, RuntimeError("sizes differ")), sgd(model), 0)


@pytest.mark.parametrize("name", ["sentence_avg", "skip_remainder_batch"])
def test_flags_without_meaning_in_training(make_task, name):
    """Where fairseq does not parse them, they come as True."""
    task = make_task({"train": tokens_of(60), "valid": tokens_of(60)}, **{name: True})
    assert blocks(task, "valid")
    with pytest.raises(UserError, match=f"--{name.replace('_', '-')} has no meaning"):
        blocks(task, training=True)


@pytest.mark.parametrize("arch", ["active_memory_lm_tiny", "feedback_transformer_tiny"])
def test_a_model_without_memory_is_refused(make_task, arch):
    task = make_task({"train": tokens_of(60)})
    with pytest.raises(UserError, match=f"--arch {arch} has no memory that goes from block to block"):
        task.build_model(SimpleNamespace(_name=arch))


def test_training_in_chunks_is_logged_but_not_of_a_loaded_model(make_task, caplog):
    task, config = make_task({"train": tokens_of(60)}), {"_name": "feedback_lm_tiny", "feedback_chunk": 4}
    with caplog.at_level("INFO"):
        task.build_model(OmegaConf.create(config), from_checkpoint=True)
        assert "chunks" not in caplog.text
        task.build_model(OmegaConf.create(config))
    assert "training in chunks of 4 tokens, passes over each: 3, an approximation" in caplog.text


@pytest.mark.parametrize("criterion, words", [
    ("cross_entropy", "--criterion cross_entropy leaves out the loss of adaptive spans.*--span-loss 0"),
    ("adaptive_loss", "--criterion adaptive_loss is for fairseq's own"),
])  # fmt: skip
def test_criterions_that_cannot_train_the_model_are_refused(make_task, criterion, words):
    task = make_task({"train": tokens_of(60)})
    options = {"adaptive_span": True, "span_loss": 1e-4}
    task.build_model(OmegaConf.create({"_name": "all_attention_lm", **SMALL, **options}))
    with pytest.raises(UserError, match=words):
        task.build_criterion(OmegaConf.create({"_name": criterion, "sentence_avg": False}))
    assert task.build_criterion(OmegaConf.create({"_name": "streaming_lm"})).adds_span_loss
    task.build_model(OmegaConf.create({"_name": "all_attention_lm", **SMALL, **options, "span_loss": 0.0}))
    task.build_criterion(OmegaConf.create({"_name": "cross_entropy", "sentence_avg": False}))
