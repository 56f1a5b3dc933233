"""The files beside docs/ and the colours of code, for mkdocs: a hook, named in mkdocs.yml.

On a forge, pages link to files anywhere in the repository. On the site, some of these are pages too. A link to any
other (a source file, a recipe) becomes its text.
"""

import os
import posixpath
import re
from pathlib import Path

from mkdocs.structure.files import File
from pygments.formatters import HtmlFormatter

ROOT = Path(__file__).resolve().parents[2]
BESIDE = ("benchmarks/*.md", "benchmarks/*.png", "benchmarks/*/*.png", "README.md", "CONTRIBUTING.md", "CHANGELOG.md")
RENAMED = {"README.md": "introduction.md"}  # mkdocs takes a README for the index of its folder
STYLES = {"light": "default", "dark": "github-dark"}
LINK = re.compile(r"(!?)\[([^\]]*)\]\((?!\w+:|#)([^)#\s]+)(#[^)\s]*)?\)")


def beside() -> list[str]:
    """The files beside docs/ that are pages, or pictures in them, by their path in the repository."""
    return sorted(str(path.relative_to(ROOT)) for pattern in BESIDE for path in ROOT.glob(pattern))


def site_path(path: str) -> str:
    """Path in the repository -> path on the site."""
    return RENAMED.get(path, path.removeprefix("docs/"))


def on_files(files, config):
    for path in beside():
        files.append(File.generated(config, site_path(path), abs_src_path=str(ROOT / path)))
    files.append(File.generated(config, "site/highlight.css", content=colours()))
    return files


def colours() -> str:
    """Pygments' styles for light and dark pages."""
    of_mode = (f"[data-bs-theme={mode}] .codehilite" for mode in STYLES)
    return "\n".join(HtmlFormatter(style=style).get_style_defs(each) for each, style in zip(of_mode, STYLES.values()))


def on_page_markdown(markdown, page, config, files):
    here = page.file.src_uri
    folder = posixpath.dirname(Path(page.file.abs_src_path).relative_to(ROOT).as_posix())

    def to_site(link):
        image, text, target, anchor = link.groups(default="")
        path = posixpath.normpath(posixpath.join(folder, target))
        if files.get_file_from_path(site_path(path)):
            return f"{image}[{text}]({os.path.relpath(site_path(path), posixpath.dirname(here) or '.')}{anchor})"
        return text if (ROOT / path).exists() else link[0]  # mkdocs names a link that leads nowhere

    return LINK.sub(to_site, markdown)
