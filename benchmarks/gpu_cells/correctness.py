"""Is it right on this device? The numbers that the tests hold a CPU to, and the engines against the plain loop.

B batch, C width, S source positions.
"""

import copy
import json
from argparse import Namespace
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import engine_comparison  # its ENGINES have the plain loop, too
import graph_cases
import pytest
import torch
import translation_speed
from fairseq import checkpoint_utils
from fairseq.sequence_generator import SequenceGenerator
from torch.nn.parallel import DistributedDataParallel

from fairseq_plugins.models import active_memory_lm, transformer_xl_lm  # noqa: F401  (registered)
from fairseq_plugins.modules.common.stream_memory import StreamMemory
from fairseq_plugins.modules.feedback.engine import cuda_capture
from fairseq_plugins.modules.feedback.layer import FeedbackLayerConfig
from fairseq_plugins.modules.feedback.memory import FeedbackMemory
from fairseq_plugins.modules.feedback.stack import FeedbackStack
from fairseq_plugins.modules.feedback.window import MemoryWindow
from fairseq_plugins.tasks import streaming_language_modeling  # noqa: F401  (registered)
from gpu_cells import language
from gpu_cells.cell import MINUTE, ONLY_A_GPU, Cell, Row, Setting

TESTS = Path(__file__).resolve().parents[2] / "tests"


B, C, S, HEADS, LAYERS = 8, 64, 10, 4, 3


class Correctness(Cell):
    limit = 3 * MINUTE


@dataclass(frozen=True)
class Engines(Correctness):
    """Outputs and gradients of every engine, over a window and with an encoder, against the plain loop in float64 on
    the CPU: the largest root mean square of their relative errors. In half precision an engine may be off by 1.25 times
    the error of the plain loop."""

    TOLERANCE = {"float64": 1e-9, "float32": 1e-4}

    def measure(self, setting: Setting) -> Row:
        row: Row = {}
        steps = 6 if setting.smoke else 24
        cases = [Case(build(kv, steps)) for build in (windowed, with_encoder) for kv in ("shared", "per-layer")]
        for dtype in ("float64", "float32", "bfloat16", "float16"):
            errors = {
                name: max(case.error(name, dtype, setting.device) for case in cases)
                for name in engine_comparison.ENGINES
            }
            row |= {f"{name}, {dtype}": float(f"{value:.3g}") for name, value in errors.items()}
            allowed = self.TOLERANCE.get(dtype, 1.25 * errors["plain"])
            if wrong := [name for name, value in errors.items() if not value <= allowed]:
                raise ValueError(f"{', '.join(wrong)} in {dtype} beyond {allowed:.3g}: {json.dumps(row)}")
        return row


