"""Adaptive input and softmax."""

import pytest
import torch

from fairseq_plugins.modules.common.adaptive_io import AdaptiveInput, AdaptiveSoftmax

V, CUTOFFS, C = 20, [6, 12], 16


@pytest.mark.parametrize("tie_projections, tie_head", [(False, True), (True, True), (True, False)])
def test_equally_wide_clusters_have_one_projection_at_the_input(tie_projections, tie_head):
    """Transformer-XL's, whose widths are not the model's; the tails share it where they share any."""
    embed = AdaptiveInput(V, CUTOFFS, C, 1, embed_dim=6)
    softmax = AdaptiveSoftmax(V, CUTOFFS, C, 1, embed, tie_projections, tie_head, embed_dim=6)
    (one,) = embed.projections
    rows = torch.cat([*embed.tables])
    assert torch.allclose(embed(torch.arange(V)), C**0.5 * rows @ one.T, atol=1e-6)
    assert [projection is one for projection in softmax.projections] == [
        tie_projections and tie_head, tie_projections, tie_projections,
    ]  # fmt: skip
    hidden = torch.randn(5, C)
    tail = (hidden @ softmax.projections[2] @ embed.tables[2].T + softmax.biases[2]).log_softmax(-1)
    assert torch.allclose(softmax.tail(hidden, 2), tail, atol=1e-6)


def test_the_heads_projection_may_stay_its_own():
    embed = AdaptiveInput(V, CUTOFFS, C, 2)
    softmax = AdaptiveSoftmax(V, CUTOFFS, C, 2, embed, tie_head=False)
    assert [a is b for a, b in zip(embed.projections, softmax.projections)] == [False, True, True]


def test_clusters_as_wide_as_the_model_are_not_projected():
    embed = AdaptiveInput(V, CUTOFFS, C, 1).double()
    softmax = AdaptiveSoftmax(V, CUTOFFS, C, 1, embed).double()
    assert not embed.projections and not softmax.projections
    assert torch.equal(embed(torch.tensor([7])), C**0.5 * embed.tables[1][1:2])
    log_probs = softmax.log_probs(torch.randn(3, C, dtype=torch.float64))
    assert torch.allclose(log_probs.exp().sum(-1), torch.ones(3, dtype=torch.float64))


def test_embeddings_of_another_width_are_projected():
    embed = AdaptiveInput(V, [], C, embed_dim=6).double()
    assert embed.tables[0].shape == (V, 6) and embed.projections[0].shape == (C, 6)
    assert torch.allclose(embed(torch.tensor(3)), C**0.5 * embed.projections[0] @ embed.tables[0][3])


def test_every_parameter_has_a_gradient_whatever_the_words():
    embed, softmax = AdaptiveInput(V, CUTOFFS, C, 2), AdaptiveSoftmax(V, CUTOFFS, C, 2)
    tokens = torch.zeros(2, 3, dtype=torch.long)
    softmax.nll(embed(tokens), tokens).sum().backward()
    assert all(parameter.grad is not None for module in (embed, softmax) for parameter in module.parameters())


@pytest.mark.parametrize("cutoffs", [[12, 6], [6, 20], [0, 6], [6, 6]])
def test_cutoffs_that_make_empty_clusters_are_refused(cutoffs):
    with pytest.raises(ValueError, match="do not rise"):
        AdaptiveInput(V, cutoffs, C)


def test_clusters_without_width_are_refused():
    with pytest.raises(ValueError, match="too small for 3 clusters"):
        AdaptiveInput(V, CUTOFFS, 8, 4)
