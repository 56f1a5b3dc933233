"""The set-up, and the package's own metadata, take the Pythons that the suite runs on and no others."""

import fcntl
import os
import subprocess
import sys
import tarfile
from distutils.core import run_setup
from pathlib import Path

import pytest
from packaging.specifiers import SpecifierSet

ROOT = Path(__file__).resolve().parents[2]

VERSIONS = [("3.10.13", False), ("3.11.0", True), ("3.13.0", True), ("3.14.0", True)]
SETUP = ROOT / "recipes/setup/setup.sh"


@pytest.fixture
def set_up(tmp_path):
    """Start the set-up with an interpreter that says it has this version and makes no environment."""

    def set_up(version):
        python, numbers = tmp_path / "python", tuple(map(int, version.split(".")))
        faked = f"""{sys.executable} -c "import sys; sys.version_info = {numbers}; $2" "$3" """
        python.write_text(f'#!/bin/sh\nif [ "$1" = -c ]; then exec {faked}; fi\necho "asked for: $*"; exit 1\n')
        python.chmod(0o755)
        env = {**os.environ, "PYTHON": str(python), "VENV": str(tmp_path / "venv")}
        return subprocess.Popen(["bash", SETUP], env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    return set_up


@pytest.mark.parametrize("version, fits", VERSIONS)
def test_setup_and_pip_take_the_pythons_they_name(version, fits, set_up, tmp_path, monkeypatch):
    with set_up(version) as started:
        said = started.communicate()[1]
    assert started.returncode
    assert ("asked for: -m venv" in said) == (tmp_path / "venv").exists() == fits
    assert ("the suite needs Python 3.11 to 3.13" in said) != fits
    assert ("was never tried with Python 3.14" in said) == (version == "3.14.0")
    monkeypatch.chdir(ROOT)
    assert (version in SpecifierSet(run_setup("setup.py", stop_after="init").python_requires)) == fits


def test_two_set_ups_of_one_environment_come_one_after_the_other(set_up, tmp_path):
    venv = tmp_path / "venv"
    venv.mkdir()
    with open(venv / "setup.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with set_up("3.11.0") as second:
            first = second.stdout.readline()
            assert not (venv / "setup.log").exists()
            fcntl.flock(lock, fcntl.LOCK_UN)
            rest = second.communicate()[0]
    assert first == f"setup: waiting for another call, which is making {venv}\n"
    assert f"setup: making the virtual environment {venv}" in rest


def test_another_source_archive_of_fairseq_is_refused(run, tmp_path):
    """Before anything in it runs; the message is the set-up's own."""
    with tarfile.open(tmp_path / "fairseq_fixed-0.12.3.1.tar.gz", "w:gz") as archive:
        (tmp_path / "setup.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')")
        archive.add(tmp_path / "setup.py", "fairseq_fixed-0.12.3.1/setup.py")
    setup = SETUP.read_text()
    function = setup[setup.index("download_fairseq() {") : setup.index("# Without a GPU")]
    names = f"here={SETUP.parent} python={sys.executable} FAIRSEQ=fairseq"
    command = f"{names}\n{function}\ndownload_fairseq {tmp_path}/x"
    only_this = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(tmp_path)}
    done = run("bash", "-c", command, env=only_this, check=False)
    assert done.returncode == 1
    assert "differs from the one that the suite was tested with" in done.stdout
    assert "Expected sha256 c607577a" in done.stdout + done.stderr
    assert not (tmp_path / "ran").exists()


def test_recipes_of_tests_install_nothing(venv):
    """Whatever was installed: the environment of the tests has links into it."""
    done = subprocess.run(["bash", SETUP], env=os.environ | {"VENV": str(venv)}, capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
