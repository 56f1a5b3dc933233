from fairseq_plugins.text.tokenisers import Moses, Plain


def test_moses_brings_back_the_line():
    line = 'He said: "I don\'t know" & left.'
    moses = Moses("en")
    assert moses.detokenise(moses.tokenise(line)).replace(" ", "") == line.replace(" ", "")


def test_hyphens_and_lower_case():
    assert Moses("en", lower=True).tokenise("A well-known man.") == "a well-known man ."


def test_plain_keeps_the_line():
    assert Plain().tokenise("A  b.") == Plain().detokenise("A  b.") == "A  b."
    assert Plain(lower=True).tokenise("A  b.") == "a  b."
