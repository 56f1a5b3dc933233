"""Adagrad with clipping, beside torch's own, and in fairseq-train."""

import pytest
import torch

from fairseq_plugins.optim.adagrad_clipped import ClippedAdagrad

SHAPES = [(4, 3), (5,)]


def tensors():
    torch.manual_seed(0)
    return [torch.randn(shape, dtype=torch.float64, requires_grad=True) for shape in SHAPES]


def train(optimizer, parameters, steps, seed=1, scale=1.0):
    torch.manual_seed(seed)
    for _ in range(steps):
        for parameter in parameters:
            parameter.grad = scale * torch.randn_like(parameter)
        optimizer.step()


@pytest.mark.parametrize(
    "options", [{}, {"weight_decay": 0.1}, {"lr_decay": 0.2}, {"initial_accumulator_value": 0.5}, {"eps": 1e-3}]
)
def test_without_a_clip_it_is_torchs_adagrad(options):
    ours, theirs = tensors(), tensors()
    train(ClippedAdagrad(ours, lr=0.1, **options), ours, 5)
    train(torch.optim.Adagrad(theirs, lr=0.1, **options), theirs, 5)
    for a, b in zip(ours, theirs, strict=True):
        assert torch.allclose(a, b, atol=1e-12)


def test_each_tensor_is_clipped_by_its_own_norm_and_only_its_step():
    long, short = (torch.zeros(4, dtype=torch.float64, requires_grad=True) for _ in range(2))
    optimizer = ClippedAdagrad([long, short], lr=0.1, clip=1.0)
    long.grad, short.grad = torch.full_like(long, 10), torch.full_like(short, 0.25)  # norms 20 and 0.5
    optimizer.step()
    assert torch.allclose(long, torch.full_like(long, -0.1 / 20))
    assert torch.allclose(short, torch.full_like(short, -0.1))
    assert torch.equal(optimizer.state[long]["sum"], torch.full_like(long, 100))


def test_a_tensor_without_gradient_stays():
    moved, still = tensors()
    optimizer = ClippedAdagrad([moved, still], lr=0.1)
    before = still.detach().clone()
    moved.grad = torch.ones_like(moved)
    optimizer.step()
    assert torch.equal(still, before)


@pytest.fixture(scope="module")
def letters(run, tmp_path_factory):
    """Binarised lines of letters."""
    folder = tmp_path_factory.mktemp("letters")
    for split in ("train", "valid"):
        (folder / f"{split}.txt").write_text("a b c d e f g h\nh g f e d c b a\n" * 40)
    words = ["--trainpref", folder / "train.txt", "--validpref", folder / "valid.txt"]
    run("fairseq-preprocess", "--only-source", *words, "--destdir", folder / "bin")
    return folder / "bin"


def test_fairseq_train_resumes_with_it(run, user_dir, letters, tmp_path):
    command = (
        f"fairseq-train {letters} --user-dir {user_dir} --task streaming_language_modeling --criterion streaming_lm"
        " --arch all_attention_lm_tiny --optimizer adagrad_clipped --clip-tensor-norm 0.03 --clip-norm 0 --lr 0.07"
        " --batch-size 2 --tokens-per-sample 16 --cpu --log-format simple --log-interval 1 --no-progress-bar"
        " --save-interval-updates 4"
    ).split()
    whole = run(*command, "--max-update", 8, "--save-dir", tmp_path / "whole").stdout
    run(*command, "--max-update", 4, "--save-dir", tmp_path / "resumed")
    resumed = run(*command, "--max-update", 8, "--save-dir", tmp_path / "resumed").stdout
    assert losses(whole)[4:] == losses(resumed)
    assert losses(whole)[-1] < losses(whole)[0]


def losses(log: str) -> list[float]:
    return [float(line.split(" loss=")[1].split(",")[0]) for line in log.splitlines() if "train_inner" in line]
