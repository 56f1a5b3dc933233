from argparse import ArgumentTypeError

import pytest

from fairseq_plugins.files.reading import BEST, LAST, checkpoint


def test_a_folder_means_its_best_checkpoint_or_its_last(tmp_path):
    with pytest.raises(ArgumentTypeError, match="has none of checkpoint_best.pt, checkpoint_last.pt and model"):
        checkpoint(str(tmp_path))
    for name in (LAST, BEST):
        (tmp_path / name).touch()
        assert checkpoint(str(tmp_path)) == tmp_path / name
    assert checkpoint(str(tmp_path / "other.pt")) == tmp_path / "other.pt"
