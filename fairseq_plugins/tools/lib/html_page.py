"""Markdown as one page of HTML that loads nothing, for screens, phones and paper."""

import base64
import html

from fairseq_plugins.errors import UserError
from fairseq_plugins.tools.lib.markdown_text import readable

STYLE = """
:root { color-scheme: light dark }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 0 auto; padding: 0 1rem 3rem }
table { display: block; overflow-x: auto; border-collapse: collapse; margin: .5rem 0 }
th, td { text-align: left; padding: .2rem .8rem .2rem 0; border-bottom: 1px solid #8884; vertical-align: top }
figure { margin: .5rem 0 1rem }
figcaption { font-size: .9rem }
img { max-width: 100%; height: auto; background: white }
details { border-top: 1px solid #8888; padding: .4rem 0 }
pre { font-size: .85rem }
pre, code { overflow-wrap: anywhere; white-space: pre-wrap }
details:target::details-content { content-visibility: visible; height: auto }
@media screen and (max-width: 40rem) { table { font-size: .85rem } }
@media print {
  body { max-width: none; font-size: 10pt; padding: 0 }
  table { display: table; font-size: 7.5pt }
  h2, h3 { break-after: avoid }
  figure, tr { break-inside: avoid }
  details::details-content { content-visibility: visible; height: auto }
  img { max-height: 9cm; width: auto }
}
"""

# a browser refuses whatever is not in the page itself
LOADS_NOTHING = (
    '<meta http-equiv="Content-Security-Policy" content="default-src \'none\'; img-src data:; '
    "style-src 'unsafe-inline'\">\n"
)


def page(title: str, text: str) -> str:
    """A whole page from Markdown with tables, whose HTML elements may hold Markdown.

    Raises:
        UserError: the library markdown is not installed
    """
    try:
        from markdown import markdown
    except ImportError:
        raise UserError("a page of HTML needs markdown: pip install markdown.") from None
    body = markdown(text, extensions=["tables", "md_in_html"], output_format="html")
    return (
        f'<!doctype html>\n<html lang="en">\n<meta charset="utf-8">\n<title>{html.escape(title)}</title>\n'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">\n{LOADS_NOTHING}<style>{STYLE}</style>\n'
        f"<h1>{html.escape(title)}</h1>\n{body}\n</html>\n"
    )


def figure(png: bytes, description: str, caption: str) -> str:
    """A picture in the page itself: a caption for all, and a description for those who do not see it."""
    encoded = base64.b64encode(png).decode()
    description, caption = (html.escape(" ".join(readable(words).split())) for words in (description, caption))
    image = f'<img src="data:image/png;base64,{encoded}" alt="{description}">'
    return f"<figure>{image}<figcaption>{caption}</figcaption></figure>"
