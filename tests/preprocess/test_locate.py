"""Raw files are found by name, and files that belong together in one folder."""

import pytest
import wmt14_ende
from lib import locate, translation

from fairseq_plugins.errors import UserError


@pytest.fixture
def raw(tmp_path):
    """Folders of two language pairs, and a hidden one."""
    for name in ("de-en/train.de", "de-en/train.en", "fr-en/train.en", "fr-en/train.fr.gz", ".old/test.fr"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    return tmp_path


def test_a_file_is_found_below_the_folder_plain_or_packed(raw):
    assert locate.file(raw, "train.de") == raw / "de-en/train.de"
    assert locate.file(raw, "train.fr") == raw / "fr-en/train.fr.gz"
    assert locate.file(raw, "fr-en/train.en") == raw / "fr-en/train.en"
    assert locate.file(raw, str(raw / "de-en/train.en")) == raw / "de-en/train.en"
    assert locate.file(raw, "test.fr") is None


def test_what_stands_above_goes_first_and_two_below_are_one_too_many(raw):
    with pytest.raises(UserError, match="has .*de-en/train.en and .*fr-en/train.en: take one of them away"):
        locate.file(raw, "train.en")
    (raw / "train.en").touch()
    assert locate.file(raw, "train.en") == raw / "train.en"


def test_source_and_target_are_from_one_folder(raw):
    def pairs(source, target):
        return translation._find(raw, "train", [["train.{language}"]], (source, target))

    assert pairs("fr", "en") == [[raw / "fr-en/train.fr.gz", raw / "fr-en/train.en"]]
    assert pairs("en", "de") == [[raw / "de-en/train.en", raw / "de-en/train.de"]]
    assert pairs("fr", "de") == [[raw / "fr-en/train.fr.gz", raw / "de-en/train.de"]]  # each is alone of its name
    with pytest.raises(UserError, match="has no train text for 'it': put train.it there"):
        pairs("de", "it")


def test_sides_may_have_names_of_different_kinds(raw):
    (raw / "dev.de").touch()
    (raw / "valid.en").touch()
    layouts = [["dev.{language}"], ["valid.{language}"]]
    assert translation._find(raw, "valid", layouts, ("de", "en")) == [[raw / "dev.de", raw / "valid.en"]]
    layouts[1] *= 2  # of two files
    with pytest.raises(
        UserError, match="has valid text as dev.de and as valid.en: give source and target names of one"
    ):
        translation._find(raw, "valid", layouts, ("de", "en"))


def test_the_test_set_of_wmt14_is_the_full_one(tmp_path):
    """Both archives that are downloaded have files of these names."""
    for folder in ("dev/dev", "test-full/test-full"):
        (tmp_path / folder).mkdir(parents=True)
        for side in ("src.en", "ref.de"):
            (tmp_path / folder / f"newstest2014-deen-{side}.sgm").touch()
    found = translation._find(tmp_path, "test", wmt14_ende.LAYOUTS["test"], ("en", "de"))
    assert [[file.parent.name for file in files] for files in found] == [["test-full", "test-full"]]
