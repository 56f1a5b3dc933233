"""Print the table of memory agents, of the rows that `benchmarks/agents.sh popgym` has written."""

import paths
from page import table

from fairseq_plugins.tools import results_table

ROWS = paths.ROOT / "benchmarks/evidence/rows.jsonl"
NAMES = {"gru": "GRU", "lstm": "LSTM", "transformer": "Transformer", "feedback": "Feedback"}


def main():
    print(memory_table(results_table.read_rows(ROWS)))


def memory_table(rows: results_table.Rows) -> str:
    """Of each environment the reward at random, and each agent's MMER with its range over the seeds."""
    found: dict[str, dict[str, results_table.Value]] = {}
    for name, row in rows.items():
        if name.startswith("memory-"):
            world, model = name.rpartition(": ")[2].split(", ")
            found.setdefault(world.removesuffix("-v0"), {}).update({model: row["MMER"], "random": row["random"]})
    lines = [[world, *(str(cells.get(name, "")) for name in ("random", *NAMES))] for world, cells in found.items()]
    return table(["environment", "random", *NAMES.values()], lines)


if __name__ == "__main__":
    main()
