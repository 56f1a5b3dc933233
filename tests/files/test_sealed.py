"""Files with a checksum of their own."""

import random
import zipfile

import pytest
import torch

from fairseq_plugins.errors import UserError
from fairseq_plugins.files import sealed

STATE = {"weight": torch.arange(3000.0), "words": ["one", 2, 3.5]}


@pytest.fixture
def file(tmp_path):
    sealed.save(STATE, tmp_path / "state.pt")
    return tmp_path / "state.pt"


def test_plain_torch_reads_a_sealed_file(file):
    loaded = torch.load(file)
    assert torch.equal(loaded["weight"], STATE["weight"]) and loaded["words"] == STATE["words"]
    assert torch.equal(torch.load(file, mmap=True)["weight"], STATE["weight"])
    assert zipfile.ZipFile(file).testzip() is None


def test_it_is_sealed_under_another_name_too(file, tmp_path):
    sealed.copy(file, tmp_path / "copy.pt")
    sealed.check(tmp_path / "copy.pt")
    assert (tmp_path / "copy.pt").read_bytes() == file.read_bytes()


@pytest.mark.parametrize("seed", range(5))
def test_every_flipped_bit_is_found(file, seed):
    """In the weights, in the archive's own tables, in the checksum."""
    draw, content = random.Random(seed), bytearray(file.read_bytes())
    end = len(content)
    for place in [*draw.sample(range(end), 40), *draw.sample(range(end - 300, end), 20)]:
        damaged = bytearray(content)
        damaged[place] ^= 1 << draw.randrange(8)
        file.write_bytes(damaged)
        with pytest.raises(UserError, match="state.pt is damaged"):
            sealed.check(file)
    file.write_bytes(content)
    sealed.check(file)


@pytest.mark.parametrize("part", [0.3, 0.9, 0.999])
def test_a_cut_file_is_found(file, part):
    file.write_bytes(file.read_bytes()[: int(part * file.stat().st_size)])
    with pytest.raises(UserError, match="state.pt is damaged"):
        sealed.check(file)


def test_files_of_others_are_held_against_the_checksums_of_their_parts(tmp_path):
    path = tmp_path / "others.pt"
    torch.save(STATE, path)
    sealed.check(path)
    content = path.read_bytes()
    place = content.index(STATE["weight"][5:20].numpy().tobytes())
    path.write_bytes(content[:place] + b"x" + content[place + 1 :])
    with pytest.raises(UserError, match="others.pt is damaged .the checksum of its part .*data/0 is wrong"):
        sealed.check(path)


def test_a_file_without_any_checksum_is_left_to_torch(tmp_path):
    """Such as torch before 1.6 wrote."""
    path = tmp_path / "old.pt"
    torch.save(STATE, path, _use_new_zipfile_serialization=False)
    sealed.check(path)
    assert torch.equal(torch.load(path)["weight"], STATE["weight"])


def test_what_was_there_stays_where_a_file_cannot_be_written(file, monkeypatch):
    monkeypatch.setattr(sealed, "PAUSE", 0)
    # the disk lost a part
    monkeypatch.setattr(sealed, "flush", lambda path: path.write_bytes(path.read_bytes()[:-300]))
    before = file.read_bytes()
    with pytest.raises(sealed.NotWritten, match="state.pt could not be written"):
        sealed.save({"other": 1}, file)
    assert file.read_bytes() == before and len(list(file.parent.iterdir())) == 1
