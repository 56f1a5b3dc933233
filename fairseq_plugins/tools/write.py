"""The earlier name of ``fairseq_plugins.tools.sample``."""

import sys

from fairseq_plugins.tools import sample


def main():
    print("fairseq_plugins.tools.write is now called fairseq_plugins.tools.sample.", file=sys.stderr)
    sample.main()


if __name__ == "__main__":
    main()
