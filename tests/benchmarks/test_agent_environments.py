"""benchmarks/agent_environments.py trains in an environment, or says the sentence that the user reads."""

import re

import pytest

gymnasium = pytest.importorskip("gymnasium")

import agent_environments  # noqa: E402


class Pairs(gymnasium.Env):
    observation_space = gymnasium.spaces.Discrete(2)
    action_space = gymnasium.spaces.Tuple([gymnasium.spaces.Discrete(2), gymnasium.spaces.Discrete(2)])


@pytest.mark.parametrize("name", ["CartPole-v1", "Pendulum-v1", "CliffWalking-v1", "popgym:popgym-BattleshipEasy-v0",
                                  "minigrid:MiniGrid-MemoryS7-v0", "minigrid:BabyAI-GoToObj-v0"])  # fmt: skip
def test_an_environment_is_supported(name):
    module, _, _ = name.rpartition(":")
    if module:
        pytest.importorskip(module)
    assert agent_environments.trained(name) == "supported"


def test_another_is_a_sentence_and_stops_no_other(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(gymnasium.envs.registration, "registry", dict(gymnasium.registry))
    gymnasium.register("Pairs-v0", Pairs)
    monkeypatch.setattr(agent_environments, "names", lambda: [("mine", "Pairs-v0"), ("mine", "Acrobot-v1")])
    monkeypatch.setattr("sys.argv", ["agent_environments.py", "--output", str(tmp_path / "page.md")])
    with pytest.raises(SystemExit) as end:
        agent_environments.main()
    page = (tmp_path / "page.md").read_text()
    assert not end.value.code and "| mine | 1 | `Acrobot-v1` | supported |" in page
    assert re.search(r"\| mine \| 1 \| `Pairs-v0` \| --environment: agents have no actions of Tuple.*; choose", page)
