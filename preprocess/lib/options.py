"""The options that the scripts share, and the folder of their raw text."""

import argparse
from pathlib import Path

from lib.download import Remote, fetch_all
from lib.steps import Steps, UserError


def parser(doc: str, raw: str = "folder with the raw text", **options) -> argparse.ArgumentParser:
    """A parser with --raw and --out.

    Args:
        raw: the help of --raw
        options: more settings of --raw for argparse
    """
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--raw", type=Path, help=raw, **{"metavar": "DIR"} | options)
    parser.add_argument("--out", type=Path, metavar="DIR", required=True, help="folder to fill")
    return parser


def start(parser: argparse.ArgumentParser, remotes: list[Remote]) -> tuple[argparse.Namespace, Steps, Path]:
    """The options, the steps, and the folder of the raw text: --raw, or that of the downloaded text."""
    args = parser.parse_args()
    steps = Steps(args.out)
    raw = args.raw or fetch_all(remotes, steps)
    check_raw(raw)
    return args, steps, raw


def check_raw(raw: Path) -> None:
    """
    Raises:
        UserError: there is no such folder
    """
    if not raw.is_dir():
        raise UserError(f"--raw {raw} is not a folder that exists: give the folder with the text.")
