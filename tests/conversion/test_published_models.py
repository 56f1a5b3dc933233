"""Models that the repositories' own code trained have the losses that this code gave."""

import json

import pytest
import torch
from golden_files import PUBLISHED, nll

from fairseq_plugins.tools.lib.load import load

# By the beginning of a folder's name: for --from, the checkpoint, its vocabularies, the flag for tokens in a block
REPOSITORIES = {
    "as": ("adaptive-span", "checkpoint.pt", ("corpus*.pt", "train.txt"), "--block-sz"),
    "ts": ("transformer-sequential", "checkpoint.pt", ("corpus*.pt", "train.txt"), "--mem-sz"),
    "txl": ("transformer-xl", "model.pt", ("cache.pt", "train.txt"), "--tgt_len"),
    "sr": ("skip-retain", "saved_model.pt", ("data_corpus_sorted.pt",), "--eval_tgt_len"),
}
NAMES = sorted(path.name for begin in REPOSITORIES for path in PUBLISHED.glob(f"{begin}_*"))


@pytest.mark.parametrize("legacy", [False, True])
@pytest.mark.parametrize("name", NAMES or [None])
def test_models_of_the_repositories_have_their_own_losses(name, legacy, converted):
    if name is None:
        pytest.skip(f"{PUBLISHED} is not there")
    folder = PUBLISHED / name
    repository, checkpoint, vocabularies, block = REPOSITORIES[name.split("_")[0]]
    expected = json.loads((folder / "expected.json").read_text())
    ramp = ["--span-ramp", expected["spans"][0]["ramp"]] if expected.get("spans") else []
    for pattern in vocabularies[: 1 if legacy else None]:
        (vocabulary,) = folder.glob(pattern)
        file = folder / f"{checkpoint}{'.legacy_cuda0' * legacy}"
        made = converted(file, "--from", repository, "--vocabulary", vocabulary, *ramp)
        for evaluation in expected["evaluations"]:
            compare(made, evaluation, block)
        made.rename(made.with_name(f"model_of_{vocabulary.name}"))


def compare(made, evaluation, block: str) -> None:
    flags = evaluation["flags"]
    given = {flag: int(value) for flag, value in zip(flags, flags[1:]) if value.lstrip("-").isdecimal()}
    settings = {}
    if "--mem_len" in flags:
        settings = {"mem_len": given["--mem_len"], "clamp_len": given.get("--clamp_len", -1)}
        settings["same_length"] = "--same_length" in flags
    model, _, task = load(made / "checkpoint_best.pt", {"data": str(made), **settings}, cpu=True)
    words = ["</s>" if symbol == "<eos>" else symbol for symbol in evaluation["text"]]
    tokens = torch.tensor([[task.source_dictionary.index(word) for word in words]])
    for kind in (torch.float32, torch.float64):
        # the adaptive softmax of adaptive-span casts to float32
        exact = kind == torch.float64 and "throughout" in evaluation.get("precision", "throughout")
        said = nll(model.to(kind), tokens[:, :-1], tokens[:, 1:], given[block])[0]
        wanted = torch.tensor(evaluation[f"nll_{str(kind).removeprefix('torch.')}"], dtype=kind)
        assert (said - wanted).abs().max() < (1e-9 if exact else 1e-5)
