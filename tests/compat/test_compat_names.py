"""Nothing that a checkpoint names is imported, fetched, started or written, through whatever library. Canaries stand in
every setting of text in turn; Python's audit events say what they make happen, in a process of their own."""

import contextlib
import itertools
import json
import os
import sys
import traceback
from argparse import Namespace
from pathlib import Path

import inputs
import pytest
import torch
from fairseq import checkpoint_utils, file_utils, options, tasks
from fairseq.data import encoders
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq.models import ARCH_CONFIG_REGISTRY
from omegaconf import OmegaConf

from fairseq_plugins.compat.names import forget_names
from fairseq_plugins.errors import UserError
from fairseq_plugins.withheld import refuse_withheld

MODULE = "canary_module"
URL = "http://127.0.0.1:9/canary"
CANARIES = [f"{MODULE}:Canary-v0", URL, "canary.out"]
BUILT = ("task", "model", "criterion", "bpe", "tokenizer")
AGENTS = {"batch_size": 4, "batch_size_valid": None, "max_tokens": None, "seed": 1, "best_checkpoint_metric": "reward"}
STARTS = {"subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.spawn", "os.startfile", "pty.spawn"}
REACHES = {"socket.connect", "socket.getaddrinfo", "socket.gethostbyname", "urllib.Request", "ftplib.connect"}
FETCHERS = {"requests", "boto3", "botocore", "transformers", "huggingface_hub", "s3fs"}
WRITES = {"os.mkdir", "os.rename", "os.remove", "os.truncate", "shutil.rmtree", "shutil.move"}


class Watch:
    """Notes what happens by the canary that is tried."""

    def __init__(self):
        self.tried, self.found, self.went_well = None, [], 0
        sys.addaudithook(self.hook)

    def hook(self, event, arguments):
        if self.tried is None:
            return
        text = repr(arguments[:2])
        imports = event == "import" and (arguments[0].partition(".")[0] in FETCHERS or "canary" in arguments[0])
        # the source of a module that is imported by name is opened, with no event of its own
        opens = event == "open" and (f"{MODULE}.py" in text or ("canary" in text and arguments[1] not in ("r", "rb")))
        writes = event in WRITES and "canary" in text
        if imports or opens or writes or event in STARTS | REACHES:
            self.found.append(f"{self.tried}: {event} {text[:100]}")

    @contextlib.contextmanager
    def trying(self, what):
        self.tried = what
        try:
            with contextlib.suppress(Exception, SystemExit):
                yield
                self.went_well += 1
        finally:
            self.tried = None


@pytest.fixture
def watched(tmp_path, monkeypatch):
    """Do something in a process of its own, in a folder that has the canary; what its Watch found, and how often all
    went well."""
    monkeypatch.chdir(tmp_path)
    Path(f"{MODULE}.py").write_text("open('canary.out', 'w').close()\n")
    monkeypatch.syspath_prepend(str(tmp_path))

    def watched(act):
        if not (child := os.fork()):
            try:
                watch = Watch()
                act(watch)
                Path("found.json").write_text(json.dumps([watch.found, watch.went_well]))
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(0)
        os.waitpid(child, 0)
        return json.loads(Path("found.json").read_text())

    return watched


def test_the_watch_sees(watched):
    """Else it could find nothing anywhere."""
    import gymnasium

    def act(watch):
        for name, each in {
            "import": lambda: gymnasium.make(CANARIES[0]),
            "fetch": lambda: file_utils.cached_path(URL),
            "start": lambda: os.system("true"),
            "write": lambda: os.mkdir("canary.out"),
        }.items():
            with watch.trying(name):
                each()

    found, _ = watched(act)
    assert {line.partition(":")[0] for line in found} == {"import", "fetch", "start", "write"}


def texts() -> list[tuple[inputs.Part, dict, str]]:
    """Each setting of text of each part, with the defaults of all settings of the part."""
    found = []
    for part, parser in inputs.parsers():
        if part.kind not in BUILT:  # no command builds anything else of a checkpoint
            continue
        defaults = {action.dest: action.default for action in parser._actions if action.dest != "help"}
        for action in parser._actions:
            if action.nargs != 0 and action.type in (None, str) and action.dest != "help":
                found.append((part, defaults, action.dest))
    return found


@pytest.fixture
def args(reverse_corpus) -> Namespace:
    command = [str(reverse_corpus.bin), "--arch", "feedback_transformer_tiny", "--max-tokens", "600"]
    return options.parse_args_and_arch(options.get_training_parser(), command)


@pytest.fixture
def settings(args) -> dict:
    """What a checkpoint of a small model holds as its settings."""
    return OmegaConf.to_container(convert_namespace_to_omegaconf(args), resolve=True, enum_to_str=True)


def save(settings: dict, model=None) -> None:
    history = {"optimizer_name": "FairseqAdam", "lr_scheduler_state": {}, "num_updates": 0}
    rest = {"optimizer_history": [history], "extra_state": {"train_iterator": {"epoch": 1}}}
    torch.save({"model": model.state_dict() if model else {}, "cfg": settings, **rest}, "a.pt")


