"""The generated language is what its description says, and its test set is new."""

import pytest
from synthetic import Clause, Grammar, Phrase, Sentence


def test_word_order_agreement_and_negation():
    farmers = Phrase("the", ("old",), "farmer", plural=True)
    boat = Phrase("a", ("red",), "boat", plural=False)
    main = Clause(farmers, "see", past=True, negated=True, object=boat, place=Phrase("the", (), "forest", plural=False))
    girl = Clause(Phrase("every", (), "girl", plural=False), "cry", past=False, negated=False, object=None, place=None)
    sentence = Sentence(main, "because", girl)
    assert sentence.english() == "the old farmers did not see a red boat in the forest because every girl cries ."
    assert sentence.lomi() == "sol lesi plake ka , tomaki vani vesksa lodikn kasn un ma vidolt ."


def test_no_sentence_occurs_twice_on_either_side():
    grammar = Grammar(seed=1)
    pairs = grammar.pairs(3000) + grammar.pairs(300)
    english, lomi = zip(*pairs)
    assert len(set(english)) == len(set(lomi)) == 3300


def test_a_seed_gives_one_corpus():
    assert Grammar(3).pairs(50) == Grammar(3).pairs(50) != Grammar(4).pairs(50)


def test_no_two_words_share_a_translation():
    from synthetic import ADJECTIVES, BEINGS, CONJUNCTIONS, INTRANSITIVE, PLACES, THINGS, TRANSITIVE

    lexicons = [BEINGS, THINGS, PLACES, ADJECTIVES, TRANSITIVE, INTRANSITIVE, CONJUNCTIONS]
    stems = [stem for lexicon in lexicons for stem in lexicon.values()]
    assert len(set(stems)) == len(stems)


def test_too_much_is_refused(monkeypatch):
    from fairseq_plugins.errors import UserError

    grammar = Grammar(1)
    monkeypatch.setattr(
        grammar, "sentence", lambda: Sentence(Clause(Phrase("", (), "king", True), "run", False, False, None, None))
    )
    with pytest.raises(UserError, match="too few sentences"):
        grammar.pairs(2)
