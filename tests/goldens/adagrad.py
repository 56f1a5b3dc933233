"""Adagrad with clipping: `adagrad_*`."""

import torch
from fixture import config_of

from fairseq_plugins.optim.adagrad_clipped import ClippedAdagrad


def check(case, assert_close) -> None:
    config = config_of(case)
    count = sum(name.endswith("/init") for name in case.files)
    tensors = [torch.tensor(case[f"param{number}/init"]).requires_grad_() for number in range(count)]
    optimizer = ClippedAdagrad(
        tensors,
        lr=config["lr"],
        clip=config["grad_clip"],
        weight_decay=config["weight_decay"],
        lr_decay=config["lr_decay"],
        initial_accumulator_value=config["initial_accumulator"],
        eps=config["eps"],
    )
    for step in range(config["steps"]):
        rate = config["lr"] * warm_up(step + 1, config["lr_warmup"])
        assert_close("rate", torch.tensor(rate, dtype=torch.double), case["lr_used"][step])
        optimizer.param_groups[0]["lr"] = rate
        for number, tensor in enumerate(tensors):
            tensor.grad = torch.tensor(case[f"param{number}/grad_step{step}"])
        optimizer.step()
        for number, tensor in enumerate(tensors):
            assert_close(f"param{number}", tensor, case[f"param{number}/after_step{step}"])
            accumulator = optimizer.state[tensor]["sum"]
            assert_close(f"accumulator of param{number}", accumulator, case[f"param{number}/accumulator_step{step}"])


def warm_up(update: int, updates: int) -> float:
    return min(1.0, update / updates) if updates else 1.0
