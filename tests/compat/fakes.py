"""Stand-ins for a trainer, a checkpoint and data, for fairseq's functions and their patches.

Each patch of compat/ is tested against fairseq's own function, which shows the fault. What only shows in whole commands
is in cli/.
"""

import inspect
from argparse import Namespace
from pathlib import Path
from types import SimpleNamespace

import torch
from fairseq import checkpoint_utils
from fairseq.data import Dictionary, indexed_dataset

import fairseq_plugins  # noqa: F401  (patches fairseq)

fairseqs = inspect.unwrap  # fairseq's own function, without patches


class Trainer(SimpleNamespace):
    """Saves after how many updates a checkpoint was written, and the best value; loads the extra state."""

    def __init__(self, options=None, **others):
        limits = SimpleNamespace(max_update=0, stop_time_hours=0)
        task = options or SimpleNamespace()
        super().__init__(
            cfg=SimpleNamespace(task=task, optimization=limits, checkpoint=SimpleNamespace(patience=-1)),
            task=None, checkpoint_suffix="", updates=0, data_parallel_rank=0, data_parallel_world_size=1,
            is_data_parallel_master=True, should_save_checkpoint_on_current_rank=True,
            consolidate_optimizer=lambda: None, cumulative_training_time=lambda: 0, lr_step=lambda epoch: None,
            get_train_iterator=lambda **place: SimpleNamespace(epoch=1, load_state_dict=lambda state: None),
        )  # fmt: skip
        vars(self).update(others)

    def get_num_updates(self):
        return self.updates

    def save_checkpoint(self, filename, extra_state):
        checkpoint_utils.torch_persistent_save({"updates": self.updates, "best": extra_state.get("best")}, filename)
        return filename

    def load_checkpoint(self, path, *others, **more):
        return checkpoint_utils.load_checkpoint_to_cpu(path)["extra_state"]


class Epochs(SimpleNamespace):
    """The iterator of epochs of four updates, after so many."""

    def __init__(self, updates):
        super().__init__(epoch=(updates + 3) // 4, end_of_epoch=lambda: updates % 4 == 0, state_dict=dict)


def write_checkpoint(path: Path | str, **parts) -> Path:
    """A checkpoint as fairseq saves it, with other parts."""
    history = {"criterion_name": "", "optimizer_name": "FairseqAdam", "lr_scheduler_state": {}, "num_updates": 0}
    whole = {"model": {"weight": torch.ones(2)}, "args": Namespace(arch="transformer"), "optimizer_history": [history]}
    torch.save({**whole, "extra_state": {"train_iterator": {"epoch": 1}}, **parts}, path)
    return Path(path)


def dictionary_of(symbols: str) -> Dictionary:
    made = Dictionary()
    for symbol in symbols:
        made.add_symbol(symbol)
    return made


def binarise(prefix: Path, sentences: list[list[int]], form: str = "mmap") -> None:
    """PREFIX.bin and PREFIX.idx."""
    builder = indexed_dataset.make_builder(f"{prefix}.bin", form, vocab_size=12)
    for sentence in sentences:
        builder.add_item(torch.tensor(sentence, dtype=torch.long))
    builder.finalize(f"{prefix}.idx")
