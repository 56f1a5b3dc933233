"""Tries of damage, kills and failed writes, and their outcomes.

    python benchmarks/robustness.py damage --number 500     flipped bits and cuts in checkpoints, averages, memories
    python benchmarks/robustness.py beside --number 500     flipped bits, exchanged lines in dictionaries and codes
    python benchmarks/robustness.py kills --number 20       a training over streams killed at any moment, and resumed
    python benchmarks/robustness.py stops                  every kind of training stopped in every way, and resumed
    python benchmarks/robustness.py writes --number 20      a training whose disk is full or whose quota is used up
    python benchmarks/robustness.py processes --number 100  trainings of two processes, from their start to their end
    python benchmarks/robustness.py outputs                 each command that writes, where it cannot
    python benchmarks/robustness.py verification            the cost of checksums, by a checkpoint of 1 GB

Every line is printed as a row of a table, which robustness.md sums up; the status is not 0 where anything was not as it
should be.
"""

import argparse
import inspect
import os
import random
import shutil
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from paths import ROOT

import fairseq_plugins  # noqa: F401  patches fairseq

BIN = Path(sys.executable).parent

LETTERS = "abcdefghijklmnopqrstuvwxyz"
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore", "CUDA_VISIBLE_DEVICES": ""}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=PARTS)
    parser.add_argument("--number", type=int, default=20, help="how often (%(default)s)")
    args = parser.parse_args()
    with TemporaryDirectory() as folder:
        as_it_should_be = PARTS[args.what](Path(folder), args.number)
    sys.exit(not as_it_should_be)


def row(*cells) -> None:
    print("|", " | ".join(map(str, cells)), "|", flush=True)


def command(*words, limit="", **kwargs) -> subprocess.CompletedProcess:
    """Run a command of this environment, after the shell command ``limit``."""
    words = [str(BIN / words[0]) if (BIN / words[0]).exists() else words[0], *map(str, words[1:])]
    shell = ["bash", "-c", f'{limit or ":"} && exec "$@"', "limited", *words]
    return subprocess.run(shell, env=ENVIRONMENT, cwd=ROOT, capture_output=True, text=True, **kwargs)


def streams(folder: Path) -> list:
    """A command that trains a small language model over streams of random letters; it saves every second update."""
    draw = random.Random(1)
    for split, size in {"train": 12_000, "valid": 600, "test": 600}.items():
        (folder / split).write_text(" ".join(draw.choices(LETTERS, k=size)) + "\n")
    prefixes = [word for split in ("train", "valid", "test") for word in (f"--{split}pref", folder / split)]
    made = command("fairseq-preprocess", "--only-source", *prefixes, "--destdir", folder / "bin")
    assert made.returncode == 0, made.stderr
    return [
        "fairseq-train", folder / "bin", "--user-dir", ROOT / "fairseq_plugins", "--cpu", "--no-progress-bar",
        *("--task streaming_language_modeling --criterion streaming_lm --arch transformer_xl_lm_tiny --mem-len 16"
          " --batch-size 4 --tokens-per-sample 16 --optimizer adam --lr 0.002 --max-update 60 --save-interval-updates 2"
          " --keep-interval-updates 2 --no-epoch-checkpoints --validate-interval-updates 1000"
          " --log-interval 1").split(),
    ]  # fmt: skip


def damage(folder: Path, number: int) -> bool:
    """Of files that are flipped in one bit, or cut, at random places, how many does a load refuse?"""
    import torch
    from fairseq import checkpoint_utils

    from fairseq_plugins.streams import rank_files

    train = streams(folder)
    assert command(*train, "--max-update", 4, "--save-dir", folder / "save").returncode == 0
    average = folder / "average.pt"
    command("python", "-m", "fairseq_plugins.tools.average_checkpoints", folder / "save/checkpoint_last.pt",
            folder / "save/checkpoint_1_2.pt", "--output", average)  # fmt: skip
    others = folder / "others.pt"
    torch.save(torch.load(folder / "save/checkpoint_last.pt"), others)
    checkpoint = checkpoint_utils.load_checkpoint_to_cpu
    files = {
        "checkpoint": (folder / "save/checkpoint_last.pt", checkpoint),
        "average": (average, checkpoint),
        "memory": (folder / "save/checkpoint_last.pt.memory-0-of-1", lambda path: rank_files.load(Path(path), "")),
        "checkpoint of others": (others, checkpoint),
    }
    draw, right = random.Random(2), True
    row("file", "damage", "tried", "refused in a sentence", "loaded unchanged", "anything else")
    for name, (file, load) in files.items():
        for kind in (flipped, cut):
            _, other = tries(name, file, kind, lambda: text_of(load(str(file))), draw, number)  # noqa: B023  called here
            right &= not other
    return right


