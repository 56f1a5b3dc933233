"""Products of few rows by functions in C, and what happens without a compiler."""

import logging

import pytest
import torch
from torch import nn

from fairseq_plugins.modules.common import compiled, few_rows


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """A folder without libraries."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    compiled.library.cache_clear()
    yield tmp_path / "fairseq_plugins"
    compiled.library.cache_clear()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("inputs, outputs", [(256, 128), (131, 253), (3, 20001)])
def test_products_are_those_of_torch(dtype, bias, inputs, outputs):
    torch.manual_seed(1)
    layer = nn.Linear(inputs, outputs, bias, dtype=dtype)
    with torch.no_grad():
        for rows in (1, 2, 3, 4, 5, 7, 8, 17, 31):
            x = torch.randn(rows, inputs, dtype=dtype)
            assert few_rows.computes(layer, x)
            torch.testing.assert_close(few_rows.linear(layer, x), layer(x))
        x = torch.randn(inputs, 5, 2, dtype=dtype).permute(1, 2, 0)
        torch.testing.assert_close(few_rows.linear(layer, x), layer(x))


def test_gradients_are_those_of_torch():
    layer, x = nn.Linear(256, 256), torch.randn(2, 256)
    few_rows.linear(layer, x).sum().backward()
    assert layer.weight.grad is not None


def test_layers_with_hooks_and_transformed_inputs_are_those_of_torch():
    layer, x, seen = nn.Linear(256, 256), torch.randn(2, 256), []
    with torch.no_grad():
        torch.testing.assert_close(torch.vmap(lambda row: few_rows.linear(layer, row))(x), layer(x))
        with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
            few_rows.linear(layer, torch.randn(2, 512))
        layer.register_forward_hook(lambda *_: seen.append(1))
        few_rows.linear(layer, x)
    assert seen


def test_a_damaged_library_is_compiled_again(cache):
    assert compiled.library(few_rows.SOURCE, torch.float32)
    (library,) = cache.iterdir()
    library.unlink()
    library.touch()
    compiled.library.cache_clear()
    assert compiled.library(few_rows.SOURCE, torch.float32)


def test_a_library_is_compiled_once(cache, monkeypatch):
    assert compiled.library(few_rows.SOURCE, torch.float32)
    (library,) = cache.iterdir()
    compiled.library.cache_clear()
    monkeypatch.setattr(compiled, "build", None)
    assert compiled.library(few_rows.SOURCE, torch.float32)._name == str(library)


def fails(tmp_path):
    compiler = tmp_path / "cc"
    compiler.write_text("#!/bin/sh\necho out of order >&2\nexit 1\n")
    compiler.chmod(0o755)
    return {"CC": str(compiler)}


def no_folder(tmp_path):
    (tmp_path / "file").touch()
    return {"XDG_CACHE_HOME": str(tmp_path / "file")}


@pytest.mark.parametrize(
    "fault", [lambda path: {"CC": "none"}, fails, no_folder], ids=["no compiler", "fails", "no folder"]
)
def test_without_a_library_torch_computes_the_product(fault, cache, tmp_path, monkeypatch, caplog):
    caplog.set_level(logging.INFO)
    for name, value in fault(tmp_path).items():
        monkeypatch.setenv(name, value)
    layer, x = nn.Linear(256, 256), torch.randn(2, 256)
    with torch.no_grad():
        assert torch.equal(few_rows.linear(layer, x), layer(x))
    assert compiled.library(few_rows.SOURCE, torch.float32) is None
    assert not cache.exists() or not list(cache.iterdir())
    assert fault is not fails or "decoding goes on without few_rows.c: out of order" in caplog.text
