"""A converted model says what the repository's own code says, and a file that is not what it should be gives a
sentence."""

import os
import pickle
import subprocess
import sys
from argparse import Namespace
from pathlib import Path

import pytest
import torch
from fairseq.data import Dictionary
from golden_files import Command, Golden, nll

from fairseq_plugins.conversion import writing
from fairseq_plugins.conversion.placing import placed, places
from fairseq_plugins.conversion.sources import source
from fairseq_plugins.errors import UserError
from fairseq_plugins.models import feedback_lm
from fairseq_plugins.text.levels import Bytes, Characters, Words
from fairseq_plugins.text.prepared import PreparedText
from fairseq_plugins.tools import convert
from fairseq_plugins.tools.lib.load import load

ROOT = Path(__file__).resolve().parents[2]

# Streams that start from zeros, as those of a checkpoint do
GOLDENS = [
    "ffn_span", "allattn", "allattn_span", "allattn_span_trim_cache", "allattn_adaptive_io_tied", "feedback_post",
    "feedback_post_sharekv", "feedback_post_span", "feedback_pre", "feedback_pre_sharekv", "feedback_pre_sharekv_span",
    "feedback_pre_span_trim", "feedback_pre_sharekv_span_trim",
]  # fmt: skip


@pytest.fixture
def convert_golden(converted, tmp_path):
    """convert_golden(golden, ...): the folder of the model, with these options too."""

    def run(golden, *options, legacy=False):
        checkpoint, vocabulary = golden.save(tmp_path, legacy)
        ramp = ["--span-ramp", golden.ramp] if golden.ramp else []
        return converted(checkpoint, "--from", golden.source, "--vocabulary", vocabulary, *ramp, *options)

    return run


# What the models say


@pytest.mark.parametrize("name", GOLDENS)
def test_a_model_says_what_the_public_code_says(name, tmp_path):
    """In float64."""
    golden = Golden(name)
    found = source(golden.source).convert({"model": golden.state}, Namespace(span_ramp=golden.ramp))
    (tmp_path / "dict.txt").write_text("".join(f"{symbol} 1\n" for symbol in places(golden.symbols).symbols))
    found = placed(found, golden.symbols)
    model = writing.build([*writing.TASK, "--arch", found.arch, *writing.flags_of(found.options)], tmp_path)[1]
    writing.fill(model.double(), found.state)
    golden.compare(model.eval(), 1e-10, 1e-5)


# What the folder holds


@pytest.mark.parametrize("legacy", [False, True])
def test_a_folder_is_all_that_from_pretrained_needs(convert_golden, legacy, capsys):
    golden = Golden("feedback_pre_sharekv_span")
    folder = convert_golden(golden, "--tokens-per-sample", 4, legacy=legacy)
    assert "normalised twice" in capsys.readouterr().out
    hub = feedback_lm.FeedbackLanguageModel.from_pretrained(folder)
    eos = torch.tensor([hub.task.source_dictionary.eos()])
    tokens = places(golden.symbols).rows[golden.blocks()[0][1]][0]
    tokens = tokens[tokens != eos]  # drawn at random; the text that it stands for has no ends of lines
    text = hub.decode(tokens)
    assert torch.equal(hub.encode(text)[: len(tokens)], tokens)
    expected = nll(hub.models[0], torch.cat([eos, tokens[:-1]])[None], tokens[None], block=4)
    assert torch.allclose(hub.score(text)["positional_scores"], -expected[0])
    assert hub.sample("the", length=5, seed=1).startswith("the")


def test_gradients_of_a_model_are_finite_and_leave_missing_symbols_alone(convert_golden):
    """Also in half precision, which holds their bias."""
    golden = Golden("allattn_adaptive_io_tied")
    folder = convert_golden(golden)
    model, *_ = load(folder / "checkpoint_best.pt", {"data": str(folder)}, cpu=True)
    tokens = places(golden.symbols).rows[golden.blocks()[0][0]]
    for trained in (model.train(), model.bfloat16(), model.half()):
        trained.zero_grad()
        trained.token_nll(trained(tokens), tokens).sum().backward()
        assert all(parameter.grad.isfinite().all() for parameter in trained.parameters() if parameter.grad is not None)
        assert trained.decoder.output.biases[0].grad[:2].eq(0).all()
        assert trained.decoder.output.biases[0][:2].lt(-9000).all()


@pytest.mark.parametrize(
    "symbols, level",
    [(["116", "<eos>", "32"], Bytes()), (["a", "_", "<eos>"], Characters("_")), (["the", "<unk>", "7"], Words())],
)
def test_raw_text_becomes_the_symbols_of_the_vocabulary(symbols, level):
    assert writing.prepared_text(symbols).level == level


