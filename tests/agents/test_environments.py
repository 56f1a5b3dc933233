import re

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

import fairseq_plugins.agents.environments  # noqa: F401
from fairseq_plugins.agents.environments import kruskal
from fairseq_plugins.agents.environments.maze_navigation import FAR

NAMES = ["Corridor-v0", "MazeNavigation-v0", "MazeNavigationEasy-v0", "WaterMaze-v0", "WaterMaze-v1"]
pytestmark = pytest.mark.filterwarnings("ignore:.*not within the observation space")


def make(name, **settings):
    return gymnasium.make(f"fairseq_plugins/{name}", **settings)


def make_vec(name, copies, **settings):
    return gymnasium.make_vec(f"fairseq_plugins/{name}", copies, **settings)


@pytest.mark.parametrize("name", NAMES)
def test_gymnasium_accepts_the_environment(name):
    for mode in ("rgb_array", "ansi"):
        check_env(make(name, render_mode=mode).unwrapped)


@pytest.mark.parametrize("name", NAMES)
def test_copies_equal_single_environments(name):
    copies, draw = 3, np.random.default_rng(1)
    many, singles = make_vec(name, copies), [make(name) for _ in range(copies)]
    seen, _ = many.reset(seed=5)
    np.testing.assert_array_equal(seen, [single.reset(seed=5 + i)[0] for i, single in enumerate(singles)])
    for _ in range(1000):
        actions = draw.integers(many.single_action_space.n, size=copies)
        seen, rewards, terminated, truncated, _ = many.step(actions)
        for i, single in enumerate(singles):
            observation, *rest, _ = single.step(actions[i])
            assert rest == [rewards[i], terminated[i], truncated[i]]
            if terminated[i] or truncated[i]:
                observation, _ = single.reset()
            np.testing.assert_array_equal(seen[i], observation)


@pytest.mark.parametrize("name", NAMES)
def test_a_state_is_everything(name):
    environment = make_vec(name, 4)
    environment.reset(seed=1)
    state = environment.world.state()
    actions = np.random.default_rng(1).integers(environment.single_action_space.n, size=(300, 4))
    once = [environment.step(action)[:2] for action in actions]
    environment.world.restore(state)
    for (seen, rewards), action in zip(once, actions):
        again = environment.step(action)
        np.testing.assert_array_equal(seen, again[0])
        np.testing.assert_array_equal(rewards, again[1])


def neighbours(free):
    """The number of free cells beside each cell of a maze."""
    padded = np.pad(free, 1).astype(int)
    return padded[:-2, 1:-1] + padded[2:, 1:-1] + padded[1:-1, :-2] + padded[1:-1, 2:]