def beside(folder: Path, number: int) -> bool:
    """Of files beside a checkpoint with one bit flipped, or two lines exchanged, how many does a load refuse?"""
    from fairseq_plugins.models.transformer_xl_lm import TransformerXLLanguageModel

    def scores(model: Path) -> list[float]:
        return TransformerXLLanguageModel.from_pretrained(model).score("a b c a")["positional_scores"].tolist()

    draw, right = random.Random(4), True
    columns = ["refused in a sentence that names it", "loaded, the same scores", "anything else"]
    row("file", "damage", "tried", *columns)
    for kind in ("bpe", "sentencepiece", "plain"):
        model = folder_of_model(folder / kind, kind)
        for file in sorted(file for file in model.iterdir() if file.suffix != ".pt"):
            for damage in (flipped, exchanged) if file.name == "dict.txt" else (flipped,):
                label = f"{kind}: {file.name}"
                harmless, other = tries(label, file, damage, partial(scores, model), draw, number, file.name)
                right &= not other and not (harmless and kind != "plain")
    return right


def tries(label, file: Path, damage, content, draw: random.Random, number: int, named: str = "") -> tuple[int, int]:
    """Damage a file again and again, and print a row of the outcomes of its loads.

    Args:
        damage: whole bytes, draw -> damaged ones; its docstring is the name
        content: loads the file, and returns a value that can be compared
        named: has to be in the sentence that refuses the file

    Returns:
        how often the content was the same, and how often the answer was neither that nor a refusal
    """
    from fairseq_plugins.errors import UserError

    whole, right, refused, harmless = file.read_bytes(), content(), 0, 0
    for _ in range(number):
        file.write_bytes(damage(whole, draw))
        try:
            harmless += content() == right
        except UserError as error:
            refused += named in str(error)
        except (SystemExit, Exception) as error:  # a user would see a traceback, or nothing at all
            print(f"{label}, {damage.__doc__}: {error!r}"[:300], file=sys.stderr)
    file.write_bytes(whole)
    other = number - refused - harmless
    row(label, damage.__doc__, number, refused, harmless, other)
    return harmless, other


def folder_of_model(folder: Path, kind: str) -> Path:
    """A small language model with the files of its text: pieces of words, or data that fairseq-preprocess made."""
    folder.mkdir()
    train = streams(folder)
    if kind != "plain":
        draw, texts = random.Random(5), [folder / "train", folder / "valid"]
        for text, size in zip(texts, (3000, 300)):
            words = ["".join(draw.choices("abcd", k=draw.randrange(1, 6))) for _ in range(size)]
            text.write_text("".join(" ".join(words[line : line + 10]) + "\n" for line in range(0, size, 10)))
        options = ["--level", kind, "--symbols", 300, "--out", folder / "out"]
        made = command("python", "preprocess/text.py", "--raw", *texts, *options)
        assert made.returncode == 0, made.stderr
        train[1] = folder / "out/bin"
    done = command(*train, "--max-update", 1, "--save-dir", folder / "save")
    assert done.returncode == 0, done.stderr
    model = folder / "model"
    model.mkdir()
    shutil.copy(folder / "save/checkpoint_last.pt", model)
    for file in (folder / "save").iterdir():
        if file.name.startswith(("dict", "prepared", "codes", "sentencepiece")):
            shutil.copy(file, model)
    return model


def flipped(content: bytes, draw: random.Random) -> bytes:
    """one bit flipped"""
    place, bit = place_and_bit(content, draw)
    return content[:place] + bytes([content[place] ^ (1 << bit)]) + content[place + 1 :]


