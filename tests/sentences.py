"""Short sentences in languages with and without spaces between words, written for these tests."""

import random
from pathlib import Path

# A sentence takes one of each: subjects, verbs, objects, ends
PARTS = {
    "en": [
        "the girl|the old man|my friend|a teacher",
        "sees|likes|draws|looks for",
        "a red apple|the sea|two birds|the moon",
        ".| and smiles.| in the garden.|, I don't know why.",
    ],
    "zh": [
        "女孩|老人|我的朋友|一位老师",
        "看见|喜欢|画|寻找",
        "一个红苹果|大海|两只鸟|月亮",
        "。|，笑了。|，在花园里。|，我不知道为什么。",
    ],
    "ja": [
        "女の子は|老人は|私の友だちは|先生は",
        "見ます|好きです|描きます|探します",
        "赤いりんごを|海を|二羽の鳥を|月を",
        "。|、そして笑います。|、庭で。|、なぜかは知りません。",
    ],
    "fi": [
        "tyttö|vanha mies|ystäväni|opettaja",
        "näkee|rakastaa|piirtää|etsii",
        "punaisen omenan|meren|kaksi lintua|kuun",
        ".| ja hymyilee.| puutarhassa.|, en tiedä miksi.",
    ],
    "ar": [
        "البنت|الرجل العجوز|صديقي|المعلم",
        "يرى|يحب|يرسم|يبحث عن",
        "تفاحة حمراء|البحر|طائرين|القمر",
        ".| ويبتسم.| في الحديقة.|، لا أعرف لماذا.",
    ],
}
FORMS = {"zh": "{0}{1}{2}{3}", "ja": "{0}{2}{1}{3}"}  # the others have spaces: {0} {1} {2}{3}


def sentences(language: str, number: int, seed: int = 1) -> list[str]:
    """Sentences in the order of the seed, so that two languages with the same seed are parallel."""
    draw = random.Random(seed)
    form = FORMS.get(language, "{0} {1} {2}{3}")
    return [form.format(*(draw.choice(part.split("|")) for part in PARTS[language])) for _ in range(number)]


def write_parallel(folder: Path, source: str, target: str, **sizes: int) -> Path:
    """``SPLIT.LANGUAGE`` for each split and size."""
    folder.mkdir(parents=True, exist_ok=True)
    for seed, (split, number) in enumerate(sizes.items()):
        for language in (source, target):
            text = "".join(line + "\n" for line in sentences(language, number, seed))
            (folder / f"{split}.{language}").write_text(text, encoding="utf-8")
    return folder