@pytest.mark.parametrize("size", [3, 9, 15])
def test_mazes_are_connected_and_have_no_dead_ends(size):
    world = make("MazeNavigationEasy-v0", size=size, objects=2).unwrapped.world
    for seed in range(50):
        draw = np.random.default_rng(seed)
        tree = kruskal.spanning_tree(size, draw)
        rooms = (size // 2 + 1) ** 2
        assert tree.sum() == 2 * rooms - 1  # rooms, and the passages of a spanning tree
        assert (neighbours(tree)[tree] == 1).any()
        world.cells[0, 1:-1, 1:-1] = tree
        assert (world.search(0, (0, 0)).reshape(size, size) < FAR)[tree].all()
        kruskal.remove_dead_ends(tree, draw)
        assert (neighbours(tree)[tree] > 1).all()


@pytest.mark.parametrize("name", ["MazeNavigation-v0", "MazeNavigationEasy-v0"])
def test_the_best_agent_takes_a_shortest_way(name):
    environment = make_vec(name, 20)
    environment.reset(seed=1)
    world = environment.world
    expected = [world.way(copy)[number] for copy, number in enumerate(world.number(world.place, world.direction))]
    reached = np.full(20, -1)
    for step in range(1, 200):
        _, rewards, *_ = environment.step(world.best_actions())
        reached = np.where((reached < 0) & (rewards > 0), step, reached)
    np.testing.assert_array_equal(reached, expected)


@pytest.mark.parametrize("name, least", [("Corridor-v0", 20), ("MazeNavigationEasy-v0", 300), ("WaterMaze-v1", 200)])
def test_the_best_agent_is_rewarded(name, least):
    """Of 20 copies, in 300 steps."""
    environment = make_vec(name, 20)
    environment.reset(seed=1)
    assert sum(environment.step(environment.world.best_actions())[1].sum() for _ in range(300)) >= least


def test_the_view_turns_with_the_agent():
    world = make("MazeNavigation-v0").unwrapped.world
    world.reset(np.array([0]))
    world.cells[0] = 0
    world.cells[0, 1:4, 1:4] = np.arange(9).reshape(3, 3)
    world.place[0], world.direction[0] = (1, 1), 0
    assert world.observe()[0, :9].tolist() == [0, 1, 2, 3, 4, 5, 6, 7, 8]
    world.step([2])  # it turns right, where the column 2, 5, 8 is
    assert world.observe()[0, :9].tolist() == [2, 5, 8, 1, 4, 7, 0, 3, 6]
    world.step([0])
    assert world.place.tolist() == [[1, 2]]
    world.step([1])  # back to the left
    assert world.direction.tolist() == [0]


def test_walls_stop_an_agent_that_goes_up_right_down_or_left():
    world = make("MazeNavigationEasy-v0").unwrapped.world
    world.reset(np.array([0]))
    world.cells[0, 1:-1, 1:-1] = np.indices((9, 9)).sum(0) < 3  # free in one corner
    world.place[0] = 0, 0
    places = [world.step([action]) and world.place[0].tolist() for action in (1, 2, 1, 1, 3, 0, 0)]
    assert places == [[0, 1], [1, 1], [1, 1], [1, 1], [1, 0], [0, 0], [0, 0]]


PLACES = [(4, 4), (5, 4), (6, 6), (5, 7)]  # the last is not within 3 x 3 of (5, 5)


@pytest.mark.parametrize("name, settings, seen", [
    ("WaterMaze-v1", {}, [1, 1, 1, 0]),
    ("WaterMaze-v1", {"view": "where"}, [8, 5, 0, 9]),
    ("WaterMaze-v0", {}, [8, 5, 0, 9]),
])  # fmt: skip
def test_water_maze_shows_the_goal_when_it_is_near(name, settings, seen):
    environment = make(name, **settings)
    world = environment.unwrapped.world
    world.reset(np.array([0]))
    world.goal[0] = 5, 5
    for place, value in zip(PLACES, seen):
        world.place[0] = place
        assert world.observe()[0].tolist() == [world.ids[0][place], world.ids[0][5, 5], value]
    assert environment.observation_space.nvec[2] == {1: 2, 9: 10}[max(seen)]


def test_the_corridor_shows_the_colour_at_its_start_only():
    environment = make("Corridor-v0", length=5)
    seen, _ = environment.reset(seed=1)
    colour = seen[0]
    assert colour in (1, 2) and not seen[1:].any()
    for _ in range(4):
        seen, *_ = environment.step(0)
        assert seen[0] == 0
    assert sorted(seen[1:]) == [1, 2]
    _, reward, terminated, truncated, _ = environment.step(1 if seen[1] == colour else 2)
    assert (reward, terminated, truncated) == (1, True, False)


@pytest.mark.parametrize("name, settings", [
    ("MazeNavigation-v0", {"size": 8}), ("MazeNavigation-v0", {"size": 1}), ("MazeNavigation-v0", {"objects": 9}),
    ("WaterMaze-v1", {"size": 1}), ("WaterMaze-v1", {"view": "here"}), ("WaterMaze-v1", {"view": {}}),
    ("WaterMaze-v1", {"max_steps": 0}), ("Corridor-v0", {"max_steps": 0}),
    *(("Corridor-v0", {"length": value}) for value in ("8", -1, 1, 5.5, True, None, [5], 10**10)),
])  # fmt: skip
def test_wrong_settings_are_refused(name, settings):
    ((setting, value),) = settings.items()
    with pytest.raises(ValueError, match=rf"^{setting} {re.escape(repr(value))} is "):
        make(name, **settings)


@pytest.mark.parametrize("copies", [0, "3", 2.0])
def test_the_number_of_copies_is_a_whole_number(copies):
    with pytest.raises(ValueError, match="num_envs .* is not a whole number from 1"):
        make_vec("Corridor-v0", copies)


def test_gymnasiums_limit_of_steps():
    """It counts if the environment's own is not reached before."""
    for limit, settings, expected in [(10, {}, 10), (300, {}, 200), (10, {"max_steps": 5}, 5)]:
        single = make("MazeNavigation-v0", max_episode_steps=limit, **settings)
        many = make_vec("MazeNavigation-v0", 2, max_episode_steps=limit, **settings)
        single.reset(seed=1)
        many.reset(seed=1)
        for step in range(1, expected + 1):
            *_, truncated, _ = single.step(1)
            *_, all_truncated, _ = many.step([1, 1])
            assert truncated == all_truncated.all() == all_truncated.any() == (step == expected)
    with pytest.raises(ValueError, match="max_episode_steps 0 is not"):
        make_vec("MazeNavigation-v0", 2, max_episode_steps=0)


def pair_of_vectors(copies, **settings):
    """Ours, and the single environments in gymnasium's."""
    mode = {"autoreset_mode": gymnasium.vector.AutoresetMode.SAME_STEP}
    return make_vec("Corridor-v0", copies, **settings), make_vec(
        "Corridor-v0", copies, vectorization_mode="sync", vector_kwargs=mode, **settings
    )


def same(ours, theirs):
    if isinstance(theirs, dict):
        assert ours.keys() == theirs.keys()
        return all(same(ours[name], theirs[name]) for name in theirs)
    if isinstance(theirs, np.ndarray):
        assert ours.dtype == theirs.dtype and ours.shape == theirs.shape
        return all(same(a, b) for a, b in zip(ours, theirs)) if theirs.dtype == object else (ours == theirs).all()
    return ours is theirs is None or ours == theirs


def test_many_copies_return_what_gymnasiums_do():
    ours, theirs = pair_of_vectors(4, length=3, max_steps=6)
    ended = 0
    for seed in (5, [1, 2, 3, 4], [7, None, None, 8], None, [None] * 4):
        assert all(map(same, ours.reset(seed=seed), theirs.reset(seed=seed)))
        for actions in np.random.default_rng(1).integers(3, size=(40, 4)):
            found, expected = ours.step(actions), theirs.step(actions)
            assert all(map(same, found, expected))
            ended += "final_obs" in expected[-1]
    assert ended > 20


def test_some_copies_are_reset():
    ours, theirs = pair_of_vectors(3, length=5)
    mask = np.array([False, True, True])
    for environment in (ours, theirs):
        environment.reset(seed=1)
        environment.step([0, 0, 0])
    for seed in (None, 4, [1, 2, None]):
        options = {"reset_mask": mask}
        found, expected = (environment.reset(seed=seed, options=dict(options)) for environment in (ours, theirs))
        assert all(map(same, found, expected))
        assert all(map(same, ours.step([0, 0, 0]), theirs.step([0, 0, 0])))
    for wrong in (mask[:2], mask.astype(int), ~mask & mask, [True, False]):
        with pytest.raises(ValueError, match="reset_mask .* is not 3 truth values"):
            ours.reset(options={"reset_mask": wrong})


def test_seeds():
    environment = make_vec("WaterMaze-v1", 3)
    expected, _ = environment.reset(seed=4)
    for seed in (np.int64(4), np.arange(4, 7)):
        np.testing.assert_array_equal(environment.reset(seed=seed)[0], expected)
    with pytest.raises(ValueError, match="2 seeds were given for 3 environments"):
        environment.reset(seed=[1, 2])


@pytest.mark.parametrize("actions", [[0, 3], [-1, 0], [0.0, 1.0], [0], [[0, 0]], 0, ["0", "1"], [True, False]])
def test_wrong_actions_are_refused(actions):
    environment = make_vec("Corridor-v0", 2)
    environment.reset(seed=1)
    with pytest.raises(ValueError, match="are not 2 whole numbers from 0 to 2"):
        environment.step(actions)


def test_a_step_before_the_first_reset_is_refused():
    environments = make_vec("WaterMaze-v1", 2)
    environments.reset(seed=1, options={"reset_mask": np.array([True, False])})
    with pytest.raises(gymnasium.error.ResetNeeded, match="call reset"):
        environments.step(np.zeros(2, dtype=int))
