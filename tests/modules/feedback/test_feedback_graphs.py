"""Blocks as graphs, with a stand-in for CUDA's (see tape.py), against the same operations one by one: bit for bit."""

import copy
import gc

import pytest
import torch
from graph_cases import (
    CASES,
    LAYERS,
    RATES,
    STEPS,
    B,
    C,
    Stream,
    Translation,
    config,
    decoded,
    streamed,
    updates,
)
from tape import TapeCapture

from fairseq_plugins.modules.feedback.engine import graphs
from fairseq_plugins.modules.feedback.stack import ENGINES, FeedbackStack


@pytest.fixture(autouse=True)
def capture(monkeypatch):
    made = TapeCapture()
    monkeypatch.setattr(graphs, "capture_for", lambda device: made)
    return made


def assert_same(got, expected):
    assert len(got) == len(expected)
    assert all(torch.equal(a, b) for a, b in zip(got, expected))
    assert all(x.isfinite().all() for x in expected)


@pytest.mark.parametrize(
    "name, autocast", [*((name, False) for name in CASES), ("stream", True), ("translation", True)]
)
def test_updates_are_the_same_bit_for_bit(name, autocast, capture):
    fast, eager = (updates(CASES[name](), engine, 3, autocast=autocast) for engine in ("fast", "eager"))
    assert_same(fast, eager)
    assert capture.captured == 2  # the graph of the forward and that of the backward pass


@pytest.mark.parametrize("make", [Stream, Translation])
def test_evaluation_is_the_same(make, capture):
    case = make()
    case.module.eval()
    batches = [case.inputs() for _ in range(3)]

    @torch.no_grad()
    def outputs(engine):
        case.stack.engine, case.memory = ENGINES[engine], None
        return [case(*batch) for batch in batches for _ in range(2)]

    assert_same(outputs("fast"), outputs("eager"))
    assert capture.captured == 1  # no backward pass


@pytest.mark.parametrize("lengths", [(5, 5), (3, 5)])
def test_two_blocks_that_wait_for_their_backward_pass_do_not_share_memory(lengths, capture, caplog):
    """The second is computed without a graph, whose memory the first still needs."""
    caplog.set_level("INFO")

    def run(engine):
        torch.manual_seed(0)
        stack = FeedbackStack(config(**RATES), LAYERS, engine=engine)
        first, second = (torch.randn(steps, B, C) for steps in lengths)
        for x in (first, second) * 2:  # the second time there are graphs
            stack(x).sum().backward()
        stack.zero_grad()
        (stack(first).sum() * stack(second).sum()).backward()
        return [parameter.grad for parameter in stack.parameters() if parameter.grad is not None]

    assert_same(run("fast"), run("eager"))
    assert capture.captured == 2 * len(set(lengths))
    assert caplog.text.count("waits for its backward pass") == 1


def test_a_block_that_is_never_differentiated_blocks_nothing(capture):
    case = Translation()
    updates(case, "fast", 2)
    y = case(*(x.requires_grad_() for x in case.inputs()))
    del y
    gc.collect()
    assert case.stack.graphs.capture_now(torch.device("cpu")) is capture


def test_inference_mode_and_training_have_graphs_of_their_own(capture):
    """A tensor that was made in inference mode cannot be written outside of it."""
    case = Translation()
    case.module.eval()
    x, context = case.inputs()
    for mode in (torch.inference_mode, torch.no_grad, torch.inference_mode, torch.no_grad):
        with mode():
            y = case(x, context)
    assert capture.captured == 2
    assert_same([y], [copy.deepcopy(case)(x, context).detach()])


def test_gradients_are_not_overwritten_later():
    case, given = Translation(), []
    updates(case, "fast", 2)
    for _ in range(2):
        inputs = [x.requires_grad_() * 1 for x in case.inputs()]
        for x in inputs:
            x.register_hook(given.append)
        case(*inputs).sum().backward()
    assert len({x.data_ptr() for x in given}) == 4


def test_memories_are_those_of_the_own_block():
    case = Stream()
    case.module.eval()

    @torch.no_grad()
    def memories(engine):
        case.stack.engine = ENGINES[engine]
        torch.manual_seed(1)
        for _ in range(2):  # the second time there is a graph
            states = [case.module.start(None, torch.zeros(B, C)) for _ in range(2)]
            for state in states:
                state.run(torch.randn(STEPS, B, C))
        return [vectors for state in states for vectors in state.final_memories(6)]

    assert_same(memories("fast"), memories("eager"))


