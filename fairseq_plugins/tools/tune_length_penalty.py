r"""Choose the length penalty, and for summaries the minimum and maximum length, on the validation set.

    python -m fairseq_plugins.tools.tune_length_penalty DATA --path average.pt --out tuning --lenpen 0.2 0.6 1.0 \
        --metric compound-bleu -- --beam 5 --remove-bpe
    python -m fairseq_plugins.tools.tune_length_penalty DATA --path model.pt --out tuning --lenpen 1 2 --min-len 30 50 \
        --max-len-b 100 140 --metric rougeLsum --references valid.ref -- --remove-bpe

Runs fairseq-generate once for every combination; flags after ``--`` are passed on to it, and --user-dir is added. A
combination that was run before is run again only if its command, the checkpoint or the data have changed. The table is
written to stderr and to OUT/best.json, the chosen flags to stdout, for the command that translates the test set.

The metrics bleu and compound-bleu are of tokens; sacrebleu and chrf are of raw text, and in a language without spaces
between words there are no others. They take the references of the set itself, unless --references names raw ones.
sacreBLEU's tokeniser is the one for the target language.
"""

import glob
import itertools
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from tqdm import tqdm

from fairseq_plugins.errors import UserError
from fairseq_plugins.files.reading import checkpoint
from fairseq_plugins.files.steps import Step
from fairseq_plugins.files.whole import write_json
from fairseq_plugins.options.ranges import RANGES
from fairseq_plugins.text.prepared import FILE, find
from fairseq_plugins.tools.lib.bleu import raw_score, raw_text, sacrebleu_scores, tokenised_scores
from fairseq_plugins.tools.lib.command import Command, tell
from fairseq_plugins.tools.lib.generation_log import read_generation, read_references
from fairseq_plugins.tools.lib.rouge import rouge

PACKAGE = str(Path(__file__).resolve().parents[1])
GRID = ("lenpen", "min-len", "max-len-b")


def main():
    own, extra = _split(sys.argv[1:])
    parser = Command(__doc__)
    parser.add_argument("data", help="binarised data")
    parser.add_argument("--path", type=checkpoint, required=True, help="checkpoint, or its folder")
    parser.option("--out", Path, None, "DIR", "folder for outputs and scores", required=True)
    parser.add_argument("--subset", default="valid", help="set to tune on (%(default)s)")
    parser.add_argument("--metric", choices=METRICS, default="bleu", help="score to maximise (%(default)s)")
    parser.add_argument("--references", type=Path, help="raw references of the set, which ROUGE needs")
    parser.option("--lenpen", RANGES["lenpen"], None, "P", "length penalties to try", nargs="+", required=True)
    parser.option("--min-len", RANGES["min_len"], None, "N", "shortest outputs to try, in tokens", nargs="+")
    parser.option("--max-len-b", RANGES["max_len_b"], None, "N", "longest outputs to try, in tokens", nargs="+")
    args = parser.parse(own)
    if args.metric.startswith("rouge") and not args.references:
        raise UserError(f"--metric {args.metric} needs --references, the file of raw summaries; add it.")
    for flag, path in (("--path", args.path), ("--references", args.references)):
        if path and not path.is_file():
            raise UserError(f"{flag} {path} does not exist.")

    grid = {name: values for name in GRID if (values := getattr(args, name.replace("-", "_")))}
    points: list[dict[str, Any]] = []
    for values in tqdm([*itertools.product(*grid.values())], desc="tuning", unit=" settings", file=sys.stderr):
        flags = [word for name, value in zip(grid, values) for word in (f"--{name}", f"{value:g}")]
        points.append({"flags": flags, "score": score_point(args, flags, extra)})
    best = max(points, key=lambda point: point["score"])
    for point in points:
        mark = "  <- best" if point is best else ""
        tell(f"{' '.join(point['flags'])}: {args.metric} {point['score']:.2f}{mark}")
    for name, values in grid.items():
        chosen = best["flags"][best["flags"].index(f"--{name}") + 1]
        if len(values) > 1 and chosen in (f"{min(values):g}", f"{max(values):g}"):
            tell(f"--{name} {chosen} is the smallest or largest value that was tried: try values beyond it.")
    write_json(args.out / "best.json", {"metric": args.metric, "subset": args.subset, **best, "points": points})
    print(" ".join(best["flags"]))


