import math

import pytest
import torch
from fairseq.logging import metrics
from logits import PAD, Model, SpanModel, make_criterion
from torch.nn import functional as F

from fairseq_plugins.criterions.streaming_lm import StreamingLMCriterion
from fairseq_plugins.errors import UserError


class OwnLossModel(SpanModel):
    def token_nll(self, net_output, target):
        return torch.full(target.shape, 2.0, dtype=torch.float64)


@pytest.fixture
def sample():
    target = torch.tensor([[4, 5, 6], [4, 2, PAD]])
    return {"net_input": {"src_tokens": target}, "target": target, "ntokens": 5, "nsentences": 2}


@pytest.fixture
def criterion():
    return make_criterion(StreamingLMCriterion)


def expected_nll(model, sample):
    return F.cross_entropy(
        model.decoder.logits.flatten(0, 1), sample["target"].flatten(), ignore_index=PAD, reduction="sum"
    )


def test_it_sums_over_the_tokens_that_count(criterion, sample):
    model = Model()
    loss, size, logged = criterion(model, sample)
    torch.testing.assert_close(loss, expected_nll(model, sample))
    assert size == logged["sample_size"] == logged["ntokens"] == 5


def test_the_span_loss_is_added_once_a_token_so_once_to_the_mean_over_all_ranks(criterion, sample):
    model = SpanModel()
    loss, size, logged = criterion(model, sample)
    loss.backward()
    torch.testing.assert_close(loss.detach() / size, expected_nll(model, sample).detach() / 5 + 2.0)
    assert model.decoder.span.grad / size == 0.5
    torch.testing.assert_close(logged["nll_loss"], expected_nll(model, sample).detach())


def test_validation_is_without_span_loss(criterion, sample):
    model = SpanModel().eval()
    torch.testing.assert_close(criterion(model, sample)[0], expected_nll(model, sample))


def test_the_models_own_loss_is_used(criterion, sample):
    assert criterion(OwnLossModel().eval(), sample)[0] == 10.0


def test_what_is_logged_is_the_mean_over_ranks_in_bits(criterion, sample):
    _, _, one = criterion(OwnLossModel(), sample)
    other = {**one, "ntokens": 15, "sample_size": 15, "loss": one["loss"] * 3, "nll_loss": one["nll_loss"] * 3}
    other["learned/span_mean"] = 15 * 8.0
    with metrics.aggregate() as logged:
        criterion.reduce_metrics([one, other])
    values = logged.get_smoothed_values()
    assert values["loss"] == pytest.approx((2 + 2) / math.log(2), abs=1e-3)
    assert values["nll_loss"] == values["bpc"] == pytest.approx(2 / math.log(2), abs=1e-3)
    assert values["ppl"] == pytest.approx(math.exp(2), abs=0.01)
    assert values["span_mean"] == 7.0


def test_validation_also_logs_the_bits_per_byte_and_says_what_a_token_is(sample):
    criterion = make_criterion(StreamingLMCriterion)
    criterion.task.bytes_per_token = {"valid": 3.0}.get
    criterion.bits_name = "bits_per_piece"
    with metrics.aggregate() as logged:
        criterion.reduce_metrics([criterion(OwnLossModel().eval(), {**sample, "split": "valid"})[2]])
    values = logged.get_smoothed_values()
    assert values["bits_per_piece"] == pytest.approx(2 / math.log(2), abs=1e-3) and "bpc" not in values
    assert values["bpb"] == pytest.approx(2 / math.log(2) / 3, abs=1e-3)


def test_another_task_is_refused():
    with pytest.raises(UserError, match="--criterion streaming_lm is for --task streaming_language_modeling"):
        StreamingLMCriterion.build_criterion(None, object())
