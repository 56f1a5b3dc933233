"""Checkpoints of Transformer-XL: those of Dai et al.'s code are pickled modules, those of transformers are folders."""

from pathlib import Path

import pytest
import torch
from golden_files import Command
from xl_files import XLGolden

from fairseq_plugins.errors import UserError
from fairseq_plugins.tools.lib.load import load

GOLDENS = [
    "txl_post", "txl_pre", "txl_same_length", "txl_eval_lengths", "txl_adaptive_div1", "txl_adaptive_div2",
    "txl_clamp_proj",
]  # fmt: skip


@pytest.fixture
def convert_module(converted, tmp_path, monkeypatch):
    """convert_module(golden, ...) saves it as Dai et al.'s code does; the folder of the converted model."""

    def run(golden, **options):
        checkpoint = golden.save_module(tmp_path, monkeypatch, **options)
        return converted(checkpoint, "--from", "transformer-xl", "--vocabulary", golden.list_symbols(tmp_path))

    return run


@pytest.fixture
def convert_folder(converted, tmp_path):
    """convert_folder(golden, ...) saves it as transformers does, with changes of config.json."""

    def run(golden, **config):
        checkpoint = golden.save_folder(tmp_path, **config)
        return converted(checkpoint, "--from", "transformers", "--vocabulary", golden.list_symbols(tmp_path))

    return run


def compare(golden, folder, **settings):
    """Parameters are saved in float32, so log-probabilities agree as well as that."""
    model, *_ = load(folder / "checkpoint_best.pt", {"data": str(folder), **settings}, cpu=True)
    golden.compare(model, 1e-5)
    return model


# What the models say


@pytest.mark.parametrize("legacy", [False, True])
@pytest.mark.parametrize("name", GOLDENS)
def test_a_pickled_module_says_what_the_public_code_says(name, legacy, convert_module):
    golden = XLGolden(name)
    model = compare(golden, convert_module(golden, legacy=legacy))
    assert model.memory_length == golden.config["mem_len"]


@pytest.mark.parametrize("name", [*GOLDENS, "txl_untied_biases"])
def test_a_folder_of_transformers_says_the_same_from_an_empty_memory(name, convert_folder):
    """The library starts from zeros, which it attends to. That is an option."""
    golden = XLGolden(name)
    folder = convert_folder(golden)
    assert load(folder / "checkpoint_best.pt", {"data": str(folder)}, cpu=True)[1].model.initial_memory == "zeros"
    compare(golden, folder, initial_memory="empty")


def test_half_precision_is_told(convert_module, capsys):
    convert_module(XLGolden("txl_post"), change=lambda model, code: model.half())
    assert "note: the model is in half precision" in capsys.readouterr().out


# No code of a file is run


@pytest.mark.parametrize("legacy", [False, True])
@pytest.mark.parametrize("deep", [False, True])
def test_no_code_of_a_pickled_module_is_run(deep, legacy, convert_module, tmp_path):
    """Its classes are let through, but nothing that they hold."""

    def change(model, code):
        place = model.word_emb if deep else model
        place.sampler = Command(tmp_path / "ran")

    with pytest.raises(UserError, match="holds a posix.system, which a checkpoint of transformer-xl does not save"):
        convert_module(XLGolden("txl_post"), legacy=legacy, change=change)
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("legacy", [False, True])
def test_other_classes_are_refused(legacy, convert_module):
    def change(model, code):
        model.add_module("more", code.NewLayer())

    with pytest.raises(UserError, match="holds a mem_transformer.NewLayer, which a checkpoint of transformer-xl"):
        convert_module(XLGolden("txl_post"), legacy=legacy, change=change)


# What is refused


@pytest.mark.parametrize(
    "name, change, words",
    [
        ("txl_post", lambda model, code: setattr(model, "attn_type", 2), "trained with --attn_type or --sample_soft"),
        ("txl_post", lambda model, code: setattr(model, "sample_softmax", 5), "trained with --attn_type or --sample"),
        ("txl_post", lambda model, code: setattr(model, "mem_len", "long"), "MemTransformerLM has mem_len 'long'"),
        ("txl_post", lambda model, code: model.layers._modules.pop("0"), "does not have the shapes"),
        ("txl_post", lambda model, code: model.r_w_bias.data.mul_(float("nan")), "weights that are not numbers"),
        ("txl_clamp_proj", lambda model, code: model.word_emb.emb_layers._modules["0"].weight.data.add_(1), "projects"),
    ],
)
def test_modules_that_cannot_be_converted_are_refused(name, change, words, convert_module):
    golden = XLGolden(name)
    golden.state = {name: tensor.clone() for name, tensor in golden.state.items()}  # the tied tables are two
    with pytest.raises(UserError, match=words):
        convert_module(golden, change=change)


@pytest.mark.parametrize(
    "config, words",
    [
        ({"attn_type": 1}, "only models with 0 and 1e-05 can be converted"),
        ({"layer_norm_epsilon": 0.1}, "has attn_type 0 and layer_norm_epsilon 0.1"),
        ({"model_type": "gpt2"}, "is not the configuration of a TransfoXL model"),
        ({"mem_len": "long"}, "has mem_len 'long', which does not fit"),
        ({"tie_projs": [False, False, True], "div_val": 2}, "are one parameter in transformers, but they differ"),
    ],
)
def test_configurations_that_do_not_fit_are_refused(config, words, convert_folder):
    golden = XLGolden("txl_adaptive_div2")
    golden.state["crit.out_projs.2"] = golden.state["crit.out_projs.2"] + 1
    with pytest.raises(UserError, match=words):
        convert_folder(golden, **config)


def test_copies_that_a_file_lacks_are_made(convert_folder):
    """safe_serialization=False of later versions, and others' files, have tied parameters once."""
    golden = XLGolden("txl_adaptive_div2")
    for name in ("crit.out_layers.1.weight", "crit.out_projs.2"):
        del golden.state[name]
    compare(golden, convert_folder(golden), initial_memory="empty")


def test_what_is_no_folder_of_transformers_is_refused(converted, tmp_path):
    golden = XLGolden("txl_post")
    folder, symbols = golden.save_folder(tmp_path), golden.list_symbols(tmp_path)

    def refused(words, path: Path = folder):
        with pytest.raises(UserError, match=words):
            converted(path, "--from", "transformers", "--vocabulary", symbols)

    refused("is no vocab.bin|config.json cannot be read", (folder / "pytorch_model.bin").rename(tmp_path / "moved.bin"))
    refused("pytorch_model.bin does not exist")
    (folder / "model.safetensors").write_bytes(b"")
    refused(r"save_pretrained\(folder, safe_serialization=False\)")
    refused(r"save_pretrained\(folder, safe_serialization=False\)", folder / "model.safetensors")


def test_the_vocabulary_of_transformers_is_read(converted, tmp_path):
    golden = XLGolden("txl_post")
    folder = golden.save_folder(tmp_path)
    torch.save({"idx2sym": golden.symbols, "lower_case": False}, folder / "vocab.bin")
    made = converted(folder, "--from", "transformers", "--vocabulary", folder / "vocab.bin")
    assert (made / "dict.txt").read_text().split("\n")[:2] == ["the 1", "w0 1"]
