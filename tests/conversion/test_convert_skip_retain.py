"""Checkpoints of the Skip-Retain code: what the public code says, what log.txt says, and what no model here does."""

from argparse import Namespace

import pytest
import torch
from golden_files import Case

from fairseq_plugins.conversion.adaptive_span import PLAIN_IO
from fairseq_plugins.conversion.skip_retain import BIASES, LAYER, convert, counted_vocabulary
from fairseq_plugins.errors import UserError
from fairseq_plugins.tools.lib.load import load

GOLDEN_NAMES = {
    "w_q": "query", "w_k": "key", "w_v": "value", "r_net": "position", "w_o": "out", "norm1": "norm_attn",
    "norm2": "norm_ffn", "ff.": "ffn.", "in_emb": "embed", "out_emb": "output", "positional_bias": "position_bias",
}  # fmt: skip
LOG = {"mem_len": 4, "eval_tgt_len": 4, "activation_fn": "relu", "prenorm": False, "share_weight": False}


class SkipRetainCase(Case):
    """A case sch_*, with the state dict that the code would save."""

    part = "segment"

    def __init__(self, name: str):
        super().__init__(name)
        for theirs in (*PLAIN_IO, *BIASES, *(f"layers.{layer}.{name}" for layer in range(3) for name in LAYER)):
            golden = theirs.replace("layers.", "layer")
            for part, other in GOLDEN_NAMES.items():
                golden = golden.replace(part, other)
            self.state[f"module.{theirs}"] = self.parameters[golden]
        self.state |= {f"module.layers.{layer}.pos_encoder.inv_freq": torch.ones(6) for layer in range(3)}


@pytest.fixture
def convert_case(converted, tmp_path):
    """convert_case(case, log) saves a checkpoint and its log; the folder of the converted model."""

    def run(case, log=LOG):
        torch.save({"iter_no": 1, "model": case.state}, tmp_path / "saved_model.pt")
        lines = "".join(f" - {name}: {value}\n" for name, value in log.items())
        (tmp_path / "log.txt").write_text(f"Initialised the model\n{lines}total_params: 1\n")
        given = ["--from", "skip-retain", "--vocabulary", case.list_symbols(tmp_path)]
        return converted(tmp_path / "saved_model.pt", *given)

    return run


@pytest.mark.parametrize("name", ["sch_plain_train", "sch_eval_same_clamp"])
def test_a_model_says_what_the_public_code_says(name, convert_case):
    """The parameters of goldens are float64, those of a checkpoint float32."""
    case = SkipRetainCase(name)
    folder = convert_case(case)
    settings = {key: case.config[key] for key in ("mem_len", "clamp_len", "same_length")}
    model, *_ = load(folder / "checkpoint_best.pt", {"data": str(folder), **settings}, cpu=True)
    case.compare(model.double(), 1e-5)


@pytest.fixture
def plain():
    return SkipRetainCase("sch_plain_train")


def test_what_the_file_does_not_say_is_in_the_log_or_given(plain, tmp_path):
    def options(log="no options here\n", **given):
        (tmp_path / "log.txt").write_text(log)
        flags = {"mem_len": None, "activation_fn": None, "prenorm": None} | given
        made = convert({"model": plain.state}, Namespace(checkpoint=tmp_path / "saved_model.pt", **flags))
        names = ("mem_len", "activation_fn", "normalised_residual")
        return [*(made.options.get(name) for name in names), made.block, made.notes]

    assert options(" - mem_len: 7\n - activation_fn: gelu\n - prenorm: True\n - eval_tgt_len: 9\n") == [
        7, "gelu", True, 9, [],
    ]  # fmt: skip
    assert options(" - mem_len: 7\n - prenorm: False\n", mem_len=8)[:3] == [8, "relu", None]
    *said, (note,) = options(activation_fn="gelu")
    assert said == [512, "gelu", None, 128]
    assert "log.txt has no options as this repository writes them" in note
    assert "--mem-len 512, --activation-fn gelu, no --prenorm" in note


@pytest.mark.parametrize(
    "log, change, words",
    [
        ({"share_weight": True}, {}, "log.txt says that the model has --share_weight, which no model"),
        ({"activation_fn": "selu"}, {}, "has the activation selu, which no model of this suite has; it has relu"),
        ({"mem_len": "many"}, {}, "log.txt has mem_len many, which is no number; give --mem-len"),
        ({"eval_tgt_len": 0}, {}, "log.txt has eval_tgt_len 0, which is no length of a block; repair it"),
        ({"prenorm": "on"}, {}, "log.txt has prenorm on, which is neither True nor False; repair it"),
        ({}, {"module.content_bias.0": torch.ones(3)}, "heads of different widths"),
        ({}, {"module.layers.0.attn.zeta": torch.ones(4)}, "has layers.0.attn.zeta, which no model of skip-retain"),
        ({}, {"module.in_emb.weight": None}, "has no in_emb.emb_layers.0.weight"),
    ],
)
def test_a_model_that_this_suite_does_not_have_is_refused(log, change, words, plain, convert_case):
    plain.state = {name: tensor for name, tensor in (plain.state | change).items() if tensor is not None}
    with pytest.raises(UserError, match=words):
        convert_case(plain, LOG | log)


def test_characters_are_counted_in_all_texts_and_words_in_the_first(tmp_path):
    train = tmp_path / "train.txt"
    train.write_text("a b a\nb c\n")
    with pytest.raises(UserError, match="counted in train.txt, valid.txt and test.txt together, and valid.txt is not"):
        counted_vocabulary(train, None)
    for name in ("valid", "test"):
        train.with_name(f"{name}.txt").write_text("c c\n")
    assert counted_vocabulary(train, None)[:2] == (["c", "b", "a"], False)
    train.write_text("the man the\n")
    assert counted_vocabulary(train, None)[:2] == (["the", "<eos>", "man"], True)