def test_symbols_that_fairseq_would_misread_are_spelled_as_the_commands_say(converted, tmp_path, capfd):
    golden = Golden("ffn_span")
    checkpoint, vocabulary = golden.save(tmp_path)
    symbols = ["the@@", "</s>", *"abcdefghij", "<eos>"]
    vocabulary.write_text("".join(f"{symbol}\n" for symbol in symbols))
    folder = converted(checkpoint, "--from", "adaptive-span", "--vocabulary", vocabulary)
    told = capfd.readouterr().out
    (tmp_path / "test.txt").write_text("the@@ a </s> b\n")
    spell = told[told.index("python -c") : told.index("# binarise")]
    subprocess.run(["bash", "-c", spell], cwd=tmp_path, check=True, env={**os.environ, "PYTHONPATH": str(ROOT)})
    known = Dictionary.load(str(folder / "dict.txt"))
    written = (tmp_path / "test.symbols").read_text().split()
    assert [known.index(each) for each in written] == [4, 6, 5, 7] and "--testpref test.symbols" in told


def test_bytes_of_enwik8_come_and_go(converted, tmp_path):
    golden = Golden("ffn_span")
    checkpoint, vocabulary = golden.save(tmp_path)
    vocabulary.write_text("".join(f"{number}\n" for number in [*range(97, 109), "<eos>"]))
    folder = converted(checkpoint, "--from", "adaptive-span", "--vocabulary", vocabulary)
    assert PreparedText.load(folder).encode("abc") == "97 98 99"
    assert (folder / "dict.txt").read_text().split("\n")[:2] == ["97 1", "98 1"]


# What is refused


def changed(name, change):
    """A change of a state dict: one of its tensors becomes another."""

    def make(state):
        state[f"module.{name}"] = change(state[f"module.{name}"].clone())

    return make


def without_mixture(state):
    """Else it would be a Transformer with the same layers."""
    state["module.single_memory_attn_buf"] = state.pop("module.single_memory_attn_params")


def lowest_of_three_layers(state):
    """Keys and values are shared by the two others."""
    state |= {name.replace(".1.", ".2."): tensor for name, tensor in state.items() if ".layers.1." in name}
    state["module.single_memory_attn_params"] = torch.zeros(1, 4)
    for name in ("key", "val"):
        changed(f"layers.0.attn.proj_{name}.weight", lambda x: x + 1)(state)


SPAN_OF_MEMORY = "layers.1.attn.attn.persistent_memory.adaptive_span._mask.current_val"
TEMPLATE = "layers.0.attn.attn.adaptive_span._mask.mask_template"
NORM, KEY = "layers.1.norm1.bias", "layers.1.attn.proj_key.weight"
WRONG = [
    ("allattn_span", changed(SPAN_OF_MEMORY, lambda x: x + 0.1), "are one parameter in adaptive-span"),
    ("allattn_adaptive_io_tied", changed("out_emb.out_layers.1.weight", lambda x: x + 1), "one parameter"),
    ("allattn_adaptive_io_tied", changed("out_emb.out_projs.2", lambda x: -x), "but they differ in this checkpoint"),
    ("feedback_post", changed("layers.1.attn.attn.key_pe", lambda x: x * 2), "one parameter"),
    ("feedback_pre_sharekv", changed(KEY, lambda x: x + 1), "one parameter"),
    ("feedback_pre_sharekv", changed(NORM, lambda x: x + 1), "one parameter"),
    ("feedback_post_sharekv", lowest_of_three_layers, "are one parameter in transformer-sequential, but they differ"),
    ("feedback_post", without_mixture, "has single_memory_attn_buf, which no model of transformer-sequential"),
    ("ffn_span", changed(NORM, lambda x: x * float("nan")), "weights that are not numbers"),
    ("ffn_span", changed(NORM, lambda x: x[:-1]), "the parameters do not make a model"),
    ("ffn_span", changed("key_pe", lambda x: x[0]), "unlike adaptive-span"),
    ("ffn_span", changed("key_pe", lambda x: x[:, :-1]), "do not make a model"),
    ("ffn_span", changed("in_emb.weight", lambda x: x[0]), "does not have the shapes"),
    ("ffn_span", changed(NORM, lambda x: x.long()), "unlike adaptive-span"),
    ("ffn_span", changed(TEMPLATE, lambda x: x + 1), "is not the constant"),
    ("ffn_span", lambda state: state.pop(f"module.{NORM}"), f"has no {NORM}"),
    (
        "ffn_span",
        lambda state: state.update({"module.expire": torch.ones(1)}),
        "has expire, which no model of adaptive",
    ),
    ("ffn_span", lambda state: state.update(key_pe=state["module.key_pe"] + 1), "holds key_pe with and without `modu"),
    ("ffn_span", lambda state: state.clear(), "does not hold the parameters"),
]


