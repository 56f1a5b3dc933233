"""fairseq's commands translate with a feedback model. That it learns to is tests/recipes/test_quickstart.py's."""

import re


def test_interactive_translates_as_generate_does(trained, run, reverse_corpus, user_dir):
    options = [reverse_corpus.bin, "--user-dir", user_dir, "--path", trained.checkpoint, "--cpu"]
    said = run("fairseq-generate", *options).stdout
    generated = re.findall(r"^H-(\d+)\t[^\t]*\t(.*)$", said, re.MULTILINE)
    sources = reverse_corpus.lines("test", "src")
    answers = run("fairseq-interactive", *options, input="\n".join(sources) + "\n").stdout
    assert len(generated) == len(sources)
    assert sorted(generated) == sorted(re.findall(r"^H-(\d+)\t[^\t]*\t(.*)$", answers, re.MULTILINE))
    assert float(re.search(r"BLEU4? = ([\d.]+)", said)[1]) < 5  # after twelve updates
