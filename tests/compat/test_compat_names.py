"""Nothing that a checkpoint names is imported, fetched, started or written, through whatever library. Canaries stand in
every setting of text in turn; Python's audit events say what they make happen, in a process of their own."""

import contextlib
import copy
import dataclasses
import importlib
import itertools
import json
import os
import re
import shutil
import sys
import traceback
from argparse import Namespace
from pathlib import Path

import inputs
import pytest
from fairseq import checkpoint_utils, file_utils, options, tasks
from fairseq.data import encoders
from fairseq.dataclass.configs import FairseqConfig
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq.models import ARCH_MODEL_NAME_REGISTRY
from fairseq.models.transformer import TransformerModel
from fakes import write_checkpoint
from omegaconf import OmegaConf

from fairseq_plugins.agents.checkpoint import ActorCheckpoints
from fairseq_plugins.compat.settings import forget_names
from fairseq_plugins.errors import UserError
from fairseq_plugins.models.feedback_transformer import FeedbackTransformerModel
from fairseq_plugins.options.withheld import refuse_withheld

MODULE = "canary_module"
URL = "http://127.0.0.1:9/canary"
CANARIES = [f"{MODULE}:Canary-v0", URL, "canary.out"]
BUILT = ("model", "task", "criterion", "bpe", "tokenizer")  # no command builds anything else of a checkpoint
AGENTS = {"batch_size": 4, "batch_size_valid": None, "max_tokens": None, "seed": 1, "best_checkpoint_metric": "reward"}
STARTS = {"subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.spawn", "os.startfile", "pty.spawn"}
REACHES = {"socket.connect", "socket.getaddrinfo", "socket.gethostbyname", "urllib.Request", "ftplib.connect"}
FETCHERS = {"requests", "boto3", "botocore", "transformers", "huggingface_hub", "s3fs"}
WRITES = {"os.mkdir", "os.rename", "os.remove", "os.truncate", "shutil.rmtree", "shutil.move"}


class Watch:
    """Notes what happens by the canary that is tried."""

    def __init__(self):
        self.tried, self.found, self.ended, self.stopped = None, [], [], []
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
            yield
            self.ended.append(what)
        except (Exception, SystemExit) as error:
            self.stopped.append([what, f"{type(error).__name__}: {error}"])
        finally:
            self.tried = None


@pytest.fixture
def watched(tmp_path, monkeypatch):
    """Do something in a process of its own, in a folder that has the canary; what its Watch found, which tries ended,
    and which an error stopped."""
    monkeypatch.chdir(tmp_path)
    Path(f"{MODULE}.py").write_text("open('canary.out', 'w').close()\n")
    monkeypatch.syspath_prepend(str(tmp_path))

    def watched(act):
        if not (child := os.fork()):
            try:
                watch = Watch()
                act(watch)
                Path("found.json").write_text(json.dumps([watch.found, watch.ended, watch.stopped]))
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

    found, *_ = watched(act)
    assert {line.partition(":")[0] for line in found} == {"import", "fetch", "start", "write"}


