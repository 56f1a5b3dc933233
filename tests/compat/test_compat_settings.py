"""Nothing that a file says is run as code: neither by ``eval`` nor by the other ways that fairseq has."""

import ast
import importlib
import os
import re
from pathlib import Path

import fairseq
import pytest
from fairseq import utils
from fairseq.data.fasta_dataset import FastaDataset

from fairseq_plugins.errors import UserError
from fairseq_plugins.options.literals import LONGEST, MOST, evaluate

# What strings of settings say in fairseq's own architectures, recipes and documentation.
MEANT = [
    "1e-3", "(0.9, 0.98)", "[0.0001]", "10000, 20000", "{'a': [1, None], 'b': False}", "(1e-30, 1e-3)", "True", "None",
    "[(512, 10, 5)] + [(512, 3, 2)] * 4 + [(512,2,2)] + [(512,2,2)]", " [(512, 3)] * 4 + [(1024, -3)] * 2",
    "[((64, 3, 2, 2, True), 2)] * 2", "'text' + \"more\"", "7 // 2 - 1 / 4",
]  # fmt: skip

EVIL = [
    "__import__('os').mkdir('RAN')", "__import__('os').makedirs('RAN') or [2]", "[open('RAN', 'w') for _ in [1]]",
    "(lambda: 1)()", "os", "().__class__", "f'{1}'", "[1, 2][0]", "1 if 1 else 2", "{**{}}", "9 ** 9 ** 9",
    "[0] * 10 ** 9", f"[0] * {MOST + 1}", f"{MOST + 1} * 'a'", f"[[0] * {MOST}] * 2 * {MOST}",
    "+".join(["[0] * 1000"] * 1000), "(" * 300 + ")" * 300, "1" * (LONGEST + 1), "1 / 0", "-'a'", "{[]: 1}", "x = 1",
    "", "1j", "b'a'", "\0",
]  # fmt: skip


@pytest.mark.parametrize("text", MEANT)
def test_a_setting_means_what_python_would_make_of_it(text):
    assert evaluate(text) == eval(text.strip())


@pytest.mark.parametrize("text", EVIL)
def test_anything_else_is_refused(text, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match="could be code and was not evaluated"):
        evaluate(text)
    assert not os.listdir()


def test_what_is_no_string_is_refused_as_eval_does():
    assert utils.eval_bool(None, default=True) and utils.eval_bool(3, default=True)
    assert utils.eval_bool("False") is False
    assert utils.eval_str_list("[1, 2]", int) == [1, 2] and utils.eval_str_list(0.5) == [0.5]


# Each call of the installed fairseq that can run what a text or file says, start a program or write a file whose name
# a setting gives; by the file that has it, with their number and why it may.
OWN_EVAL = "sees evaluate() in the place of eval"
LOOKED_AT = {
    **dict.fromkeys(
        "criterions/ctc.py data/audio/raw_audio_dataset.py data/codedataset.py models/fconv.py models/fconv_lm.py"
        " models/fconv_self_att.py models/hubert/hubert.py models/lightconv_lm.py"
        " models/speech_to_text/s2t_wav_transformer.py models/transformer_lm.py models/wav2vec/wav2vec.py"
        " models/wav2vec/wav2vec2.py optim/adafactor.py optim/adam.py optim/adamax.py optim/cpu_adam.py"
        " optim/fused_lamb.py utils.py".split(),
        (None, OWN_EVAL),
    ),
    "../fairseq_cli/eval_lm.py": (1, "--model-overrides, which overrides_are_options has read as a dictionary before"),
    "../fairseq_cli/validate.py": (1, "--model-overrides, which overrides_are_options has read as a dictionary before"),
    "../fairseq_cli/generate.py": (1, "the folder is the user's --results-path"),
    "criterions/sentence_ranking.py": (1, "compat/settings.py unsets save_predictions"),
    "data/audio/data_cfg.py": (1, "YAML's FullLoader makes plain data only"),
    "data/fasta_dataset.py": (2, "names_are_no_commands quotes the name"),
    "data/plasma_utils.py": (2, "starts plasma_store for the user's --use-plasma-view; compat/settings.py unsets it"),
    "distributed/utils.py": (2, "what the other processes of the same training send; the cluster's own scontrol"),
    "logging/meters.py": (1, "a meter of the same file, by its name, without arguments"),
    "logging/progress_bar.py": (1, "the user's --tensorboard-logdir"),
    "models/speech_to_text/hub_interface.py": (1, "speech: the vocoder that the user's data folder names"),
    "tasks/audio_pretraining.py": (1, "compat/settings.py unsets post_save_script"),
    "tasks/text_to_speech.py": (1, "compat/settings.py unsets tensorboard_logdir"),
    "examples": (None, "not imported but where the user has a folder examples on the path, or names it"),
}
RUNS = {"eval", "exec", "compile", "__import__", "yaml.load", "yaml.unsafe_load", "pickle.load", "pickle.loads"}
RUNS |= {"os.system", "os.popen", "joblib.load", "dill.load", "torch.hub.load", "SummaryWriter"}
OF_SETTINGS = ("criterions/", "models/", "modules/", "optim/", "tasks/", "../fairseq_cli/generate")  # may name files


