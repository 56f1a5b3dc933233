"""Scores from fairseq-generate's output, held against fairseq-score, sacreBLEU and rouge-score themselves."""

import json
import re

import pytest
import sacrebleu
from generation_logs import write_log
from sacrebleu.metrics import bleu as sacrebleu_bleu
from sentences import sentences

from fairseq_plugins.errors import UserError
from fairseq_plugins.text.levels import BytePairs, SentencePieces
from fairseq_plugins.text.prepared import PreparedText
from fairseq_plugins.text.tokenisers import Moses, Plain
from fairseq_plugins.tools.lib.bleu import (
    compare,
    sacrebleu_scores,
    sacrebleu_tokeniser,
    split_compounds,
    tokenised_bleu,
    tokenised_scores,
)
from fairseq_plugins.tools.lib.generation_log import Example, is_raw, read_generation, read_references
from fairseq_plugins.tools.lib.rouge import ANY_SCRIPT, Words, rouge
from fairseq_plugins.tools.tune_length_penalty import METRICS

REFERENCES = [
    "ein gut gelaunter Mann geht nach Haus- und Hof-Art .",
    "die well-known U-Bahn-Station &quot; Alt-Mitte &quot; ist zu .",
    "wir sehen den alten Hund im Garten .",
]
HYPOTHESES = [
    "ein gut-gelaunter Mann geht nach Hof-Art .",
    "die U-Bahn-Station &quot; Alt Mitte &quot; ist heute zu .",
    "wir sehen den alten Hund im Garten nicht .",
]


def test_raw_references_keep_their_own_punctuation(tmp_path, tool):
    """Targets have been normalised, as preprocess/wmt14_ende.py does, the raw references have not."""
    generated = write_log(tmp_path / "generated", REFERENCES, REFERENCES)
    raw = [line.replace("&quot; Alt-Mitte &quot;", "„Alt-Mitte“").replace(" .", ".") for line in REFERENCES]
    (tmp_path / "raw").write_text("\n".join(raw) + "\n", encoding="utf-8")
    flags = ("--references", tmp_path / "raw", "--lang", "de", "--compound-split", "--json", tmp_path / "scores.json")
    done = tool("score_translations", generated, *flags, "--tokenise-references")
    assert done.returncode == 0, done.stderr
    scores = json.loads((tmp_path / "scores.json").read_text())
    expected = [line.replace("&quot; Alt-Mitte &quot;", "„ Alt-Mitte “") for line in REFERENCES]
    split = [split_compounds(line) for line in REFERENCES], [split_compounds(line) for line in expected]
    assert scores["bleu"] == pytest.approx(100) and scores["bleu_raw_references"] == tokenised_bleu(*split) < 95
    assert f"the same against raw references = {scores['bleu_raw_references']:.2f}" in done.stdout
    without = tool("score_translations", generated, "--tokenise-references")
    assert without.returncode == 1 and without.stderr == (
        "fairseq_plugins: error: --tokenise-references needs --references and --lang; add them.\n"
    )


def test_tokenised_bleu_equals_fairseq_score(tmp_path, run, tool):
    for name, text in (("sys", HYPOTHESES), ("ref", REFERENCES)):
        (tmp_path / name).write_text("\n".join(text) + "\n")
    printed = run("fairseq-score", "--sys", tmp_path / "sys", "--ref", tmp_path / "ref").stdout
    assert float(re.search(r"BLEU4 = ([\d.]+),", printed)[1]) == round(tokenised_bleu(HYPOTHESES, REFERENCES), 2) > 0
    log = write_log(tmp_path / "log", HYPOTHESES, REFERENCES)
    tool("score_translations", log, "--json", tmp_path / "scores.json")
    ratio = json.loads((tmp_path / "scores.json").read_text())["length_ratio"]
    assert float(re.search(r"ratio=([\d.]+),", printed)[1]) == pytest.approx(ratio, abs=5e-4) != 1


def test_compounds_are_split_at_hyphens_inside_words():
    split = "A ##AT##-##AT## Tor - UN ##AT##-##AT## Büro ##AT##-##AT## Chef -h"
    assert split_compounds("A-Tor - UN-Büro-Chef -h") == split
    assert split_compounds("e-f-g") == "e ##AT##-##AT## f-g"  # as the published scores have it


def test_compound_split_bleu_is_of_split_text(tmp_path, tool):
    log = write_log(tmp_path / "log", HYPOTHESES, REFERENCES, order=[2, 0, 1])
    done = tool("score_translations", log, "--compound-split")
    expected = tokenised_bleu([*map(split_compounds, HYPOTHESES)], [*map(split_compounds, REFERENCES)])
    assert done.stdout == f"tokenised BLEU, compounds split = {expected:.2f} (3 sentences)\n"
    assert expected != pytest.approx(tokenised_bleu(HYPOTHESES, REFERENCES), abs=0.1)