SIZES = "--encoder-layers 1 --encoder-embed-dim 8 --encoder-ffn-embed-dim 8 --encoder-attention-heads 1"
STREAMS = "--arch lstm_stream_lm_tiny --batch-size 2"
LABELS = f"{STREAMS} --criterion label_cross_entropy"
TASKS = {
    "translation": "data --arch feedback_transformer_tiny",
    "language_modeling": "data --arch active_memory_lm_tiny",
    "masked_lm": f"data --arch roberta {SIZES}",
    "sentence_prediction": f"data --arch roberta {SIZES} --num-classes 2 --criterion sentence_prediction",
    "algorithmic_curriculum": "--arch active_memory_algorithmic --batch-size 2 --criterion label_cross_entropy",
    "streaming_language_modeling": f"data {STREAMS}",
    "labelled_stream": f"data {LABELS}",
    "synthetic_stream": LABELS,
    "reinforcement_learning": "--arch feedback_agent_tiny --criterion a2c --batch-size 4 --environment FrozenLake-v1",
}
# Of what is not for translation, or has no tiny form.
MODELS = {
    "lstm": ("translation", "lstm --encoder-layers 1"),
    "lstm_lm": ("language_modeling", "lstm_lm"),
    "transformer_lm": ("language_modeling", "transformer_lm --decoder-layers 1"),
    "active_memory_lm": ("language_modeling", "active_memory_lm_tiny"),
    "active_memory_algorithmic": ("algorithmic_curriculum", "active_memory_algorithmic"),
    "feedback_agent": ("reinforcement_learning", "feedback_agent_tiny"),
    "roberta": ("masked_lm", f"roberta {SIZES}"),
    "roberta_cross_head": ("sentence_prediction", f"roberta_cross_head {SIZES}"),
}
OTHERS = {
    "a2c": ("reinforcement_learning", ""),
    "ppo": ("reinforcement_learning", ""),
    "sentence_prediction": ("sentence_prediction", ""),
    "subword_nmt": ("translation", "--bpe-codes codes"),
    "sentencepiece": ("translation", "--sentencepiece-model canary"),
    "prepared": ("translation", "--prepared-text canary"),
    "moses": ("translation", "--source-lang src --target-lang tgt"),
    "gpt2": ("translation", "--gpt2-encoder-json encoder.json --gpt2-vocab-bpe codes"),
}
FILES = {"sentencepiece", "prepared"}  # these files are missing


def command(part: inputs.Part) -> list[str]:
    """A training of a tiny model that has the part."""
    if part.kind == "task":
        task, words = part.name, ""
    elif part.kind == "model":
        usual = "streaming_language_modeling" if part.name.endswith("_lm") else "translation"
        task, arch = MODELS.get(part.name, (usual, f"{part.name}_tiny"))
        words = f"--arch {arch}"
    else:
        task, more = OTHERS.get(part.name, ("translation", ""))
        words = f"--{part.kind} {part.name} {more}"
    return [*TASKS[task].split(), "--task", task, *words.split()]


def configuration(part: inputs.Part, settings: dict) -> dict:
    """The parts in such a training's checkpoint, beside other settings, to which they refer."""
    args = options.parse_args_and_arch(options.get_training_parser(), command(part))
    names = {"model": ARCH_MODEL_NAME_REGISTRY[args.arch], **{kind: getattr(args, kind) for kind in BUILT[1:]}}
    classes, found = dict(inputs.part_classes()), {}
    for kind, name in names.items():
        fields = name and getattr(classes[inputs.Part(kind, name)], "__dataclass", None)
        found[kind] = {**vars(fields.from_namespace(args)), "_name": name} if fields else args
    whole = OmegaConf.create({**settings, **found}, flags={"allow_objects": True})
    return OmegaConf.to_container(whole, resolve=True, enum_to_str=True)


def texts() -> list[tuple[inputs.Part, list[str]]]:
    """The settings of text of each part."""
    found = []
    for part, parser in inputs.parsers():
        if part.kind in BUILT:
            texts = [action for action in parser._actions if action.nargs != 0 and action.type in (None, str)]
            found.append((part, [action.dest for action in texts if action.dest != "help"]))
    return [(part, names) for part, names in found if names]


@pytest.fixture
def args(reverse_corpus) -> Namespace:
    command = [str(reverse_corpus.bin), "--arch", "feedback_transformer_tiny", "--max-tokens", "600"]
    return options.parse_args_and_arch(options.get_training_parser(), command)


@pytest.fixture
def settings(args) -> dict:
    """What a checkpoint of a small model holds as its settings."""
    return OmegaConf.to_container(convert_namespace_to_omegaconf(args), resolve=True, enum_to_str=True)


def save(settings: dict, model=None) -> None:
    write_checkpoint("a.pt", cfg=settings, args=None, model=model.state_dict() if model else {})


