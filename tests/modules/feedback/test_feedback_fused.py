"""The fused engine in Triton's interpreter against the fast engine and the plain loop; kernels compiled for GPUs.

Sizes are small, because the interpreter is slow, and odd.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from engine_comparison import outputs_and_gradients

from fairseq_plugins.modules.common.dropout import StepDropout
from fairseq_plugins.modules.feedback import fused
from fairseq_plugins.modules.feedback.layer import FeedbackLayerConfig
from fairseq_plugins.modules.feedback.stack import FeedbackStack
from fairseq_plugins.modules.feedback.stream import FeedbackStream
from fairseq_plugins.modules.feedback.window import MemoryWindow

pytest.importorskip("triton")
ROOT = Path(__file__).resolve().parents[3]
B, C, HEADS, HEAD_DIM, LAYERS = 2, 10, 2, 5, 2
SPANS = {"fixed": {}, "adaptive": {"ramp": 3, "trim_step": 2}}


@pytest.fixture
def launched(monkeypatch):
    """The names of the kernels that ran."""
    names = []
    for name in ("forward", "query_grad", "pull"):
        method = getattr(fused.Use, name)
        monkeypatch.setattr(
            fused.Use, name, lambda self, *args, name=name, method=method: names.append(name) or method(self, *args)
        )
    return names


def initialise(module):
    for parameter in module.parameters():  # away from the symmetries of the initial values
        torch.nn.init.normal_(parameter, std=0.4)
    return module


def config(**options):
    return FeedbackLayerConfig(
        **{"embed_dim": C, "ffn_dim": 12, "heads": HEADS, "head_dim": HEAD_DIM, "activation": "gelu", **options}
    )


def stream(kind, kv, span=6, **options):
    torch.manual_seed(0)
    window = MemoryWindow(span, LAYERS, HEADS, HEAD_DIM, **SPANS[kind])
    made = initialise(FeedbackStream(config(attention_bias=False, **options), LAYERS, window, "weighted", kv))
    for layer, adaptive in enumerate(window.spans):  # layers and heads of different spans
        adaptive.span_ratio.data.copy_(torch.tensor([0.1, 0.2 + 0.3 * layer]))
    return made


def stack(kv="shared", **options):
    torch.manual_seed(0)
    return initialise(FeedbackStack(config(**options), LAYERS, "weighted", kv))


def embeddings(*shape):
    return torch.randn(*shape, C, generator=torch.Generator().manual_seed(1))


def over_blocks(module, blocks):
    def run(x):
        memory, outputs = None, []
        for block in x.split(blocks, dim=1):
            y, memory = module(block, memory)
            outputs.append(y)
        return {"output": torch.cat(outputs, dim=1)}

    return run


def assert_close(got, expected, tolerance=1e-5):
    for name, exact in expected.items():
        if exact is not None:
            error = (got[name] - exact).abs().max() / max(1, exact.abs().max())
            assert error < tolerance, f"{name} differs by {error:.1e}"


def assert_fused_agrees(module, run, leaves, launched):
    got = outputs_and_gradients(module, "fused", run, leaves)
    assert set(launched) == {"forward", "query_grad", "pull"}
    for engine in ("fast", "reference"):
        assert_close(got, outputs_and_gradients(module, engine, run, leaves))


@pytest.mark.parametrize("kind", SPANS)
@pytest.mark.parametrize("kv", ["shared", "per-layer"])
@pytest.mark.parametrize("span, blocks", [(6, 4), (3, 5), (20, 3)])
def test_streams_agree(kind, kv, span, blocks, launched):
    module = stream(kind, kv, span)
    assert_fused_agrees(module, over_blocks(module, blocks), {"x": embeddings(B, 2 * blocks)}, launched)


@pytest.mark.parametrize("kv", ["shared", "per-layer"])
@pytest.mark.parametrize("padded", [False, True])
def test_stacks_agree(kv, padded, launched):
    module, padding = stack(kv), torch.zeros(B, 5, dtype=torch.bool)
    padding[1, :2] = True
    run = lambda x: {"output": module(x, padding=padding if padded else None)}  # noqa: E731
    assert_fused_agrees(module, run, {"x": embeddings(5, B)}, launched)


def test_steps_that_were_recorded_agree(launched):
    """An agent acts step by step, and learns from these steps without doing them again."""
    module = stream("adaptive", "shared")

    def recorded(x):
        state = module.start_recorded(None, x[:, 0], x.size(1))
        with torch.no_grad():
            for x_t in x.unbind(1):
                module.step(state, x_t)
        return {"output": module.finish(state, x)[0]}

    leaves = {"x": embeddings(B, 5)}
    got = outputs_and_gradients(module, "fused", recorded, leaves)
    assert set(launched) == {"forward", "query_grad", "pull"}
    assert_close(got, outputs_and_gradients(module, "fast", lambda x: {"output": module(x)[0]}, leaves))


def test_evaluation_and_float64_are_those_of_the_fast_engine(launched):
    module, x = stream("fixed", "shared"), embeddings(B, 5)
    with torch.no_grad():
        module(x)
    module.double()(x.double())[0].sum().backward()
    assert not launched


def test_a_program_takes_many_blocks_of_places(monkeypatch, launched):
    monkeypatch.setattr(fused, "LEAST_BLOCK", 2)
    monkeypatch.setattr(fused, "BLOCK_ELEMENTS", 16)
    module = stream("adaptive", "shared", 7)
    assert_fused_agrees(module, over_blocks(module, 5), {"x": embeddings(B, 10)}, launched)


def philox(counter, step, seed):
    """The first of four numbers of Philox 4x32, as torch computes it on int64; counter and step are tensors."""
    word = 2**32 - 1
    c0, c1, c2, c3 = counter, step, torch.zeros_like(counter), torch.zeros_like(counter)
    k0, k1 = seed & word, seed >> 32
    for _ in range(10):
        a, b = [high_and_low(c, m) for c, m in ((c0, 0xD2511F53), (c2, 0xCD9E8D57))]
        c0, c1, c2, c3 = b[0] ^ c1 ^ k0, b[1], a[0] ^ c3 ^ k1, a[1]
        k0, k1 = (k0 + 0x9E3779B9) & word, (k1 + 0xBB67AE85) & word
    return c0


def high_and_low(x, factor):
    """The two words of x * factor, for words."""
    low, middle = (x & 0xFFFF) * factor, (x >> 16) * factor
    middle = middle + (low >> 16)
    return middle >> 16, ((middle & 0xFFFF) << 16) | (low & 0xFFFF)


def kept(use, rows):
    """The mask of all steps [T, R, W], as the kernels draw it."""
    counter = torch.arange(rows * use.width).expand(use.steps, -1)
    bits = philox(counter, torch.arange(use.steps).unsqueeze(1).expand_as(counter), use.seed.item())
    signed = torch.where(bits >= 2**31, 2**32 - 1 - bits, bits)
    return (signed.float() * 4.6566127342e-10 >= use.rate).view(use.steps, rows, use.width)


@pytest.mark.parametrize("kind", ["growing", *SPANS])
def test_dropout_agrees_with_the_same_masks(kind, launched, monkeypatch):
    """The fast engine is given the masks of the kernels, which a twin in torch draws."""
    uses, made = [], fused.Use.__init__
    monkeypatch.setattr(fused.Use, "__init__", lambda self, *a, **k: uses.append(self) or made(self, *a, **k))
    if kind == "growing":
        module, leaves = stack(attention_dropout=0.3), {"x": embeddings(5, B)}
        run = lambda x: {"output": module(x)}  # noqa: E731
    else:
        module, leaves = stream(kind, "shared", attention_dropout=0.3), {"x": embeddings(B, 5)}
        run = over_blocks(module, 5)
    got = outputs_and_gradients(module, "fused", run, leaves)
    masks = [kept(use, B * HEADS) for use in uses]
    assert 0.5 < torch.cat([mask.flatten() for mask in masks]).float().mean() < 0.9
    turns = []

    def given(self, like):
        layer, step = len(turns) % LAYERS, len(turns) // LAYERS
        turns.append(0)
        mask = masks[layer][step].unsqueeze(1)
        return mask[..., -like.size(-1) :] if kind == "growing" else mask

    monkeypatch.setattr(StepDropout, "mask", given)
    assert_close(got, outputs_and_gradients(module, "fast", run, leaves), 3e-5 if kind == "adaptive" else 1e-5)


def test_bfloat16_is_as_exact_as_the_torch_path(launched):
    """With inputs cast up in the kernels, one step's output is that of float32 but for its own rounding."""
    torch.manual_seed(0)
    rows, places, width = 4, 9, 7
    query, keys, values = (torch.randn(*n, HEAD_DIM).bfloat16() for n in [(rows,), (rows, places), (rows, places)])
    use = fused.Use(query, 2, width, places - 2, HEADS, position=torch.randn(HEAD_DIM, width).bfloat16())
    use.queries[0] = query
    got = use.forward(0, keys, values)
    seen = slice(places - 2 - width, places - 2)
    scores = torch.einsum("rd,rwd->rw", query.float(), keys[:, seen].float() + use.position.float())
    expected = torch.einsum("rw,rwd->rd", scores.softmax(-1), values[:, seen].float())
    assert got.dtype is torch.bfloat16
    assert (got.float() - expected).abs().max() <= expected.abs().max() * 2**-8


