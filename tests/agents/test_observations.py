import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector.utils import batch_space

from fairseq_plugins.agents.observations import layout, observations
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
    seen = observations(SPACE, batch)
    assert seen.whole.shape == (4, 5) and seen.numbers.shape == (4, 7)
    assert (seen.whole < sizes).all() and (seen.whole >= 0).all()


def test_text_cannot_be_embedded():
    with pytest.raises(UserError, match="Text cannot be embedded"):
        layout(spaces.Text(5))


@pytest.mark.parametrize(
    "space", [spaces.Discrete(10**12), spaces.MultiDiscrete([10**6, 2]), spaces.Box(0, 1, (1001, 1000))]
)
def test_too_many_values_are_refused(space):
    with pytest.raises(UserError, match=r"have \d+ values, .* 1000000 at most"):
        layout(space)


def test_numbers_with_bounds_are_scaled():
    image = spaces.Box(0, 255, (2, 2), np.uint8)
    seen = observations(image, np.array([[[0, 255], [51, 204]]], dtype=np.uint8))
    np.testing.assert_allclose(seen.numbers, [[-1, 1, -0.6, 0.6]])
    assert seen.numbers.dtype == np.float32


def test_numbers_without_bounds_stay():
    largest = np.finfo(np.float32).max
    mixed = spaces.Box(
        np.array([-4, -np.inf, 0, -largest, 3]), np.array([4, np.inf, np.inf, largest, 3]), dtype=np.float32
    )
    seen = observations(mixed, np.array([[2, 2, 2, 2, 3]], dtype=np.float32))
    assert seen.numbers.tolist() == [[0.5, 2, 2, 2, 3]]
    bits = observations(spaces.MultiBinary(2), np.array([[0, 1]], dtype=np.int8))
    assert bits.numbers.tolist() == [[0, 1]]
