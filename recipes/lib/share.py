"""Share streams, lines or sentences evenly among processes.

    python recipes/lib/share.py 50 streams --processes 8 --nodes 1

Prints the part of each process. If the number cannot be shared evenly, the error names values of --gpus that fit.
"""

import argparse

import say

MOST_GPUS = 16  # of one node


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("number", type=int)
    parser.add_argument("what", help="what is shared, for the error message")
    parser.add_argument("--processes", type=int, required=True, help="processes of all nodes")
    parser.add_argument("--nodes", type=int, default=1)
    args = parser.parse_args()
    if args.number % args.processes:
        refused = f"{args.number} {args.what} cannot be shared evenly by {args.processes} processes"
        say.stop(f"{refused}: {way_out(args.number, args.nodes)}.")
    print(args.number // args.processes)


def way_out(number: int, nodes: int) -> str:
    fitting = [str(gpus) for gpus in range(1, MOST_GPUS + 1) if number % (gpus * nodes) == 0]
    if not fitting:
        return f"choose another number of nodes than {nodes}"
    *others, last = fitting
    return f"choose --gpus {', '.join(others)} or {last}" if others else f"choose --gpus {last}"


if __name__ == "__main__":
    main()
