"""Outputs of fairseq-generate."""


def write_log(path, hypotheses, references, order=None, end=True, raw=None):
    """As fairseq-generate prints it, sentences in the order of their batches. ``raw``: the text that it brought back
    (--bpe prepared), with raw references."""
    lines = ["INFO:fairseq_cli.generate:loading model(s)"]
    for n in order or range(len(hypotheses)):
        lines += [
            f"S-{n}\tsource {n}",
            f"T-{n}\t{references[n]}",
            f"H-{n}\t-0.5\t{hypotheses[n]}",
            f"D-{n}\t-0.5\t{(raw or hypotheses)[n]}",
            f"P-{n}\t-0.5 -0.5",
        ]
    path.write_text("\n".join(lines + ["Generate test with beam=5: BLEU4 = 0.0"] * end) + "\n", encoding="utf-8")
    return path