@pytest.fixture
def data(reverse_corpus, watched) -> None:
    """The folder data, for each task that has one, and files of encoders."""
    for folder in map(Path, ("data", "data/input0", "data/label")):
        shutil.copytree(reverse_corpus.bin, folder)
        shutil.copy(folder / "dict.src.txt", folder / "dict.txt")
        for end, name in itertools.product(("bin", "idx"), ("valid", "valid.labels")):
            shutil.copy(folder / f"valid.src-tgt.src.{end}", folder / f"{name}.{end}")
    Path("codes").write_text("#version: 0.2\na b\n")
    Path("encoder.json").write_text("{}")


def build(part: inputs.Part, task) -> None:
    """What commands do with a part of a checkpoint. A task of the same settings is at hand."""
    cfg = checkpoint_utils.load_checkpoint_to_cpu("a.pt")["cfg"]
    if part.kind == "task":
        task = tasks.setup_task(cfg.task, from_checkpoint=True)
        task.load_dataset("valid", task_cfg=cfg.task)
    if part.kind in ("task", "model"):
        task.build_model(cfg.model)
    elif part.kind == "criterion":
        task.build_criterion(cfg.criterion)
    else:
        getattr(encoders, f"build_{part.kind}")(cfg[part.kind])


def test_no_setting_of_a_checkpoint_names_anything(watched, settings, data):
    def act(watch):
        for part, names in texts():
            parts = configuration(part, settings)
            task = tasks.setup_task(OmegaConf.create(parts["task"]), from_checkpoint=True)
            needed = {name: parts[name] for name in (part.kind, "model" if part.kind == "task" else part.kind)}
            for name, canary in [(None, None), *itertools.product(names, CANARIES)]:
                tried = copy.copy(parts[part.kind])
                if name:
                    (tried if isinstance(tried, dict) else vars(tried))[name] = canary
                save({**needed, part.kind: tried})
                with watch.trying([part.name, name, canary]):
                    build(part, task)

    found, ended, stopped = watched(act)
    assert found == []
    # Without a canary all is built, but for what is a file alone; with one an error is about this setting.
    assert {part.name for part, _ in texts()} - {part for part, name, _ in ended if not name} == FILES
    for what, error in stopped:
        flag = (what[1] or "").replace("_", "-")
        assert re.search(rf"canary|names gpt2|(--|the ){flag}\b", error), (what, error)
    assert len(ended) + len(stopped) == sum(1 + len(CANARIES) * len(names) for _, names in texts())


def run(module: str, *words):
    """A way to load a checkpoint: the command of a module."""

    def way():
        sys.argv = [module, *map(str, words)]
        main = importlib.import_module(module)
        (getattr(main, "cli_main", None) or main.main)()

    return way


SMALL = ("--batch-size", 4, "--num-workers", 0, "--cpu")  # workers of data are reached by sockets
TRAIN = ("fairseq_cli.train", "data", "--arch", "feedback_transformer_tiny", "--optimizer", "sgd", "--lr", 0.1,
         "--max-update", 1, "--save-dir", "saved", *SMALL)  # fmt: skip
WAYS = {  # by the task of the checkpoint
    "translation": {
        "ensemble": lambda: checkpoint_utils.load_model_ensemble_and_task(["a.pt"]),
        "fairseq's hub": lambda: TransformerModel.from_pretrained(".", "a.pt", "data").translate("a b"),
        "hub": lambda: FeedbackTransformerModel.from_pretrained(".", "a.pt", "data").translate("a b"),
        "generate": run("fairseq_cli.generate", "data", "--path", "a.pt", "--gen-subset", "test1", *SMALL),
        "validate": run("fairseq_cli.validate", "data", "--path", "a.pt", "--task", "translation", *SMALL),
        "finetune": run(*TRAIN, "--finetune-from-model", "a.pt"),
        "restore": run(*TRAIN, "--restore-file", "a.pt", "--reset-optimizer", "--reset-dataloader"),
        "average": run("fairseq_plugins.tools.average_checkpoints", "a.pt", "--output", "average.pt"),
    },
    "language_modeling": {
        "eval-lm": run("fairseq_cli.eval_lm", "data", "--path", "a.pt", "--gen-subset", "valid", *SMALL),
    },
    "reinforcement_learning": {
        "validate": run("fairseq_cli.validate", "--task", "reinforcement_learning", "--path", "a.pt", *SMALL),
        "watch": run("fairseq_plugins.tools.watch", "a.pt", "--cpu"),
    },
}


