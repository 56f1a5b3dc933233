"""Multi30k task 1, German to English: image captions, lower-cased, Moses-tokenised, joint BPE.

    python preprocess/multi30k.py --out data/multi30k                 # downloads 2.6 MB
    python preprocess/multi30k.py --out data/multi30k --raw DIR       # train, val, test_2016_flickr .de and .en in DIR

29,000 training, 1,014 validation and 1,000 test pairs (Elliott et al., 2016). With --bpe sentencepiece the text is not
tokenised.
"""

from lib import translation
from lib.download import Remote
from lib.options import start
from lib.steps import command_line

MIRRORS = (
    "https://raw.githubusercontent.com/multi30k/dataset/master/data/task1/raw/",
    "https://cdn.jsdelivr.net/gh/multi30k/dataset@master/data/task1/raw/",
)
CHECKSUMS = {
    "train.de.gz": "726e39b2fa9eb9ffb6dc763fb35a179f80fae06ffc5d28b6ace5faa883de28a6",
    "train.en.gz": "d79cfa999dd4c51d2cb42499b6796d5a882c3a8a961923c25a898c90f8bbd56f",
    "val.de.gz": "f0cba2f995189cf5770f29a8a9a537a3ad3f51657ad873405082ff6863a5e75a",
    "val.en.gz": "14f7d25ddd868909a9213e361768460edcacdd6ab9d1e77b92560dc10c10dc28",
    "test_2016_flickr.de.gz": "9204244e408ccb38d2a55cfcd344df15005fc42a07a6e55ca6c52b6ababb8cc8",
    "test_2016_flickr.en.gz": "611d361c6334bc7246101d48097c13cf5c4413c5befc793cc629934359d532d9",
}
REMOTES = [Remote(name, tuple(mirror + name for mirror in MIRRORS), sha256) for name, sha256 in CHECKSUMS.items()]
LAYOUTS = {
    "train": [["train.{language}"]],
    "valid": [["val.{language}"], ["valid.{language}"]],
    "test": [["test_2016_flickr.{language}"], ["test.{language}"]],
}


def main():
    args, steps, raw = start(translation.parallel_parser(__doc__, 8000), REMOTES)
    translation.prepare_parallel(args, "de", "en", LAYOUTS, raw, steps, lower=True)


if __name__ == "__main__":
    command_line(main)
