"""fairseq-generate --num-shards N --shard-id K: together the shards translate each sentence, and each of them once."""

import re

import pytest


@pytest.fixture
def translate(warm, trained, reverse_corpus, user_dir, tmp_path):
    """translate(*flags) -> Done, and the best translation of each sentence by its number."""

    def translate(*flags):
        command = ["fairseq-generate", reverse_corpus.bin, "--user-dir", user_dir, "--path", trained.checkpoint]
        done = warm(*command, "--cpu", "--beam", 2, *flags, log=tmp_path / "log")
        return done, re.findall(r"^D-(\d+)\t\S+\t(.*)", done.output, re.MULTILINE)

    return translate


@pytest.mark.parametrize("subset, shards", [("test", 3), ("test1", 5)])
def test_the_shards_are_the_whole(subset, shards, translate):
    _, whole = translate("--gen-subset", subset)
    some = ["--gen-subset", subset, "--num-shards", shards, "--shard-id"]
    parts = [translate(*some, shard)[1] for shard in range(shards)]
    assert len(whole) == {"test": 60, "test1": 5}[subset]
    assert all(0 < len(part) < len(whole) for part in parts)
    assert sorted(sum(parts, [])) == sorted(whole)


def test_more_shards_than_sentences_are_refused(translate):
    done, translations = translate("--gen-subset", "test1", "--num-shards", 6, "--shard-id", 0)
    assert done.verdict == "refused" and not translations
    assert "--num-shards 6 is more than there are sentences (5); lower it" in done.told[0]
