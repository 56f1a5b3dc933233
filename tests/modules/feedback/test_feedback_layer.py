import pytest
import torch
from torch import nn

from fairseq_plugins.modules.feedback.layer import FeedbackLayer, FeedbackLayerConfig, share_keys_and_values


def build(pre_norm):
    config = FeedbackLayerConfig(embed_dim=8, ffn_dim=16, heads=2, context_dim=8, pre_norm=pre_norm)
    return nn.ModuleList(FeedbackLayer(config) for _ in range(3))


def count(module):
    return sum(p.numel() for p in module.parameters())


@pytest.mark.parametrize("pre_norm, norms", [(False, 0), (True, 2 * 8)])
def test_sharing_leaves_one_key_and_value_matrix(pre_norm, norms):
    layers = build(pre_norm)
    before = count(layers)
    share_keys_and_values(layers)
    one_set = 2 * (8 * 8 + 8) + norms  # key and value, and with pre-norm the LayerNorm before them
    assert before - count(layers) == 2 * one_set
    assert layers[2].self_attn.k_proj is layers[0].self_attn.k_proj
    assert layers[2].self_attn.q_proj is not layers[0].self_attn.q_proj
    assert layers[2].encoder_attn.k_proj is not layers[0].encoder_attn.k_proj


def test_initial_values_have_the_spread_of_fairseqs():
    torch.manual_seed(0)
    config = FeedbackLayerConfig(embed_dim=64, ffn_dim=64, heads=2, context_dim=32)
    layer = FeedbackLayer(config)
    xavier = (6 / 128) ** 0.5
    assert float(layer.self_attn.k_proj.weight.abs().max()) == pytest.approx(xavier * 2**-0.5, rel=0.01)
    assert float(layer.self_attn.out_proj.weight.abs().max()) == pytest.approx(xavier, rel=0.01)
    assert float(layer.encoder_attn.k_proj.weight.abs().max()) == pytest.approx((6 / 96) ** 0.5, rel=0.01)
    assert not layer.self_attn.out_proj.bias.any()
