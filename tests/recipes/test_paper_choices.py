"""What paper.json says beside options and their values: choices that no flag changes, and slips of the papers."""

import json
from pathlib import Path

import numpy as np
import pytest
from paper_settings import SOURCE

pytest.importorskip("gymnasium")

import gymnasium  # noqa: E402
from fairseq.models import MODEL_REGISTRY  # noqa: E402

import fairseq_plugins.environments  # noqa: E402, F401

RECIPES = Path(__file__).resolve().parents[2] / "recipes"


def world():
    environments = gymnasium.make_vec("fairseq_plugins/MazeNavigation-v0", num_envs=40)
    environments.reset(seed=1)
    return environments.world


def test_agents_are_pre_norm():
    feedback, transformer = (
        model.build_body(getattr(model, "__dataclass")())
        for model in (MODEL_REGISTRY["feedback_agent"], MODEL_REGISTRY["span_transformer_agent"])
    )
    assert all(layer.config.pre_norm for layer in feedback.stack.layers)
    assert all(layer.pre_norm for layer in transformer.layers)


def test_the_view_turns():
    maze = world()
    before = maze.observe()[:, :9].reshape(-1, 3, 3)
    maze.direction = (maze.direction + 1) % 4
    np.testing.assert_array_equal(maze.observe()[:, :9].reshape(-1, 3, 3), np.rot90(before, axes=(1, 2)))


def test_the_first_heading_is_any():
    assert {*world().direction.tolist()} == {0, 1, 2, 3}


HELD = {
    "layers are normalised before their sublayers, as those of section 7.6": test_agents_are_pre_norm,
    "what an agent sees turns with it": test_the_view_turns,
    "it first faces any of the four sides": test_the_first_heading_is_any,
}


def test_table_3_has_its_changes_and_one_without_a_minus_sign():
    table = json.loads((RECIPES / "skip_cross_head/paper.json").read_text())["published"]["Table 3"]
    for layer in range(1, 9):
        before, after = (table[f"layer {layer}, {model}"]["stddev"] for model in ("plain", "cross-head"))
        printed = table[f"layer {layer}, cross-head"]["change"]
        if layer == 7:
            number, _, note = printed.partition(", ")
            assert note == "printed without its minus sign"
            printed = -float(number)
        assert printed == pytest.approx(100 * (after / before - 1), abs=0.4)


def test_every_choice_has_a_source_and_a_test():
    found = []
    for paper in RECIPES.glob("*/paper.json"):
        for sources in json.loads(paper.read_text(encoding="utf-8")).get("choices", {}).values():
            assert all(map(SOURCE.fullmatch, sources))
            found += [choice for choices in sources.values() for choice in choices]
    assert sorted(found) == sorted(HELD)
