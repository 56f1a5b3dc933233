"""The Feedback language model: sizes of the paper, options, and the same numbers however it is run."""

from types import SimpleNamespace

import pytest
import torch
from fairseq.data import Dictionary

from fairseq_plugins.errors import UserError
from fairseq_plugins.models.feedback_lm import CONFIGURATIONS, FeedbackLanguageModel, FeedbackLanguageModelConfig
from fairseq_plugins.modules.stream_memory import StreamMemory


class Vocabulary(Dictionary):
    """A dictionary of some size; nobody asks for its words."""

    def __init__(self, size):
        super().__init__()
        self.size = size

    def __len__(self):
        return self.size


def build(name="tiny", vocabulary=20, device="cpu", **options):
    torch.manual_seed(1)
    config = FeedbackLanguageModelConfig(**{**CONFIGURATIONS[name], **options})
    config._name = f"feedback_lm_{name}"
    task = SimpleNamespace(keeps_memory=True, source_dictionary=Vocabulary(vocabulary))
    with torch.device(device):
        return FeedbackLanguageModel.build_model(config, task)


@pytest.mark.parametrize(
    "name, vocabulary, options, millions",
    [
        ("toy", 26, {}, 3.2),
        ("char_ptb", 50, {}, 10.7),
        ("enwik8", 205, {}, 77),
        ("wikitext103_small", 267735, {}, 44),
        ("wikitext103_large", 267735, {"feedback_kv": "shared"}, 126),
        ("wikitext103_large", 267735, {"feedback_kv": "per-layer"}, 139),
    ],
)
def test_sizes_of_table_9_and_table_3(name, vocabulary, options, millions):
    model = build(name, vocabulary, device="meta", **options)
    assert sum(p.numel() for p in model.parameters()) / 1e6 == pytest.approx(millions, rel=0.01)


OPTIONS = [
    {},
    {"feedback_kv": "shared", "decoder_normalize_before": False},
    {"feedback_memory": "recurrent", "decoder_head_dim": 7},
    {"adaptive_span": True, "attention_span": 80, "span_ramp": 4},
    {
        "adaptive_input": True,
        "adaptive_input_cutoff": "8,14",
        "adaptive_softmax_cutoff": "8,14",
        "tie_adaptive_weights": True,
    },
]


@pytest.mark.parametrize("options", OPTIONS)
def test_blocks_steps_and_the_whole_give_the_same_probabilities(options):
    model = build(**options).double().eval()
    tokens = torch.randint(4, 20, (3, 90), generator=torch.Generator().manual_seed(2))  # beyond the span
    with torch.no_grad():
        whole = model.get_normalized_probs(model(tokens), log_probs=True)
        memory, blocks = StreamMemory(), []
        for block in tokens.split(13, dim=1):
            blocks.append(model.get_normalized_probs(model(block, memory=memory), log_probs=True))
        assert memory.position == 90
        assert torch.allclose(torch.cat(blocks, dim=1), whole, atol=1e-10)
        state = {}
        for t in range(tokens.size(1)):
            step = model(tokens[:, : t + 1], incremental_state=state)
            assert torch.allclose(model.get_normalized_probs(step, log_probs=True)[:, -1], whole[:, t], atol=1e-10)
        nll = model.token_nll(model(tokens[:, :-1]), tokens[:, 1:])
        assert torch.allclose(nll, -whole[:, :-1].gather(2, tokens[:, 1:, None])[..., 0], atol=1e-10)


def test_a_later_token_changes_no_earlier_probability():
    model = build().double().eval()
    tokens = torch.randint(4, 20, (2, 12), generator=torch.Generator().manual_seed(2))
    changed = tokens.clone()
    changed[:, 7] = (tokens[:, 7] - 3) % 16 + 4
    with torch.no_grad():
        before, after = model(tokens)[0], model(changed)[0]
    assert torch.equal(before[:, :7], after[:, :7])
    assert (before[:, 7:] - after[:, 7:]).abs().amax(dim=2).min() > 0


def test_the_weights_of_the_memory_are_logged_on_demand():
    assert build().learned() == {}
    assert build(log_learned=True).learned() == pytest.approx({f"memory_{layer}": 1 / 3 for layer in range(3)})
    assert build(log_learned=True, feedback_memory="top").learned() == {}


@pytest.mark.parametrize(
    "options, words",
    [
        ({"feedback_memory": "layer-3"}, "memory layer-3 does not exist"),
        ({"feedback_memory": "best"}, "memory 'best' is not known"),
        ({"decoder_attention_heads": 3}, "--decoder-embed-dim 64 is not divisible by --decoder-attention-heads 3"),
        ({"attention_span": 0}, "--attention-span 0 is too small"),
        ({"dropout": 1.5}, "--dropout 1.5 is out of range"),
    ],
)
def test_options_that_do_not_fit_are_refused(options, words):
    with pytest.raises(UserError, match=words):
        build(**options)