REFUSED = {
    "translation": {"fairseq's hub", "hub", "validate"},
    "language_modeling": set(),
    "reinforcement_learning": {"validate", "watch"},
}
MAY_BE_TEXT = {
    (group.name, field.name)
    for group in dataclasses.fields(FairseqConfig)
    if dataclasses.is_dataclass(group.type)
    for field in dataclasses.fields(group.type)
    if field.type == str | None
}
READ_WEIGHTS_ONLY = {"finetune", "restore", "average"}


def with_canaries(settings: dict) -> dict:
    """Settings with canaries in all that build nothing."""
    found, canaries = copy.deepcopy(settings), itertools.cycle(CANARIES)
    for group in found.keys() - {*BUILT}:
        for name, value in found[group].items() if isinstance(found[group], dict) else ():
            text = isinstance(value, str) or (group, name) in MAY_BE_TEXT
            if text and name != "replace_unk":  # that one is a file to read
                found[group][name] = next(canaries)
    return found


@pytest.mark.parametrize("task_name", WAYS)
def test_no_way_of_loading_follows_a_name(task_name, watched, settings, data):
    """A model loads and works with canaries in all settings that build nothing; with them in its parts, too, it is
    refused or loads."""

    def act(watch):
        parts = configuration(inputs.Part("task", task_name), settings)
        task = tasks.setup_task(OmegaConf.create(parts["task"]), from_checkpoint=True)
        model = task.build_model(OmegaConf.create(parts, flags={"allow_objects": True}).model)
        others = with_canaries({**settings, **parts})
        ranking = {"_name": "sentence_ranking", "ranking_head_name": "x", "num_classes": 2}
        evil = {**others, "bpe": {"_name": "gpt2"}, "criterion": {**ranking, "save_predictions": CANARIES[2]}}
        if "environment" in parts["task"]:
            evil["task"] = {**parts["task"], "environment": CANARIES[0]}
        for way, load in WAYS[task_name].items():
            for name, holder in {"others": others, "parts": evil}.items():
                if way not in READ_WEIGHTS_ONLY or name == "parts":
                    save(holder, model)
                    shutil.rmtree("saved", ignore_errors=True)
                    with watch.trying([way, name]):
                        load()

    found, ended, stopped = watched(act)
    assert found == []
    loaded = {way for way, name in ended if name == ("parts" if way in READ_WEIGHTS_ONLY else "others")}
    assert loaded == WAYS[task_name].keys(), stopped
    assert all(re.search("the checkpoint names|must provide sentence ranking head", error) for _, error in stopped)
    assert {way for (way, _), _ in stopped} == REFUSED[task_name]


def test_a_memory_names_no_environment(watched):
    def act(watch):
        with watch.trying("memory"):
            ActorCheckpoints(None, ("FrozenLake-v1", "{}")).check_environment([CANARIES[0], "{}"])

    found, _, stopped = watched(act)
    assert found == [] and "is not that of the checkpoint" in stopped[0][1]


def test_old_checkpoints_name_nothing_either(tmp_path, monkeypatch, args):
    """fairseq reads their settings twice."""
    monkeypatch.chdir(tmp_path)
    inner = Namespace(tensorboard_logdir="mine", environment=CANARIES[0])
    vars(args).update(save_predictions="mine", w2v_args=inner, bpe="gpt2", lists=[{"user_dir": "x"}])
    write_checkpoint("a.pt", args=args, cfg=None)
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
