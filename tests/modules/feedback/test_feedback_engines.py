"""The fast engine against the plain loop: outputs and every gradient in float64, over a matrix of options."""

import pytest
import torch
from engine_comparison import (
    ENGINES,
    assert_autocast_is_as_exact_as_the_plain_loop,
    assert_engines_agree,
    outputs_and_gradients,
    use_engine,
)
from torch.utils._python_dispatch import TorchDispatchMode

from fairseq_plugins.modules.common.activations import ACTIVATIONS
from fairseq_plugins.modules.feedback.layer import FeedbackLayerConfig
from fairseq_plugins.modules.feedback.reference import feedback_reference
from fairseq_plugins.modules.feedback.stack import FORMER_ENGINES, FeedbackStack

T, B, C, S, CONTEXT = 6, 4, 12, 5, 10


def build(num_layers=3, memory="weighted", kv="shared", dtype=torch.double, **options):
    torch.manual_seed(0)
    config = FeedbackLayerConfig(**{"embed_dim": C, "ffn_dim": 20, "heads": 3, "context_dim": CONTEXT, **options})
    stack = FeedbackStack(config, num_layers, memory, kv).double()
    for parameter in stack.parameters():  # away from the symmetries of the initial values
        torch.nn.init.normal_(parameter, std=0.5)
    return stack.to(dtype)


def inputs(context=True, left_padding=False, steps=T, dtype=torch.double):
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(steps, B, C, generator=generator, dtype=torch.double).to(dtype)
    if not context:
        return {"x": x}
    context_padding = torch.zeros(B, S, dtype=torch.bool)
    context_padding[1, 3:] = True
    padding = torch.zeros(B, steps, dtype=torch.bool)
    padding[2, :2] = left_padding
    return {
        "x": x,
        "context": torch.randn(B, S, CONTEXT, generator=generator, dtype=torch.double).to(dtype),
        "context_padding": context_padding,
        "padding": padding if left_padding else None,
    }


def calls(stack, arguments):
    """How the comparison is to run the stack, and the inputs whose gradients count."""

    def run(**leaves):
        return {"output": stack(**{**arguments, **leaves})}

    return run, {name: arguments[name] for name in ("x", "context") if name in arguments}


@pytest.mark.parametrize("memory", ["weighted", "top", "average", "layer-0", "layer-1", "recurrent"])
@pytest.mark.parametrize("kv", ["shared", "per-layer"])
@pytest.mark.parametrize("pre_norm", [False, True])
@pytest.mark.parametrize("rate", [0.0, 0.3])
@pytest.mark.parametrize("context", [True, False])
def test_engines_agree(memory, kv, pre_norm, rate, context):
    stack = build(
        memory=memory,
        kv=kv,
        pre_norm=pre_norm,
        context_dim=CONTEXT if context else None,
        dropout=rate,
        attention_dropout=rate / 2,
        activation_dropout=rate / 3,
    )
    assert_engines_agree(stack, *calls(stack, inputs(context)))


@pytest.mark.parametrize("memory", ["weighted", "top", "layer-0", "recurrent"])
@pytest.mark.parametrize("kv", ["shared", "per-layer"])
@pytest.mark.parametrize("pre_norm", [False, True])
def test_engines_compute_the_equations(memory, kv, pre_norm):
    """Outputs and all gradients are those of `feedback_reference`."""
    stack, x = build(memory=memory, kv=kv, pre_norm=pre_norm, context_dim=None), inputs(context=False)["x"]

    def outputs_and_gradients(run):
        y, parameters = run(leaf := x.clone().requires_grad_()), [leaf, *stack.parameters()]
        return y, torch.autograd.grad(y.square().sum(), parameters, allow_unused=True, materialize_grads=True)

    expected = outputs_and_gradients(lambda x: feedback_reference(x, stack.layers, stack.memory.mixing()))
    for engine in ENGINES:
        use_engine(stack, engine)
        torch.testing.assert_close(outputs_and_gradients(stack), expected, rtol=1e-9, atol=1e-9)


def test_names_of_earlier_engines_are_taken():
    for name, present in FORMER_ENGINES.items():
        config = FeedbackLayerConfig(C, 20, 3)
        assert FeedbackStack(config, 2, engine=name).engine is FeedbackStack(config, 2, engine=present).engine


