"""roberta_cross_head: fairseq's RoBERTa but for the heads that are crossed in training."""

from argparse import Namespace

import architectures
import pytest
import torch
from fairseq.models import ARCH_MODEL_REGISTRY
from fairseq.modules import MultiheadAttention
from fairseq.tasks.masked_lm import MaskedLMTask

from fairseq_plugins.errors import UserError
from fairseq_plugins.models.roberta_cross_head import CrossHeadAttention

SMALL = {"encoder_layers": 2, "encoder_embed_dim": 16, "encoder_ffn_embed_dim": 32, "encoder_attention_heads": 4}
HEAD, PAD = "sentence", 1


def build(arch, **options):
    return architectures.build(arch, words=24, **{**SMALL, **options})


def sentences():
    """Two, one of them padded."""
    tokens = torch.randint(4, 20, (2, 9), generator=torch.Generator().manual_seed(2))
    tokens[0, 6:] = PAD
    return tokens


def train(model, seed=3):
    """Scores and gradients of a pass in training, dropout included."""
    model.train()
    torch.manual_seed(seed)
    scores, _ = model(sentences(), features_only=True, classification_head_name=HEAD)
    scores.square().sum().backward()
    return scores, {name: p.grad for name, p in model.named_parameters() if p.grad is not None}


def test_p_0_is_roberta_bit_for_bit():
    plain, ours = build("roberta"), build("roberta_cross_head", cross_head_p=0.0)
    weights, same = plain.state_dict(), ours.state_dict()
    assert list(weights) == list(same) and all(torch.equal(weights[name], same[name]) for name in weights)
    (scores, gradients), (our_scores, our_gradients) = train(plain), train(ours)
    assert torch.equal(scores, our_scores) and list(gradients) == list(our_gradients)
    assert all(torch.equal(gradients[name], our_gradients[name]) for name in gradients)


@pytest.mark.parametrize("p", [0.1, 1.0])
@torch.no_grad()
def test_evaluation_is_roberta_bit_for_bit_and_draws_nothing(p):
    plain, ours = build("roberta").eval(), build("roberta_cross_head", cross_head_p=p).eval()
    before = torch.get_rng_state()
    assert torch.equal(plain(sentences())[0], ours(sentences())[0])
    assert torch.equal(torch.get_rng_state(), before)


def attention(p, heads=4, width=16):
    torch.manual_seed(4)
    module = MultiheadAttention(width, heads, self_attention=True).double()
    for parameter in module.parameters():
        torch.nn.init.normal_(parameter)
    CrossHeadAttention.extend(module, p)
    return module


def by_heads(module, x, visited, padding):
    """One head after the other: the query of head h, the keys and values of head visited[h]."""
    q, k, v = (proj(x).unflatten(-1, (module.num_heads, -1)) for proj in (module.q_proj, module.k_proj, module.v_proj))
    results = []
    for head, other in enumerate(visited):
        scores = torch.einsum("tbd,sbd->bts", q[:, :, head], k[:, :, other]) * module.scaling
        weights = scores.masked_fill(padding[:, None], float("-inf")).softmax(-1)
        results.append(torch.einsum("bts,sbd->tbd", weights, v[:, :, other]))
    return module.out_proj(torch.cat(results, dim=-1))


def test_heads_look_at_the_keys_and_values_of_others(monkeypatch):
    module, visited = attention(p=1.0), torch.tensor([2, 1, 3, 0])
    monkeypatch.setattr(module.cross_head, "draw", lambda: visited)
    x = torch.randn(7, 3, 16, dtype=torch.double, requires_grad=True)
    padding = torch.zeros(3, 7, dtype=torch.bool)
    padding[1, 4:] = True
    crossed, _ = module(x, x, x, key_padding_mask=padding, need_weights=False)
    expected = by_heads(module, x, visited, padding)
    assert torch.allclose(crossed, expected, atol=1e-12)
    leaves = [x, *module.parameters()]
    gradients = [torch.autograd.grad(y.sin().sum(), leaves) for y in (crossed, expected)]
    assert all(torch.allclose(ours, theirs, atol=1e-12) for ours, theirs in zip(*gradients))


def test_training_crosses_with_the_probability():
    x = torch.randn(3, 1, 16, dtype=torch.double)
    for p in (0.3, 1.0):
        module = attention(p, heads=16).train()  # so many that the chance of no change is none
        own = module.eval()(x, x, x)[0]
        module.train()
        crossed = sum(not torch.equal(module(x, x, x)[0], own) for _ in range(200))
        assert crossed == pytest.approx(200 * p, abs=25)


@pytest.mark.parametrize("options, sentence", [
    ({"cross_head_p": 1.5}, "--cross-head-p 1.5 does not fit"),
    ({"mha_heads_to_keep": 2}, "--mha-heads-to-keep does not work with roberta_cross_head"),
])  # fmt: skip
def test_options_that_cannot_be_are_named(options, sentence):
    with pytest.raises(UserError, match=sentence):
        build("roberta_cross_head", **options)


def test_pre_training_is_refused():
    args = Namespace(cross_head_p=0.1)
    with pytest.raises(UserError, match="for fine-tuning only; pre-train --arch roberta"):
        ARCH_MODEL_REGISTRY["roberta_cross_head"].build_model(args, MaskedLMTask.__new__(MaskedLMTask))
