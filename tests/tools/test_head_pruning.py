"""One head left out at a time."""

import json
import math
import random
import re
from pathlib import Path

import pytest
import torch

from fairseq_plugins.errors import UserError
from fairseq_plugins.tools import head_pruning
from fairseq_plugins.tools.lib.load import load

CHECKPOINTS = Path(__file__).parents[1] / "models/checkpoints"


@pytest.fixture(scope="module")
def data(run, tmp_path_factory):
    folder = tmp_path_factory.mktemp("heads")
    draw = random.Random(1)
    (folder / "text").write_text("".join(" ".join(draw.choices("abc", k=9)) + "\n" for _ in range(6)))
    words = ["--srcdict", CHECKPOINTS / "dict.txt", "--validpref", folder / "text", "--destdir", folder / "bin"]
    run("fairseq-preprocess", "--only-source", *words)
    return folder / "bin"


@pytest.fixture(params=["transformer_xl_lm_tiny", "all_attention_lm_tiny"])
def checkpoint(request):
    return CHECKPOINTS / f"{request.param}.pt"


def test_a_grid_of_layers_and_heads(run, user_dir, checkpoint, data, main, capsys, tmp_path):
    main(head_pruning, checkpoint, "--data", data, "--cpu", "--metric", "bpc", "--json", tmp_path / "grid.json")
    header, dashes, *rows, _, last = capsys.readouterr().out.splitlines()
    assert header == "| layer | H1 | H2 | stddev |"
    cells = [[cell.strip() for cell in row.strip("|").split("|")] for row in rows]
    assert [row[0] for row in cells] == ["1", "2", "all"] and {len(row) for row in cells} == {4}
    first, second, deviation = map(float, cells[0][1:])
    assert deviation == pytest.approx(abs(first - second) / math.sqrt(2), abs=1e-4)
    assert any(abs(float(cell)) > 1e-4 for row in cells[:2] for cell in row[1:3])
    columns = header.replace(" ", "").strip("|").split("|")
    written = json.loads((tmp_path / "grid.json").read_text())
    for layer, *values in cells[:2]:
        assert written[layer] == dict(zip(columns[1:], map(float, values), strict=True))
    assert written["mean"]["stddev"] == pytest.approx((deviation + float(cells[1][3])) / 2, abs=1e-4)
    done = run(
        "fairseq-eval-lm", data, "--user-dir", user_dir, "--task", "streaming_language_modeling", "--path", checkpoint,
        "--gen-subset", "valid", "--batch-size", 1, "--tokens-per-sample", 8, "--cpu", "--num-workers", 0,
    )  # fmt: skip
    said = done.stdout + done.stderr
    bits = re.search(r"[ :]with end-of-line: .* ([\d.]+) bits", said)[1]
    assert float(last.removeprefix("with all heads: bpc ")) == pytest.approx(float(bits), abs=1e-4)
    described = "block 8, memory 6, clamp none, same length: False, positions pairwise; the figures depend"
    assert (described in said) == ("transformer_xl" in str(torch.load(checkpoint)["cfg"]["model"]))


def test_each_head_is_put_back(checkpoint):
    attention = head_pruning.attentions(load(checkpoint, {"data": str(CHECKPOINTS)})[0])[0]
    before = attention.out_proj.weight.clone()
    left_out = [attention.out_proj.weight.clone() for _ in head_pruning.each_head_pruned(attention)]
    assert torch.equal(attention.out_proj.weight, before) and len(left_out) == 2
    half = before.size(1) // 2
    assert not left_out[0][:, :half].any() and torch.equal(left_out[0][:, half:], before[:, half:])
    assert not left_out[1][:, half:].any() and torch.equal(left_out[1][:, :half], before[:, :half])


def test_the_deviation_is_the_papers():
    """Table 3, layer 1 without cross-head attention."""
    assert head_pruning.deviation([-0.01] * 7 + [0.77]) == pytest.approx(0.28, abs=0.005)
    assert math.isnan(head_pruning.deviation([0.5]))


@pytest.mark.parametrize(
    "overrides, words",
    [("{'mem_len': 64", "{'mem_len': 64 is not a dictionary"), ("{'memlen': 64}", "no option memlen")],
)
def test_overrides_are_a_dictionary_of_options(overrides, words, checkpoint, data, main):
    with pytest.raises(UserError, match=words):
        main(head_pruning, checkpoint, "--data", data, "--cpu", "--model-overrides", overrides)


def test_a_model_that_is_worse_than_even_guesses_is_told(checkpoint, data, main, capsys, tmp_path):
    state = torch.load(checkpoint, weights_only=False)
    state["model"]["decoder.output.bias"][4:12] -= 100  # the words of the text
    torch.save(state, tmp_path / "worse.pt")
    for file, told in ((checkpoint, False), (tmp_path / "worse.pt", True)):
        main(head_pruning, file, "--cpu", "--data", data)
        assert ("that of even guesses" in capsys.readouterr().err) == told
