"""Text sampled from a model, with prompts in plain text."""

from pathlib import Path
from types import SimpleNamespace

import pytest
from fairseq.data import Dictionary

from fairseq_plugins.errors import UserError
from fairseq_plugins.text.levels import Bytes, Characters
from fairseq_plugins.text.prepared import PreparedText
from fairseq_plugins.text.tokenisers import Plain
from fairseq_plugins.tools import sample
from fairseq_plugins.tools.lib.language_model import TOKENS, level_of


def dictionary_of(symbols):
    dictionary = Dictionary()
    for symbol in symbols:
        dictionary.add_symbol(symbol)
    return dictionary


CHECKPOINTS = Path(__file__).parents[1] / "models/checkpoints"
LETTERS = dictionary_of("abc_")
NUMBERS = dictionary_of(["32", "97", "195", "188"])
WORDS = dictionary_of(["the", "com@@", "pany", "."])


def text_of(dictionary):
    return PreparedText(Plain(), Plain(), level_of(dictionary))


@pytest.mark.parametrize(
    "dictionary, kind, text",
    [(LETTERS, "characters", "a cab\n\nabc "), (NUMBERS, "bytes", "a \u00fc\na"), (WORDS, "words", "the .\n.")],
)
def test_a_prompt_is_taken_apart_and_put_together_again(dictionary, kind, text):
    assert level_of(dictionary) == TOKENS[kind]
    tokens = sample.encode(text, dictionary, text_of(dictionary))
    assert dictionary.unk() not in tokens
    assert sample.decode(tokens, dictionary, text_of(dictionary)) == text


def test_pieces_of_words_are_joined():
    tokens = [WORDS.index(symbol) for symbol in ("the", "com@@", "pany", ".")]
    assert sample.decode(tokens, WORDS, text_of(WORDS)) == "the company ."
    assert sample.decode(tokens[:2], WORDS, text_of(WORDS)) == "the com"


def test_fillers_of_the_dictionary_do_not_change_its_kind():
    dictionary = dictionary_of("abc")
    dictionary.pad_to_multiple_(8)
    assert level_of(dictionary) == TOKENS["characters"]


def test_what_the_dictionary_lacks_is_counted_and_named(capsys):
    sample.encode("abxyx", LETTERS, text_of(LETTERS))
    assert "the model does not know 3 of the prompt's 5 symbols: x y\n" in capsys.readouterr().err


@pytest.mark.parametrize(
    "dictionary, prompt, more, whole",
    [
        (LETTERS, "aXb ", "c", "aXb c"),
        (LETTERS, "aXb ", "_c", "aXb  c"),
        (WORDS, "the  Xs ", "the", "the  Xs the"),
        (WORDS, "the", "com@@", "the com"),
        (NUMBERS, "a", "97", "aa"),
    ],
)
def test_a_prompt_is_printed_as_it_was_given(dictionary, prompt, more, whole):
    text = text_of(dictionary)
    start = sample.encode(prompt, dictionary, text)
    tokens = [dictionary.index(symbol) for symbol in (more if dictionary is LETTERS else [more])]
    assert sample.continued(prompt, start, start + tokens, dictionary, text) == whole


def test_texts_of_the_length_asked_for_that_differ_and_come_again(tool):
    model = ["--path", CHECKPOINTS / "feedback_lm_tiny.pt", "--data", CHECKPOINTS, "--cpu"]
    options = ["--prompt", "ab\nc a", "--length", 50, "--samples", 2, "--top-k", 1000, "--seed", 5]  # 1000: all tokens
    said = tool("sample", *model, *options).stdout
    text = said.replace("<unk>", "?")  # drawn as any other symbol, but no filler of the dictionary is
    first, second = text.removeprefix("--- 1\n").removesuffix("\n").split("\n--- 2\n")
    assert all(text.startswith("ab\nc a") and len(text) == 56 for text in (first, second))
    assert first != second and {*first, *second} <= set("abcdefgh \n?")
    assert tool("sample", *model, *options).stdout == said


def test_a_prompt_from_a_file_and_text_as_it_was_prepared(tool, tmp_path):
    for name in ("feedback_lm_tiny.pt", "dict.txt"):
        (tmp_path / name).symlink_to(CHECKPOINTS / name)
    PreparedText(Plain(lower=True), Plain(), Characters(space="_")).save(tmp_path)
    (tmp_path / "prompt").write_text("AB c\nA\n")
    options = ["--prompt-file", tmp_path / "prompt", "--length", 5]
    assert tool("sample", "--path", tmp_path / "feedback_lm_tiny.pt", "--cpu", *options).stdout.startswith("AB c\nA")


def test_bytes_that_are_no_text_are_a_prompt_for_a_model_of_bytes(main, tmp_path, capsysbinary):
    for name in ("feedback_lm_tiny.pt", "dict.txt"):
        (tmp_path / name).symlink_to(CHECKPOINTS / name)
    PreparedText(Plain(), Plain(), Bytes()).save(tmp_path)
    (tmp_path / "prompt").write_bytes(b"caf\xe9\n")
    main(
        sample, "--path", tmp_path / "feedback_lm_tiny.pt", "--cpu", "--prompt-file", tmp_path / "prompt", "--length", 2
    )
    assert capsysbinary.readouterr().out.startswith(b"caf\xe9")


@pytest.mark.parametrize(
    "options, words",
    [
        (["--top-k", 3, "--top-p", 0.5], "--top-k and --top-p exclude"),
        (["--path", "none.pt"], "the checkpoint none.pt does not exist"),
    ],
)
def test_wrong_flags(options, words, main):
    with pytest.raises(UserError, match=words):
        main(sample, "--path", "model.pt", *options)


def test_a_model_of_single_lines_takes_one_line():
    task = SimpleNamespace(dictionary=LETTERS)
    prompt = sample.encode("ab\nc", LETTERS, text_of(LETTERS))
    assert sample.encode("ab\nc", LETTERS, text_of(LETTERS), newlines=False) == [
        each for each in prompt if each != LETTERS.eos()
    ]
    with pytest.raises(UserError, match="--prompt has several lines, but the model is for single lines"):
        sample.sample(task, None, prompt, SimpleNamespace(length=5))