def cut(content: bytes, draw: random.Random) -> bytes:
    """cut"""
    place, _ = place_and_bit(content, draw)
    return content[:place]


def place_and_bit(content: bytes, draw: random.Random) -> tuple[int, int]:
    return draw.randrange(len(content)), draw.randrange(8)


def exchanged(content: bytes, draw: random.Random) -> bytes:
    """two lines exchanged"""
    lines = content.splitlines(keepends=True)
    one, other = draw.sample(range(len(lines)), 2)
    lines[one], lines[other] = lines[other], lines[one]
    return b"".join(lines)


def text_of(state) -> str:
    """Everything that a checkpoint holds, as text that can be compared."""
    import torch

    if isinstance(state, dict):
        return str({name: text_of(each) for name, each in state.items()})
    if isinstance(state, list | tuple):
        return str([text_of(each) for each in state])
    return str(state.tolist() if isinstance(state, torch.Tensor) else state)


def kills(folder: Path, number: int) -> bool:
    """A training that is killed again and again ends with the weights of one that was not."""
    import torch

    train = streams(folder)
    started = time.monotonic()
    assert command(*train, "--save-dir", folder / "whole").returncode == 0
    whole, draw = time.monotonic() - started, random.Random(3)
    killed, statuses, unreadable = 0, [], 0
    while killed < number:
        folder_of_run = folder / f"killed{len(statuses)}"
        while True:
            words = [str(BIN / train[0]), *map(str, train[1:]), "--save-dir", str(folder_of_run)]
            run = subprocess.Popen(words, env=ENVIRONMENT, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
            try:
                run.communicate(timeout=draw.uniform(0.3, 1.1) * whole if killed < number else None)
                unreadable += run.returncode != 0
                break
            except subprocess.TimeoutExpired:
                run.kill()
                run.communicate()
                killed += 1
        last = [torch.load(each / "checkpoint_last.pt")["model"] for each in (folder / "whole", folder_of_run)]
        statuses.append(all(torch.equal(last[0][name], last[1][name]) for name in last[0]))
    row("kills (SIGKILL)", "trainings", "could not go on", "ended with exactly the weights of one that was not killed")
    row(killed, len(statuses), unreadable, sum(statuses))
    return all(statuses) and not unreadable


def stops(folder: Path, number: int) -> bool:
    """Every kind of training, stopped in every way, ends with the weights of one that never stopped."""
    import robustness_stops

    return robustness_stops.table(folder, list(robustness_stops.CASES), list(robustness_stops.STOPS))


def writes(folder: Path, number: int) -> bool:
    """A training that cannot write ends in a sentence, and its earlier files are as they were."""
    train = streams(folder)
    save = folder / "save"
    assert command(*train, "--max-update", 4, "--save-dir", save).returncode == 0
    sizes = [file.stat().st_size for file in save.glob("*") if file.is_file()]
    kilobytes, full = max(sizes) // 1024, sum(sizes) // 1024
    cases = {f"quota of {part:.2f} of a checkpoint": f"ulimit -f {int(part * kilobytes)}" for part in parts(number)}
    if subprocess.run(["unshare", "-rm", "true"], capture_output=True).returncode == 0:
        cases |= {f"disk with room for {part:.2f} checkpoints": full + int(part * kilobytes) for part in parts(number)}
    row("what", "tried", "sentence that names the file and the last good checkpoint", "earlier checkpoints as before")
    right = True
    for name in ("quota", "disk"):
        said = kept = tried = 0
        for limit in [limit for case, limit in cases.items() if case.startswith(name)]:
            trial = folder / "trial"
            shutil.copytree(save, trial)
            if name == "quota":
                done = command(*train, "--max-update", 8, "--save-dir", trial, limit=limit)
            else:
                done = on_small_disk(trial, limit, [*train, "--max-update", 8, "--save-dir", trial])
            tried += 1
            errors = [line for line in done.stderr.splitlines() if line.startswith("fairseq_plugins: error:")]
            said += done.returncode != 0 and len(errors) == 1 and "last good checkpoint is" in errors[0]
            kept += all((trial / file.name).read_bytes() == file.read_bytes() for file in save.glob("checkpoint_*pt*"))
            shutil.rmtree(trial)
        row(name, tried, said, kept)
        right &= said == kept == tried
    return right


def outputs(folder: Path, number: int) -> bool:
    """Commands that write files, where these cannot be written: a quota of nothing, a full disk, a read-only one."""
    os.environ.update(ENVIRONMENT)
    import limits
    import outputs

    from fairseq_plugins.files import sealed

    sealed.PAUSE = 0  # seconds between attempts
    site, right = outputs.Site(folder), True
    writers = {name: command for name, command in outputs.WRITERS.items() if name not in outputs.SLOW}
    row("where", "commands", "one sentence that names the file", "a warning, and the training went on", "anything else")
    for limit in filter(lambda limit: limits.allowed(limit, folder), limits.LIMITS):
        said = warned = 0
        for name, command in writers.items():
            out = folder / "out"
            out.mkdir()
            done = limits.run(limit, out, *command(site, out))
            why = outputs.refused(done, out)
            said += not why
            warned += bool(why) and done.returncode == 0 and f"warning: {out}" in done.output
            if why:
                print(f"{name}, {limit}: {why}", file=sys.stderr)
            shutil.rmtree(out)
        row(limit, len(writers), said, warned, len(writers) - said - warned)
        right &= said + warned == len(writers)
    return right


def parts(number: int) -> list[float]:
    return [0.02 + 0.96 * step / number for step in range(number)]


def on_small_disk(folder: Path, kilobytes: int, words: list) -> subprocess.CompletedProcess:
    """Run a command while a folder lies on a disk of that size; its files are copied back."""
    copy = folder.with_name("copy")
    shutil.copytree(folder, copy)
    words = [str(BIN / words[0]), *map(str, words[1:])]
    script = (
        f'mount -t tmpfs -o size={kilobytes}k tmpfs {folder} && cp -a {copy}/. {folder} && "$@"; status=$?;'
        f" rm -r {copy} && cp -a {folder} {copy}; exit $status"
    )
    shell = ["unshare", "-rm", "bash", "-c", script, "small", *words]
    done = subprocess.run(shell, env=ENVIRONMENT, cwd=ROOT, capture_output=True, text=True)
    shutil.rmtree(folder)
    copy.rename(folder)
    return done


def processes(folder: Path, number: int) -> bool:
    """Trainings of two processes, which end within an epoch."""
    train = streams(folder)
    torchrun = ["torchrun", "--standalone", "--nproc_per_node", 2, BIN / train[0], *train[1:], "--max-update", 2]
    backends = ("pytorch_ddp", "legacy_ddp")
    row("trainings of two processes", "ended with status 0")
    good = 0
    for run in range(number):
        done = command(*torchrun, "--no-save", "--ddp-backend", backends[run % 2], "--save-dir", folder / "save")
        good += done.returncode == 0
        if done.returncode:
            print(done.stderr[-3000:], file=sys.stderr)
        if (run + 1) % 25 == 0 or run + 1 == number:
            row(run + 1, good)
    return good == number


def verification(folder: Path, number: int) -> bool:
    """Times of saving and loading 1 GB, each the least of several."""
    import timing
    import torch

    from fairseq_plugins.files import sealed

    state = {"model": {f"weight{layer}": torch.randn(25_000_000) for layer in range(10)}}
    own, plain = folder / "own.pt", folder / "plain.pt"

    row("1 GB", "seconds")
    for name, *work in (
        ("torch.save", torch.save, state, plain),
        ("saved, flushed to the disk, verified, sealed", sealed.save, state, own),
        ("torch.load without looking at checksums", inspect.unwrap(torch.load), plain),
        ("verifying a file of ours (SHA-256)", sealed.check, own),
        ("verifying a file of others (CRC of its parts)", sealed.check, plain),
    ):
        row(name, f"{min(timing.timed(*work)[1] for _ in range(3)):.1f}")
    return True


PARTS = {part.__name__: part for part in (damage, beside, kills, stops, writes, outputs, processes, verification)}

if __name__ == "__main__":
    main()
