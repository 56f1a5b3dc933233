"""Functions in C for decoding on a CPU. The machine's C compiler makes a library of each source when it is first used,
which takes some seconds. Without a compiler decoding goes on in torch."""

import contextlib
import ctypes
import hashlib
import logging
import os
import platform
import re
import shlex
import shutil
import subprocess
import tempfile
from ctypes import Structure, c_int64, c_void_p
from functools import cache
from pathlib import Path
from typing import Any, Self

import torch
from torch import Tensor

logger = logging.getLogger(__name__)
HEADERS = Path(__file__).parent
PANEL = 32  # product.h puts at most so many rows side by side
REALS = {torch.float32: "float", torch.float64: "double"}
FLAGS = "-O3 -march=native -fno-math-errno -fno-trapping-math -fopenmp -fPIC".split()


@cache
def library(source: Path, dtype: torch.dtype) -> ctypes.CDLL | None:
    """The library of a source for this type; None: there is no compiler, or it does not compile the source."""
    compiler, openmp = shlex.split(os.environ.get("CC") or "cc"), loaded_openmp()
    if dtype not in REALS or shutil.which(compiler[0]) is None or openmp is None:
        return None
    try:
        path = folder() / f"{source.stem}-{REALS[dtype]}-{key(source, *compiler, openmp)}.so"
        with contextlib.suppress(OSError):  # it is not there, or damaged
            return ctypes.CDLL(str(path))
        logger.info(f"compiling {source.name} for decoding on this processor, which is done once")
        build(source, [*compiler, *FLAGS, f"-DREAL={REALS[dtype]}", f"-I{HEADERS}"], openmp, path)
        return ctypes.CDLL(str(path))
    except (OSError, RuntimeError, subprocess.CalledProcessError) as error:
        logger.info(f"decoding goes on without {source.name}: {getattr(error, 'stderr', None) or error}")
        return None


def folder() -> Path:
    """Where libraries are kept."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "fairseq_plugins"


def key(source: Path, *others: str) -> str:
    """Of all that a library depends on. The processor is part of it, since machines may share the folder."""
    parts = source.read_text(), *(header.read_text() for header in HEADERS.glob("*.h")), *FLAGS, *others
    return hashlib.sha256("\n".join((*parts, platform.machine(), instructions())).encode()).hexdigest()[:16]


def instructions() -> str:
    """The instructions that the processor has."""
    found = re.search(r"^(flags|Features)\s*:.*", processor(), re.MULTILINE)
    return found.group() if found else ""


def processor() -> str:
    """The description of the processor by the system."""
    try:
        return Path("/proc/cpuinfo").read_text()
    except OSError:  # this is no Linux
        return platform.processor()


def loaded_openmp() -> str | None:
    """The file of torch's threads. The libraries use them, too: two sets of threads would wait for one another."""
    try:
        maps = Path("/proc/self/maps").read_text()
    except OSError:
        return None
    found = re.findall(r" (/.*/lib(?:gomp|iomp5|omp)\b[^/]*\.so[^/]*)$", maps, re.MULTILINE)
    return min(found, key=lambda path: not re.search(r"/torch(\.libs)?/", path)) if found else None


def build(source: Path, compiler: list[str], openmp: str, path: Path) -> None:
    """Compile into a file of its own, which is renamed when it is whole: others may compile at the same time."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=path.parent) as work:
        compiled, linked = f"{work}/compiled.o", f"{work}/linked.so"
        for command in (
            [*compiler, "-c", str(source), "-o", compiled],
            [compiler[0], "-shared", compiled, openmp, "-lm", "-o", linked],
        ):
            subprocess.run(command, check=True, capture_output=True, text=True)
        os.replace(linked, path)


def fields(names: str, kind: type) -> list[tuple[str, Any]]:
    """The fields of these names in a structure."""
    return [(name, kind) for name in names.split()]


class CLinear(Structure):
    """`Linear` of product.h"""

    _fields_ = [*fields("weight bias", c_void_p), *fields("inputs outputs", c_int64)]

    @classmethod
    def of(cls, weight: Tensor, bias: Tensor | None) -> Self:
        """That of a layer [out, in], whose rows lie side by side. The tensors have to outlive it."""
        outputs, inputs = weight.shape
        return cls(weight.data_ptr(), None if bias is None else bias.data_ptr(), inputs, outputs)


def threads_for(products: int) -> int:
    """How many threads share so many multiplications: fewer than torch has, if each had little to do."""
    return max(1, min(torch.get_num_threads(), products // 2**14))