def test_a_copy_of_a_model_makes_graphs_of_its_own(capture):
    case = Translation()
    updates(case, "fast", 2)
    twin = copy.deepcopy(case)
    with torch.no_grad():
        for parameter in twin.module.parameters():
            parameter.add_(1)
    assert_same(updates(copy.deepcopy(twin), "fast", 2), updates(twin, "eager", 2))
    assert capture.captured == 4


def test_few_graphs_are_kept(capture, monkeypatch):
    monkeypatch.setattr(graphs, "MOST_GRAPHS", 2)
    stack = FeedbackStack(config(), LAYERS).eval()
    blocks = [torch.randn(steps, B, C) for steps in (2, 3, 4)]
    with torch.no_grad():
        captured = []
        for x in [*blocks, *blocks, blocks[1], *[blocks[0]] * 3]:
            y = stack(x)
            captured.append(capture.captured)
            stack.engine = ENGINES["eager"]
            assert torch.equal(y, stack(x))
            stack.engine = ENGINES["fast"]
    assert len(stack.graphs.kept) == 2
    # 2, 3, 4, and 2 again, which had been dropped and has to come twice before; 3 was kept
    assert captured == [0, 0, 0, 1, 2, 3, 3, 3, 3, 4]


def test_a_graph_that_was_used_often_is_soon_made_again(capture, monkeypatch):
    monkeypatch.setattr(graphs, "MOST_GRAPHS", 1)
    monkeypatch.setattr(graphs, "MANY_USES", 3)
    monkeypatch.setattr(graphs, "MOST_KEYS", 2)
    stack = FeedbackStack(config(), 1).eval()
    often, now_and_then, once = (torch.randn(steps, B, C) for steps in (2, 3, 4))
    with torch.no_grad():
        for x in [*[often] * 5, now_and_then, now_and_then]:  # the second is a graph now, the first is dropped
            stack(x)
        before = capture.captured
        for x in (often, often):
            stack(x)
        assert capture.captured == before + 1
        for x in (once, now_and_then, often):
            stack(x)
    assert len(stack.graphs.seen) <= 2 and stack.graphs.uses.keys() == stack.graphs.kept.keys()


def test_a_device_that_cannot_capture_is_said_once(monkeypatch, caplog):
    caplog.set_level("WARNING", logger=graphs.__name__)  # also where an earlier test has asked for more

    class NotPermitted(Exception):  # errors of a kernel's compiler have types of their own, too
        pass

    def fails(function):
        TapeCapture()(function)
        raise NotPermitted("operation not permitted when stream is capturing")

    monkeypatch.setattr(graphs, "capture_for", lambda device: fails)
    assert_same(updates(Translation(), "fast", 3), updates(Translation(), "eager", 3))
    assert len(caplog.records) == 1
    assert "a block of 5 steps cannot be a CUDA graph" in caplog.text
    assert_close(decoded(Translation(), "fast"), decoded(Translation(), "eager"))


def test_there_are_no_graphs_within_a_capture_of_the_users(capture, monkeypatch):
    case = Translation()
    monkeypatch.setattr(graphs, "within_a_capture", lambda device: True)
    updates(case, "fast", 3)
    assert capture.captured == 0
    monkeypatch.setattr(graphs, "within_a_capture", lambda device: False)
    updates(case, "fast", 2)
    assert capture.captured == 2


def test_another_engine_or_rate_has_graphs_of_its_own(capture):
    stack, x = FeedbackStack(config(), LAYERS), torch.randn(STEPS, B, C)
    changes = [
        lambda: None,
        lambda: setattr(stack.layers[0].config, "dropout", 0.0),
        lambda: setattr(stack, "engine", type("Another", (ENGINES["fast"],), {})),
    ]
    for number, change in enumerate(changes, 1):
        change()
        first, second, third = (stack(x).detach() for _ in range(3))
        assert torch.equal(second, third) == (number > 1)  # dropout draws anew
        assert capture.captured == number * 2


def test_waiting_for_the_device_is_not_captured():
    """Otherwise the stand-in would allow an operation that a GPU refuses."""
    with pytest.raises(RuntimeError, match="makes the host wait"):
        TapeCapture()(lambda: torch.ones(1).item())


