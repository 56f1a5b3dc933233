"""The HTML of the report: one file that loads nothing, for screens, phones and paper."""

import base64
import html

STYLE = """
:root { color-scheme: light dark }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 0 auto; padding: 0 1rem 3rem }
h3 { margin-bottom: .3rem }
figure { margin: .5rem 0 1rem; overflow-x: auto }
figcaption { font-size: .9rem; position: sticky; left: 0 }
img { max-width: 100%; height: auto; background: white }
.table { overflow-x: auto; margin: .5rem 0 }
table { border-collapse: collapse }
th, td { text-align: left; padding: .2rem .8rem .2rem 0; border-bottom: 1px solid #8884; vertical-align: top }
th[scope=row] { font-weight: normal; min-width: 6rem; overflow-wrap: break-word }
td.short { white-space: nowrap }
.table.wide { font-size: .95rem }
.table.wide td.short { white-space: normal }
.table.wide :is(td, th) { padding-right: .5rem }
.table.stacked :is(th[scope=row], td) { width: 32% }
section { border-top: 1px solid #8888; margin-top: 1.5rem }
nav ul, dl { columns: 18rem; margin-top: .3rem }
dl.wide { columns: auto }
dt { font-weight: bold; break-after: avoid }
dd { margin: 0 0 .4rem; break-inside: avoid }
.verdict { display: inline-block; padding: 0 .5rem; border-radius: .3rem; color: white }
.holds { background: #15703a } .does-not-hold { background: #b3261e }
.not-decided { background: #7a5900 } .not-tried { background: #5f6368 }
.small { font-size: .9rem; margin: .4rem 0 }
pre { font-size: .85rem; margin: .3rem 0 }
pre, code { overflow-wrap: anywhere; white-space: pre-wrap }
@media screen and (max-width: 40rem) {
  img { min-width: calc(var(--inches) * 3.75rem) }
  td.short { white-space: normal }
  .table:not(.narrow) th[scope=row] { position: sticky; left: 0; max-width: 8rem; background: Canvas }
  .table::before, figure::before { content: "if it is cut off, move it sideways"; font-size: .8rem; opacity: .8 }
  .table:is(.narrow, .stacked)::before { content: none }
  .table.stacked tr { display: block; border-bottom: 1px solid #8884; padding: .5rem 0 }
  .table.stacked :is(th[scope=row], td) { display: block; width: auto; max-width: none; border: none; padding: 0 }
  .table.stacked thead { display: none }
  .table.stacked th[scope=row] { position: static; font-weight: bold }
  .table.stacked td::before { content: attr(data-column) ": " }
}
@media print {
  body { max-width: none; font-size: 10pt; padding: 0 }
  .verdict { color: #000; background: none; border: 1px solid }
  nav, .top { display: none }
  h2, h3 { break-after: avoid }
  figure, tr { break-inside: avoid }
  .table.wide { font-size: 7.5pt }
  details::details-content { content-visibility: visible }
  img { max-height: 9cm; width: auto }
}
"""


# a browser refuses whatever is not in the page itself
LOADS_NOTHING = (
    '<meta http-equiv="Content-Security-Policy" content="default-src \'none\'; img-src data:; '
    "style-src 'unsafe-inline'\">\n"
)


def page(title: str, parts: list[str]) -> str:
    return (
        f'<!doctype html>\n<html lang="en">\n<meta charset="utf-8">\n<title>{text(title)}</title>\n'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">\n{LOADS_NOTHING}<style>{STYLE}</style>\n'
        f'<h1 id="top">{text(title)}</h1>\n' + "\n".join(parts) + "\n</html>\n"
    )


def text(value) -> str:
    """A value as HTML; what UTF-8 cannot write, as in the name of some files, becomes a question mark."""
    return html.escape(str(value).encode(errors="replace").decode())


def image(data: bytes, description: str, caption: str) -> str:
    """A PNG with a caption for all, and a description for those who do not see it."""
    encoded = base64.b64encode(data).decode()
    return (
        f'<figure tabindex="0"><img src="data:image/png;base64,{encoded}" style="--inches:{inches(data):.1f}"'
        f' alt="{text(description)}">'
        f"<figcaption>{text(caption)}</figcaption></figure>"
    )


def inches(png: bytes) -> float:
    """How wide a PNG is: its pixels, by those of an inch where it says so, else by 100."""
    pixels, density = int.from_bytes(png[16:20], "big"), 100.0
    place = png.find(b"pHYs")
    if place > 0 and png[place + 12] == 1:  # it gives the pixels of a metre, not only their shape
        density = int.from_bytes(png[place + 4 : place + 8], "big") * 0.0254
    return pixels / max(density, 1.0)


def definitions(terms: dict[str, str], style: str = "") -> str:
    """Terms, which are HTML already, each with what it means."""
    pairs = "".join(f"<dt>{term}</dt><dd>{text(words)}</dd>" for term, words in terms.items())
    return f'<dl class="{style}">{pairs}</dl>'


NARROW = 33  # letters side by side that a phone shows in a table
WIDE = 100  # as many do not fit a sheet of paper, if every short cell stays on one line
SHORT = 32  # letters of a cell that stays on one line


def table(rows: list[dict[str, str]], name: str, style: str | None = None) -> str:
    """Rows of cells that are HTML already; the columns in the order in which they first appear, the first one names its
    row. A reader with a keyboard can move a table that is wider than the page; ``name`` and the columns name it. In the
    style "stacked" a phone shows the cells of a row one below the other; without a style it follows from the width."""
    if not rows:
        return ""
    columns = list(dict.fromkeys(column for row in rows for column in row))
    head = "".join(f'<th scope="col">{text(column)}</th>' for column in columns)
    style = _style(rows, columns) if style is None else style
    body = "".join(f"<tr>{_cells(row, columns, named=style == 'stacked')}</tr>" for row in rows)
    label = ", ".join((name, *filter(None, columns)))
    classes = " ".join(filter(None, ("table", style)))
    return (
        f'<div class="{classes}" tabindex="0" role="region" aria-label="{text(label)}">'
        f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def _style(rows: list[dict[str, str]], columns: list[str]) -> str:
    letters = _letters(rows, columns)
    return "narrow" if letters <= NARROW else "wide" if letters > WIDE else ""


def _letters(rows: list[dict[str, str]], columns: list[str]) -> int:
    """How many letters a table is wide at least, with two between columns."""
    first, *others = columns
    longest = [max(map(_word, [first, *(row.get(first, "") for row in rows)]))]
    longest += [max([_word(column), *(_width(row.get(column, "")) for row in rows)]) for column in others]
    return sum(longest) + 2 * len(columns)


def _width(cell: str) -> int:
    return len(html.unescape(cell)) if _is_short(cell) else _word(cell)


def _word(cell: str) -> int:
    return max(map(len, f"{html.unescape(cell)} -".split()))


def _is_short(cell: str) -> bool:
    return len(html.unescape(cell)) <= SHORT


def _cells(row: dict[str, str], columns: list[str], named: bool) -> str:
    """The cells of a row; where they are named, each says its column."""
    first, *others = columns
    cells = "".join(_cell(row.get(column, ""), column if named else "") for column in others)
    return f'<th scope="row">{row.get(first, "")}</th>{cells}'


def _cell(cell: str, column: str) -> str:
    """A cell; it says its column, if there is one, for the style sheet."""
    style = ' class="short"' if _is_short(cell) else ""
    name = f' data-column="{text(column)}"' if column else ""
    return f"<td{style}{name}>{cell}</td>"
