"""Active memory as a language model and for algorithmic tasks, through fairseq's interfaces."""

from types import SimpleNamespace

import pytest
import torch
from fairseq.tasks.language_modeling import LanguageModelingTask
from language_models import VOCABULARY, build, make

from fairseq_plugins.errors import UserError
from fairseq_plugins.models import active_memory_algorithmic, active_memory_lm  # noqa: F401  (registered)
from fairseq_plugins.modules.active_memory.mixers import MIXERS

LM, ALGORITHMIC = "active_memory_lm_tiny", "active_memory_algorithmic"
PAD = 1
every_mixer = pytest.mark.parametrize("mixer", MIXERS)


def lines():
    """Three lines of 12, 5 and 1 tokens, with padding at their ends."""
    torch.manual_seed(1)
    tokens = torch.randint(4, VOCABULARY, (3, 12))
    return tokens.masked_fill(torch.arange(12) >= torch.tensor([[12], [5], [1]]), PAD)


# The language model


@every_mixer
@pytest.mark.parametrize("arch", [LM, ALGORITHMIC])
@torch.no_grad()
def test_a_batch_equals_its_lines_one_by_one(arch, mixer):
    model, x = make(arch, {"mixer": mixer, "kernel_size": 4}), lines()
    together, _ = model(x)
    for row, expected in zip(x, together):
        alone, _ = model(row[row.ne(PAD)].unsqueeze(0))
        torch.testing.assert_close(expected[: alone.size(1)], alone[0], rtol=0, atol=1e-10)


def test_the_longest_line_is_the_tasks_unless_it_has_none():
    assert build(LM, {"max_target_positions": 300}).max_positions() == 300
    assert build(LM).max_positions() > 10**9


def test_the_authors_code_is_to_be_had_by_flags():
    code = {"attention_scaling": "sqrt-times-width", "activation_dropout": 0.1, "wavelengths": "tensor2tensor"}
    for flags, scale, rate, wavelengths in (({}, 1 / 8, 0.0, "vaswani"), (code, 1 / 512, 0.1, "tensor2tensor")):
        model = build(ALGORITHMIC, {"mixer": "self-attention", "decoder_layers": 1, **flags})
        (layer,) = model.stack.layers
        assert (layer.mixer.scale, layer.activation_dropout.p) == (scale, rate)
        assert model.stack.wavelengths == wavelengths


def test_initial_weights_may_be_glorot():
    model = build(ALGORITHMIC, {"weight_init": "glorot"})
    limit = (6 / (128 + VOCABULARY)) ** 0.5
    assert 0.9 * limit < model.output.weight.abs().max() <= limit and model.output.bias.eq(0).all()


# The algorithmic model


@every_mixer
@torch.no_grad()
def test_it_is_bidirectional(mixer):
    model, x = make(ALGORITHMIC, {"mixer": mixer, "kernel_size": 4}), lines()[:1]
    before, extra = model(src_tokens=x, src_lengths=None)
    assert before.shape == (1, 12, VOCABULARY) and extra is None
    x[0, 6] = 4 + (x[0, 6] - 3) % (VOCABULARY - 4)
    changed = ~torch.isclose(model(x)[0], before).all(-1)
    assert changed[0, 5] and changed[0, 7]


@torch.no_grad()
def test_convolutions_see_nine_tokens_to_the_left_in_each_layer():
    model = make(ALGORITHMIC, {"mixer": "convolution"})
    torch.manual_seed(1)
    x = torch.randint(4, VOCABULARY, (1, 60))
    before, _ = model(x)
    x[0, 0] = 4 + (x[0, 0] - 3) % (VOCABULARY - 4)
    changed = ~torch.isclose(model(x)[0], before, rtol=0, atol=1e-12).all(-1)
    assert changed[0].nonzero().max() == 4 * 9  # the paper's 37 tokens with its own


def test_it_is_no_language_model():
    args, task = SimpleNamespace(_name=ALGORITHMIC), LanguageModelingTask(SimpleNamespace(), dictionary=None)
    with pytest.raises(UserError, match="is bidirectional.* Use --task algorithmic_curriculum"):
        active_memory_algorithmic.ActiveMemoryAlgorithmic.build_model(args, task)


def test_probabilities_of_symbols_sum_to_one():
    model = make(ALGORITHMIC)
    probabilities = model.get_normalized_probs(model(lines()), log_probs=False)
    torch.testing.assert_close(probabilities.sum(-1), torch.ones(3, 12).double())
