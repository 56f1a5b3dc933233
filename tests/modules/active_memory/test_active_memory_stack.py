"""Layers of active memory: positions, causality, decoding."""

import pytest
import torch
from torch.nn import functional as F

from fairseq_plugins.modules.active_memory.mixers import MIXERS, MixerConfig
from fairseq_plugins.modules.active_memory.stack import ActiveMemoryStack
from fairseq_plugins.modules.common.sinusoids import sinusoids

B, T, C = 2, 11, 8
every_mixer = pytest.mark.parametrize("name", MIXERS)


def make(name, causal=True, layers=2, **options):
    torch.manual_seed(0)
    config = MixerConfig(C, kernel_size=4, heads=2, causal=causal)
    return ActiveMemoryStack(config, layers, name, ffn_dim=12, **options).double().eval()


def inputs():
    torch.manual_seed(1)
    return torch.randn(B, T, C, dtype=torch.float64)


def test_positions_are_added_at_the_input_and_before_every_layer():
    stack, x = make("convolution"), inputs()
    position = sinusoids(torch.arange(T), C, x.dtype)
    y = x + position
    for layer in stack.layers:
        y = y + position
        y = y + layer.mixer(F.layer_norm(y, [C], eps=1e-6))
        y = y + layer.fc2(F.relu(layer.fc1(F.layer_norm(y, [C], eps=1e-6))))
    torch.testing.assert_close(stack(x), F.layer_norm(y, [C], eps=1e-6))


@every_mixer
@torch.no_grad()
def test_step_by_step_equals_all_at_once(name):
    stack, x = make(name), inputs()
    state = stack.start(x[:, 0])
    steps = torch.stack([stack.step(state, token) for token in x.unbind(1)], dim=1)
    torch.testing.assert_close(steps, stack(x), rtol=0, atol=1e-12)
    assert state.position == T


def test_dropout_is_of_embeddings_mixers_and_feed_forward_layers():
    stack, x = make("self-attention+convolution", layers=1, dropout=1.0).train(), inputs()
    position = sinusoids(torch.arange(T), C, x.dtype)
    torch.testing.assert_close(stack(x), F.layer_norm(position, [C], eps=1e-6).expand(B, T, C))


def test_dropout_may_follow_the_activation_too():
    stack, x = make("convolution", layers=1, activation_dropout=1.0).train(), inputs()
    (layer,) = stack.layers
    y = x + 2 * sinusoids(torch.arange(T), C, x.dtype)
    y = y + layer.mixer(F.layer_norm(y, [C], eps=1e-6)) + layer.fc2.bias
    torch.testing.assert_close(stack(x), F.layer_norm(y, [C], eps=1e-6))


@torch.no_grad()
def test_positions_may_have_the_wavelengths_of_tensor2tensor():
    stack, x = make("self-attention", layers=1, wavelengths="tensor2tensor"), inputs()
    position = sinusoids(torch.arange(T), C, x.dtype, "tensor2tensor")
    (layer,) = stack.layers
    torch.testing.assert_close(stack(x), stack.norm(layer(x + 2 * position)))
    state = stack.start(x[:, 0])
    steps = torch.stack([stack.step(state, token) for token in x.unbind(1)], dim=1)
    torch.testing.assert_close(steps, stack(x), rtol=0, atol=1e-12)


@pytest.mark.parametrize("width, options, words", [
    (8, {"activation": "maxout"}, "activation 'maxout' is not one of"),
    (9, {}, "width 9 is odd"),
])  # fmt: skip
def test_sizes_that_cannot_be_are_refused(width, options, words):
    with pytest.raises(ValueError, match=words):
        ActiveMemoryStack(MixerConfig(width, heads=1), 1, "convolution", ffn_dim=8, **options)
