"""A converted model says what the repository's own code says, and a file that is not what it should be gives a
sentence."""

import json
import pickle
import sys
from argparse import Namespace
from pathlib import Path

import pytest
import torch
from golden_files import PUBLISHED, Command, Golden, nll

from fairseq_plugins.conversion import writing
from fairseq_plugins.conversion.placing import placed, places
from fairseq_plugins.conversion.sources import source
from fairseq_plugins.errors import UserError
from fairseq_plugins.models import feedback_lm
from fairseq_plugins.modules.common.stream_memory import StreamMemory
from fairseq_plugins.text.levels import Bytes, Characters, Words
from fairseq_plugins.text.prepared import PreparedText
from fairseq_plugins.tools import convert
from fairseq_plugins.tools.lib.load import load

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
    """In float64, to 1e-10. The symbols of fairseq's that the model lacks have exactly no probability."""
    golden = Golden(name)
    found = source(golden.source).convert({"model": golden.state}, Namespace(span_ramp=golden.ramp))
    symbols, rows = places(golden.symbols)
    (tmp_path / "dict.txt").write_text("".join(f"{symbol} 1\n" for symbol in symbols))
    found = placed(found, golden.symbols)
    flags = [*writing.TASK, "--arch", found.arch, *writing.flags_of(found.options)]
    model = writing.build(flags, tmp_path)[1].double().eval()
    writing.fill(model, found.state)
    memory = StreamMemory()
    for tokens, targets, expected in golden.blocks():
        with torch.no_grad():
            output = model(rows[tokens], memory=memory)
            said = model.get_normalized_probs(output, log_probs=True)
            losses = model.token_nll(output, rows[targets])
        assert torch.allclose(said[..., rows], expected, atol=1e-10)
        assert torch.allclose(losses, -expected.gather(-1, targets.unsqueeze(-1)).squeeze(-1), atol=1e-10)
        assert said.exp()[..., [0, 1]].eq(0).all() and said.size(-1) == len(rows) + 2


@pytest.mark.parametrize("file", ["checkpoint.pt", "checkpoint.pt.legacy_cuda0"])
@pytest.mark.parametrize("name", sorted(path.name for path in PUBLISHED.glob("[at]s_*")) or [None])
def test_models_of_the_repositories_have_their_own_losses(name, file, converted):
    if name is None:
        pytest.skip(f"{PUBLISHED} is not there")
    folder = PUBLISHED / name
    repository = {"as": "adaptive-span", "ts": "transformer-sequential"}[name[:2]]
    expected = json.loads((folder / "expected.json").read_text())
    ramp = ["--span-ramp", expected["spans"][0]["ramp"]] if expected["spans"] else []
    (corpus,) = folder.glob("corpus*.pt")
    for vocabulary in (corpus, folder / "train.txt") if file == "checkpoint.pt" else (corpus,):
        made = converted(folder / file, "--from", repository, "--vocabulary", vocabulary, *ramp)
        model, _, task = load(made / "checkpoint_best.pt", {"data": str(made)}, cpu=True)
        for evaluation in expected["evaluations"]:
            flags = evaluation["flags"]
            block = int(flags[flags.index("--block-sz" if "--block-sz" in flags else "--mem-sz") + 1])
            words = ["</s>" if symbol == "<eos>" else symbol for symbol in evaluation["text"]]
            tokens = torch.tensor([[task.source_dictionary.index(word) for word in words]])
            for kind in (torch.float32, torch.float64):
                # the adaptive softmax of adaptive-span casts to float32
                exact = kind == torch.float64 and "throughout" in evaluation.get("precision", "throughout")
                said = nll(model.to(kind), tokens[:, :-1], tokens[:, 1:], block)[0]
                expected_nll = torch.tensor(evaluation[f"nll_{str(kind).removeprefix('torch.')}"], dtype=kind)
                assert (said - expected_nll).abs().max() < (1e-9 if exact else 1e-5)
        made.rename(made.with_name(f"model_of_{vocabulary.name}"))


# What the folder holds


@pytest.mark.parametrize("legacy", [False, True])
def test_a_folder_is_all_that_from_pretrained_needs(convert_golden, legacy, capsys):
    golden = Golden("feedback_pre_sharekv_span")
    folder = convert_golden(golden, "--tokens-per-sample", 4, legacy=legacy)
    assert "normalised twice" in capsys.readouterr().out
    hub = feedback_lm.FeedbackLanguageModel.from_pretrained(folder)
    tokens = places(golden.symbols).rows[golden.blocks()[0][1]][0]
    text = hub.decode(tokens)
    assert torch.equal(hub.encode(text)[: len(tokens)], tokens)
    eos = torch.tensor([hub.task.source_dictionary.eos()])
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


def test_bytes_of_enwik8_come_and_go(converted, tmp_path):
    golden = Golden("ffn_span")
    checkpoint, vocabulary = golden.save(tmp_path)
    vocabulary.write_text("".join(f"{number}\n" for number in [*range(97, 109), "<eos>"]))
    folder = converted(checkpoint, "--from", "adaptive-span", "--vocabulary", vocabulary)
    assert PreparedText.load(folder).encode("abc") == "97 98 99"
    assert (folder / "dict.txt").read_text().split("\n")[:2] == ["97 1", "98 1"]


# What is refused


def changed(golden, name, change):
    """The same case, where one tensor is another."""
    golden.state[f"module.{name}"] = change(golden.state[f"module.{name}"].clone())
    return golden


