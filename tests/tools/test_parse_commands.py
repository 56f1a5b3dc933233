"""The dry run: commands go through their own parsers, and what these refuse is named with the recipe's line."""

import pytest

PARSE = ("python", "-m", "fairseq_plugins.tools.parse_commands")
GOOD = """
fairseq-train data --user-dir fairseq_plugins --arch feedback_transformer_wmt --optimizer adam --adam-betas '(0.9, 0.9)'
torchrun --standalone --no-python --nproc_per_node 8 fairseq-train data --arch transformer --max-tokens 4000 --fp16
fairseq-generate data --user-dir fairseq_plugins --path model.pt --beam 5 --remove-bpe
fairseq-interactive data --user-dir fairseq_plugins --path model.pt --source-lang en --target-lang de
fairseq-validate data --user-dir fairseq_plugins --path model.pt --task translation
fairseq-eval-lm data --path model.pt --tokens-per-sample 64
fairseq-preprocess --source-lang en --target-lang de --trainpref train --destdir bin --joined-dictionary
fairseq-score --sys generated --ref reference
python preprocess/cnndm.py --out data --bpe 300
python -m fairseq_plugins.tools.average_checkpoints runs/model --last 10 --by update --output average.pt
"""
BAD = {
    "fairseq-train data --user-dir fairseq_plugins --arch feedback_transformer --learning-rate 1": "--learning-rate",
    "fairseq-train data --user-dir fairseq_plugins --arch feedback_transformer_wtm": "feedback_transformer_wtm",
    "fairseq-train data --user-dir fairseq_plugins --arch feedback_transformer --feedback-kv both": "--feedback-kv",
    "fairseq-train data --arch transformer --max-tokens 4k": "4k",
    "torchrun --nproc 8 --standalone fairseq-train data": "torchrun: error: ambiguous option: --nproc",
    "torchrun --standalone --no-python fairseq-train data --arch transformer --fp61": "--fp61",
    "fairseq-generate data --path model.pt --remove-bep": "--remove-bep",
    "fairseq-validate data --path model.pt": "KeyError",  # as the command itself does without --task
    "python preprocess/cnndm.py --bpe 300": "--out",
    "python -m fairseq_plugins.tools.tune_length_penalty data --path model.pt --out tuning -- --beam 5": "--lenpen",
    "python -m fairseq_plugins.tools.no_such_tool": "no_such_tool",
    "cp data elsewhere": "cp",
}


@pytest.fixture
def parse(run, tmp_path):
    def parse(commands):
        file = tmp_path / "commands.txt"
        file.write_text("".join(f"recipe.sh:{number}\t{command}\n" for number, command in enumerate(commands, 1)))
        return run(*PARSE, file, check=False)

    return parse


def test_right_commands_are_parsed_and_not_run(parse):
    commands = GOOD.strip().splitlines()
    done = parse(commands)
    assert (done.returncode, done.stdout) == (0, f"{len(commands)} commands parsed, 0 refused\n"), done.stderr


def test_every_wrong_command_is_named_with_its_line(parse):
    done = parse(BAD)
    assert done.returncode == 1
    assert done.stdout == f"{len(BAD)} commands parsed, {len(BAD)} refused\n", done.stderr
    said = [line for line in done.stderr.splitlines() if line.startswith("recipe.sh:")]
    assert len(said) == len(BAD)
    for number, (line, word) in enumerate(zip(said, BAD.values()), 1):
        assert line.startswith(f"recipe.sh:{number}: error: ") and word in line