@pytest.mark.parametrize("kv, most_steps", [("shared", 128), ("per-layer", 128), ("shared", 5)])
def test_beam_search_is_the_same(kv, most_steps, capture, monkeypatch):
    """Also where the graphs end before the sentences do."""
    monkeypatch.setattr(graphs, "MOST_STEPS", most_steps)
    assert_close(decoded(Translation(kv=kv), "fast"), decoded(Translation(kv=kv), "eager"))
    # the buffers, and each step; the first memory, of zeros, takes a place, too
    assert capture.captured == 1 + min(9, most_steps - 1)


def test_released_memory_is_overwritten_as_in_a_pool():
    """Otherwise the stand-in would let through graphs that overwrite one another."""
    capture = TapeCapture()
    x = torch.ones(3)
    kept, first = capture(lambda: (x * 2).exp().log())  # the exponential is held by nobody afterwards
    first()
    assert torch.equal(kept, torch.full((3,), 2.0))
    other, second = capture(lambda: x + 1)
    second()
    assert torch.equal(other, torch.full((3,), 2.0)) and kept.isfinite().all()
    first()
    assert kept.isfinite().all() and other.isnan().all()


def test_dropout_that_is_kept_in_decoding_draws_anew():
    assert_close(*(decoded(Translation(), engine, training=True) for engine in ("fast", "eager")))


def test_a_step_that_cannot_be_captured_is_computed_all_the_same(monkeypatch, caplog):
    caplog.set_level("WARNING", logger=graphs.__name__)  # also where an earlier test has asked for more
    tape = TapeCapture()

    def fails_later(function):
        made = tape(function)
        if tape.captured == 4:
            raise RuntimeError("out of memory")
        return made

    monkeypatch.setattr(graphs, "capture_for", lambda device: fails_later)
    assert_close(decoded(Translation(), "fast"), decoded(Translation(), "eager"))
    assert len(caplog.records) == 1 and "a step of decoding cannot be a CUDA graph" in caplog.text


def test_changed_weights_are_seen_in_decoding(capture):
    def run(engine):
        case = Translation(kv="per-layer")
        found = decoded(case, engine)
        with torch.no_grad():
            for parameter in case.module.parameters():
                parameter.add_(0.1)
        return found + decoded(case, engine)

    assert_close(run("fast"), run("eager"))


def assert_close(got, expected):
    """Rows of the batch that have ended are computed on, so matrices have other sizes, and sums another order."""
    assert len(got) == len(expected)
    for a, b in zip(got, expected):
        assert a.shape == b.shape
        torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("options", [{}, {"kv": "per-layer"}, {"ramp": 3, "trim_step": 2}, {"memory": "recurrent"}])
def test_steps_of_streams_are_the_same(options, capture, monkeypatch):
    monkeypatch.setattr(graphs, "STREAM_CAPACITY", 7)  # the window moves to the front of the buffers
    assert_close(streamed(Stream(**options), "fast"), streamed(Stream(**options), "eager"))
    # the blocks before, the first stream's steps when they come again, the buffers of the next, and their steps
    assert capture.captured == 1 + 7 + 1 + 8


def test_a_stream_begins_anew_after_rows_have_been_added():
    def run(engine):
        case = Stream()
        case.module.eval()
        case.stack.engine = ENGINES[engine]
        found = []
        for _ in range(2):  # the second time by graphs
            state = case.module.start(None, torch.zeros(B, C))
            found.append(case.module.step(state, torch.randn(B, C)))
            state.reorder(torch.tensor([0, 1, 1]))
            found.append(case.module.step(state, torch.randn(3, C)))
            case.module.restart(state, torch.tensor([False, False, True]))
            found.append(case.module.step(state, torch.randn(3, C)))
        return found

    assert_close(run("fast"), run("eager"))


def test_two_streams_at_once_do_not_share_buffers():
    case = Stream()
    case.module.eval()
    steps = torch.randn(3, 2, B, C)

    def outputs(engine):
        case.stack.engine = ENGINES[engine]
        for _ in range(2):  # the second time graphs are made
            first, second = (case.module.start(None, steps[0, 0]) for _ in range(2))
            found = [case.module.step(state, x) for pair in steps for state, x in zip((first, second), pair)]
        return found

    assert_close(outputs("fast"), outputs("eager"))


def test_decoding_while_a_block_waits_for_its_backward_pass():
    def run(engine):
        case = Translation()
        updates(case, engine, 2)
        decoded(case, engine)
        case.module.train()
        inputs = [x.requires_grad_() for x in case.inputs()]
        torch.manual_seed(1)
        y = case(*inputs)
        found = decoded(case, engine)
        y.sum().backward()
        return [*found, y.detach(), *(x.grad for x in inputs)]

    assert_close(run("fast"), run("eager"))
