"""Checkpoints in the layouts of the public code, made of the parameters in tests/goldens.

H heads, D width of a head, N persistent vectors, S maximum span.
"""

import json
import os
from pathlib import Path

import numpy as np
import torch

from fairseq_plugins.conversion.placing import places
from fairseq_plugins.modules.common.stream_memory import StreamMemory

GOLDENS = Path(__file__).parents[1] / "goldens"
PUBLISHED = Path(__file__).parents[3] / "shared/checkpoints"  # a folder beside the project, which not everyone has
# Names in goldens, and in adaptive-span and transformer-sequential
PLAIN = {"attn.query": "attn.proj_query", "attn.key": "attn.proj_key", "attn.value": "attn.proj_val"}
PLAIN |= {"attn.out": "attn.proj_out", "norm_attn": "norm1", "norm_ffn": "norm2", "ffn.": "ff."}
ADAPTIVE_SPAN = {"embed.weight": "in_emb.weight", "output.": "out_emb."}
SEQUENTIAL = {"embed.weight": "in_emb.weight", "output.": "out.out_emb.", "final_norm": "out_norm"}
SPANS = {
    "adaptive-span": "attn.attn.adaptive_span._mask.current_val",
    "transformer-sequential": "attn.attn.adaptive_span.mask.size_ratio",
}
TEMPLATES = {
    "adaptive-span": "attn.attn.adaptive_span._mask.mask_template",
    "transformer-sequential": "attn.attn.adaptive_span.mask.mask_template",
}


def nll(model, source, target, block) -> torch.Tensor:
    """The losses of the targets of a stream [B, T], read in blocks."""
    memory, blocks = StreamMemory(), zip(source.split(block, dim=1), target.split(block, dim=1))
    with torch.no_grad():
        return torch.cat([model.token_nll(model(x, memory=memory), y) for x, y in blocks], dim=1)


class Command:
    """What runs a command when it is unpickled by pickle."""

    def __init__(self, file):
        self.file = file

    def __reduce__(self):
        return os.system, (f"touch {self.file}",)


class Case:
    """A case of tests/goldens, in float64.

    Attributes:
        parameters: by their names in the case
        state: the state dict that a repository would save
    """

    part = "block"

    def __init__(self, name: str):
        self.case = np.load(GOLDENS / f"{name}.npz")
        self.config = json.loads(str(self.case["config"]))
        names = [name for name in self.case.files if name.startswith("param/")]
        self.parameters = {name.removeprefix("param/"): torch.tensor(self.case[name]) for name in names}
        self.state: dict[str, torch.Tensor] = {}

    @property
    def symbols(self) -> list[str]:
        """Of a vocabulary of this size; the end of line and the unknown word are among them."""
        return ["the", "<eos>", "<unk>", *(f"w{number}" for number in range(self.config["vocab"] - 3))]

    def list_symbols(self, folder: Path) -> Path:
        path = folder / "symbols.txt"
        path.write_text("".join(f"{symbol}\n" for symbol in self.symbols))
        return path

    def compare(self, model, tolerance: float, relative: float = 0) -> None:
        """The model says what the public code says. The symbols of fairseq's that it lacks have exactly no
        probability."""
        rows, memory = places(self.symbols).rows, StreamMemory()
        for tokens, targets, expected in self.blocks():
            with torch.no_grad():
                output = model(rows[tokens], memory=memory)
                said = model.get_normalized_probs(output, log_probs=True).double()
                losses = model.token_nll(output, rows[targets]).double()
            wanted = -expected.gather(-1, targets.unsqueeze(-1)).squeeze(-1)
            torch.testing.assert_close(said[..., rows], expected, atol=tolerance, rtol=relative)
            torch.testing.assert_close(losses, wanted, atol=tolerance, rtol=relative)
            assert said.exp()[..., [0, 1]].eq(0).all() and said.size(-1) == len(rows) + 2

    def blocks(self) -> list[tuple[torch.Tensor, ...]]:
        """Tokens, targets and the log-probabilities of all symbols of each block, from an empty stream on."""
        names = [f"{self.part}{number}" for number in range(self.config[f"{self.part}s"])]
        parts = ("tokens", "targets", "logprobs")
        return [tuple(torch.tensor(self.case[f"{name}/{part}"]) for part in parts) for name in names]