def calls_that_run(file: Path, name: str) -> list[str]:
    """Calls of a source file that can run what a text or file says, or write what a setting names."""
    found = []
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if not isinstance(node, ast.Call):
            continue
        function = ast.unparse(node.func)
        unsafe = any(each.arg in ("allow_pickle", "weights_only") for each in node.keywords)
        starts = function.startswith(("subprocess.", "globals()["))
        mode = node.args[1:2] and ast.unparse(node.args[1])
        writes = function == "open" and mode in ("'w'", "'wb'", "'a'") and name.startswith(OF_SETTINGS)
        if function in RUNS or unsafe or starts or writes and "cuda_function_gen" not in name:
            found.append(ast.unparse(node))
    return found


@pytest.fixture(scope="module")
def fairseq_files() -> dict[str, Path]:
    """Every source file of the installed fairseq, by its path from the folder fairseq."""
    home = Path(fairseq.__file__).parent
    files = [*home.rglob("*.py"), *(home.parent / "fairseq_cli").rglob("*.py")]
    return {os.path.relpath(file, home): file for file in files}


def test_every_call_that_can_run_code_has_been_looked_at(fairseq_files):
    """One more in a file whose own eval is not ours has to be looked at, too."""
    found = {name: len(calls) for name, file in fairseq_files.items() if (calls := calls_that_run(file, name))}
    assert {"examples" if name.startswith("examples/") else name for name in found} == set(LOOKED_AT)
    assert {name: number for name, (number, _) in LOOKED_AT.items() if number not in (None, found.get(name))} == {}


IMPORTING = (
    r"(__import__|(importlib\.)?import_module|(\w+\.)?(cached_path|load_archive_file|import_user_module)"
    r"|torch\.hub\.\w+|(\w+\.)*(urlretrieve|urlopen)|requests\.\w+|(\w+\.)?snapshot_download"
    r"|\w*Tokenizer\.from_pretrained)\(|partial\(requests\."
)
# The same for what imports by a name, or fetches.
OWN_FOLDER = "the files of its own folder"
USERS = "what the user names, by --user-dir or an argument"
REFUSED = "compat/settings.py refuses what a checkpoint names"
IMPORTS_OR_FETCHES = {
    **dict.fromkeys(
        "criterions data/audio data/encoders model_parallel/criterions model_parallel/models models models/ema"
        " models/huggingface optim optim/lr_scheduler scoring tasks".split(),
        (1, OWN_FOLDER),
    ),
    **dict.fromkeys(
        [f"../fairseq_cli/{name}.py" for name in "eval_lm generate hydra_validate interactive preprocess train".split()]
        + ["../fairseq_cli/validate.py", "checkpoint_utils.py", "utils.py"],
        (1, USERS),
    ),
    **{
        f"data/encoders/{name}.py": (1, REFUSED)
        for name in "byte_bpe fastbpe hf_bert_bpe sentencepiece_bpe subword_nmt_bpe".split()
    },
    **dict.fromkeys(["data/encoders/gpt2_bpe.py", "data/encoders/hf_byte_bpe.py"], (2, REFUSED)),
    "file_utils.py": (3, "cached_path itself, which compat/settings.py guards"),
    "hub_utils.py": (3, USERS),
    "models/speech_to_text/hub_interface.py": (1, LOOKED_AT["models/speech_to_text/hub_interface.py"][1]),
    "optim/fused_adam.py": (2, "a module of apex"),
    "options.py": (2, USERS),
    "examples": (None, LOOKED_AT["examples"][1]),
}


def test_every_call_that_imports_or_fetches_has_been_looked_at(fairseq_files):
    found = {}
    for name, file in fairseq_files.items():
        if not re.search(IMPORTING, text := file.read_text(encoding="utf-8")):
            continue
        calls = [ast.unparse(node) for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call)]
        if number := sum(bool(re.match(IMPORTING, call)) for call in calls):
            found[name.removesuffix("/__init__.py")] = number
    assert {"examples" if name.startswith("examples/") else name for name in found} == set(IMPORTS_OR_FETCHES)
    known = {name: number for name, (number, _) in IMPORTS_OR_FETCHES.items() if number}
    assert {name: number for name, number in known.items() if number != found[name]} == {}


@pytest.mark.parametrize("name", [name for name, (_, why) in LOOKED_AT.items() if why == OWN_EVAL])
def test_every_eval_of_fairseq_is_ours(name, fairseq_files, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    calls = calls_that_run(fairseq_files[name], name)
    assert calls and all(call.startswith("eval(") for call in calls), "what else runs has to be looked at"
    module = importlib.import_module("fairseq." + name.removesuffix(".py").replace("/", "."))
    with pytest.raises(UserError, match="could be code"):
        exec("eval(text)", vars(module), {"text": EVIL[0]})
    assert not os.listdir()


def test_a_files_name_is_no_command(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    name = "valid.$(touch RAN) and `touch RAN`"
    (tmp_path / f"{name}.fasta").write_text(">one\nabc\n")
    FastaDataset._build_index(None, name)
    assert os.listdir() == [f"{name}.fasta"]
