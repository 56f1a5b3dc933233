"""The set-up, and the package's own metadata, take the Pythons that the suite runs on and no others."""

import os
import subprocess
import sys
import tarfile
from distutils.core import run_setup
from pathlib import Path

import pytest
from packaging.specifiers import SpecifierSet

ROOT = Path(__file__).resolve().parents[2]

INTERPRETER = """#!/bin/sh
# {python}, as if it were {version}; it makes no environment
if [ "$1" = -c ]; then exec {python} -c "import sys; sys.version_info = {version}; $2" "$3"; fi
echo "asked for: $*"; exit 1
"""
VERSIONS = {"3.10.13": False, "3.11.0": True, "3.13.0": True, "3.14.0": True}


@pytest.mark.parametrize("version, fits", VERSIONS.items())
def test_setup_takes_the_pythons_it_names(version, fits, run, tmp_path):
    python = tmp_path / "python"
    numbers = tuple(map(int, version.split(".")))
    python.write_text(INTERPRETER.format(python=f"'{sys.executable}'", version=numbers))
    os.chmod(python, 0o755)
    done = run(ROOT / "recipes/setup/setup.sh", env={"PYTHON": python, "VENV": tmp_path / "venv"}, check=False)
    assert done.returncode
    assert ("asked for: -m venv" in done.stderr) == (tmp_path / "venv").exists() == fits
    assert ("the suite needs Python 3.11 to 3.13" in done.stderr) != fits
    assert ("was never tried with Python 3.14" in done.stderr) == (version == "3.14.0")


def test_two_set_ups_of_one_environment_come_one_after_the_other(tmp_path):
    venv, python = tmp_path / "venv", tmp_path / "python"
    venv.mkdir()
    python.write_text(INTERPRETER.format(python=f"'{sys.executable}'", version=(3, 11, 0)))
    os.chmod(python, 0o755)
    environment = {**os.environ, "PYTHON": str(python), "VENV": str(venv)}
    command = ["bash", ROOT / "recipes/setup/setup.sh"]
    with subprocess.Popen(["flock", venv / "setup.lock", "cat"], stdin=subprocess.PIPE) as other:
        while subprocess.run(["flock", "-n", venv / "setup.lock", "true"]).returncode == 0:
            pass
        with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as setup:
            first = setup.stdout.readline().decode()
            assert not (venv / "setup.log").exists()
            other.communicate(b"")
            rest = setup.stdout.read().decode()
    assert first == f"setup: waiting for another call, which is making {venv}\n"
    assert f"setup: making the virtual environment {venv}" in rest


def test_another_source_archive_of_fairseq_is_refused(run, tmp_path):
    """Before anything in it runs; the message is the set-up's own."""
    with tarfile.open(tmp_path / "fairseq_fixed-0.12.3.1.tar.gz", "w:gz") as archive:
        (tmp_path / "setup.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')")
        archive.add(tmp_path / "setup.py", "fairseq_fixed-0.12.3.1/setup.py")
    setup = (ROOT / "recipes/setup/setup.sh").read_text()
    function = setup[setup.index("download_fairseq() {") : setup.index("# Without a GPU")]
    command = (
        f"here={ROOT}/recipes/setup python={sys.executable} FAIRSEQ=fairseq\n{function}\ndownload_fairseq {tmp_path}/x"
    )
    only_this = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(tmp_path)}
    done = run("bash", "-c", command, env=only_this, check=False)
    assert done.returncode == 1
    assert "differs from the one that the suite was tested with" in done.stdout
    assert "Expected sha256 c607577a" in done.stdout + done.stderr
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("version, fits", VERSIONS.items())
def test_pip_takes_them_too(version, fits, monkeypatch):
    monkeypatch.chdir(ROOT)
    assert (version in SpecifierSet(run_setup("setup.py", stop_after="init").python_requires)) == fits


def test_recipes_of_tests_install_nothing(venv):
    """Whatever was installed: the environment of the tests has links into it."""
    command = ["bash", ROOT / "recipes/setup/setup.sh"]
    done = subprocess.run(command, env=os.environ | {"VENV": str(venv)}, capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
