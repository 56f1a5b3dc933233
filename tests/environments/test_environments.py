import numpy as np
import pytest

gymnasium = pytest.importorskip("gymnasium")

from gymnasium.utils.env_checker import check_env  # noqa: E402

import fairseq_plugins.environments  # noqa: E402, F401
from fairseq_plugins.environments import kruskal  # noqa: E402
from fairseq_plugins.environments.distances import FAR  # noqa: E402

NAMES = ["Corridor-v0", "MazeNavigation-v0", "MazeNavigationEasy-v0", "WaterMaze-v0"]
pytestmark = pytest.mark.filterwarnings("ignore:.*not within the observation space")


def make(name, **settings):
    return gymnasium.make(f"fairseq_plugins/{name}", **settings)


def make_vec(name, copies, **settings):
    return gymnasium.make_vec(f"fairseq_plugins/{name}", copies, **settings)


def total_reward(name, copies, agent, seed=1, **settings):
    """The mean reward of ``copies`` episodes of an agent, a function from the world to actions."""
    environment = make_vec(name, copies, **settings)
    environment.reset(seed=seed)
    world, total, running = environment.world, np.zeros(copies), np.ones(copies, dtype=bool)
    while running.any():
        _, reward, terminated, truncated, _ = environment.step(agent(world))
        total += reward * running
        running &= ~(terminated | truncated)
    return total.mean()


def oracle(world):
    return world.best_actions()


def random_agent(world):
    return world.draws[0].integers(world.action_space.n, size=world.copies)


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


@pytest.mark.parametrize("size", [3, 9, 15])
def test_mazes_are_connected_and_have_no_dead_ends(size):
    for seed in range(50):
        draw = np.random.default_rng(seed)
        tree = kruskal.spanning_tree(size, draw)
        rooms = (size // 2 + 1) ** 2
        assert tree.sum() == 2 * rooms - 1  # rooms, and the passages of a spanning tree
        assert kruskal.dead_ends(tree)
        kruskal.remove_dead_ends(tree, draw)
        assert not kruskal.dead_ends(tree)
        world = make("MazeNavigationEasy-v0", size=size, objects=2).unwrapped.world
        world.cells[0, 1:-1, 1:-1] = tree
        assert (world.search(0, (0, 0)) < FAR)[tree].all()


def test_every_object_can_be_reached():
    world = make_vec("MazeNavigation-v0", 20).world
    world.reset(np.arange(20))
    for copy in range(20):
        for place in world.places[copy]:
            assert (world.search(copy, tuple(place)).min(-1)[world.free(copy)] < FAR).all()


def test_the_best_agent_takes_a_shortest_way():
    environment = make_vec("MazeNavigation-v0", 20)
    environment.reset(seed=1)
    world = environment.world
    states = [(*world.place[copy], world.direction[copy]) for copy in range(20)]
    expected = [world.way(copy)[state] for copy, state in enumerate(states)]
    reached = np.full(20, -1)
    for step in range(1, 200):
        _, rewards, *_ = environment.step(world.best_actions())
        reached = np.where((reached < 0) & (rewards > 0), step, reached)
    np.testing.assert_array_equal(reached, expected)


@pytest.mark.parametrize(
    "name, least", [("Corridor-v0", 0), ("MazeNavigation-v0", 1), ("MazeNavigationEasy-v0", 2), ("WaterMaze-v0", 0)]
)
def test_the_best_and_the_random_agent(name, least):
    best, worst = total_reward(name, 20, oracle), total_reward(name, 20, random_agent)
    assert best > 2 * worst + 0.5 and worst >= least / 10


def test_the_view_turns_with_the_agent():
    world = make("MazeNavigation-v0").unwrapped.world
    world.reset(np.array([0]))
    world.cells[0] = 0
    world.cells[0, 1:4, 1:4] = np.arange(9).reshape(3, 3)
    world.place[0], world.direction[0] = (1, 1), 0
    assert world.observe()[0, :9].tolist() == [0, 1, 2, 3, 4, 5, 6, 7, 8]
    world.direction[0] = 1  # it faces right, where the column 2, 5, 8 is
    assert world.observe()[0, :9].tolist() == [2, 5, 8, 1, 4, 7, 0, 3, 6]


def test_water_maze_shows_the_goal_when_it_is_near():
    world = make("WaterMaze-v0").unwrapped.world
    world.reset(np.array([0]))
    world.goal[0] = 5, 5
    for place, seen in (((4, 4), 8), ((5, 4), 5), ((6, 6), 0), ((5, 7), 9)):
        world.place[0] = place
        assert world.observe()[0].tolist() == [world.ids[0][place], world.ids[0][5, 5], seen]


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


@pytest.mark.parametrize("name, settings", [("MazeNavigation-v0", {"size": 8}), ("MazeNavigation-v0", {"objects": 9}),
                                            ("WaterMaze-v0", {"size": 1}), ("Corridor-v0", {"length": 1})])  # fmt: skip
def test_wrong_settings_are_refused(name, settings):
    with pytest.raises(ValueError, match=f"{next(iter(settings))} {next(iter(settings.values()))} is"):
        make(name, **settings)
