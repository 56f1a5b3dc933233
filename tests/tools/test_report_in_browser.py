"""The report in a real browser, where one is installed: every picture is drawn, and a phone shows the page whole."""

import html
import json
import re
import shutil
import subprocess

import pytest

from fairseq_plugins.tools import report
from fairseq_plugins.tools.lib import html_page, statements

pytest.importorskip("markdown")

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
pytestmark = pytest.mark.skipif(BROWSER is None, reason="needs chromium or google-chrome on the PATH")

# a page that looks into the report: how many pictures are drawn, what it fetched, and how wide it is
LOOK = """<!doctype html>
<body><iframe id="page" src="report.html" style="width: WIDTHpx; height: 800px; border: 0"></iframe>
<script>
const page = document.getElementById("page")
page.onload = () => {
  const inside = page.contentDocument, images = [...inside.images]
  document.body.textContent = JSON.stringify({
    drawn: images.filter(image => image.naturalWidth > 0).length,
    fetched: page.contentWindow.performance.getEntriesByType("resource").map(entry => entry.name.split(":")[0]),
    width: inside.documentElement.scrollWidth,
  })
}
</script>"""
PHONE = 390  # pixels


def seen(folder, content, width=PHONE):
    """What the browser makes of a page of this width."""
    (folder / "report.html").write_text(content, encoding="utf-8")
    (folder / "look.html").write_text(LOOK.replace("WIDTH", str(width)))
    flags = "--headless --no-sandbox --disable-gpu --allow-file-access-from-files --dump-dom"
    command = [BROWSER, *flags.split(), f"--user-data-dir={folder}/browser", (folder / "look.html").as_uri()]
    printed = subprocess.run(command, check=True, capture_output=True, text=True, timeout=120).stdout
    return json.loads(html.unescape(re.search(r"<body>(\{.*?\})</body>", printed, re.DOTALL)[1]))


@pytest.mark.parametrize("width", [PHONE, 1200])
def test_a_browser_draws_every_picture_and_fetches_nothing(tmp_path, width):
    papers = statements.read_papers()
    pictures = sum(len(entry.get("pictures", [])) for entry in statements.all_statements(papers))
    page = seen(tmp_path, html_page.page(report.TITLE, report.report(papers, [])), width)
    assert page["drawn"] == pictures > 10
    assert set(page["fetched"]) <= {"data"}
    assert page["width"] <= width


def test_damaged_pictures_and_wide_pages_are_noticed(tmp_path):
    content = ['<img src="data:image/png;base64,AAAA" alt="damaged">', '<p style="width: 600px">wide</p>']
    page = seen(tmp_path, html_page.page("A page", "\n\n".join(content)))
    assert page["drawn"] == 0 and page["width"] > PHONE
