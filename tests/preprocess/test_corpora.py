"""Each corpus from raw text to what fairseq-train reads, through its real script."""

import gzip
import json
from hashlib import sha1

import pytest
from lib import translation
from lib.steps import Steps
from prepared_data import lines, symbols
from sentences import write_parallel

from fairseq_plugins.text.prepared import PreparedText


def sentences(out, split, pair, side):
    """The binarised sentences, without byte pair encoding, as text."""
    found = symbols(out / "bin" / f"{split}.{pair}.{side}", out / "bin" / f"dict.{side}.txt")
    return [" ".join(line[:-1]).replace("@@ ", "") for line in found]


def assert_prepared(out, source, target, split="test"):
    """Raw lines become what was binarised, by what OUT/bin says of them."""
    prepared = PreparedText.load(out / "bin")
    for side, encode in ((source, prepared.encode), (target, prepared.encode_target)):
        raw, encoded = (lines(out / folder / f"{split}.{side}") for folder in ("text", "bpe"))
        assert list(map(encode, raw)) == encoded
    return prepared


def test_multi30k_lower_cases_tokenises_and_keeps_raw_references(prepare, generated, tmp_path):
    raw = generated("multi30k")
    (raw / "test_2016_flickr.en").write_text('A Man\'s hat, in an "orange" tree.\n' * 21)
    said = prepare("multi30k", "--raw", raw, "--out", tmp_path, "--bpe", 200, "--workers", 1)
    assert "text-train: train.de + train.en 200 lines in, 200 pairs out" in said
    assert "clean: 200 pairs in, 200 train out, dropped: none" in said
    assert sentences(tmp_path, "train", "de-en", "de") == lines(raw / "train.de")
    assert len(sentences(tmp_path, "valid", "de-en", "en")) == 20
    # letters that the training text lacks are unknown
    assert sentences(tmp_path, "test", "de-en", "en")[0].startswith("a man")
    assert lines(tmp_path / "tok" / "test.en")[0] == "a man &apos;s hat , in an &quot; orange &quot; tree ."
    assert lines(tmp_path / "test.de-en.ref")[0] == 'A Man\'s hat, in an "orange" tree.'
    # with a space where the training text has one
    assert assert_prepared(tmp_path, "de", "en").decode("a man &apos;s h@@ at .") == "a man's hat ."


def test_wmt14_normalises_punctuation_cleans_and_reads_the_archives_names(prepare, generated, tmp_path):
    raw = generated("wmt14_ende")
    for language in ("en", "de"):
        train = lines(raw / f"train.{language}")
        parts = {"europarl-v7": train[:80], "commoncrawl": train[80:150], "news-commentary-v11": train[150:]}
        for name, part in parts.items():
            file = raw / f"archive-{name}" / f"{name}.de-en.{language}"
            file.parent.mkdir(exist_ok=True)
            file.write_text("".join(line + "\n" for line in part))
        (raw / f"train.{language}").unlink()
        (raw / f"newstest2014.{language}").unlink()
    long = raw / "archive-commoncrawl" / "commoncrawl.de-en.en"
    long.write_text("".join(line + "\n" for line in ["", "word " * 30, "word " * 300, *lines(long)[3:]]))
    segment = '<doc>\n<seg id="1">{}</seg>\n<seg id="2">Q &amp; A</seg>\n</doc>\n'
    (raw / "newstest2014-deen-src.en.sgm").write_text(segment.format("A “quiet” king – old"))
    (raw / "newstest2014-deen-ref.de.sgm").write_text(segment.format("Ein „stiller“ König"))

    said = prepare("wmt14_ende", "--raw", raw, "--out", tmp_path, "--bpe", 200, "--workers", 1)
    assert "commoncrawl.de-en.en + commoncrawl.de-en.de 70, " in said
    assert "1 empty" in said and "1 longer than --max-words 250" in said
    assert " more unequal than --max-ratio 1.5" in said
    assert lines(tmp_path / "tok" / "test.en") == ["A &quot; quiet &quot; king - old", "Q &amp; A"]
    assert lines(tmp_path / "test.en-de.ref") == ["Ein „stiller“ König", "Q & A"]
    for english, german in zip(lines(tmp_path / "clean" / "train.en"), lines(tmp_path / "clean" / "train.de")):
        short, long = sorted((len(english.split()), len(german.split())))
        assert short >= 1 and long <= 1.5 * short
    assert_prepared(tmp_path, "en", "de")


