import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector.utils import batch_space

from fairseq_plugins.agents.actor import Actor, make_environments
from fairseq_plugins.agents.observations import Observer, layout
from fairseq_plugins.errors import UserError

SPACE = spaces.Dict(
    {
        "place": spaces.Discrete(5, start=2),
        "view": spaces.MultiDiscrete([[2, 3], [4, 5]]),
        "rest": spaces.Tuple([spaces.Box(-1, 1, (2, 2)), spaces.MultiBinary(3)]),
    }
)


def test_all_parts_are_found():
    sizes, numbers = layout(SPACE)
    assert sorted(sizes) == [2, 3, 4, 5, 5] and numbers == 7
    batch = batch_space(SPACE, 4).sample()
    seen = Observer(SPACE)(batch)
    assert seen.whole.shape == (4, 5) and seen.numbers.shape == (4, 7)
    assert (seen.whole < sizes).all() and (seen.whole >= 0).all()


def test_what_cannot_be_embedded():
    for space in spaces.Sequence(spaces.Discrete(2)), spaces.Dict(a=spaces.Graph(spaces.Discrete(2), None)):
        with pytest.raises(UserError, match="(Sequence|Graph) cannot be embedded"):
            layout(space)


def test_text_is_a_number_for_each_place():
    observe = Observer(spaces.Tuple([spaces.Text(4, charset="abc"), spaces.Discrete(2)]))
    assert observe.layout == ([5, 5, 5, 5, 2], 0)
    assert observe((("ca", "abcz"), [0, 1])).whole.tolist() == [[4, 2, 0, 0, 0], [2, 3, 4, 1, 1]]


def test_small_whole_numbers_are_symbols():
    view = spaces.Box(np.array([0, -3]), np.array([10, 28]), dtype=np.int64)
    assert Observer(view)(np.array([[10, -3]])).whole.tolist() == [[10, 0]] and layout(view) == ([11, 32], 0)
    assert layout(spaces.Box(0, 32, (2,), np.uint8)) == ([], 2)
    assert layout(spaces.Box(np.iinfo(np.int64).min, np.iinfo(np.int64).max, (2,), np.int64)) == ([], 2)


def test_missions_are_words_and_views_are_symbols():
    """Of MiniGrid, and of BabyAI, which does not declare its words."""
    pytest.importorskip("minigrid")
    for name, views in {"MiniGrid-Fetch-5x5-N2-v0": 3 * 49 + 1, "BabyAI-BossLevel-v0": 3 * 49 + 1}.items():
        actor = Actor(make_environments(f"minigrid:{name}", 4), seed=1)
        mission = actor.seen.whole[:, views:]
        assert actor.observe.layout.sizes[1:4] == [11, 6, 4] and not actor.observe.layout.numbers
        said = [env.unwrapped.mission for env in actor.environments.envs]
        assert ((mission > 0).sum(1) == [len(text.split()) for text in said]).all() and not (mission == 1).any()


def test_the_longest_mission_has_a_place():
    missions = pytest.importorskip("minigrid.core.mission")
    space = missions.MissionSpace(lambda what, how: f"get the {what}, {how}!", [["key", "red ball"], ["now", "soon"]])
    observe = Observer(space)
    assert layout(space) == ([9] * 5, 0)  # ball, get, key, now, red, soon, the
    assert (observe(("get the key, soon!",)).whole > 1).sum() == 4


@pytest.mark.parametrize(
    "space", [spaces.Discrete(10**12), spaces.MultiDiscrete([10**6, 2]), spaces.Box(0, 1, (1001, 1000))]
)
def test_too_many_values_are_refused(space):
    with pytest.raises(UserError, match=r"have \d+ values, .* 1000000 at most"):
        layout(space)


def test_numbers_with_bounds_are_scaled():
    image = spaces.Box(0, 255, (2, 2), np.uint8)
    seen = Observer(image)(np.array([[[0, 255], [51, 204]]], dtype=np.uint8))
    np.testing.assert_allclose(seen.numbers, [[-1, 1, -0.6, 0.6]])
    assert seen.numbers.dtype == np.float32


def test_numbers_without_bounds_stay():
    largest = np.finfo(np.float32).max
    mixed = spaces.Box(
        np.array([-4, -np.inf, 0, -largest, 3]), np.array([4, np.inf, np.inf, largest, 3]), dtype=np.float32
    )
    seen = Observer(mixed)(np.array([[2, 2, 2, 2, 3]], dtype=np.float32))
    assert seen.numbers.tolist() == [[0.5, 2, 2, 2, 3]]
    bits = Observer(spaces.MultiBinary(2))(np.array([[0, 1]], dtype=np.int8))
    assert bits.numbers.tolist() == [[0, 1]]
