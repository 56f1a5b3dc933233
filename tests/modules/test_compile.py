"""torch.compile and torch.export take the modules. Here the graphs run as they are; benchmarks/compile_export.py builds
them, too."""

import copy

import pytest
import torch

from fairseq_plugins.modules import (
    ActiveMemoryStack,
    Chunks,
    FeedbackLayerConfig,
    FeedbackStream,
    MemoryWindow,
    MixerConfig,
    SpanConfig,
    SpanStack,
    XLConfig,
    XLStack,
    integration,
)

C, M = 16, 6


def feedback(chunks=None):
    config = FeedbackLayerConfig(embed_dim=C, ffn_dim=32, heads=2, pre_norm=True)
    return FeedbackStream(config, 2, MemoryWindow(span=5, num_layers=2, heads=2, head_dim=C // 2), chunks=chunks)


WHOLE = {  # in one graph
    "span": lambda: SpanStack(SpanConfig(embed_dim=C, heads=2, span=5, ffn_dim=32), 2),
    "all-attention": lambda: SpanStack(
        SpanConfig(embed_dim=C, heads=2, span=5, persistent=8), 2, integration("all-attn", 8)
    ),
    "values": lambda: SpanStack(
        SpanConfig(embed_dim=C, heads=2, span=5, persistent=8, value_positions=True), 2, integration("attn-split", 8)
    ),
    "xl": lambda: XLStack(XLConfig(embed_dim=C, heads=2, ffn_dim=32, mem_len=5), 2),
    "active-memory": lambda: ActiveMemoryStack(MixerConfig(embed_dim=C, kernel_size=3, heads=2), 2, "cgru", 32),
}


class Graphs:
    """A backend that counts the operations of each graph, and runs it as it is."""

    def __init__(self):
        torch._dynamo.reset()
        self.operations = []

    def __call__(self, graph, inputs):
        self.operations.append(sum(node.op.startswith("call") for node in graph.graph.nodes))
        return graph


def outputs(made):
    return made[0] if isinstance(made, tuple) else made


def gradients(body, call, x):
    """The output for x, and the gradients of all parameters."""
    y = outputs(call(x))
    body.zero_grad()
    y.square().sum().backward()
    return [y.detach(), *(p.grad for p in body.parameters() if p.grad is not None)]


def close(ours, others):
    return len(ours) == len(others) and all(torch.allclose(a, b, atol=1e-5) for a, b in zip(ours, others))


@pytest.mark.parametrize("name", WHOLE)
def test_one_graph_has_the_same_outputs_and_gradients(name):
    torch.manual_seed(1)
    body, x, graphs = WHOLE[name](), torch.randn(2, M, C), Graphs()
    compiled = torch.compile(body, fullgraph=True, backend=graphs)
    expected = [each.clone() for each in gradients(body, body, x)]
    assert close(gradients(body, compiled, x), expected)
    assert len(graphs.operations) == 1


@pytest.mark.parametrize("chunks", [None, Chunks(3, 2)])
def test_the_loop_of_a_feedback_memory_stays_outside(chunks):
    """Traced, its operations would be as many as there are steps times layers."""
    torch.manual_seed(1)
    body, counts = feedback(chunks), []
    for steps in (4, 16):
        graphs, x = Graphs(), torch.randn(2, steps, C)
        compiled = torch.compile(copy.deepcopy(body), backend=graphs)
        assert torch.equal(outputs(compiled(x)), outputs(body(x)))
        counts.append(sum(graphs.operations))
    assert counts[0] == counts[1]
    assert close(gradients(body, torch.compile(body, backend=Graphs()), x), gradients(body, body, x))


@pytest.mark.parametrize("name", WHOLE | {"feedback": feedback})
def test_an_exported_graph_has_the_same_outputs(name):
    torch.manual_seed(1)
    body, x = {**WHOLE, "feedback": feedback}[name]().eval(), torch.randn(2, 3, C)
    with torch.no_grad():
        exported = torch.export.export(body, (x,)).module()
        assert torch.allclose(outputs(exported(x)), outputs(body(x)), atol=1e-6)
