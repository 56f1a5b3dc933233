"""Which environments agents train in: all of MiniGrid and POPGym, and the classic ones of gymnasium.

    python benchmarks/agent_environments.py                              # all of them
    python benchmarks/agent_environments.py --only popgym:popgym-Repeat

Each is made as --environment makes it, and a small LSTM agent acts and learns in it for three updates. A row has the
environments of a package with the same result: supported, or the sentence that the user reads instead. Anything else
ends the script with 1.
"""

import argparse
import logging
import warnings
from collections import defaultdict
from importlib import import_module
from pathlib import Path

import gymnasium
import paths  # noqa: F401  finds the suite
import torch
from agent_speed import build
from page import head, python, show, table

import fairseq_plugins  # noqa: F401  patches fairseq
from fairseq_plugins.agents.criterions.a2c import A2CCriterion
from fairseq_plugins.agents.task import ReinforcementLearningConfig, ReinforcementLearningTask
from fairseq_plugins.errors import UserError

PACKAGES = ("minigrid", "popgym")
CLASSIC = ("gymnasium.envs.classic_control", "gymnasium.envs.toy_text")
ARCHITECTURE, COPIES, STEPS, UPDATES = "lstm_agent_tiny", 2, 8, 3
SUPPORTED = "supported"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", metavar="BEGIN", help="environments whose names begin so")
    parser.add_argument("--output", type=Path, metavar="FILE", help="write the table there too (Markdown)")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    gymnasium.logger.min_level = logging.CRITICAL
    found, faults = defaultdict(list), []
    for package, name in names():
        if name.startswith(args.only):
            try:
                result = trained(name)
            except Exception as error:  # is shown, and no other environment is kept from its turn
                result = repr(error)
                faults.append(name)
            found[package, result.replace(name.rpartition(":")[2], "NAME")].append(name)
            print(f"{name}: {result}", flush=True)
    rows = [
        [package, str(len(all_names)), examples(all_names), result] for (package, result), all_names in found.items()
    ]
    setup = f"{python()}, gymnasium {gymnasium.__version__}: {UPDATES} updates of `{ARCHITECTURE}` in each environment."
    text = head("Environments", "In which environments do agents train?", setup)
    show(f"{text}\n\n{table(['package', 'environments', 'such as', 'result'], rows)}", args.output)
    raise SystemExit(bool(faults))


def names():
    """Pairs of a package and the name of an environment, as --environment takes it."""
    for package in PACKAGES:
        import_module(package)
    for name, spec in list(gymnasium.registry.items()):
        module = str(spec.entry_point)
        package = module.partition(".")[0]
        if package in PACKAGES:
            yield package, f"{package}:{name}"
        elif module.startswith(CLASSIC):
            yield "gymnasium, classic", name


def trained(name: str) -> str:
    """Some updates in an environment."""
    torch.manual_seed(1)
    config = ReinforcementLearningConfig(environment=name, bptt=STEPS, batch_size=COPIES, max_tokens=None)
    try:
        task = ReinforcementLearningTask.setup_task(config)
        actor = task.new_actor(seed=1, copies=COPIES)
        agent = build(ARCHITECTURE, task).train()
        criterion = A2CCriterion(task, discount=0.99, entropy_cost=0.0005, value_cost=0.5)
        optimizer = torch.optim.Adam(agent.parameters(), lr=0.001)
        for _ in range(UPDATES):
            sample = {"rollout": actor.roll(agent, STEPS), "episodes": actor.take_finished()}
            loss, steps, _ = criterion(agent, sample)
            actor.memory = sample["memory"]
            optimizer.zero_grad()
            (loss / steps).backward()
            optimizer.step()
    except UserError as error:
        return str(error)
    if not all(parameter.isfinite().all() for parameter in agent.parameters()):
        raise ValueError(f"the weights of {ARCHITECTURE} are no longer numbers")
    return SUPPORTED


def examples(all_names: list[str], most: int = 3) -> str:
    return ", ".join(f"`{name}`" for name in all_names[:most])


if __name__ == "__main__":
    main()
