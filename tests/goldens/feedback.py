"""The Feedback language model: `feedback_*`.

Pre-norm files carry normalised memories from block to block, which the paper does not describe. So every block starts
from the file's cache, and what is compared is the raw memories that it adds.
"""

from fixture import by_their_names, check_gradients, check_spans, config_of, forget_gradients, load, tensors
from torch import nn
from torch.nn import functional as F

from fairseq_plugins.modules.feedback.layer import FeedbackLayerConfig
from fairseq_plugins.modules.feedback.memory import FeedbackMemory
from fairseq_plugins.modules.feedback.stream import FeedbackStream
from fairseq_plugins.modules.feedback.window import MemoryWindow

NAMES = {
    "stream.norm": "final_norm",
    "stream.stack.memory.layer_logits": "mix_logits",
    "stream.stack.window.position.weight": "pos_key",
    "stream.stack.window.spans.": "layer",
    "stream.stack.layers.": "layer",
    "self_attn.q_proj": "attn.query",
    "self_attn.k_proj": "attn.key",
    "self_attn.v_proj": "attn.value",
    "self_attn.out_proj": "attn.out",
    "self_attn_layer_norm": "norm_attn",
    "final_layer_norm": "norm_ffn",
    ".fc1": ".ffn.fc1",
    ".fc2": ".ffn.fc2",
}


class Model(nn.Module):
    """Embeddings, layers and output."""

    def __init__(self, config: dict):
        super().__init__()
        layer = FeedbackLayerConfig(
            embed_dim=config["hidden"],
            ffn_dim=config["ffn_hidden"],
            heads=config["heads"],
            head_dim=config["head_dim"],
            attention_bias=False,
            pre_norm=config["pre_norm"],
        )
        span, layers = config["attn_span"], config["layers"]
        adaptive = {"ramp": config["ramp"], "trim_step": config["trim_step"] or span} if config["adaptive_span"] else {}
        window = MemoryWindow(span, layers, config["heads"], config["head_dim"], **adaptive)
        self.embed = nn.Embedding(config["vocab"], config["hidden"])
        self.stream = FeedbackStream(layer, layers, window, kv="shared" if config["share_kv"] else "per-layer")
        self.output = nn.Linear(config["hidden"], config["vocab"])

    def forward(self, tokens, cache):
        """Log-probabilities, and the memories after the block."""
        y, memory = self.stream(self.embed(tokens), FeedbackMemory([cache]))
        return self.output(y).log_softmax(-1), memory.vectors[0]


def check(case, assert_close) -> None:
    config = config_of(case)
    model = Model(config).double()
    named = by_their_names(model.named_parameters(), NAMES)
    load(case, named)
    check_spans(case, config, model.stream.stack.window.spans, assert_close)
    for number in range(config["blocks"]):
        forget_gradients(named)
        check_block(case, f"block{number}/", model, assert_close)
        check_gradients(case, named, assert_close, f"block{number}/")


def check_block(case, block, model, assert_close) -> None:
    tokens, targets, cache = tensors(case, *(block + name for name in ("tokens", "targets", "cache_in")))
    log_probs, after = model(tokens, cache.transpose(0, 1))
    loss = F.nll_loss(log_probs.flatten(0, 1), targets.flatten(), reduction="sum")
    loss.backward()
    assert_close("logprobs", log_probs, case[f"{block}logprobs"])
    assert_close("nll_sum", loss, case[f"{block}nll_sum"])
    new = case[f"{block}memory_new"]
    kept = min(len(new), after.size(1))
    assert_close("memory_new", after[:, after.size(1) - kept :].transpose(0, 1), new[len(new) - kept :])