class Golden(Case):
    """A case of adaptive-span or transformer-sequential; ``source`` is for --from."""

    def __init__(self, name: str):
        super().__init__(name)
        self.source = self.config["source"].split("/")[1].split("@")[0]
        self.ramp = self.config["ramp"]
        for name, tensor in self.parameters.items():
            self.add(name, tensor, self.config["layers"])
        if self.config.get("share_kv"):  # one parameter, saved under each layer
            shared = ["attn.proj_key.weight", "attn.proj_val.weight"]
            shared += ["norm1.weight", "norm1.bias"] if self.config["pre_norm"] else []
            for name in shared:
                self.state |= {
                    f"module.layers.{layer}.{name}": self.state[f"module.layers.0.{name}"] for layer in (0, 1)
                }

    def add(self, name: str, tensor: torch.Tensor, layers: int) -> None:
        sequential = self.source == "transformer-sequential"
        if name == "pos_key":  # [D, S]
            own = [f"layers.{layer}.attn.attn.key_pe" for layer in range(layers)] if sequential else ["key_pe"]
            return self.put(tensor.unsqueeze(0), *own)
        if name == "mix_logits":
            return self.put(tensor.unsqueeze(0), "single_memory_attn_params")
        prefix, own = name.split(".", 1) if name.startswith("layer") else ("", name)
        prefix = prefix.replace("layer", "layers.") + "." if prefix else ""
        if own == "span_ratio":
            self.put(tensor.view(-1, 1, 1), prefix + SPANS[self.source])
            template = torch.arange(1 - self.config["attn_span"], 1).double()
            self.put(template, prefix + TEMPLATES[self.source])
            if self.config.get("persistent"):  # the same two once more
                again = prefix + "attn.attn.persistent_memory.adaptive_span._mask."
                self.put(tensor.view(-1, 1, 1), again + "current_val")
                self.put(template, again + "mask_template")
        elif own == "persistent_key":  # [H, N, D]; in the file [H, D, N]
            self.put(tensor.transpose(1, 2), f"{prefix}attn.attn.persistent_memory.key")
        elif own == "persistent_value":
            self.put(tensor, f"{prefix}attn.attn.persistent_memory.val")
        elif "cluster" in own:
            self.add_cluster(own, tensor)
        else:
            for golden, theirs in {**PLAIN, **(SEQUENTIAL if sequential else ADAPTIVE_SPAN)}.items():
                own = own.replace(golden, theirs)
            self.put(tensor, prefix + own)

    def add_cluster(self, name: str, tensor: torch.Tensor) -> None:
        part, cluster, what = name.split(".")
        number = cluster.removeprefix("cluster")
        tied = part == "embed"  # what is of the input is of the output too
        if number == "_logits":
            self.put(tensor, f"out_emb.cluster_proj.{what}")
        elif what == "weight":
            self.put(tensor, f"in_emb.emb_layers.{number}.weight", *[f"out_emb.out_layers.{number}.weight"] * tied)
        elif what == "proj":
            self.put(tensor, f"in_emb.emb_projs.{number}", *[f"out_emb.out_projs.{number}"] * tied)
        else:
            self.put(tensor, f"out_emb.out_layers.{number}.{what}")

    def put(self, tensor: torch.Tensor, *names: str) -> None:
        self.state |= {f"module.{name}": tensor.contiguous() for name in names}

    def save(self, folder: Path, legacy: bool = False) -> tuple[Path, Path]:
        """Write a checkpoint and a list of its symbols."""
        content = {"model": self.state, "logger": {}, "optimizer": {"state": {}, "param_groups": []}}
        checkpoint, vocabulary = folder / "checkpoint.pt", self.list_symbols(folder)
        torch.save(content, checkpoint, _use_new_zipfile_serialization=not legacy)
        return checkpoint, vocabulary
