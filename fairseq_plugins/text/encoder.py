"""``--bpe prepared``: raw text in and raw text out of fairseq-interactive, fairseq-generate and ``from_pretrained``."""

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Optional

from fairseq.data.encoders import register_bpe
from fairseq.dataclass import FairseqDataclass
from omegaconf import II

from fairseq_plugins.text.lines import squeeze
from fairseq_plugins.text.prepared import PreparedText


@dataclass
class PreparedConfig(FairseqDataclass):
    prepared_text: Optional[str] = field(
        default=None,
        metadata={"help": "folder with prepared_text.json (default: the data folder)"},
    )
    data: str = II("task.data")


@register_bpe("prepared", dataclass=PreparedConfig)
class PreparedEncoder:
    """Tokenises, encodes, and brings back raw text, as the text of the data folder was prepared."""

    def __init__(self, cfg):
        self.text = PreparedText.load(Path(cfg.prepared_text or cfg.data.split(os.pathsep)[0]))

    def encode(self, line: str) -> str:
        if self.text.source_language:  # preparation squeezes parallel text, and drops the byte order mark of a file
            line = squeeze(line.removeprefix("\ufeff"))
        return self.text.encode(line)

    def decode(self, symbols: str) -> str:
        return self.text.decode(symbols)
