"""The curriculum: when sequences grow, which sequences a batch holds, and how a training is resumed."""

from types import SimpleNamespace

import numpy as np
import pytest
from task_options import options_of

from fairseq_plugins.errors import UserError
from fairseq_plugins.models import feedback_lm, feedback_transformer, roberta_cross_head  # noqa: F401  (registered)
from fairseq_plugins.synthetic.algorithmic_curriculum import AlgorithmicCurriculumConfig, AlgorithmicCurriculumTask
from fairseq_plugins.synthetic.algorithms import ALGORITHMS

RIGHT, WRONG = {"wrong": 0}, {"wrong": 1}


def make(algorithm="reverse", **options):
    options = {"epoch_batches": 3, "algorithm": algorithm, **options}
    task = AlgorithmicCurriculumTask.setup_task(options_of(AlgorithmicCurriculumConfig, **options))
    for split in ("train", "valid"):
        task.load_dataset(split)
    return task


def training(task, epoch=1, **options):
    options = {"max_sentences": 4, "epoch": epoch, "grouped_shuffling": False, **options}
    return task.get_batch_iterator(task.dataset("train"), **options)


def fresh_batch(task, **options):
    return list(task.get_batch_iterator(task.dataset("valid"), max_sentences=4, **options).next_epoch_itr())


def train(task, results, first=1):
    """Epochs that end with a fresh batch all right or not; the samples of all."""
    samples = []
    for epoch, result in enumerate(results, start=first):
        task.begin_epoch(epoch, None)
        samples += training(task, epoch).next_epoch_itr()
        task.post_validate(None, stats := dict(result), None)
        assert stats["reached"] == task.curriculum.reached
    return samples


def sizes(samples):
    return [sample["target"].size(1) for sample in samples]


def same(samples, others):
    return all((a["target"] == b["target"]).all() for a, b in zip(samples, others, strict=True))


@pytest.mark.parametrize("algorithm, options, expected, reached", [
    ("reverse", {}, [5, 6, 6, 7], 6),
    ("addition", {}, [5, 7, 7, 9], 7),
    ("reverse", {"size_step": 0}, [5, 5, 5, 5], 5),
])  # fmt: skip
def test_sequences_grow_after_a_fresh_batch_that_is_all_right(algorithm, options, expected, reached):
    task = make(algorithm, **options)
    assert task.curriculum.reached == 0
    assert sizes(train(task, [RIGHT, WRONG, RIGHT, WRONG])) == [size for size in expected for _ in range(3)]
    assert task.curriculum.reached == reached


def test_only_the_end_of_an_epoch_counts_and_only_once():
    task = make()
    epoch = training(task).next_epoch_itr()
    next(epoch)
    task.post_validate(None, dict(RIGHT), None)
    assert task.curriculum.size == 5
    assert sum(1 for _ in epoch) == 2
    for _ in range(2):  # as with two validation sets
        task.post_validate(None, dict(RIGHT), None)
    assert task.curriculum.size == 6


def test_an_epoch_without_its_test_is_refused():
    """As with --disable-validation, --validate-interval 2 or --validate-after-updates."""
    task = make()
    train(task, [RIGHT])
    list(training(task, epoch=2).next_epoch_itr())
    with pytest.raises(UserError, match="epoch 2 ended without a validation.*--validate-interval"):
        task.begin_epoch(3, None)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_targets_are_the_answers(algorithm):
    task = make(algorithm)
    zero = task.dictionary.index("0")
    assert len(task.dictionary) == zero + ALGORITHMS[algorithm].vocabulary
    for sample in train(task, [RIGHT]):
        inputs = sample["net_input"]["src_tokens"].numpy() - zero
        assert np.array_equal(ALGORITHMS[algorithm].answers(inputs), sample["target"].numpy() - zero)


def test_another_vocabulary():
    task = make(vocabulary=7)
    zero = task.dictionary.index("0")
    assert len(task.dictionary) == zero + 7
    samples = train(task, [RIGHT] * 3)
    assert {int(value) - zero for sample in samples for value in sample["target"].flatten()} == set(range(7))
    assert ALGORITHMS["reverse"].vocabulary == 100


def test_every_batch_is_new_and_depends_on_the_seed():
    samples = train(make(), [WRONG, WRONG])
    rows = {tuple(row) for sample in samples for row in sample["target"].tolist()}
    assert len(rows) == 6 * 4
    assert same(samples, train(make(), [WRONG, WRONG]))
    assert not same(samples, train(make(seed=2), [WRONG, WRONG]))


