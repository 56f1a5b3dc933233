"""What mkdocs has to know of files beside docs/: a hook, named in mkdocs.yml.

On a forge, pages link to files anywhere in the repository. On the site, some of these are pages too. A link to any
other (a source file, a recipe) becomes its text.
"""

import os
import posixpath
import re
from pathlib import Path

from mkdocs.structure.files import File

ROOT = Path(__file__).resolve().parents[2]
BESIDE = ("benchmarks/*.md", "benchmarks/*.png", "benchmarks/*/*.png", "CONTRIBUTING.md", "CHANGELOG.md")
LINK = re.compile(r"(!?)\[([^\]]*)\]\((?!\w+:|#)([^)#\s]+)(#[^)\s]*)?\)")


def beside() -> list[str]:
    """The files beside docs/ that are pages, or pictures in them, by their path in the repository."""
    return sorted(str(path.relative_to(ROOT)) for pattern in BESIDE for path in ROOT.glob(pattern))


def on_files(files, config):
    for path in beside():
        files.append(File.generated(config, path, abs_src_path=str(ROOT / path)))
    return files


def on_page_markdown(markdown, page, config, files):
    here = page.file.src_uri
    folder = posixpath.dirname(here if here in beside() else f"docs/{here}")  # in the repository

    def on_site(link):
        image, text, target, anchor = link.groups(default="")
        path = posixpath.normpath(posixpath.join(folder, target))
        if files.get_file_from_path(path.removeprefix("docs/")):
            start = posixpath.dirname(here) or "."
            return f"{image}[{text}]({os.path.relpath(path.removeprefix('docs/'), start)}{anchor})"
        return text if (ROOT / path).exists() else link[0]  # mkdocs names a link that leads nowhere

    return LINK.sub(on_site, markdown)
