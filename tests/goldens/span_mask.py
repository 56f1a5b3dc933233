"""The soft mask of adaptive spans: `span_mask_*`."""

import torch
from fixture import config_of

from fairseq_plugins.modules.common.adaptive_span import AdaptiveSpan
from fairseq_plugins.modules.span.attention import SpanAttention, SpanConfig


def check(case, assert_close) -> None:
    config = config_of(case)
    span = build(case, config)
    weights = torch.tensor(case["weights_in"]).requires_grad_()
    assert_close("mask", span.mask(), case["mask"])
    assert_close("masked weights", weights * span.mask().unsqueeze(1), case["weights_out_masked"])
    normalised = span(weights)
    assert_close("normalised weights", normalised, case["weights_out_norm"])
    (normalised * torch.tensor(case["cotangent"])).sum().backward()
    assert_close("gradient of the weights", weights.grad, case["grad_weights_in"], gradient=True)
    assert_close("gradient of the ratios", span.span_ratio.grad, case["grad_span_ratio"], gradient=True)
    check_loss(case, config, assert_close)
    for name, step in (("64", 64), ("N", config["trim_step_N"])):
        check_sizes(case, config, name, step)
    span.clamp_()
    assert_close("clamped ratios", span.span_ratio, case["span_ratio_clamped"])


def build(case, config, trim_step=64) -> AdaptiveSpan:
    span = AdaptiveSpan(config["heads"], config["span"], config["ramp"], trim_step=trim_step).double()
    span.span_ratio.data.copy_(torch.tensor(case["span_ratio"]))
    return span


def check_loss(case, config, assert_close) -> None:
    span = build(case, config)
    loss = span.loss(config["span_loss_coeff"])
    loss.backward()
    assert_close("span loss", loss, case["span_loss"])
    assert_close("gradient of the span loss", span.span_ratio.grad, case["grad_span_loss"], gradient=True)


def check_sizes(case, config, name, step) -> None:
    heads, span, ramp = config["heads"], config["span"], config["ramp"]
    attention = SpanAttention(SpanConfig(embed_dim=heads, heads=heads, span=span, ramp=ramp, trim_step=step))
    attention.span = build(case, config, step)
    assert attention.span.trim_length() == case[f"trim_len_step{name}"]
    assert attention.memory_length(attention.width()) == case[f"cache_size_step{name}"]
