"""benchmarks/memory_table.py: the rows of memory agents, and no others, by environment and agent."""

import memory_table


def test_each_environment_has_a_line():
    rows = {
        f"memory-AEasy-{model}: popgym-AEasy-v0, {model}": {"MMER": f"{reward} (0.1 to 0.9)", "random": "-0.5"}
        for model, reward in {"feedback": 0.5, "gru": 0.25}.items()
    }
    lines = memory_table.memory_table({**rows, "fifth-top: top": {"dev bpc": 2.0}}).splitlines()
    assert lines[0] == "| environment | random | GRU | LSTM | Transformer | Feedback |"
    assert lines[2:] == ["| popgym-AEasy | -0.5 | 0.25 (0.1 to 0.9) |  |  | 0.5 (0.1 to 0.9) |"]
