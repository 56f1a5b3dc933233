"""Transformer-XL and Skip Cross-Head Transformer-XL, beside the tests of all language models in
test_streaming_models.py."""

import pytest
import torch
from language_models import ADAPTIVE_IO, UNSHARED, build, make, tokens

from fairseq_plugins.modules.common.stream_memory import StreamMemory

TINY = "transformer_xl_lm_tiny"
SKIP = {"skip_schedule": "uniform", "skip_p": 0.5, "decoder_layers": 4}


def rates(model):
    """Of dropout at every place."""
    decoder, layer = model.decoder, model.decoder.body.layers[0]
    return {
        "embeddings": decoder.embed_dropout.p,
        "positions": decoder.body.position.dropout.p,
        "attention weights": layer.attention.dropout.p,
        "sub-layers": layer.dropout.p,
        "activations": layer.sublayer.dropout.p,
        "output": decoder.output_dropout.p,
    }


PAPERS = {"transformer_xl_lm_enwik8": 0.1, "transformer_xl_lm_wikitext103": 0.1}
PAPERS |= {
    "skip_cross_head_xl_enwik8": 0.15,
    "skip_cross_head_xl_wikitext103": 0.15,
    "skip_cross_head_xl_ablation": 0.1,
}


@pytest.mark.parametrize("arch, rate", PAPERS.items())
def test_dropout_is_where_the_authors_code_has_it(arch, rate):
    """Skip Cross-Head's has none of embeddings, positions and output: their rate is 0 in its text and scripts."""
    with torch.device("meta"):
        found = rates(build(arch, {"decoder_layers": 2}, 250000))
    everywhere = dict.fromkeys(found, rate) | {"attention weights": 0.0}
    none = dict.fromkeys(("embeddings", "positions", "output"), 0.0)
    assert found == everywhere | (none if arch.startswith("skip") else {})


def test_dropout_of_positions_is_that_of_sub_layers_unless_given():
    assert rates(build(TINY, {"dropout": 0.3}))["positions"] == 0.3
    assert rates(build(TINY, {"dropout": 0.3, "position_dropout": 0.0}))["positions"] == 0.0


@torch.no_grad()
def test_a_model_may_remember_more_in_evaluation_than_it_did_in_training():
    trained, x = make(TINY, {"mem_len": 4}), tokens()
    longer = make(TINY, {"mem_len": 16, "clamp_len": 4, "same_length": True})
    longer.load_state_dict(trained.state_dict())
    memory = StreamMemory()
    blocks = torch.cat([longer(block, memory=memory)[0] for block in x.split(4, dim=1)], dim=1)
    assert memory.tensors()[0].size(1) == longer.memory_length == 16
    assert torch.allclose(blocks, longer(x)[0], atol=1e-12)


# Positions from the block's last token, as all Skip Cross-Head models have them

LAST_TOKEN = {"position_scheme": "last-token", "weight_init": "skip-cross-head", "initial_memory": "zeros"}


@pytest.mark.parametrize("same_length", [False, True])
@torch.no_grad()
def test_positions_from_the_last_token_depend_on_the_block(same_length):
    model, x = make(TINY, {**LAST_TOKEN, "same_length": same_length}), tokens()
    assert not torch.allclose(model(x[:, :9])[0], model(x)[0][:, :9], atol=1e-3)


@pytest.mark.parametrize("same_length", [False, True])
@torch.no_grad()
def test_decoding_with_them_step_by_step_equals_blocks_of_one(same_length):
    model, x = make(TINY, {**LAST_TOKEN, "mem_len": 5, "same_length": same_length}), tokens()
    memory, state = StreamMemory(), {}
    for t in range(x.size(1)):
        step, _ = model.decoder(x[:, : t + 1], incremental_state=state)
        assert torch.allclose(step, model(x[:, t : t + 1], memory=memory)[0], atol=1e-10)


@pytest.mark.parametrize("options, depends", [
    ({"same_length": True}, False),
    ({}, True),
    ({"same_length": True, "position_scheme": "last-token"}, True),
    ({"same_length": True, "decoder_normalize_before": True, "normalised_residual": True}, True),
])  # fmt: skip
def test_whether_figures_depend_on_the_block_is_said(options, depends):
    settings = make(TINY, options).evaluation_settings(8)
    assert f"positions {options.get('position_scheme', 'pairwise')}" in settings
    assert settings.endswith("; the figures depend on the block length") == depends


# Embeddings


@torch.no_grad()
def test_embeddings_are_scaled_on_their_way_in_only():
    scaled, plain, x = make(TINY), make(TINY, {"no_scale_embedding": True}), tokens()
    assert scaled.decoder.embed.weight is scaled.decoder.output.weight
    assert torch.allclose(scaled.decoder.embed(x), 8 * scaled.decoder.embed.weight[x])
    assert torch.equal(plain.decoder.embed(x), plain.decoder.embed.weight[x])


@pytest.mark.parametrize(
    "options", [{}, UNSHARED, {"untie_head_proj": True}, {**ADAPTIVE_IO, **UNSHARED, "untie_head_proj": True}]
)
@torch.no_grad()
def test_embeddings_of_another_width(options):
    model, x = make(TINY, {"decoder_input_dim": 48, **options}), tokens()
    tables = model.decoder.embed.tables
    assert tables[0].size(1) == 48
    assert len(model.get_normalized_probs(model(x), log_probs=False)) == len(x)
    names = [name for name, _ in model.decoder.output.named_parameters()]
    assert ("weight" in names) == (options == UNSHARED)
    if "untie_head_proj" in options:
        head, *tails = (a is b for a, b in zip(model.decoder.embed.projections, model.decoder.output.projections))
        assert not head and all(tails)


# Cross-head attention

crossing = pytest.mark.parametrize("arch", [TINY, "all_attention_lm_tiny", "span_transformer_lm_tiny"])
HEADS = {"decoder_attention_heads": 8}


@crossing
@torch.no_grad()
def test_heads_are_crossed_in_training_only(arch):
    plain, crossed, x = make(arch, HEADS), make(arch, {**HEADS, "cross_head_p": 1.0}), tokens()
    assert torch.equal(crossed(x)[0], plain(x)[0])
    assert not torch.equal(crossed.train()(x)[0], plain.train()(x)[0])


# Skip-Retain


def test_a_model_is_told_the_update_and_skips_accordingly():
    model = build(TINY, SKIP).train()
    skipped = []
    for update in range(20):
        model.set_num_updates(update)
        model.zero_grad()
        model(tokens())[0].sum().backward()
        frozen = set(model.skipped_parameters())
        assert {parameter for parameter in model.parameters() if parameter.grad is None} == frozen
        skipped.append(len(frozen))
    assert len(set(skipped)) > 2
    assert not model.eval().skipped_parameters()


def test_phase_2_may_have_phase_1s_flags():
    assert not any(build(TINY, {**SKIP, "skip_p": 0.3, "skip_schedule": "none"}).decoder.body.skip.probabilities)