def test_the_fresh_batch_is_of_the_epoch_and_of_no_training_batch():
    task = make()
    tests = []
    for epoch in (1, 2):
        samples = list(training(task, epoch).next_epoch_itr())
        tests += fresh_batch(task)
        assert not any(same([sample], tests[-1:]) for sample in samples)
    assert len(tests) == 2 and not same(tests[:1], tests[1:])
    assert same(tests[1:], fresh_batch(task))


def test_two_ranks_draw_different_batches():
    shares = [list(training(make(), num_shards=2, shard_id=rank).next_epoch_itr()) for rank in (0, 1)]
    assert [len(share) for share in shares] == [3, 3] and not same(*shares)


def test_the_fresh_batch_is_one_for_all_ranks():
    one, other = (fresh_batch(make(), num_shards=2, shard_id=rank) for rank in (0, 1))
    assert same(one, fresh_batch(make())) and other == [{}]


@pytest.mark.parametrize("after", [0, 1, 2, 3])
def test_a_resumed_training_draws_the_same_batches(after):
    """After so many of the second epoch's three batches; after the last one a fresh batch was tried."""
    whole = make()
    expected = train(whole, [RIGHT, RIGHT, WRONG])

    first = make()
    before = train(first, [RIGHT])
    epochs = first.training
    if after:
        epochs = training(first, epoch=2)
        epoch = epochs.next_epoch_itr()
        before += [next(epoch) for _ in range(after)]
    if after == 3:
        first.post_validate(None, dict(RIGHT), None)
    state = epochs.state_dict()

    second = make()
    again = training(second, epoch=state["epoch"])
    _ = again.first_batch  # fairseq takes one before it loads the state
    again.load_state_dict(state)
    second.begin_epoch(state["epoch"], None)
    rest = list(again.next_epoch_itr())
    assert len(rest) == (3 if after == 3 else 3 - after)
    assert same([*before, *rest], expected[: len(before) + len(rest)])
    assert second.curriculum.reached == (6 if after == 3 else 5)


def test_a_checkpoint_of_another_algorithm_is_refused():
    task = make()
    train(task, [RIGHT])
    other = make("sort")
    with pytest.raises(UserError, match="--algorithm reverse, not sort.*--save-dir"):
        training(other).load_state_dict(task.training.state_dict())


@pytest.mark.parametrize("options, loading, words", [
    ({"seed": 2}, {}, "--seed 1,.* has 2: give the same settings"),
    ({"epoch_batches": 4}, {}, "--epoch-batches 3,.* has 4"),
    ({"size_step": 3}, {}, "--size-step 1,.* has 3"),
    ({}, {"max_sentences": 8}, "--batch-size 4,.* has 8"),
    ({"vocabulary": 7}, {}, "--vocabulary 100,.* has 7"),
    ({}, {"num_shards": 2}, "--distributed-world-size 1,.* has 2"),
])  # fmt: skip
def test_other_flags_are_for_the_beginning_of_an_epoch(options, loading, words):
    whole = make()
    epoch = (batches := training(whole)).next_epoch_itr()
    next(epoch)
    with pytest.raises(UserError, match=words):
        training(make(**options), **loading).load_state_dict(batches.state_dict())
    list(epoch)
    training(other := make(**options), **loading).load_state_dict(batches.state_dict())
    assert other.curriculum.size == whole.curriculum.size


@pytest.mark.parametrize("arch", ["feedback_transformer_tiny", "feedback_lm_tiny", "roberta_cross_head"])
def test_a_model_that_labels_no_tokens_is_refused(arch):
    with pytest.raises(UserError, match=f"--arch {arch} does not predict .* --arch active_memory_algorithmic"):
        make().build_model(SimpleNamespace(_name=arch))


def test_a_criterion_that_counts_nothing_wrong_is_refused():
    with pytest.raises(UserError, match="--criterion cross_entropy .* needs --criterion label_cross_entropy"):
        make().build_criterion(SimpleNamespace(_name="cross_entropy"))


@pytest.mark.parametrize("options, words", [
    ({"algorithm": "addition", "start_size": 6}, "odd --start-size"),
    ({"algorithm": "multiply", "size_step": 1}, "even --size-step"),
    ({"start_size": 0}, "--start-size"),
    ({"algorithm": "not", "vocabulary": 3}, "--algorithm not is a task of bits; leave out --vocabulary"),
    ({"algorithm": "addition", "vocabulary": 3}, "--algorithm addition is a task of bits; leave out --vocabulary"),
])  # fmt: skip
def test_settings_that_do_not_fit_are_refused(options, words):
    with pytest.raises(UserError, match=words):
        make(**options)


@pytest.mark.parametrize("options", [{"max_tokens": 100}, {}])
def test_the_batch_size_is_a_number_of_sequences(options):
    task = make()
    with pytest.raises(UserError, match="takes --batch-size and not --max-tokens"):
        task.get_batch_iterator(SimpleNamespace(), **options)