def test_iwslt14_reads_the_archives_markup_and_carves_every_23rd_pair(prepare, generated, tmp_path):
    source = generated("iwslt14_deen", train=100, test=10)
    raw = tmp_path / "raw" / "de-en"
    raw.mkdir(parents=True)
    for language in ("de", "en"):
        head = f"<url>http://x.{language}</url>\n<keywords>a, b</keywords>\n<title>A King</title>\n<talkid>1</talkid>\n"
        (raw / f"train.tags.de-en.{language}").write_text(head + (source / f"train.{language}").read_text())
        for n, name in enumerate(("TED.dev2010", "TEDX.dev2012", "TED.tst2010", "TED.tst2011", "TED.tst2012")):
            segments = "".join(
                f'<seg id="{m}"> {line} </seg>\n'
                for m, line in enumerate(lines(source / f"test.{language}")[2 * n : 2 * n + 2])
            )
            (raw / f"IWSLT14.{name}.de-en.{language}.xml").write_text(f"<title>x</title>\n{segments}</doc>\n")
        (raw / f"valid.{language}").write_text("not read with --carve-valid\n")
    out, options = tmp_path / "out", "--bpe 200 --max-ratio 9 --workers 1 --carve-valid"
    said = prepare("iwslt14_deen", "--raw", raw.parent, "--out", out, *options.split())
    assert "101 pairs in, 97 train and 4 valid (one in 23) out" in said
    tokens = lines(out / "tok" / "train.en")
    assert tokens[0] == "a king"
    assert sentences(out, "valid", "de-en", "en") == tokens[22::23]
    assert sentences(out, "train", "de-en", "en") == [line for n, line in enumerate(tokens, 1) if n % 23]
    assert sentences(out, "test", "de-en", "de") == lines(source / "test.de")
    assert_prepared(out, "de", "en")


def test_cnndm_cuts_articles_and_separates_sentences(prepare, generated, tmp_path):
    raw = generated("cnndm", train=60, valid=40, test=10)
    (raw / "train.jsonl").rename(raw / "first.jsonl")
    options = "--bpe 200 --article-words 20 --workers 1 --train first.jsonl valid.jsonl:1-30 --valid valid.jsonl:31-40"
    said = prepare("cnndm", "--raw", raw, "--out", tmp_path, *options.split())
    assert "text-train: first.jsonl 60, valid.jsonl 30 records in, 90 pairs out" in said
    pair = "article-highlights"
    assert [len(sentences(tmp_path, split, pair, "article")) for split in ("train", "valid")] == [90, 10]
    records = [json.loads(line) for line in lines(raw / "test.jsonl")]
    for record, article, highlights, reference in zip(
        records,
        sentences(tmp_path, "test", pair, "article"),
        sentences(tmp_path, "test", pair, "highlights"),
        lines(tmp_path / f"test.{pair}.ref"),
        strict=True,
    ):
        assert article == " ".join(record["article"].split()[:20])
        assert highlights == reference == record["highlights"].replace("\n", " <q> ")
    assert "<q>" in (tmp_path / "bpe" / "test.highlights").read_text().split()
    assert_prepared(tmp_path, "article", "highlights")


@pytest.mark.parametrize(
    "corpus, sides",
    [("iwslt14_deen", ("de", "en")), ("wmt14_ende", ("en", "de")), ("cnndm", ("article", "highlights"))],
)
def test_sentencepiece_works_on_raw_lines(corpus, sides, prepare, generated, tmp_path):
    raw = generated(corpus, train=60, valid=10, test=10)
    options = ("--out", tmp_path, "--bpe", "sentencepiece", "--symbols", 400, "--workers", 1)
    said = prepare(corpus, "--raw", raw, *options)
    assert "learn-sentencepiece: 400 symbols requested, 400 symbols learned" in said
    prepared = assert_prepared(tmp_path, *sides)
    for line in lines(tmp_path / "text" / f"test.{sides[1]}"):
        assert prepared.decode(prepared.encode_target(line)) == line


def test_chinese_is_recognised_and_tokens_of_moses_are_brought_back(prepare, refused, tmp_path):
    raw = write_parallel(tmp_path / "raw", "zh", "en", train=200, valid=10, test=10)
    train = lines(raw / "train.zh")
    (raw / "train.zh").write_text("\n".join(["月" * 30, *train[1:]]) + "\n", encoding="utf-8")
    tokens = [line.replace(".", " .").replace("n't", "n &apos;t") for line in lines(raw / "valid.en")]
    (raw / "valid.en").write_text("\n".join(tokens) + "\n", encoding="utf-8")
    options = ("--source", "zh", "--target", "en", "--workers", 1, "--raw", raw, "--out", tmp_path / "out")
    said = prepare("parallel", *options, "--max-words", 25, "--tokenised", "valid")
    assert "learn-sentencepiece: 8000 symbols requested" in said
    assert "clean: 200 pairs in, 199 train out, dropped: 1 longer than --max-words 25" in said
    prepared = assert_prepared(tmp_path / "out", "zh", "en")
    assert prepared.decode(prepared.encode("老人看见月亮。")) == "老人看见月亮。"
    assert lines(tmp_path / "out" / "tok" / "valid.en") == lines(tmp_path / "out" / "valid.zh-en.ref")
    assert not any("&apos;" in line or " ." in line for line in lines(tmp_path / "out" / "tok" / "valid.en"))
    said = refused("parallel", *options, "--bpe", 300)
    assert "--bpe 300 needs words, but 'zh' is written without spaces" in said


