"""Numbers of other implementations, as far as the folder in GOLDENS (else this one) holds them.

A file NAME.npz belongs to the family whose name NAME begins with; its own `config` says what is computed.
"""

import os
from pathlib import Path

import active_memory
import adagrad
import adaptive_io
import algorithms
import all_attention
import feedback
import numpy as np
import pytest
import span_mask
import torch
import transformer_xl

FOLDER = Path(os.environ.get("GOLDENS") or Path(__file__).parent)
FAMILIES = {  # how the names of a family's files begin -> check(case, assert_close)
    "activemem_tasks": algorithms.check,
    "activemem_bi": active_memory.check,
    "activemem_uni": active_memory.check,
    "adagrad": adagrad.check,
    "adaptive_io": adaptive_io.check,
    "allattn": all_attention.check,
    "crosshead": transformer_xl.check_cross_head,
    "feedback": feedback.check,
    "ffn_span": all_attention.check,
    "sch": transformer_xl.check_skip_cross_head,
    "skip_retain_memory": transformer_xl.check_skip_retain,
    "span_mask": span_mask.check,
    "txl": transformer_xl.check,
}


def family(path: Path):
    return next((check for name, check in FAMILIES.items() if path.stem.startswith(name)), None)


def cases_in(folder: Path) -> list[Path]:
    """The files of all families. A folder without any is an error: it would pass as tests that were not run."""
    cases = sorted(filter(family, folder.glob("*.npz")))
    if not cases:
        names = ", ".join(f"{name}*.npz" for name in FAMILIES)
        pytest.fail(f"{folder} holds no fixture ({names}): correct the variable GOLDENS.", pytrace=False)
    return cases


def assert_close(name, ours, expected, gradient=False):
    """Values to 1e-8, gradients to 1e-7 relative to max(1, |gradient|); both in float64."""
    ours, expected = (torch.as_tensor(x).detach() for x in (ours, expected))
    assert ours.dtype == expected.dtype == torch.float64, name
    assert ours.shape == expected.shape, name
    allowed = 1e-7 * expected.abs().clamp(min=1) if gradient else 1e-8
    worst = (ours - expected).abs() / allowed
    assert (worst <= 1).all(), f"{name} is off by {worst.max():.3g} times what is allowed"


@pytest.mark.parametrize("path", cases_in(FOLDER), ids=lambda path: path.stem)
def test_golden(path):
    family(path)(np.load(path), assert_close)


@pytest.mark.parametrize("name", ["missing", "."])
def test_a_folder_without_fixtures_is_no_success(tmp_path, name):
    (tmp_path / "notes.npz").touch()
    with pytest.raises(pytest.fail.Exception, match="holds no fixture .*correct the variable GOLDENS"):
        cases_in(tmp_path / name)
