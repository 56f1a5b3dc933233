"""Errors of the tools: one sentence on stderr, exit status 1; FAIRSEQ_PLUGINS_TRACEBACK=1 shows where it came from."""

import os
import sys

from fairseq_plugins.errors import UserError


def run(main) -> None:
    try:
        main()
    except UserError as error:
        if os.environ.get("FAIRSEQ_PLUGINS_TRACEBACK"):
            raise
        sys.exit(f"fairseq_plugins: error: {error}")
