"""What of the papers holds, and what runs of your own gave, as one page to look at.

    python -m fairseq_plugins.tools.report --out report.html
    python -m fairseq_plugins.tools.report runs/char_lm runs/mine/train.log --out report.html

The first part goes through the tables and figures of the four papers: what each says, whether it held here, our numbers
beside the paper's, pictures, and the pages with sizes and commands. It comes from benchmarks/statements.json.

The second part is of RESULTS: folders of recipes or their results.jsonl, folders of trainings or their train.log. A
table is shown with the mean over seeds, the commands that made it, and the pictures that the recipe drew. For trainings
there are curves of the validation loss, ten a picture, the learned spans and the weights of the layers in the feedback
memory.

The page is one file without links to other files or hosts. It is readable on a phone and in print.
"""

import argparse
import re
from datetime import date
from pathlib import Path

from fairseq_plugins.errors import UserError
from fairseq_plugins.files.whole import NotWritten, write_whole
from fairseq_plugins.tools.lib import evidence, own_results
from fairseq_plugins.tools.lib.html_page import definitions, image, page, table, text
from fairseq_plugins.tools.lib.out_file import HTML, refuse_inputs

TITLE = "What of the papers holds"
HOW_TO_RUN = (
    "Every number has its command below. Commands run in the root of the repository, in the environment that its "
    "README makes. DIR is a folder of raw text; without `RAW=DIR` or `--raw DIR` the text is downloaded. "
    "`benchmarks/evidence.sh` passes over what has its numbers here; `ROWS=mine.jsonl` before it trains it again. "
    "Differences in the text are of unrounded numbers."
)
GLOSSARY = {
    "bits": "Bits per character or byte, of a language model: how badly it predicts. Lower is better.",
    "loss": "How badly a model predicts a token, in bits or in nats; 1 nat is 1.44 bits. Lower is better.",
    "perplexity": "Two to the power of the bits a word. Lower is better.",
    "ahead, behind": "Better, worse; so a lower loss is ahead.",
    "4 layers of 256": "4 layers whose hidden states have 256 numbers.",
    "plain": "The same model without the paper's method.",
    "dev, validation": "The text on which settings are chosen; the test is other text.",
    "labels right": "Share of the places with a known answer at which the model gives it, in per cent.",
    "BLEU": "How much of a translation agrees with a reference. Higher is better.",
    "span": "How many tokens back a head of attention may look.",
    "seed": "The number that a training's chance begins with: another seed is another run of the same.",
    "pair of runs": "One run of each of two models; where speeds are compared, one right after the other.",
    "rate": "The learning rate: how far a step of training goes.",
    "n": "Number of runs. Brackets hold the lowest and the highest of them.",
    "update": "One step of training.",
    "pass": "Every text of the training data seen once; also called an epoch.",
    "all-attention": "A Transformer without feed-forward layers; persistent vectors stand for them.",
    "persistent vectors": "Learned keys and values beside those of the context.",
    "feedback memory": "What a Feedback Transformer attends to: for each earlier token one vector, a sum over layers.",
    "stream": "A text that a model reads from beginning to end, block by block, keeping its memory.",
    "fast, fused, eager": "Ways to compute the feedback memory: with CUDA graphs, with fused kernels, step by step.",
    "scores": "What attention weighs tokens by. Active memory's paper divides them once, its code twice.",
    "phase 1, phase 2": "Of Skip-Retain: first layers are skipped at random, then none is.",
    "reward": "What an agent collects in an episode, on average. Higher is better.",
    "beam search, batch": "How translations are sought, and how many sentences at a time.",
}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "results", nargs="*", type=Path, metavar="RESULTS", help="folders of recipes or trainings, results.jsonl, logs"
    )
    parser.add_argument(
        "--out", type=HTML, required=True, metavar="FILE", help="such as report.html; an earlier one is replaced"
    )
    args = parser.parse_args()
    refuse_inputs(args, "out")
    papers = evidence.statements()
    if not papers and not args.results:
        raise UserError("there is nothing to report here: name folders of recipes, such as runs/char_lm.")
    content = page(TITLE, parts(papers, own_results.find_all(args.results)))
    try:
        write_whole(args.out, lambda path: path.write_text(content, encoding="utf-8"))
    except NotWritten as error:
        raise UserError(f"--out: {str(error).rstrip('.')}; name a file in a folder where you may write.") from error
    print(f"wrote {args.out}")


def parts(papers: dict[str, dict], own: list[own_results.Results]) -> list[str]:
    made = [f'<p class="small">Made on {date.today().isoformat()}.</p>', contents(papers, own)]
    if papers:
        made += [summary(papers), *(paper(name, entry) for name, entry in papers.items())]
    if own:
        made += ['<h2 id="own">Your own results</h2>']
        made += [own_results.section(results, number) for number, results in enumerate(own, 1)]
    return [*made, '<h2 id="words">Words</h2>', definitions(GLOSSARY)]


