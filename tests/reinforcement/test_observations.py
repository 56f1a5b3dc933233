import numpy as np
import pytest

gymnasium = pytest.importorskip("gymnasium")

from gymnasium import spaces  # noqa: E402
from gymnasium.vector.utils import batch_space  # noqa: E402

from fairseq_plugins.errors import UserError  # noqa: E402
from fairseq_plugins.reinforcement.observations import layout, observations  # noqa: E402

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
    np.testing.assert_array_equal(seen.whole[:, layout(SPACE).sizes.index(5)] >= 0, True)


def test_text_cannot_be_embedded():
    with pytest.raises(UserError, match="Text cannot be embedded"):
        layout(spaces.Text(5))
