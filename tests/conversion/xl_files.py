"""Checkpoints in the layouts of Dai et al.'s code and of the library transformers, of the parameters in tests/goldens.

The code pickles its module, and torch's old format keeps the source text of the classes with it. So here are classes
with the same names, in a file of their own.
"""

import importlib
import json
import sys
from pathlib import Path

import torch
from golden_files import Case
from torch import nn

# Names in goldens and in both layouts
NAMES = {
    "embed.cluster{}.weight": "word_emb.emb_layers.{}.weight",
    "embed.cluster{}.proj": "word_emb.emb_projs.{}",
    "output.cluster{}.weight": "crit.out_layers.{}.weight",
    "output.cluster{}.bias": "crit.out_layers.{}.bias",
    "output.cluster{}.proj": "crit.out_projs.{}",
    "layer{}.attn.position.weight": "layers.{}.dec_attn.r_net.weight",
    "layer{}.attn.out.weight": "layers.{}.dec_attn.o_net.weight",
    "layer{}.norm_attn.weight": "layers.{}.dec_attn.layer_norm.weight",
    "layer{}.norm_attn.bias": "layers.{}.dec_attn.layer_norm.bias",
    "layer{}.norm_ffn.weight": "layers.{}.pos_ff.layer_norm.weight",
    "layer{}.norm_ffn.bias": "layers.{}.pos_ff.layer_norm.bias",
    "layer{}.ffn.fc1.weight": "layers.{}.pos_ff.CoreNet.0.weight",
    "layer{}.ffn.fc1.bias": "layers.{}.pos_ff.CoreNet.0.bias",
    "layer{}.ffn.fc2.weight": "layers.{}.pos_ff.CoreNet.3.weight",
    "layer{}.ffn.fc2.bias": "layers.{}.pos_ff.CoreNet.3.bias",
    "layer{}.content_bias": "layers.{}.dec_attn.r_w_bias",
    "layer{}.position_bias": "layers.{}.dec_attn.r_r_bias",
}
ONCE = {
    "output.cluster_logits.weight": "crit.cluster_weight", "output.cluster_logits.bias": "crit.cluster_bias",
    "content_bias": "r_w_bias", "position_bias": "r_r_bias",
}  # fmt: skip
CLASSES = ("MemTransformerLM", "AdaptiveEmbedding", "NewLayer")
CODE = "from torch import nn\n" + "".join(f"\n\nclass {name}(nn.Module):\n    pass\n" for name in CLASSES)


class XLGolden(Case):
    """A case txl_*, whose state dict lacks the prefix of the library; ``source`` is for --from, after ``save``."""

    source, ramp, part = "transformers", None, "segment"

    def __init__(self, name: str):
        super().__init__(name)
        found = self.parameters
        found |= {copy: found[name] for copy, name in self.config.get("aliases", {}).items()}
        numbers = range(max(self.config["layers"], len(self.config["cutoffs"]) + 1))
        names = {golden.format(i): theirs.format(i) for golden, theirs in NAMES.items() for i in numbers} | ONCE
        self.state = {theirs: found[golden] for golden, theirs in names.items() if golden in found}
        for layer in range(self.config["layers"]):
            parts = [found[f"layer{layer}.attn.{part}.weight"] for part in ("query", "key", "value")]
            self.state[f"layers.{layer}.dec_attn.qkv_net.weight"] = torch.cat(parts)
        self.state["pos_emb.inv_freq"] = 1 / 10000 ** (torch.arange(0.0, self.config["hidden"], 2) / 12)

    def save(self, folder: Path) -> tuple[Path, Path]:
        """Write a folder of transformers and a list of its symbols."""
        return self.save_folder(folder), self.list_symbols(folder)

    def save_module(self, folder: Path, monkeypatch, legacy: bool = False, change=lambda model, code: None) -> Path:
        """model.pt as Dai et al.'s code saves it, after a change of the module. Nobody who reads it has the classes."""
        (folder / "mem_transformer.py").write_text(CODE)
        with monkeypatch.context() as patch:
            patch.syspath_prepend(folder)
            code = importlib.import_module("mem_transformer")
            try:
                model = self.module(code)
                change(model, code)
                torch.save(model, folder / "model.pt", _use_new_zipfile_serialization=not legacy)
            finally:
                del sys.modules["mem_transformer"]
        (folder / "mem_transformer.py").unlink()
        return folder / "model.pt"

    def module(self, code) -> nn.Module:
        config, model = self.config, code.MemTransformerLM()
        for name, tensor in self.state.items():
            *way, last = name.split(".")
            place = model
            for step in way:
                if step not in place._modules:
                    place.add_module(step, code.AdaptiveEmbedding())
                place = place._modules[step]
            place.register_buffer(last, tensor) if last == "inv_freq" else place.register_parameter(
                last, nn.Parameter(tensor)
            )
        for name, theirs in {"d_model": "hidden", "d_embed": "embed_dim", "tgt_len": "segment"}.items():
            setattr(model, name, config[theirs])
        for name in ("mem_len", "clamp_len", "same_length"):
            setattr(model, name, config[name])
        model.attn_type, model.sample_softmax, model.drop = 0, -1, nn.Dropout(0.1)
        model.word_emb.cutoffs, model.word_emb.div_val = [*config["cutoffs"], config["vocab"]], config["div_val"]
        attention = model.layers._modules["0"].dec_attn
        attention.pre_lnorm, attention.dropatt = config["pre_norm"], nn.Dropout(0.0)
        return model

    def save_folder(self, folder: Path, **config) -> Path:
        """A folder as save_pretrained of transformers writes it, with other values in config.json."""
        made = folder / "transfo-xl"
        made.mkdir()
        theirs = {
            "vocab_size": "vocab", "d_model": "hidden", "d_embed": "embed_dim", "cutoffs": "cutoffs",
            "div_val": "div_val", "pre_lnorm": "pre_norm", "mem_len": "mem_len", "clamp_len": "clamp_len",
            "same_length": "same_length", "untie_r": "untied_biases", "tie_word_embeddings": "tie_weight",
        }  # fmt: skip
        found = {name: self.config[ours] for name, ours in theirs.items()} | {"model_type": "transfo-xl"}
        found["tie_projs"] = self.config["tie_projs"] or [False]
        (made / "config.json").write_text(json.dumps(found | config))
        prefixed = {name if name.startswith("crit.") else f"transformer.{name}": x for name, x in self.state.items()}
        for name in ("cluster_weight", "cluster_bias"):  # in the order of the clusters
            if f"crit.{name}" in prefixed:
                prefixed[f"crit.{name}"] = prefixed[f"crit.{name}"].flip(0)
        torch.save(prefixed, made / "pytorch_model.bin")
        return made