def windowed(kv: str, steps: int):
    torch.manual_seed(1)
    config = FeedbackLayerConfig(C, 2 * C, HEADS, attention_bias=False, pre_norm=True, activation="gelu")
    stack = FeedbackStack(config, LAYERS, kv=kv, window=MemoryWindow(16, LAYERS, HEADS, C // HEADS))
    before = torch.randn(B, 16, C)  # no gradient goes back to the block before

    def run(stack, x):
        y, memory = stack.advance(x, FeedbackMemory([before.to(x)]))
        return {"output": y, "memory": memory.vectors[0].detach()}

    return stack, run, {"x": torch.randn(steps, B, C)}


def with_encoder(kv: str, steps: int):
    torch.manual_seed(1)
    stack = FeedbackStack(FeedbackLayerConfig(C, 2 * C, HEADS, context_dim=C, activation="gelu"), LAYERS, kv=kv)
    padding = torch.zeros(B, S, dtype=torch.bool)
    padding[1, S // 2 :] = True

    def run(stack, x, context):
        return {"output": stack(x, context, padding.to(x.device))}

    return stack, run, {"x": torch.randn(steps, B, C), "context": torch.randn(B, S, C)}


class Case:
    """A stack, its inputs, and the exact results."""

    def __init__(self, built: tuple):
        self.stack, self.run, self.leaves = built
        self.exact = self.compute("plain", torch.float64, "cpu")

    def compute(self, engine: str, dtype: torch.dtype, device: str) -> dict[str, torch.Tensor]:
        stack = copy.deepcopy(self.stack).to(device, dtype)
        leaves = {name: leaf.to(device, dtype) for name, leaf in self.leaves.items()}
        for _ in range(3 if device == "cuda" else 1):  # on a GPU the second makes a graph, and the third uses it
            found = engine_comparison.outputs_and_gradients(stack, engine, partial(self.run, stack), leaves)
        return {name: tensor.cpu().double() for name, tensor in found.items() if tensor is not None}

    def error(self, engine: str, dtype: str, device: str) -> float:
        got = self.compute(engine, getattr(torch, dtype), device)
        return engine_comparison.relative_error(got, self.exact)


@dataclass(frozen=True)
class Graphs(Correctness):
    """With graphs, three updates over two micro-batches are bit for bit those of the same operations one by one, with
    dropout; decoding is the same but for the order of sums. On a CPU there are no graphs to compare."""

    def measure(self, setting: Setting) -> Row:
        row: Row = {}
        with torch.device(setting.device):
            for name, make in graph_cases.CASES.items():
                case, without = make(), make()
                without.stack.graphs = None
                got, exact = (graph_cases.updates(each, "fast", 3) for each in (case, without))
                differ = sum(int((a != b).sum()) for a, b in zip(got, exact, strict=True))
                row[f"fast, {name}, numbers that differ"] = differ
                row[f"fast, {name}, graphs"] = len(case.stack.graphs.kept)
            for make, decode in self.DECODING.items():
                case = make()
                pairs = zip(decode(case, "fast"), decode(make(), "eager"), strict=True)
                row[f"{decode.__name__}, error"] = float(f"{max((a - b).abs().max() for a, b in pairs):.3g}")
                row[f"{decode.__name__}, graphs"] = len(case.stack.graphs.kept)
        differ = sum(value for name, value in row.items() if name.endswith("differ"))
        off = max(value for name, value in row.items() if name.endswith("error"))
        none = setting.gpu and min(value for name, value in row.items() if name.endswith("graphs")) == 0
        if differ or off > 1e-4 or none:
            raise ValueError(f"graphs are missing or wrong: {json.dumps(row)}")
        return row

    DECODING = {
        graph_cases.Translation: graph_cases.decoded,
        graph_cases.Stream: graph_cases.streamed,
    }


@dataclass(frozen=True)
class FailedCapture(Correctness):
    """After a capture that fails, as one that makes the host wait does, dropout draws on, pinned memory is given out
    and another model's capture works."""

    def measure(self, setting: Setting) -> Row:
        if not setting.gpu:
            return ONLY_A_GPU
        device = torch.zeros(1, device="cuda").device
        try:
            cuda_capture.CudaCapture(device)(lambda: torch.ones(1, device="cuda").item())
        except RuntimeError as error:
            row: Row = {"refused": str(error).splitlines()[0]}
        else:
            raise ValueError("a capture that makes the host wait did not fail")
        pinned = torch.arange(10000).pin_memory().cuda(non_blocking=True)
        drawn = torch.nn.functional.dropout(torch.ones(10000, device="cuda"), 0.5).mean().item()
        uniform, replay = cuda_capture.CudaCapture(device)(lambda: torch.rand(10000, device="cuda"))
        replay()
        mean = uniform.mean().item()
        if not (0.9 < drawn < 1.1 and 0.45 < mean < 0.55 and pinned.sum().item() == 49995000):
            raise ValueError(f"means of random numbers are {drawn} and {mean}, not 1 and 0.5, or pinned memory is lost")
        return row


class Outcomes:
    """The tests of a run of pytest that passed, and those that failed with their errors."""

    def __init__(self):
        self.passed, self.failed = [], {}

    def pytest_runtest_logreport(self, report):
        if report.passed and report.when == "call":
            self.passed.append(report.nodeid)
        elif report.failed:
            self.failed[report.nodeid] = report.longreprtext.splitlines()[-1]


@dataclass(frozen=True)
class Goldens(Correctness):
    """The tests of the numbers of the papers' public code pass on the device. They skip a fault of that code."""

    def measure(self, setting: Setting) -> Row:
        few = ["-k", "feedback_pre or sch_skip_retain_drift"] if setting.smoke else []
        tests, outcomes = f"{TESTS / 'goldens/test_golden.py'}::test_golden", Outcomes()
        with torch.device(setting.device):
            status = pytest.main(["-q", "-p", "no:cacheprovider", tests, *few], plugins=[outcomes])
        if status != pytest.ExitCode.OK:
            raise ValueError(f"status {status}; {len(outcomes.failed)} are wrong: {json.dumps(outcomes.failed)}")
        return {"files": len(outcomes.passed)}


@dataclass(frozen=True)
class Checkpoints(Correctness):
    """Checkpoints of an earlier day give the outputs that they gave then, on a CPU. With torch's default a GPU has ten
    bits of a number in convolutions (TF32); the row has these errors, too."""

    FOLDER = TESTS / "models/checkpoints"

    @torch.no_grad()
    def measure(self, setting: Setting) -> Row:
        paths = sorted(self.FOLDER.glob("*.pt"))
        torch.backends.cudnn.allow_tf32 = False
        errors = {path.stem: self.error(path, setting) for path in paths}
        if not max(errors.values()) <= (1e-4 if setting.gpu else 1e-5):
            raise ValueError(f"log-probabilities are off by {json.dumps(errors)}")
        torch.backends.cudnn.allow_tf32 = True
        return errors | {f"{path.stem}, with TF32": self.error(path, setting) for path in paths * setting.gpu}

    def error(self, path: Path, setting: Setting) -> float:
        expected = json.loads(path.with_suffix(".json").read_text())
        models, *_ = checkpoint_utils.load_model_ensemble_and_task(
            [str(path)], arg_overrides={"data": str(self.FOLDER)}
        )
        model = models[0].eval().to(setting.device)
        output = model(torch.tensor(expected["tokens"], device=setting.device))
        said = model.get_normalized_probs(output, log_probs=True).cpu()
        return float(f"{(said - torch.tensor(expected['log_probs'])).abs().max():.3g}")


@dataclass(frozen=True)
class Generation(Correctness):
    """Beam search says the same words as the plain loop on the CPU, with every engine, in float32."""

    def measure(self, setting: Setting) -> Row:
        expected = self.sentences("cpu", "plain")
        for name in engine_comparison.ENGINES:
            said = self.sentences(setting.device, name)
            if different := sum(a != b for a, b in zip(said, expected, strict=True)):
                raise ValueError(f"{different} of {len(expected)} sentences are others with {name}")
        return {"sentences": len(expected), "engines": ", ".join(engine_comparison.ENGINES)}

    @torch.no_grad()
    def sentences(self, device: str, engine: str) -> list[list[int]]:
        sizes = dict(encoder_layers=6, embed_dim=32, ffn_dim=64, heads=4, vocabulary=50, max_tokens=100)
        job = translation_speed.Job(Namespace(**sizes, device=device, dtype="float32"), "feedback", 2)
        engine_comparison.use_engine(job.model, engine)
        generator = SequenceGenerator([job.model.eval()], job.dictionary, beam_size=4, max_len_a=0, max_len_b=20)
        found = generator.generate([job.model], {"net_input": job.source([5, 9, 12, 12])})
        return [best[0]["tokens"].tolist() for best in found]


@dataclass(frozen=True)
class DataParallel(Correctness):
    """One process under torch's DistributedDataParallel has the gradients that it has without, with every engine.
    fairseq does not wrap a model of one process."""

    def measure(self, setting: Setting) -> Row:
        store = setting.folder / "store"
        store.unlink(missing_ok=True)
        backend = "nccl" if setting.gpu else "gloo"
        torch.distributed.init_process_group(backend, init_method=f"file://{store.resolve()}", rank=0, world_size=1)
        errors = {name: self.error(setting, name) for name in engine_comparison.ENGINES}
        torch.distributed.destroy_process_group()
        if not max(errors.values()) <= 1e-5:
            raise ValueError(f"gradients differ by {json.dumps(errors)}")
        return errors

    def error(self, setting: Setting, engine: str) -> float:
        models = language.Models(language.SMALLEST, 2, setting)
        models.args.dtype, models.args.dropout = "float32", 0.0
        job = models.training("fast")
        engine_comparison.use_engine(job.model, engine)
        alone, wrapped = (self.gradients(job, model) for model in (job.model, DistributedDataParallel(job.model)))
        return max((a - b).abs().max().item() for a, b in zip(alone, wrapped, strict=True))

    def gradients(self, job, model) -> list[torch.Tensor]:
        job.model.zero_grad()
        for _ in range(2):  # two micro-batches: gradients add up
            output = model(job.tokens[:, :-1], memory=StreamMemory())
            job.model.token_nll(output, job.tokens[:, 1:]).mean().backward()
        return [parameter.grad.clone() for parameter in job.model.parameters()]


CELLS: dict[str, Cell] = {
    "correctness-engines": Engines(),
    "correctness-graphs": Graphs(),
    "correctness-failed-capture": FailedCapture(),
    "correctness-goldens": Goldens(),
    "correctness-checkpoints": Checkpoints(),
    "correctness-generation": Generation(),
    "correctness-data-parallel": DataParallel(),
}