CASES = {
    **{name: ({"activation": name}, {}) for name in ACTIVATIONS},
    **{f"padding on the left, {kv}": ({"kv": kv}, {"left_padding": True}) for kv in ("shared", "per-layer")},
    **{f"{n} layers, {t} steps": ({"num_layers": n}, {"steps": t}) for n, t in ((1, T), (2, 1), (1, 1), (1, 2))},
}


@pytest.mark.parametrize("options, of_inputs", CASES.values(), ids=CASES)
def test_engines_agree_in_special_cases(options, of_inputs):
    stack = build(**options)
    assert_engines_agree(stack, *calls(stack, inputs(**of_inputs)))


def test_engines_agree_when_some_parameters_are_frozen():
    stack = build()
    stack.layers[0].requires_grad_(False)
    assert_engines_agree(stack, *calls(stack, inputs()))


@pytest.mark.parametrize("dtype, tolerance", [(torch.bfloat16, 0.03), (torch.float16, 0.006)])
def test_half_precision_of_both_engines_is_as_close_to_double(dtype, tolerance):
    """Sums in another order round differently, so the engines agree to a few units in the last place only."""
    double, half = build(), build(dtype=dtype)
    exact = outputs_and_gradients(double, "plain", *calls(double, inputs()))
    arguments = inputs(dtype=dtype)
    fast, plain = (outputs_and_gradients(half, engine, *calls(half, arguments)) for engine in ("fast", "plain"))
    for name, expected in exact.items():
        size = expected.norm().clamp(min=1)  # a key bias has gradient zero
        assert fast[name].dtype is dtype
        assert (fast[name].double() - expected).norm() / size < tolerance, name
        assert (fast[name].double() - plain[name].double()).norm() / size < tolerance, name


@pytest.mark.parametrize("pre_norm", [False, True])
@pytest.mark.parametrize("kv", ["shared", "per-layer"])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_autocast_is_as_exact_as_with_the_plain_loop(pre_norm, kv, dtype):
    """With GELU: where rounding turns a ReLU on or off, a gradient jumps."""
    torch.manual_seed(0)
    config = FeedbackLayerConfig(C, 20, 3, context_dim=CONTEXT, pre_norm=pre_norm, activation="gelu")
    stack = FeedbackStack(config, 3, kv=kv)
    arguments = inputs(steps=32, dtype=torch.float)
    leaves = {name: arguments.pop(name) for name in ("x", "context")}
    assert_autocast_is_as_exact_as_the_plain_loop(
        stack, lambda stack, **leaves: {"output": stack(**arguments, **leaves)}, leaves, dtype
    )


def test_products_run_in_half_precision_under_autocast():
    """All but those that mix memories, which are to be as exact as the residual stream."""

    class Products(TorchDispatchMode):
        seen: list[torch.dtype] = []

        def __torch_dispatch__(self, operation, types, args=(), kwargs=None):
            if operation._schema.name.split("::")[1] in ("addmm", "bmm", "baddbmm", "_addmm_activation"):
                self.seen.append(args[1].dtype)
            return operation(*args, **(kwargs or {}))

    stack, arguments = build(dtype=torch.float), inputs(dtype=torch.float)
    with torch.autocast("cpu", dtype=torch.bfloat16), Products() as products:
        stack(**arguments).sum().backward()
    assert len(products.seen) > 100 and set(products.seen) == {torch.bfloat16}


def test_a_step_under_autocast_is_that_of_the_block():
    stack, arguments = build(dtype=torch.float).eval(), inputs(dtype=torch.float)
    with torch.autocast("cpu", dtype=torch.bfloat16), torch.no_grad():
        block = stack(**arguments)
        state = stack.start(arguments["context"], arguments["context_padding"])
        for x_t, expected in zip(arguments["x"], block, strict=True):
            assert torch.allclose(stack.step(state, x_t)[0], expected, atol=1e-5)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("memory, kv", [("weighted", "shared"), ("recurrent", "per-layer"), ("top", "per-layer")])
def test_step_by_step_equals_all_at_once(engine, memory, kv):
    steps = 70  # more than the initial capacity of the buffers, twice
    stack, arguments = build(memory=memory, kv=kv).eval(), inputs(steps=steps)
    use_engine(stack, engine)
    with torch.no_grad():
        at_once = stack(**arguments)
        state = stack.start(arguments["context"], arguments["context_padding"])
        for x_t, expected in zip(arguments["x"], at_once):
            y, attention = state.step(x_t)
            assert torch.allclose(y, expected, atol=1e-12)
    assert attention.shape == (B, 3, S)
    assert torch.allclose(attention.sum(-1), torch.ones(B, 3, dtype=torch.double))
    assert (attention[1, :, 3:] == 0).all()  # padding of the source