def test_score_translations_prints_sacrebleus_own_score_and_signature(tmp_path, tool):
    log = write_log(tmp_path / "log", HYPOTHESES, REFERENCES, order=[1, 2, 0])
    raw = [
        "Ein gut gelaunter Mann geht nach Haus- und Hof-Art.",
        'Die well-known U-Bahn-Station "Alt-Mitte" ist zu.',
        "Wir sehen den alten Hund im Garten.",
    ]
    (tmp_path / "ref").write_text("\n".join(raw) + "\n")
    flags = ["--references", tmp_path / "ref", "--lang", "de", "--lowercase", "--json", tmp_path / "score.json"]
    done = tool("score_translations", log, *flags)
    plain = [
        "ein gut-gelaunter Mann geht nach Hof-Art.",
        'die U-Bahn-Station "Alt Mitte" ist heute zu.',
        "wir sehen den alten Hund im Garten nicht.",
    ]
    expected = sacrebleu.corpus_bleu(plain, [raw], lowercase=True).score
    assert f"sacreBLEU = {expected:.2f} nrefs:1|case:lc|eff:no|tok:13a" in done.stdout, done.stderr
    assert f"tokenised BLEU = {tokenised_bleu(HYPOTHESES, REFERENCES):.2f} (3 sentences)" in done.stdout
    assert json.loads((tmp_path / "score.json").read_text())["sacrebleu"] == pytest.approx(expected)


def test_paired_bootstrap_tells_a_better_system_from_an_equal_one(tmp_path):
    references = [f"the {noun} saw {n} red boats on the lake ." for n in range(40) for noun in ("king", "cat")]
    worse = [line.replace("red boats", "boats") if n % 2 else line for n, line in enumerate(references)]
    good = read_generation(write_log(tmp_path / "good", references, references))
    bad = read_generation(write_log(tmp_path / "bad", worse, references))
    raw = [line.replace(" .", ".") for line in references]
    elsewhere = [line if n % 2 else line.replace("red boats", "boats") for n, line in enumerate(references)]
    other = read_generation(write_log(tmp_path / "other", elsewhere, references))
    apart, near, same = (compare(system, bad, raw, "en", samples=300) for system in (good, other, bad))
    assert apart["difference"] > 5 and apart["p"] < 0.01
    assert abs(near["difference"]) < 1 and near["p"] > 0.2
    assert same["difference"] == 0 and same["p"] == 1
    assert apart["baseline"] == pytest.approx(sacrebleu_scores(bad, raw, "en")["sacrebleu"])


def test_rouge_counts_sentences_and_detokenises(tmp_path, tool):
    hypothesis = "The king &apos;s dog ran . <q> It rained ."
    assert rouge([hypothesis], ["The king's dog ran. <q> It rained."])["rougeLsum"] == pytest.approx(100)
    # the same sentences in another order: summary-level L does not mind, the L of one sequence does
    swapped = rouge([hypothesis], ["It rained. <q> The king's dog ran."])
    assert swapped["rougeLsum"] == pytest.approx(100) and swapped["rougeL"] < 75
    log = write_log(tmp_path / "log", [hypothesis], ["x"])
    (tmp_path / "ref").write_text("The kings' dogs run. <q> It rains.\n")
    done = tool("rouge", log, "--references", tmp_path / "ref", "--json", tmp_path / "rouge.json")
    assert "ROUGE-1 = " in done.stdout and "ROUGE-L sum (of sentences) = " in done.stdout, done.stderr
    scores = json.loads((tmp_path / "rouge.json").read_text())
    assert all(f" = {score:.2f}\n" in done.stdout and score == round(score, 2) for score in scores.values())
    assert done.stdout.endswith("(1 summaries, F1, Porter stemmer, rouge-score)\n")
    # a stemmer makes rained = rains and dogs = dog
    assert rouge(["It rained ."], ["It rains."])["rouge1"] == pytest.approx(100)


