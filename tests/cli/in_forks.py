"""fairseq's commands as forks of the test's own process, which has imported all that they import."""

import contextlib
import importlib
import logging
import os
import signal
import sys
from pathlib import Path

import fairseq_cli.eval_lm  # noqa: F401
import fairseq_cli.generate  # noqa: F401
import fairseq_cli.interactive  # noqa: F401
import fairseq_cli.preprocess  # noqa: F401
import fairseq_cli.train  # noqa: F401
import fairseq_cli.validate  # noqa: F401
import torch
import torch._dynamo  # noqa: F401  (every optimiser of torch imports it)
from fairseq import options
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from warm import Done

from fairseq_plugins.startup import error_hook

# Hydra's parser keeps what it has learned of its grammar: the forks need half a second less each
convert_namespace_to_omegaconf(
    options.parse_args_and_arch(options.get_training_parser(), ["data", "--arch", "transformer_tiny"])
)


def run_forked(words: list[str], log: Path, input: Path = Path(os.devnull)) -> Done:
    """Run a command such as ``fairseq-train``; its output is in one log."""
    child = os.fork()
    if not child:
        become(words, log, input)
    return Done(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), log.read_text(errors="replace"))


def no_driver() -> None:
    raise RuntimeError("Found no NVIDIA driver on your system.")


def become(words: list[str], log: Path, input: Path) -> None:
    """Be the command, and end as it ends; one that takes too long is killed."""
    signal.alarm(120)
    status = 1
    try:
        os.dup2(os.open(input, os.O_RDONLY), 0)
        os.dup2(os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644), 1)
        os.dup2(1, 2)
        sys.stdin, sys.stdout, sys.stderr = os.fdopen(0), os.fdopen(1, "w"), os.fdopen(2, "w", buffering=1)
        logging.root.handlers[:] = [logging.StreamHandler(sys.stdout)]
        os.environ.update(CUDA_VISIBLE_DEVICES="", OMP_NUM_THREADS="1")
        if torch.version.cuda:  # a fork is told something else than a new process
            torch.cuda._lazy_init = no_driver
        sys.argv = words
        importlib.import_module("fairseq_cli." + words[0].removeprefix("fairseq-").replace("-", "_")).cli_main()
        status = 0
    except SystemExit as ended:
        status = ended.code or 0
    except BaseException:
        error_hook.report(*sys.exc_info())
    finally:
        with contextlib.suppress(Exception):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(status if isinstance(status, int) else 1)
