import json
from dataclasses import asdict

import pytest

from fairseq_plugins.text.spacing import Spacing
from fairseq_plugins.text.tokenisers import Moses

# For each language: lines to learn from, and another with the same habits, which Moses' own rules scar
LINES = {
    "fr": (["l’eau d’été, c’est « bon » !", "l’ami d’Anne dit « oui », n’est-ce pas ?"], "l’été d’Eau, « ami » !"),
    "uk": (["комп'ютер і об'єкт.", "м'яч, п'ять (в'юн)."], "п'ять об'єктів."),
    "tr": (["Ankara'da TBMM'nin evi.", "İzmir'de Ali'nin işi."], "Bursa'da Veli'nin evi."),
    "fi": (["EU:n ja USA:n välillä, kaksi.", "EU:n mukaan (ei)."], "USA:n (ja EU:n) kanta."),
    "en": (["and/or “parts” of AT&T", "he/she said “no” to R&D"], "his/her “parts” of B&B"),
    # a colon within words, and behind them
    "sv": (
        ["EU:s svar: nej.", "USA:s plan: ja, kl 10:30.", "FN:s bud: kl 12:15.", "Hon sa: nej."],
        "EU:s råd: kl 9:45.",
    ),
}


def learn(tokeniser, lines):
    return tokeniser.learn(zip(lines, map(tokeniser.tokenise, lines)))


@pytest.mark.parametrize("language", LINES)
def test_other_lines_of_a_text_come_back_with_its_spaces(language):
    lines, other = LINES[language]
    learned = learn(Moses(language), lines)
    assert [learned.detokenise(learned.tokenise(line)) for line in [*lines, other]] == [*lines, other]
    assert Moses(language).detokenise(learned.tokenise(other)) != other


def test_learning_is_the_same_in_lower_case_and_after_normalising():
    lines = ["L’eau d’été !"]
    learned = learn(Moses("fr", lower=True, normalise=True), lines)
    assert learned.detokenise(learned.tokenise(lines[0])) == "l'eau d'été !"


def test_spacing_is_kept_in_json():
    spacing = learn(Moses("fr"), LINES["fr"][0]).spacing
    assert Spacing.of(json.loads(json.dumps(asdict(spacing)))) == spacing
    with pytest.raises(ValueError, match="rules of other types"):
        Spacing.of({"pairs": {"a a": 1}})