@pytest.mark.parametrize("language", ["ar", "zh", "ja", "fi", "en"])
def test_rouge_of_any_language(language):
    references = [" <q> ".join(pair) for pair in zip(sentences(language, 20), sentences(language, 20))]
    assert rouge(references, references, language, raw=True)["rougeLsum"] == pytest.approx(100)
    others = [reference[len(reference) // 2 :] for reference in references]
    assert all(10 < score < 95 for score in rouge(others, references, language, raw=True).values())


def test_rouge_knows_other_scripts_without_a_language(tmp_path, tool):
    """As tune_length_penalty, which gives none."""
    references = sentences("zh", 9)
    assert rouge(references, references, raw=True)["rouge2"] == pytest.approx(100)
    log = write_log(tmp_path / "log", references, references, raw=references)
    (tmp_path / "ref").write_text("\n".join(references) + "\n", encoding="utf-8")
    done = tool("rouge", log, "--references", tmp_path / "ref", "--lang", "zh")
    assert "ROUGE-2 = 100.00\n" in done.stdout, done.stderr
    assert f"(9 summaries, F1, {ANY_SCRIPT}, rouge-score)" in done.stdout


@pytest.mark.parametrize(
    "text, words",
    [
        ("L'été, Ọjọ́ 3,5!", ["l", "été", "ọjọ́", "3", "5"]),
        ("کتاب\u200cهای ما؟ ذَهَبَ", ["کتاب\u200cهای", "ما", "ذَهَبَ"]),
        ("我喜欢 the moon。", ["我", "喜", "欢", "the", "moon"]),
        ("ที่นี่", ["ที่", "นี่"]),
    ],
)
def test_words_of_rouge_keep_their_marks(text, words):
    assert Words().tokenize(text) == words


WRONG = {
    "en": ("moon", "sun"), "zh": ("月亮", "太阳"), "ja": ("月", "太陽"), "fi": ("kuun", "auringon"),
    "ar": ("القمر", "الشمس"),
}  # fmt: skip


def half_right(language):
    """References, and translations with one wrong word in some."""
    references = sentences(language, 40)
    return references, [line.replace(*WRONG[language]) for line in references]


@pytest.mark.parametrize(
    "language, tokeniser", [("en", "13a"), ("zh", "zh"), ("zh_TW", "zh"), ("fi", "13a"), ("ar", "13a")]
)
def test_scores_take_the_tokeniser_for_the_language(language, tokeniser, tmp_path, tool):
    references, raw = half_right(language.partition("_")[0])
    pieces = [f"▁{' '.join(line.replace(' ', '▁'))}" for line in raw]
    (tmp_path / "ref").write_text("\n".join(references) + "\n", encoding="utf-8")
    log = write_log(tmp_path / "log", pieces, references, order=[*range(20, 40), *range(20)], raw=raw)
    done = tool("score_translations", log, "--references", tmp_path / "ref", "--lang", language)
    expected = sacrebleu.corpus_bleu(raw, [references], tokenize=tokeniser).score
    assert f"sacreBLEU = {expected:.2f} nrefs:1|case:mixed|eff:no|tok:{tokeniser}|" in done.stdout, done.stderr
    assert f"chrF = {sacrebleu.corpus_chrf(raw, [references]).score:.2f} nrefs:1|" in done.stdout
    assert 50 < expected < 100
    alone = tool("score_translations", log)  # the references of the log are raw, too
    assert f"sacreBLEU = {expected:.2f} " in alone.stdout, alone.stderr
    assert ("tokenised BLEU" in done.stdout) == (tokeniser == "13a")  # there are no tokens in Chinese


def test_raw_text_is_tokenised_for_tokenised_bleu(tmp_path):
    """SentencePiece's score is that of byte pair encoding if the translations are the same."""
    references, raw = half_right("fi")
    moses = Moses("fi")
    tokens = read_generation(write_log(tmp_path / "a", [*map(moses.tokenise, raw)], [*map(moses.tokenise, references)]))
    text = read_generation(write_log(tmp_path / "b", [f"▁{line}" for line in raw], references, raw=raw))
    assert not tokens[0].raw and text[0].raw
    assert tokenised_scores(tokens) == tokenised_scores(text, language="fi")
    assert sacrebleu_scores(tokens, references, "fi") == sacrebleu_scores(text, references, "fi")
    assert tokenised_scores(text, language="fi")["bleu"] < 100


def test_the_script_of_the_references_decides_for_other_names():
    assert sacrebleu_tokeniser("tgt", sentences("zh", 9)) == "zh"
    assert sacrebleu_tokeniser("tgt", sentences("ja", 9)) == "ja-mecab"
    assert sacrebleu_tokeniser("th", ["ฉันเห็นดวงจันทร์"]) == "char"
    assert sacrebleu_tokeniser("kor_Hang", ["달"]) == "ko-mecab"
    assert sacrebleu_tokeniser("tgt", sentences("ar", 9)) == "13a"


def test_a_tokeniser_by_flag_and_one_that_is_not_installed(tmp_path, monkeypatch, tool):
    references, raw = half_right("ja")
    (tmp_path / "ref").write_text("\n".join(references) + "\n", encoding="utf-8")
    log = write_log(tmp_path / "log", [f"▁{line}" for line in raw], references, raw=raw)
    flags = ("--references", tmp_path / "ref", "--lang", "ja", "--tokenise", "char")
    expected = sacrebleu.corpus_bleu(raw, [references], tokenize="char").score
    done = tool("score_translations", log, *flags)
    assert f"sacreBLEU = {expected:.2f} nrefs:1|case:mixed|eff:no|tok:char|" in done.stdout

    def no_network(name):
        raise OSError("no network")

    monkeypatch.setattr(sacrebleu_bleu, "_get_tokenizer", no_network)
    with pytest.raises(UserError, match=r"flores200 has to be downloaded once, which failed \(no network\)"):
        sacrebleu_scores(read_generation(log), references, "ja", tokenise="flores200")

    def missing(name):
        raise RuntimeError("Please install the following extra packages ...")

    monkeypatch.setattr(sacrebleu_bleu, "_get_tokenizer", missing)
    missing_words = r"ja-mecab is not installed: pip install 'sacrebleu\[ja\]', or choose another"
    scores = sacrebleu_scores(read_generation(log), references, "ja")
    assert re.search(missing_words, scores["no_sacrebleu"]) and scores["chrf"] < 100 and "sacrebleu" not in scores
    with pytest.raises(UserError, match=missing_words):
        sacrebleu_scores(read_generation(log), references, "ja", tokenise="ja-mecab")


def test_pieces_are_joined_by_what_the_data_folder_says(tmp_path, tool):
    import sentencepiece

    references, raw = half_right("zh")
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(references), model_prefix=str(tmp_path / "sentencepiece"), vocab_size=400,
        byte_fallback=True, normalization_rule_name="identity", hard_vocab_limit=False, minloglevel=2,
    )  # fmt: skip
    text = PreparedText(Plain(), Plain(), SentencePieces(tmp_path / "sentencepiece.model"), "en", "zh")
    text.save(tmp_path / "bin")
    (tmp_path / "ref").write_text("\n".join(references) + "\n", encoding="utf-8")
    log = write_log(tmp_path / "log", [*map(text.encode_target, raw)], [*map(text.encode_target, references)])
    flags = ("--references", tmp_path / "ref", "--lang", "zh")
    expected = sacrebleu.corpus_bleu(raw, [references], tokenize="zh").score
    done = tool("score_translations", log, *flags, "--prepared-text", tmp_path / "bin")
    assert f"sacreBLEU = {expected:.2f} " in done.stdout, done.stderr
    done = tool("score_translations", log, *flags)
    assert done.returncode == 1
    assert "('▁'): generate with --bpe prepared, or with --remove-bpe sentencepiece; plain --rem" in done.stderr


@pytest.mark.parametrize("language", ["en", "zh", "fi", "ar"])
def test_raw_text_that_fairseq_generate_has_joined_is_no_tokens(language, tmp_path):
    """With --remove-bpe sentencepiece the H- and D- lines are the same raw text."""
    references, raw = half_right(language)
    pieces = [f"▁{' '.join(line.replace(' ', '▁'))}" for line in raw]
    brought_back = read_generation(write_log(tmp_path / "brought_back", pieces, references, raw=raw))
    joined = read_generation(write_log(tmp_path / "joined", raw, references))
    assert joined == brought_back and joined[0].raw
    assert tokenised_scores(joined, language=language) == tokenised_scores(brought_back, language=language)


MARKS = {
    "en": ["It's here, isn't it?", 'He said: "Go, now!"', "They left Acme Inc. at 3,500 m.", "no marks at all"],
    "fr": ["Qui est là ?", "L'homme, dit-elle, est parti.", "Il l'a vu ; elle aussi.", "« Oui », dit-il."],
    "de": ["Das Haus, das große, ist zu.", "„Nein“, sagte er.", "Am 3. Mai kam der 5%-Wert.", "Ja!"],
    "hi": ["यह घर है।", "वह आया, और गया।"],
    "lomi": ["garuin donesol ham , furoni cudi gledolt.", "tisil seluisa ham , furoni lesiin vanin."],
}


@pytest.mark.parametrize("language", MARKS)
def test_marks_tell_raw_text_from_moses_tokens(language):
    raw = MARKS[language]
    assert is_raw(raw) and not is_raw([*map(Moses(language).tokenise, raw)])


def test_lines_without_marks_are_raw_text_of_a_language_without_spaces():
    assert is_raw(["ฉันเห็นดวงจันทร์", "月亮"]) and not is_raw(["the moon", "u.s. sees"])


def test_the_data_folder_says_what_is_raw_text_where_nothing_shows_it(tmp_path):
    text = PreparedText(Plain(), Plain(), SentencePieces(tmp_path / "sentencepiece.model"), "de", "en")
    log = write_log(tmp_path / "log", ["it's here"], ["it's there"])
    assert read_generation(log, text)[0].raw and not read_generation(log)[0].raw


def test_a_baseline_on_another_test_set_is_refused(tmp_path, tool):
    system = write_log(tmp_path / "system", HYPOTHESES, REFERENCES)
    baseline = write_log(tmp_path / "baseline", HYPOTHESES, REFERENCES[::-1])
    (tmp_path / "ref").write_text("\n".join(REFERENCES) + "\n", encoding="utf-8")
    flags = ("--references", tmp_path / "ref", "--lang", "de", "--samples", 10, "--baseline")
    done = tool("score_translations", system, *flags, baseline)
    assert done.returncode == 1 and done.stderr == (
        f"fairseq_plugins: error: {baseline} and {system} have other references; give outputs for one test set.\n"
    )
    write_log(baseline, HYPOTHESES, [line.upper() for line in REFERENCES])
    assert "difference +0.00, p = 1.0000" in tool("score_translations", system, *flags, baseline).stdout


def test_byte_pairs_are_joined_too(tmp_path):
    (tmp_path / "codes").write_text("#version: 0.2\nh e\n", encoding="utf-8")
    text = PreparedText(Moses("de"), Moses("en"), BytePairs(tmp_path / "codes"), "de", "en")
    line = "It's here, isn't it?"
    log = write_log(tmp_path / "log", [text.encode_target(line)], [text.encode_target(line)])
    (example,) = read_generation(log, text)
    assert example.hypothesis == Moses("en").tokenise(line) and not example.raw
    assert sacrebleu_scores([example], [line], "en")["sacrebleu"] == pytest.approx(100)


def test_length_penalties_are_tuned_by_the_scores_of_the_language():
    references, raw = half_right("zh")
    examples = [Example("", reference, line, raw=True) for reference, line in zip(references, raw)]
    scores = sacrebleu_scores(examples, references, "zh")
    assert METRICS["sacrebleu"](examples, None, "zh") == scores["sacrebleu"]
    assert METRICS["chrf"](examples, references, "zh") == scores["chrf"]
    with pytest.raises(UserError, match="--metric bleu needs spaces between words"):
        METRICS["bleu"](examples, None, "zh")


@pytest.mark.parametrize(
    "log, sentence",
    [
        ({"order": [0, 2]}, "holds 2 hypotheses and 2 references, numbered up to 2"),
        ({"order": [0, 1, 1, 2]}, "has sentence 1 twice"),
        ({"end": False}, "lacks the last line of fairseq-generate"),
        ({"hypotheses": ["ein M@@ ann"], "references": ["ein Mann"]}, "generate with --remove-bpe for tokens"),
    ],
)
def test_a_log_that_is_not_the_whole_test_set_is_refused(log, sentence, tmp_path):
    write_log(tmp_path / "log", **{"hypotheses": HYPOTHESES, "references": REFERENCES, **log})
    with pytest.raises(UserError, match=sentence):
        read_generation(tmp_path / "log")


def test_errors_of_a_tool_are_one_sentence(tmp_path, tool):
    log = write_log(tmp_path / "log", HYPOTHESES, REFERENCES)
    (tmp_path / "ref").write_text("one\ntwo\n")
    done = tool("score_translations", log, "--references", tmp_path / "ref", "--lang", "de")
    assert done.returncode == 1
    assert done.stderr == (
        f"fairseq_plugins: error: {tmp_path / 'ref'} holds 2 references for 3 hypotheses: "
        "give the references of the same test set.\n"
    )
    (tmp_path / "marked").write_text("\ufeffone\n\ufefftwo\n", encoding="utf-8")
    assert read_references(tmp_path / "marked", 2) == ["one", "\ufefftwo"]  # the first is a byte order mark
    (tmp_path / "empty").touch()
    with pytest.raises(UserError, match="empty holds 0 references for 1 hypotheses"):
        read_references(tmp_path / "empty", 1)
    with pytest.raises(UserError, match="nowhere does not exist"):
        read_references(tmp_path / "nowhere", 3)


def test_only_the_best_of_several_hypotheses_counts(tmp_path):
    log = write_log(tmp_path / "log", ["best"], ["x"])
    log.write_text(log.read_text().replace("P-0\t", "H-0\t-0.9\tsecond\nP-0\t"))
    assert [example.hypothesis for example in read_generation(log)] == ["best"]