def score_point(args, flags: list[str], extra: list[str]) -> float:
    """The score of one combination, which is generated only if it has not been by this command from these files."""
    command = ["fairseq-generate", args.data, "--path", str(args.path), "--gen-subset", args.subset, *flags, *extra]
    folder = Path(args.data.split(os.pathsep)[0])  # fairseq reads all sets but the training set from the first one
    name = "_".join(flag.lstrip("-") for flag in flags)
    generated = args.out / f"{name}.txt"
    step = Step(name, args.out, [args.path, *data_files(folder, args.subset)], [generated], command)
    if not step.done():
        step.run(lambda temporary: _generate(command, temporary, generated.with_suffix(".err")))
    text = find(folder)
    examples = read_generation(generated, text)
    references = read_references(args.references, len(examples)) if args.references else None
    return METRICS[args.metric](examples, references, (text and text.target_language) or "en")


def data_files(folder: Path, subset: str) -> list[Path]:
    """The files of a data folder that decide on the score of a set."""
    return sorted(path for name in (f"{glob.escape(subset)}.*", "dict*", FILE) for path in folder.glob(name))


def _generate(command: list[str], output: Path, log: Path) -> None:
    # The module is run instead of the script, so that it is the fairseq of this Python. --user-dir is given even for
    # models of fairseq, since it makes loading safe.
    runnable = [sys.executable, "-m", "fairseq_cli.generate", "--user-dir", PACKAGE, *command[1:]]
    with open(output, "w") as out, open(log, "w") as err:
        if subprocess.run(runnable, stdout=out, stderr=err).returncode:
            said = error_in(log.read_text(errors="replace"))
            raise UserError(f"{said.rstrip('.')}; this came from: {shlex.join(command)} (its log is {log}).")


def error_in(log: str) -> str:
    """The error in the log of a command that failed, in one line: the text after ``error:``, or Python's text of an
    exception, which may have several lines; else the last line."""
    for pattern in (r"^\S+: error: (.+)", r"^\w[\w.]*(?:Error|Exception|Interrupt)\b.*"):
        if found := list(re.finditer(pattern, log, re.MULTILINE)):
            return " ".join(log[found[-1].start(found[-1].re.groups) :].split())
    return log.strip().rpartition("\n")[2] or "it failed and said nothing"


def _split(words: list[str]) -> tuple[list[str], list[str]]:
    """The words before and after ``--``."""
    where = words.index("--") if "--" in words else len(words)
    return words[:where], words[where + 1 :]


def _bleu(examples, references, language: str, compound_split: bool = False) -> float:
    if references is not None:
        return raw_score(examples, references, language, compound_split)
    scores = tokenised_scores(examples, compound_split, language)
    if "bleu" not in scores:
        raise UserError("--metric bleu needs spaces between words, which this language lacks; choose sacrebleu.")
    return scores["bleu"]


def _of_raw_text(examples, references, language: str, name: str) -> float:
    raw = raw_text(examples, language, "target") if references is None else references
    return sacrebleu_scores(examples, raw, language)[name]


def _rouge(examples, references, language: str, kind: str) -> float:
    hypotheses = [example.hypothesis for example in examples]
    return rouge(hypotheses, references, raw=examples[0].raw)[kind]


METRICS: dict[str, Callable[..., float]] = {
    "bleu": _bleu,
    "compound-bleu": partial(_bleu, compound_split=True),
    "sacrebleu": partial(_of_raw_text, name="sacrebleu"),
    "chrf": partial(_of_raw_text, name="chrf"),
    **{kind: partial(_rouge, kind=kind) for kind in ("rouge1", "rouge2", "rougeL", "rougeLsum")},
}


if __name__ == "__main__":
    main()