@pytest.mark.parametrize("kind", SPANS)
def test_gradients_under_autocast_are_those_of_bfloat16(kind, launched):
    module, leaves = stream(kind, "shared"), {"x": embeddings(B, 5)}

    def run(x):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return over_blocks(module, 5)(x)

    fast, got = (outputs_and_gradients(module, engine, run, leaves) for engine in ("fast", "fused"))
    assert launched
    assert_close(got, fast, 0.05)


def test_no_matrix_of_weights_is_kept():
    steps, rows, width = 3, 4, 1000
    keys = values = torch.randn(rows, width + steps, HEAD_DIM)
    use = fused.Use(keys[:, 0], steps, width, width, HEADS)
    use.queries.normal_()
    for step in range(steps):
        use.forward(step, keys, values)
    use.output_grads = torch.randn_like(use.queries)
    for step in range(steps):
        use.query_grad(step, keys, values)
    largest = max(x.numel() for x in vars(use).values() if isinstance(x, torch.Tensor))
    assert largest == steps * rows * HEAD_DIM < rows * width


COMPILE = """
import itertools
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from triton import compile
from fairseq_plugins.modules.feedback import triton_kernels as kernels

FLAGS = ["POSITIONS", "SPANS", "PADDED", "DROPS"]
NUMBERS = {"rate": "fp32", **dict.fromkeys(kernels.VARIES, "i32")}
KEPT = {"POSITION": "*bf16", "SPAN": "*fp32", "SEED": "*i64", "STATS": "*fp32", "SCORE_GRAD": "*fp32",
        "SPAN_GRAD": "*fp32", "KEY_GRAD": "*fp32", "VALUE_GRAD": "*fp32"}
SIZES = {"HEADS": 8, "D": 48, "LANES": 64, "BLOCK": 64, "EPSILON": 1e-8}
for name, flags, arch in itertools.product(["forward", "query_grad", "pull"], [(1, 1, 0, 1), (0, 0, 1, 0)], [80, 90]):
    kernel = getattr(kernels, name)
    known = {**SIZES, **dict(zip(FLAGS, map(bool, flags)))}
    known = {arg: known[arg] for arg in kernel.arg_names if arg in known}
    types = {**dict.fromkeys(kernel.arg_names, "*bf16"), **NUMBERS, **KEPT, **dict.fromkeys(known, "constexpr")}
    types = {arg: types[arg] for arg in kernel.arg_names}
    compiled = compile(ASTSource(fn=kernel, signature=types, constexprs=known), target=GPUTarget("cuda", arch, 32))
    assert compiled.asm["cubin"], name
    print(name, flags, arch)
"""


def test_the_kernels_compile_for_gpus():
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    command = [sys.executable, "-c", COMPILE]
    done = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) == 12
