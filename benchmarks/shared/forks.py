"""A virtual environment whose commands start at once: each is a fork of one process that imported fairseq.

A command of a small test spends most of its time, five seconds, on imports. The folder ENVIRONMENT looks like the real
virtual environment. Its ``python`` and ``fairseq-*`` hand their arguments, variables and open files to the
process that waits, which forks; the fork becomes the command and ends as Python ends. fairseq's commands and the suite
are imported after the fork, as ever.

    ENVIRONMENT/bin/python, fairseq-train...    the clients; everything else in bin is the real environment's
"""

import atexit
import contextlib
import gc
import importlib
import json
import logging
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path
from typing import NoReturn

SETUP = Path(__file__).resolve().parents[2] / "recipes/setup"
CLIENT = """#!{python} -IS
import json, os, signal, socket, sys

name, arguments = os.path.basename(sys.argv[0]), sys.argv[1:]
if name.startswith("python") and (not arguments or arguments[0].startswith("-") and arguments[0] != "-m"):
    os.execv("{bin}/" + name, ["{bin}/" + name, *arguments])
with socket.socket(socket.AF_UNIX) as server:
    server.connect("{socket}")
    request = dict(name=name, arguments=arguments, folder=os.getcwd(), variables=dict(os.environ))
    text = json.dumps(request).encode()
    socket.send_fds(server, [len(text).to_bytes(8, "big")], [0, 1, 2])
    server.sendall(text)
    status = int(server.recv(16) or -signal.SIGKILL)
if status < 0:
    signal.signal(-status, signal.SIG_DFL) if -status not in (signal.SIGKILL, signal.SIGSTOP) else None
    os.kill(os.getpid(), -status)
sys.exit(status)
"""


def fingerprint(real: Path) -> str:
    """The stamp of a finished set-up (recipes/setup/setup.sh). With another one a recipe would install packages through
    the links, whose scripts would then name an interpreter that is gone after the tests."""
    words = ["bash", "-c", '{ cat "$0"/*; "$1" -VV; } | cksum', SETUP, real / "bin/python"]
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout


@contextlib.contextmanager
def environment(folder: Path, real: Path):
    """``folder`` as an environment in place of ``real``, as long as the context lasts."""
    (folder / "bin").mkdir(parents=True)
    place, program = folder / "socket", folder / "client"
    program.write_text(CLIENT.format(python=real / "bin/python", bin=real / "bin", socket=place))
    program.chmod(0o755)
    for command in (real / "bin").iterdir():
        served = command.name in ("python", "python3") or command.name.startswith("fairseq-")
        (folder / "bin" / command.name).symlink_to(program if served else command)
    (folder / ".fairseq_plugins_setup").write_text(fingerprint(real))
    variables = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore", "CUDA_VISIBLE_DEVICES": ""}
    command = [real / "bin/python", __file__, place]
    server = subprocess.Popen(command, env=variables, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
    assert server.stdout.readline() == "ready\n"
    try:
        yield folder
    finally:
        server.terminate()
        server.wait()


def serve(place: str) -> dict | None:
    """Fork for each client. Returns in the fork, with the request that it is to serve."""
    import fairseq.models  # noqa: F401  (it takes the time)
    import fairseq.tasks  # noqa: F401
    import torch._dynamo  # noqa: F401  (every optimiser of torch imports it)

    gc.collect()
    gc.freeze()  # forks share objects that the collector does not touch
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(place)
    listener.listen(64)
    print("ready", flush=True)
    while True:
        client, _ = listener.accept()
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        if os.fork() == 0:
            listener.close()
            return attend(client)
        client.close()


def attend(client: socket.socket) -> dict | None:
    """Fork once more, for the command, and tell the client how that ends; it dies with the client."""
    size, files, _, _ = socket.recv_fds(client, 8, 3)
    text, length = b"", int.from_bytes(size, "big")
    while len(text) < length:
        text += client.recv(length - len(text))
    child = os.fork()
    if child == 0:
        client.close()
        for number, file in enumerate(files):
            os.dup2(file, number)
            os.close(file)
        return json.loads(text)
    for file in files:
        os.close(file)
    ended = os.pidfd_open(child)
    ready, _, _ = select.select([ended, client], [], [])
    if ended not in ready:
        os.kill(child, signal.SIGKILL)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    with contextlib.suppress(OSError):
        client.sendall(str(status).encode())
    os._exit(0)


def become(request: dict, place: str) -> None:
    """Be the command, from its arguments on."""
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["variables"])
    name, arguments = request["name"], request["arguments"]
    sys.executable = os.path.join(os.path.dirname(place), "bin/python")  # its children are forks too
    if name in ("fairseq-train", "fairseq-validate", "fairseq-hydra-train"):
        logging.root.handlers.clear()  # these set up the log before fairseq is imported, the others after
    if name.startswith("fairseq-"):
        sys.argv, sys.path[0] = [name, *arguments], os.path.dirname(sys.executable)
        module = importlib.import_module("fairseq_cli." + name.removeprefix("fairseq-").replace("-", "_"))
        sys.exit(module.cli_main())
    elif arguments[0] == "-m":
        sys.argv, sys.path[0] = arguments[1:], os.getcwd()
        runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
    else:
        sys.argv, sys.path[0] = arguments, os.path.dirname(os.path.abspath(arguments[0]))
        runpy.run_path(arguments[0], run_name="__main__")


def end(status: int) -> NoReturn:
    """End as Python ends, but free nothing: that would copy pages shared with the server, in 0.4 seconds."""
    threading._shutdown()
    atexit._run_exitfuncs()
    for file in (sys.stdout, sys.stderr):
        if file and not file.closed:
            file.flush()
    os._exit(status)


if __name__ == "__main__":
    here = sys.argv[1]
    try:
        become(serve(here), here)
        status = 0
    except SystemExit as asked:
        if not isinstance(asked.code, int | None):
            raise
        status = asked.code or 0
    end(status)