@pytest.mark.parametrize("name, change, words", WRONG)
def test_changed_parameters_are_refused_and_leave_no_folders(name, change, words, convert_golden, tmp_path):
    golden = Golden(name)
    change(golden.state)
    with pytest.raises(UserError, match=words):
        convert_golden(golden, "--out", tmp_path / "runs/new/model")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["checkpoint.pt", "symbols.txt"]


@pytest.mark.parametrize("legacy", [False, True])
def test_no_code_of_a_file_is_run(convert_golden, legacy, tmp_path):
    golden = Golden("ffn_span")
    golden.state = {"module.key_pe": Command(tmp_path / "ran")}
    with pytest.raises(UserError, match="holds a posix.system, which a checkpoint of adaptive-span does not save"):
        convert_golden(golden, legacy=legacy)
    assert not (tmp_path / "ran").exists()


DAMAGE = {
    "cut": lambda content: content[: len(content) // 2],
    "a flipped bit": lambda content: content[:9000] + bytes([content[9000] ^ 4]) + content[9001:],
    "empty": lambda content: b"",
    "text": lambda content: b"a checkpoint",
    "another pickle": lambda content: pickle.dumps({"model": {}}),
}


@pytest.mark.parametrize("legacy, damage", [(False, kind) for kind in DAMAGE] + [(True, "cut")])
def test_a_damaged_file_is_refused(legacy, damage, tmp_path, converted):
    checkpoint, vocabulary = Golden("ffn_span").save(tmp_path, legacy)
    checkpoint.write_bytes(DAMAGE[damage](checkpoint.read_bytes()))
    with pytest.raises(UserError, match=f"{checkpoint} (is damaged|has no|holds no)|the checkpoint does not hold"):
        converted(checkpoint, "--from", "adaptive-span", "--vocabulary", vocabulary)


@pytest.mark.parametrize(
    "name, options, words",
    [
        ("ffn_span", ["--from", "transformer-sequential"], "has no layers.0.attn.attn.key_pe"),
        ("feedback_post", ["--from", "adaptive-span"], "has no key_pe"),
        ("allattn", ["--span-ramp", 4], "--span-ramp 4 is for adaptive spans, and this model has fixed ones"),
        ("ffn_span", ["--vocabulary", "nowhere.txt"], "--vocabulary nowhere.txt does not exist"),
        ("ffn_span", None, "--vocabulary is missing: no checkpoint holds its symbols"),
        ("ffn_span", ["--out", Path(__file__).parent], "is not empty, and nothing is overwritten"),
        ("ffn_span", ["--out", Path(__file__)], "is a file; name a new folder"),
        ("ffn_span", ["--out", Path(__file__) / "model"], "could not be written .*; name a folder elsewhere"),
        ("ffn_span", ["--out", "x" * 300], "cannot be a folder .*File name too long.*; name another"),
        ("ffn_span", ["--out", "."], "'.' is the folder that you are in; name a new folder"),
    ],
)
def test_options_that_do_not_fit_are_refused(name, options, words, tmp_path, monkeypatch):
    golden = Golden(name)
    checkpoint, vocabulary = golden.save(tmp_path)
    given = ["--from", golden.source, "--out", tmp_path / "model"]
    given += [] if options is None else ["--vocabulary", vocabulary, *options]
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.setattr(sys, "argv", ["convert", str(checkpoint), *map(str, given)])
    with pytest.raises(UserError, match=words):
        convert.main()


@pytest.mark.parametrize("symbol", ["<eos>", "<unk>"])
def test_a_symbol_of_fairseqs_in_a_later_cluster_is_refused(symbol, converted, tmp_path):
    golden = Golden("allattn_adaptive_io_tied")
    checkpoint, vocabulary = golden.save(tmp_path)
    symbols = [each for each in golden.symbols if each != symbol]
    vocabulary.write_text("\n".join([*symbols, symbol]) + "\n")
    with pytest.raises(UserError, match=f"the vocabulary has {symbol} behind its 10 most frequent symbols"):
        converted(checkpoint, "--from", "adaptive-span", "--vocabulary", vocabulary)