def test_no_setting_of_a_checkpoint_names_anything(watched, args, settings, reverse_corpus):
    data = {"data": str(reverse_corpus.bin), "source_lang": "src", "target_lang": "tgt"}
    small = vars(args)  # sizes

    def act(watch):
        task = tasks.setup_task(OmegaConf.create(settings["task"]), from_checkpoint=True)
        task.dictionary = task.target_dictionary  # as tasks of one language have it
        parts = {name: settings[name] for name in ("task", "model", "criterion", "bpe", "tokenizer")}
        for (part, defaults, name), canary in itertools.product(texts(), CANARIES):
            own = {part.kind: part.name, "arch": part.name, **AGENTS, **(data if defaults.get("data") != "" else {})}
            tried = Namespace(**{**defaults, **{each: small[each] for each in defaults if small.get(each)}, **own})
            ARCH_CONFIG_REGISTRY.get(part.name, vars)(tried)
            setattr(tried, name, canary)
            save({**parts, part.kind: tried})
            with watch.trying(f"{part.name} {name}={canary}"):
                cfg = checkpoint_utils.load_checkpoint_to_cpu("a.pt")["cfg"]
                if part.kind == "task":  # what commands do with the parts of a checkpoint
                    tasks.setup_task(cfg.task, from_checkpoint=True).load_dataset("valid", task_cfg=cfg.task)
                if part.kind == "model":
                    task.build_model(cfg.model)
                if part.kind == "criterion":
                    task.build_criterion(cfg.criterion)
                encoders.build_bpe(cfg.bpe)
                encoders.build_tokenizer(cfg.tokenizer)

    found, went_well = watched(act)
    assert found == [] and went_well > 0


def test_old_checkpoints_name_nothing_either(tmp_path, monkeypatch, args):
    """fairseq reads their settings twice."""
    monkeypatch.chdir(tmp_path)
    inner = Namespace(tensorboard_logdir="mine", environment=CANARIES[0])
    vars(args).update(save_predictions="mine", w2v_args=inner, bpe="gpt2", lists=[{"user_dir": "x"}])
    save(None)
    torch.save({**torch.load("a.pt"), "args": args}, "a.pt")
    state = checkpoint_utils.load_checkpoint_to_cpu("a.pt")
    found = vars(state["args"])
    assert found["save_predictions"] is None and found["w2v_args"].tensorboard_logdir is None
    assert found["lists"] == [{"user_dir": None}] and found["bpe"] == "withheld: bpe=gpt2"
    assert found["w2v_args"].environment == f"withheld: environment={CANARIES[0]}"


def test_what_the_user_gave_stays():
    here = {"task": {"environment": CANARIES[0], "data": URL}, "bpe": {"_name": "gpt2"}, "common": {"user_dir": "mine"}}
    given = {"environment": CANARIES[0], "data": URL, "bpe": "gpt2", "user_dir": "mine"}
    cfg = OmegaConf.create(here)
    forget_names(cfg, given)
    assert cfg == here
    forget_names(cfg, {name: "other" for name in given})
    assert "withheld: data=" in cfg.task.data and cfg.bpe._name == "withheld: bpe=gpt2" and cfg.common.user_dir is None
    forget_names(cfg, given)  # of an average, which was written after that
    assert cfg.task == here["task"] and cfg.bpe == here["bpe"]


@pytest.mark.parametrize(
    "settings", [{"world": f"{MODULE}:World"}, {"xml_file": "a.xml"}, {"a": [{"b": "c/d"}]}, {"entry_point": "a:b"}]
)
def test_settings_of_an_environment_that_could_name_something(settings):
    cfg = OmegaConf.create({"environment_settings": json.dumps(settings)})
    forget_names(cfg, {})
    with pytest.raises(UserError, match="the checkpoint names .* as its environment_settings, .* name it yourself"):
        refuse_withheld(cfg.environment_settings)
    plain = OmegaConf.create({"environment_settings": '{"view": "where", "size": 5}'})
    forget_names(plain, {})
    assert plain == {"environment_settings": '{"view": "where", "size": 5}'}


def test_interpolations(monkeypatch):
    cfg = OmegaConf.create({"a": "canary_module", "environment": "${a}:C-v0", "task": {"data": "${oc.env:NONE}://x"}})
    forget_names(cfg, {})
    assert cfg.environment == "withheld: environment=canary_module:C-v0"
    monkeypatch.setenv("NONE", "http")
    assert cfg.task.data == "withheld: data=http://x"


def test_a_named_environment_is_the_way_out(monkeypatch, tmp_path, capsys):
    """In watch, and from Python; the module is imported then, and registers the environment."""
    gymnasium = pytest.importorskip("gymnasium")
    from fairseq_plugins.tools import watch

    monkeypatch.setitem(gymnasium.registry, "Own-v0", None)  # forgotten after the test
    del gymnasium.registry["Own-v0"]
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    Path("own_module.py").write_text(
        "import gymnasium\ngymnasium.register('Own-v0', 'gymnasium.envs.toy_text.frozen_lake:FrozenLakeEnv',"
        " max_episode_steps=9)\n"
    )
    config = OmegaConf.create({"_name": "reinforcement_learning", "environment": "FrozenLake-v1", **AGENTS})
    task = tasks.setup_task(config, from_checkpoint=True)
    model = OmegaConf.create({"_name": "feedback_agent_tiny"})
    save({"task": {**config, "environment": "own_module:Own-v0"}, "model": dict(model)}, task.build_model(model))
    load, named = checkpoint_utils.load_model_ensemble_and_task, "own_module:Own-v0"
    with pytest.raises(UserError, match="names own_module:Own-v0 as its environment, .* --environment 'own_module:Own"):
        load(["a.pt"])
    assert "own_module" not in sys.modules
    monkeypatch.setattr(sys, "argv", ["watch", "a.pt", "--environment", named])
    watch.main()
    assert "mean reward of 1 episodes" in capsys.readouterr().out
    load(["a.pt"])  # it is registered now
    del sys.modules["own_module"], gymnasium.registry["Own-v0"]
    load(["a.pt"], arg_overrides={"environment": named})