def contents(papers: dict[str, dict], own: list[own_results.Results]) -> str:
    """Links to the papers, to one's own results, and to the glossary."""
    links = [f'<li><a href="#own-{number}">{text(results.name)}</a></li>' for number, results in enumerate(own, 1)]
    parts = f"<p>Your own results:</p><ul>{''.join(links)}</ul>" if own else ""
    main = [f'<a href="#{name}">{text(entry["title"])}</a>' for name, entry in papers.items()]
    main.append('<a href="#words">What the words mean</a>')
    return f'<nav aria-label="contents">{parts}<p>{" · ".join(main)}</p></nav>'


# The papers


def summary(papers: dict[str, dict]) -> str:
    """The rule for verdicts, how many statements have each, and a table of the statements of each paper."""
    words = (
        "The tables and figures of four papers: what each says, and what came of it in this repository. Everything ran "
        "on CPUs, unless a GPU is named, and most of it far below the papers' sizes. What we judge part by part, such "
        "as a table with several tasks, or tried in two ways, such as on a CPU and on a GPU, has an entry for each. "
        "The tables are sorted by verdict. This is the rule:"
    )
    count = evidence.count_verdicts(papers)
    terms = {f"{badge(verdict)} {count[verdict]}": rule for verdict, rule in evidence.VERDICTS.items()}
    overviews = "\n".join(map(overview, papers, papers.values()))
    return f"<p>{words}</p>{definitions(terms, 'wide')}<h2>Overview</h2>{overviews}<p>{with_code(HOW_TO_RUN)}</p>"


def overview(name: str, entry: dict) -> str:
    """A row for each statement of a paper that was tried, those of each verdict together, and links to the others."""
    verdicts = [*evidence.VERDICTS]
    numbered = sorted(enumerate(entry["statements"], 1), key=lambda pair: verdicts.index(pair[1]["verdict"]))
    linked = [(f'<a href="#{name}-{number}">{text(each["item"])}</a>', each) for number, each in numbered]
    rows = [overview_row(link, each) for link, each in linked if "here" in each]
    others = [link for link, each in linked if "here" not in each]
    title = f'<h3><a href="#{name}">{text(entry["title"])}</a></h3>'
    not_tried = f"<p>{badge('not tried')} {' · '.join(others)}</p>" if others else ""
    return title + table(rows, entry["title"], "stacked") + not_tried


def overview_row(link: str, entry: dict) -> dict[str, str]:
    label = f"{badge(entry['verdict'])}<br>{link}"
    return {"statement": label, "the paper": text(entry["says"]), "here": text(entry["here"])}


def badge(verdict: str) -> str:
    return f'<span class="verdict {verdict.replace(" ", "-")}">{verdict}</span>'


def paper(name: str, entry: dict) -> str:
    sections = [statement(each, f"{name}-{number}") for number, each in enumerate(entry["statements"], 1)]
    return f'<h2 id="{name}">{text(entry["title"])}</h2>\n' + "\n".join(sections)


def statement(entry: dict, name: str) -> str:
    notes = {"size": "Size"} | evidence.NOTES
    tables, words = evidence.without_shared(entry.get("tables", []))
    escaped = [[{column: text(cell) for column, cell in row.items()} for row in rows] for rows in tables]
    return "\n".join(
        [
            f'<section id="{name}"><h3>{text(entry["item"])}</h3>',
            f"<p>The paper: {text(entry['says'])}<br>{badge(entry['verdict'])} {text(entry.get('here', ''))}</p>",
            *(f"<p>{with_code(paragraph)}</p>" for paragraph in entry["why"].split("\n\n")),
            *(table(rows, f"{entry['item']}, {n}") for n, rows in enumerate(escaped, 1)),
            f'<p class="small">{text(words)}</p>' if words else "",
            *map(picture, entry.get("pictures", [])),
            *(f'<p class="small">{title}: {with_code(entry[key])}</p>' for key, title in notes.items() if key in entry),
            source(entry) if "page" in entry else "",
            "</section>",
        ]
    )


def with_code(words: str) -> str:
    """Words as HTML; what stands between backticks is code."""
    return re.sub("`([^`]+)`", r"<code>\1</code>", text(words))


def picture(entry: dict) -> str:
    return image((evidence.BENCHMARKS / entry["file"]).read_bytes(), entry["alt"], entry["caption"])


def source(entry: dict) -> str:
    commands = "".join(
        f'<p class="small">{text(each["date"])}:</p><pre>{text(each["run"])}</pre>' for each in entry["commands"]
    )
    return (
        f"<details><summary>Commands, {text(evidence.dates(entry))}</summary>{commands}</details>"
        f'<p class="small">More of it: <code>benchmarks/{text(entry["page"])}</code> '
        '<a class="top" href="#top">top</a></p>'
    )


if __name__ == "__main__":
    main()
