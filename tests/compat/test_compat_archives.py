"""Archives of models: fairseq unpacks them, and the user's file stays as it was."""

import io
import os
import shutil
import tarfile
from pathlib import Path

import pytest
from fairseq import file_utils, hub_utils
from fairseq.models.transformer import TransformerModel

from fairseq_plugins.errors import UserError
from fairseq_plugins.models.feedback_transformer import FeedbackTransformerModel

LAYOUTS = {
    "one": ["model/model.pt", "model/dict.txt"],
    "flat": ["model.pt", "dict.txt"],
    "loose": ["model/model.pt", "model/dict.txt", "model/old/model.pt", "README", "._model", "__MACOSX/._model.pt"],
    "two": ["model/model.pt", "model2/model.pt"],
    "none": ["model/codes", "README"],
    "empty": [],
}
FORMATS = {"tar": ".tar", "gztar": ".tar.gz", "zip": ".zip", "xztar": ".tar.xz"}


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(file_utils, "PYTORCH_FAIRSEQ_CACHE", tmp_path / "cache")
    return tmp_path / "cache"


def packed(layout: str, kind: str = "gztar") -> Path:
    for name in LAYOUTS[layout]:
        path = Path("source", name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    Path("source").mkdir(exist_ok=True)
    Path("mine").mkdir()
    made = shutil.make_archive("mine/archive", kind, "source")
    shutil.rmtree("source")
    return Path(made)


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize("layout", ["one", "flat", "loose"])
def test_an_archive_is_unpacked_and_stays(layout, kind):
    archive = packed(layout, kind)
    was = archive.read_bytes()
    archive.with_name("archive").mkdir()  # of the user's
    folders = {file_utils.load_archive_file(str(archive)) for _ in range(2)}
    assert len(folders) == 1 and {"dict.txt", "model.pt"} == {*os.listdir(*folders)} - {"old"}
    assert archive.read_bytes() == was and set(os.listdir("mine")) == {archive.name, "archive"}
    assert not os.listdir("mine/archive")


def cut(archive: Path) -> None:
    archive.write_bytes(archive.read_bytes()[:-60])


def flipped(archive: Path) -> None:
    data, name = bytearray(archive.read_bytes()), b"model/model.pt"
    data[data.index(name) + len(name) + 2 if name in data else -5] ^= 1  # what is packed, or a checksum
    archive.write_bytes(data)


BAD = [
    ("two", lambda archive: None, "holds several folders, model and model2: unpack it yourself"),
    ("empty", lambda archive: None, "holds neither a checkpoint .* nor a dictionary .*: give the folder"),
    ("none", lambda archive: None, "mine/archive.* holds neither a checkpoint .* nor a dictionary .*: give the folder"),
    ("one", cut, "is damaged, cut or no archive"),
    ("one", flipped, "is damaged, cut or no archive"),
    ("one", lambda archive: archive.write_text("text"), "is damaged, cut or no archive"),
    ("one", lambda archive: archive.write_text(""), "is damaged, cut or no archive"),
]


@pytest.mark.parametrize("kind", ["gztar", "zip"])
@pytest.mark.parametrize("layout, spoil, words", BAD)
def test_what_is_no_archive_of_a_model_stays(layout, spoil, words, kind, cache):
    archive = packed(layout, kind)
    spoil(archive)
    was = archive.read_bytes()
    for model in (TransformerModel, FeedbackTransformerModel):
        with pytest.raises(UserError, match=words) as said:
            model.from_pretrained(str(archive))
        assert "\n" not in str(said.value)
    assert archive.read_bytes() == was and os.listdir("mine") == [archive.name]
    assert layout != "one" or not os.listdir(cache)


@pytest.mark.parametrize("model", [TransformerModel, FeedbackTransformerModel])
@pytest.mark.parametrize(
    "place, words",
    [
        *((place, "is no path of a model: give the folder") for place in (None, "", 3, 2.5, b"x")),
        *((place, "does not exist: give the folder") for place in ("missing", "missing.tar.gz", Path("missing"))),
        ("/dev/zero", "is neither a folder nor an archive"),
    ],
)
def test_what_is_no_model_at_all(model, place, words):
    with pytest.raises(UserError, match=words):
        model.from_pretrained(place)


def test_a_cache_that_cannot_be_written(cache):
    archive = packed("one")
    cache.write_text("a file")
    with pytest.raises(UserError, match="could not be unpacked in .*cache.* yourself .*PYTORCH_FAIRSEQ_CACHE"):
        file_utils.load_archive_file(str(archive))
    assert archive.is_file()


def test_an_archive_in_a_folder_that_cannot_be_written(read_only):
    archive = packed("one")
    read_only(archive.parent)
    assert sorted(os.listdir(file_utils.load_archive_file(str(archive)))) == ["dict.txt", "model.pt"]


@pytest.mark.parametrize("name", ["../../outside", "{}/mine"])
def test_an_archive_cannot_touch_other_files(name, tmp_path, cache):
    mine = tmp_path / "mine"
    mine.write_text("of the user")
    with tarfile.open("model.tar.gz", "w:gz") as archive:
        entry = tarfile.TarInfo(name.format(tmp_path))
        entry.size = 4
        archive.addfile(entry, io.BytesIO(b"text"))
    with pytest.raises(UserError, match="model.tar.gz is not an archive of a model"):
        hub_utils.from_pretrained("model.tar.gz", data_name_or_path=str(tmp_path))
    assert mine.read_text() == "of the user" and sorted(os.listdir()) == ["cache", "mine", "model.tar.gz"]
    assert not os.listdir(cache)
