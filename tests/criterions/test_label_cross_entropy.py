import math

import pytest
import torch
from fairseq.logging import metrics
from logits import PAD, Model, SpanModel, make_criterion
from torch.nn import functional as F

from fairseq_plugins.criterions.label_cross_entropy import LabelCrossEntropyCriterion


def criterion():
    return make_criterion(LabelCrossEntropyCriterion)


def sample(target):
    tokens = torch.zeros(2, 3, dtype=torch.long)
    return {"net_input": {"src_tokens": tokens}, "target": torch.tensor(target), "ntokens": 6, "nsentences": 2}


def best(model, rows=2):
    return model.decoder.logits.argmax(-1).tolist()[:rows]


def reduced(*logs):
    with metrics.aggregate(new_root=True) as agg:
        LabelCrossEntropyCriterion.reduce_metrics(logs)
    return agg.get_smoothed_values()


def test_only_labels_count():
    model = Model()
    loss, labels, logged = criterion()(model, sample([[2, PAD, 4], [PAD, PAD, 5]]))
    lprobs = F.log_softmax(model.decoder.logits, dim=-1)
    assert labels == 3
    assert loss.item() == pytest.approx(-(lprobs[0, 0, 2] + lprobs[0, 2, 4] + lprobs[1, 2, 5]).item())
    loss.backward()
    assert not model.decoder.logits.grad[[0, 1, 1], [1, 0, 1]].any() and model.decoder.logits.grad[0, 0].any()
    assert reduced(logged)["loss"] == pytest.approx(loss.item() / 3 / math.log(2), abs=1e-4)


def test_accuracy_is_of_all_batches_labels_together():
    model = Model()
    right, (first, *_) = best(model), best(model)
    assert PAD not in right[0] + right[1]
    some = [[first[0], PAD, PAD], [PAD, PAD, (right[1][2] - 1) % 5 + 2]]
    logs = [criterion()(model, sample(target))[2] for target in (right, some)]
    figures = reduced(*logs)
    wrong = int(some[1][2] != right[1][2])
    assert figures["wrong"] == wrong == 1
    assert figures["accuracy"] == pytest.approx(100 * 7 / 8, abs=1e-3)


def test_a_batch_without_labels_has_no_weight():
    model = Model()
    empty, full = [[PAD] * 3] * 2, [[2, 3, 4], [PAD, 5, 6]]
    logs = [criterion()(model, sample(target)) for target in (empty, full)]
    assert logs[0][:2] == (0, 0)
    assert reduced(logs[0][2], logs[1][2]) == reduced(logs[1][2])
    alone = reduced(logs[0][2])
    assert alone["wrong"] == 0 and math.isnan(alone["accuracy"]) and math.isnan(alone["loss"])


def test_the_loss_of_spans_is_of_training_only():
    model = SpanModel()
    target = [[2, PAD, 4], [PAD, PAD, 5]]
    plain, *_ = criterion()(Model(), sample(target))
    assert criterion()(model, sample(target))[0].item() == pytest.approx(plain.item() + 3 * 2)
    assert criterion()(model.eval(), sample(target))[0].item() == pytest.approx(plain.item())
