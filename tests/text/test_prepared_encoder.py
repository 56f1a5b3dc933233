"""``--bpe prepared`` on raw lines."""

from types import SimpleNamespace

from fairseq_plugins.text.encoder import PreparedEncoder
from fairseq_plugins.text.levels import Bytes, Characters
from fairseq_plugins.text.prepared import PreparedText
from fairseq_plugins.text.tokenisers import Plain

RAW = "\ufeff a\tb \x1c c "


def encoder(folder, *languages, level):
    PreparedText(Plain(), Plain(), level, *languages).save(folder)
    return PreparedEncoder(SimpleNamespace(prepared_text=None, data=str(folder)))


def test_parallel_text_is_squeezed_as_in_preparation(tmp_path):
    assert encoder(tmp_path, "en", "de", level=Characters()).encode(RAW) == "a ▁ b ▁ c"


def test_the_text_of_a_language_model_stays_as_it_is(tmp_path):
    here = encoder(tmp_path, level=Bytes())
    assert here.decode(here.encode(RAW)) == RAW