@pytest.mark.parametrize("engine", ENGINES)
def test_reordered_rows_continue_as_their_own_hypotheses(engine):
    stack, arguments = build().eval(), inputs(steps=8)
    use_engine(stack, engine)
    order = torch.tensor([2, 0, 0, 3, 1, 2])  # rows are moved, dropped and doubled: more rows than before
    x = arguments["x"]
    with torch.no_grad():
        alone = stack(**arguments)
        state = stack.start(arguments["context"], arguments["context_padding"])
        for x_t in x[:4]:
            state.step(x_t)
        state.reorder(order)
        for t in (4, 5):
            assert torch.allclose(state.step(x[t, order])[0], alone[t, order], atol=1e-12)
        fewer = torch.tensor([1, 4])  # fewer rows
        state.reorder(fewer)
        for t in (6, 7):
            assert torch.allclose(state.step(x[t, order[fewer]])[0], alone[t, order[fewer]], atol=1e-12)


@pytest.mark.parametrize(
    "orders",
    [
        [[1, 0, 2, 2, 5, 5, 7, 6], [0, 0, 5, 4, 7, 6], [3, 2]],  # within a sentence, and sentences end: beam search
        [[2, 0, 1, 3, 7, 6, 5, 4], [5, 5, 0, 1], [3, 0, 1]],  # anywhere
    ],
)
@pytest.mark.parametrize("engine", ENGINES)
def test_hypotheses_of_one_sentence_share_the_encoder(engine, orders):
    beam = 2
    stack, arguments = build().eval(), inputs()
    use_engine(stack, engine)
    single = [arguments[name] for name in ("context", "context_padding")]
    shared = stack.start(*single, beam=beam)
    separate = stack.start(*(tensor.repeat_interleave(beam, dim=0) for tensor in single))
    x = torch.randn(6, B * beam, C, generator=torch.Generator().manual_seed(4), dtype=torch.double)
    with torch.no_grad():
        for order in orders:
            for x_t in x[:2]:
                for y, expected in zip(stack.step(shared, x_t), stack.step(separate, x_t), strict=True):
                    assert torch.allclose(y, expected, atol=1e-12)
            order = torch.tensor(order)
            separate.reorder(order), shared.reorder(order)
            x = x[:, order]


def test_second_backward_is_refused():
    y = build()(**inputs())
    y.sum().backward(retain_graph=True)
    with pytest.raises(RuntimeError, match="second time"):
        y.sum().backward()


def test_sizes_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match="12 is not divisible by 5"):
        build(heads=5)
    with pytest.raises(ValueError, match="'mish' is not one of relu"):
        build(activation="mish")


@pytest.mark.parametrize("memory", ["weighted", "recurrent"])
def test_every_parameter_gets_a_gradient_from_a_single_step(memory):
    """Data-parallel training waits for all of them, also in a batch of empty sentences."""
    stack = build(memory=memory)
    stack(**inputs(steps=1)).sum().backward()
    assert all(parameter.grad is not None for parameter in stack.parameters())


@pytest.mark.parametrize("pre_norm", [False, True])
def test_keys_per_layer_are_not_loaded_into_a_model_that_shares_them(pre_norm):
    per_layer, shared = (build(kv=kv, pre_norm=pre_norm) for kv in ("per-layer", "shared"))
    with pytest.raises(RuntimeError, match="keys and values per layer"):
        shared.load_state_dict(per_layer.state_dict())
    per_layer.load_state_dict(shared.state_dict())  # the same function with more parameters
    arguments = inputs()
    assert torch.allclose(per_layer(**arguments), shared(**arguments), atol=1e-12)


@pytest.mark.parametrize(
    "saved, used", [("top", "average"), ("layer-0", "layer-1"), ("top", "weighted"), ("weighted", "top")]
)
def test_a_checkpoint_of_another_memory_is_refused(saved, used):
    with pytest.raises(RuntimeError, match="memory"):
        build(memory=used).load_state_dict(build(memory=saved).state_dict())