SPAN_OF_MEMORY = "layers.1.attn.attn.persistent_memory.adaptive_span._mask.current_val"
WRONG = {
    "a copy of a span": ("allattn_span", SPAN_OF_MEMORY, lambda x: x + 0.1, "are one parameter in adaptive-span"),
    "a copy of a table": ("allattn_adaptive_io_tied", "out_emb.out_layers.1.weight", lambda x: x + 1, "one parameter"),
    "copies of all tables but projections": (
        "allattn_adaptive_io_tied", "out_emb.out_projs.2", lambda x: -x, "but they differ in this checkpoint",
    ),
    "a copy of positions": ("feedback_post", "layers.1.attn.attn.key_pe", lambda x: x * 2, "one parameter"),
    "shared keys": ("feedback_pre_sharekv", "layers.1.attn.proj_key.weight", lambda x: x + 1, "one parameter"),
    "a shared norm": ("feedback_pre_sharekv", "layers.1.norm1.bias", lambda x: x + 1, "one parameter"),
    "a number": ("ffn_span", "layers.0.norm1.bias", lambda x: x * float("nan"), "weights that are not numbers"),
    "a shape": ("ffn_span", "layers.0.norm1.bias", lambda x: x[:-1], "the parameters do not make a model"),
    "a number of dimensions": ("ffn_span", "key_pe", lambda x: x[0], "unlike adaptive-span"),
    "a table without rows": ("ffn_span", "in_emb.weight", lambda x: x[0], "does not have the shapes"),
    "whole numbers": ("ffn_span", "layers.0.norm1.bias", lambda x: x.long(), "unlike adaptive-span"),
    "a constant": (
        "ffn_span", "layers.0.attn.attn.adaptive_span._mask.mask_template", lambda x: x + 1, "is not the constant",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name, parameter, change, words", WRONG.values(), ids=WRONG)
def test_a_changed_parameter_is_refused(name, parameter, change, words, convert_golden, tmp_path):
    with pytest.raises(UserError, match=words):
        convert_golden(changed(Golden(name), parameter, change))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["checkpoint.pt", "symbols.txt"]


@pytest.mark.parametrize(
    "change, words",
    [
        (lambda state: state.pop("module.layers.1.norm1.bias"), "has no layers.1.norm1.bias"),
        (lambda state: state.update({"module.expire": torch.ones(1)}), "has expire, which no model of adaptive-span"),
        (lambda state: state.update(key_pe=state["module.key_pe"] + 1), "holds key_pe with and without `module.`"),
        (lambda state: state.clear(), "does not hold the parameters"),
    ],
)
def test_other_parameters_are_refused(change, words, convert_golden):
    golden = Golden("ffn_span")
    change(golden.state)
    with pytest.raises(UserError, match=words):
        convert_golden(golden)


def test_a_feedback_transformer_without_its_mixture_is_refused(convert_golden):
    """Else it would be a Transformer with the same layers."""
    golden = Golden("feedback_post")
    golden.state["module.single_memory_attn_buf"] = golden.state.pop("module.single_memory_attn_params")
    with pytest.raises(UserError, match="has single_memory_attn_buf, which no model of transformer-sequential"):
        convert_golden(golden)


def test_shared_keys_and_values_of_which_the_lowest_layer_differs_are_refused(convert_golden):
    golden = Golden("feedback_post_sharekv")
    top = {name.replace(".1.", ".2."): tensor for name, tensor in golden.state.items() if ".layers.1." in name}
    golden.state |= top
    golden.state["module.single_memory_attn_params"] = torch.zeros(1, 4)
    for name in ("key", "val"):
        changed(golden, f"layers.0.attn.proj_{name}.weight", lambda x: x + 1)
    with pytest.raises(UserError, match="are one parameter in transformer-sequential, but they differ"):
        convert_golden(golden)


def test_an_error_leaves_no_folders_above_the_new_one(convert_golden, tmp_path):
    golden = changed(Golden("ffn_span"), "layers.0.norm1.bias", lambda x: x[:-1])
    with pytest.raises(UserError, match="the parameters do not make a model"):
        convert_golden(golden, "--out", tmp_path / "runs/new/model")
    assert not (tmp_path / "runs").exists()


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
    given = ["--from", golden.source, "--vocabulary", vocabulary, "--out", tmp_path / "model", *options]
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.setattr(sys, "argv", ["convert", str(checkpoint), *map(str, given)])
    with pytest.raises(UserError, match=words):
        convert.main()


def test_the_vocabulary_is_asked_for(tmp_path, monkeypatch):
    checkpoint, _ = Golden("ffn_span").save(tmp_path)
    words = ["convert", str(checkpoint), "--from", "adaptive-span", "--out", str(tmp_path / "model")]
    monkeypatch.setattr(sys, "argv", words)
    with pytest.raises(UserError, match="--vocabulary is missing: no checkpoint holds its symbols"):
        convert.main()


@pytest.mark.parametrize("symbol", ["<eos>", "<unk>"])
def test_a_symbol_of_fairseqs_in_a_later_cluster_is_refused(symbol, converted, tmp_path):
    golden = Golden("allattn_adaptive_io_tied")
    checkpoint, vocabulary = golden.save(tmp_path)
    symbols = [each for each in golden.symbols if each != symbol]
    vocabulary.write_text("\n".join([*symbols, symbol]) + "\n")
    with pytest.raises(UserError, match=f"the vocabulary has {symbol} behind its 10 most frequent symbols"):
        converted(checkpoint, "--from", "adaptive-span", "--vocabulary", vocabulary)