def test_words_that_the_user_has_split_are_kept(prepare, tmp_path):
    raw = write_parallel(tmp_path / "raw", "zh", "en", train=100, valid=10, test=10)
    for file in raw.glob("*.zh"):
        file.write_text(file.read_text(encoding="utf-8").replace("，", " ， ").replace("。", " 。"), encoding="utf-8")
    options = ("--source", "zh", "--target", "en", "--workers", 1, "--raw", raw, "--out", tmp_path / "out")
    prepare("parallel", *options, "--bpe", 100, "--tokenised", "train", "valid", "test")
    assert sentences(tmp_path / "out", "train", "zh-en", "zh") == lines(raw / "train.zh")
    assert PreparedText.load(tmp_path / "out" / "bin").encode("月 。").endswith("。")


def test_cnndm_makes_records_of_story_archives(tmp_path):
    import cnndm

    raw = tmp_path / "raw"
    addresses = {"all_train.txt": "http://cnn/1", "all_val.txt": "http://mail/2", "all_test.txt": "http://cnn/3"}
    for name, address in addresses.items():
        site = "cnn" if "cnn" in address else "dailymail"
        stories = raw / f"{site}_stories" / site / "stories"
        stories.mkdir(parents=True, exist_ok=True)
        (raw / name).write_text(address + "\n")
        (stories / f"{sha1(address.encode()).hexdigest()}.story").write_text(
            f"(CNN) From {address}.\n\nIt rained.\n\n@highlight\n\nIt was wet\n\n@highlight\n\nNobody came.\n"
        )
    records = cnndm._records_of_stories(raw, Steps(tmp_path))
    assert json.loads((records / "valid.jsonl").read_text()) == {
        "id": sha1(b"http://mail/2").hexdigest(),
        "article": "(CNN) From http://mail/2. It rained.",
        "highlights": "It was wet .\nNobody came.",
    }


def test_parallel_takes_tokenised_text_and_any_languages(prepare, generated, tmp_path):
    raw = generated("parallel")
    for file in raw.iterdir():
        (raw / f"{file.name}.gz").write_bytes(gzip.compress(file.read_bytes()))
        file.unlink()
    out = tmp_path / "with space"
    options = "--source en --target lomi --bpe 200 --workers 2 --tokenised train valid test"
    prepare("parallel", "--raw", raw, "--out", out, *options.split())
    train = gzip.decompress((raw / "train.lomi.gz").read_bytes()).decode().splitlines()
    assert sentences(out, "train", "en-lomi", "lomi") == train
    test = gzip.decompress((raw / "test.lomi.gz").read_bytes()).decode().splitlines()
    assert lines(out / "test.en-lomi.ref") == [line.replace(" .", ".").replace(" ,", ",") for line in test]


def test_pairs_that_are_in_train_too_are_counted(tmp_path):
    """A pair is both lines: another translation of the same line is another pair."""
    pairs = {"train": ("abc", "ABC"), "valid": ("bde", "BDE"), "test": ("acb", "ACX")}
    files = {split: [tmp_path / f"{split}.{side}" for side in ("src", "ref")] for split in pairs}
    for split, texts in pairs.items():
        for file, text in zip(files[split], texts):
            file.write_text("\n".join(text))
    said = translation._overlap(files.pop("train"), files)
    assert said.startswith("1 of 3 valid pairs and 2 of 3 test pairs are in train, too: a score on them says little")


def test_files_may_have_any_suffix_and_any_place(prepare, generated, tmp_path):
    raw, out = generated("parallel"), tmp_path / "out"
    for split in ("train", "valid", "test"):
        for language in ("en", "lomi"):
            (raw / f"{split}.{language}").rename(raw / f"{split}.{language}.txt")
    (raw / "train.en.txt").write_text("\n" + (raw / "train.en.txt").read_text().split("\n", 1)[1])
    prefix = ["--train-prefix", raw / "train"]
    options = ["--raw", raw, *prefix, "--source", "en.txt", "--target", "lomi.txt", "--out", out, "--bpe", 200]
    prepare("parallel", *options, "--workers", 1)
    assert len((out / "bpe/train.en.txt").read_text().splitlines()) == 199  # without the empty pair
