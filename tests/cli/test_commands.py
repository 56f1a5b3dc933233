"""fairseq's own commands with --user-dir, from where and how they are used."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import fairseq
import fairseq_cli
import pytest
from trainings import hypotheses, weights

import fairseq_plugins

ROOT = fairseq_plugins.__path__[0].rpartition("/")[0]


def installed(folder):
    """fairseq beside a pip-installed fairseq_plugins, as in one site-packages."""
    source = shutil.copytree(ROOT, folder / "source", ignore=shutil.ignore_patterns(".git", ".venv", "runs", "tests"))
    pip = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-build-isolation", "--no-index"]
    subprocess.run([*pip, "--target", folder / "site", source], check=True, capture_output=True)
    for package in (fairseq, fairseq_cli):
        source = Path(package.__file__).parent
        shutil.copytree(source, folder / "site" / source.name, ignore=shutil.ignore_patterns("examples"))
    return folder / "site"


def from_a_path_with_a_space(folder):
    shutil.copytree(f"{ROOT}/fairseq_plugins", folder / "my plugins" / "fairseq_plugins")
    return folder / "my plugins", "./fairseq_plugins/", {}


def pip_installed_and_in_use_from_its_folder(folder):
    return ROOT, "fairseq_plugins", {"PYTHONPATH": str(installed(folder))}


def pip_installed_and_named(folder):
    return folder, "fairseq_plugins", {"PYTHONPATH": str(installed(folder))}


@pytest.mark.parametrize(
    "place", [from_a_path_with_a_space, pip_installed_and_in_use_from_its_folder, pip_installed_and_named]
)
def test_user_dir(place, run, reverse_corpus, tiny_flags, tmp_path):
    folder, user_dir, env = place(tmp_path)
    command = ["fairseq-train", reverse_corpus.bin, "--user-dir", user_dir, *tiny_flags, "--max-update", 1, "--no-save"]
    done = run(*command, "--save-dir", tmp_path / "save", cwd=folder, env=env)
    assert "num_updates 1 " in done.stdout + done.stderr


@pytest.fixture
def generate(run, trained, reverse_corpus, user_dir):
    """generate(options): fairseq-generate, of the five sentences of test1."""

    def generate(*options):
        command = ["fairseq-generate", reverse_corpus.bin, "--user-dir", user_dir, "--path", trained.checkpoint]
        return run(*command, "--cpu", "--gen-subset", "test1", *options)

    return generate


@pytest.mark.parametrize("how", [["--sampling-topk", 3], ["--sampling-topp", 0.8]])
def test_sampling_draws_by_the_seed(how, generate):
    options = ["--sampling", *how, "--beam", 1, "--temperature", 2, "--seed"]
    first, again, other = (hypotheses(generate(*options, seed)) for seed in (1, 1, 2))
    assert first == again != other
    assert sorted(first) == list(range(5))


def test_print_alignment_names_a_source_token_for_every_target_token(generate, reverse_corpus):
    done = generate("--print-alignment")
    alignments = {int(n): pairs.split() for n, pairs in re.findall(r"^A-(\d+)\t(.*)$", done.stdout, re.MULTILINE)}
    sources, targets = reverse_corpus.lines("test1", "src"), hypotheses(done)
    assert sorted(alignments) == list(range(5))
    for number, pairs in alignments.items():
        pairs = [tuple(map(int, pair.split("-"))) for pair in pairs]
        assert [target for _, target in pairs] == list(range(len(targets[number].split())))
        assert all(0 <= source <= len(sources[number].split()) for source, _ in pairs)


def test_validate_uses_every_line(trained, reverse_corpus, run, user_dir):
    done = run(
        "fairseq-validate", reverse_corpus.bin, "--user-dir", user_dir, "--path", trained.checkpoint, "--cpu",
        "--task", "translation", "--max-tokens", 10000, "--valid-subset", "test1", "--log-format", "simple",
    )  # fmt: skip
    assert re.search(r"valid on 'test1' subset .* bsz 5\b", done.stdout + done.stderr)


def test_interactive_translates_in_order_and_as_generate_does(run, generate, trained, reverse_corpus, user_dir):
    lines = reverse_corpus.lines("test1", "src") + [""]
    done = run(
        "fairseq-interactive", reverse_corpus.bin, "--user-dir", user_dir, "--path", trained.checkpoint, "--cpu",
        "--beam", 2, input="\n".join(lines) + "\n",
    )  # fmt: skip
    assert re.findall(r"^S-\d+\t(.*)$", done.stdout, re.MULTILINE) == lines
    generated = hypotheses(generate("--beam", 2))
    assert list(hypotheses(done).items()) == [*sorted(generated.items()), (5, "")]


def test_the_shipped_configuration_trains_and_its_numbers_are_checked(run, reverse_corpus, tmp_path):
    splits = [word for name in ("train", "valid") for word in (f"--{name}pref", reverse_corpus.raw / f"{name}.tgt")]
    run("fairseq-preprocess", "--only-source", *splits, "--destdir", tmp_path / "bin")
    command = [
        "fairseq-hydra-train", "--config-dir", f"{ROOT}/recipes/hydra", "--config-name", "feedback_lm",
        f"hydra.run.dir={tmp_path}", f"task.data={tmp_path / 'bin'}", "common.cpu=true", "model.decoder_embed_dim=32",
        "optimization.max_update=2", "dataset.batch_size=2", "task.tokens_per_sample=8",
    ]  # fmt: skip
    run(*command)
    assert weights(tmp_path / "checkpoints")
    done = run(*command, "model.dropout=1.5", check=False)
    assert done.returncode and "model.dropout 1.5 does not fit; give a number from 0 to 1." in done.stderr
