"""Writes a measured page over the one that is there."""

from pathlib import Path


def write_page(output: Path, page: str) -> None:
    """Replace what stands above the first section of this page, and keep its sections."""
    below = output.read_text().partition("\n\n## ")[2] if output.exists() else ""
    output.write_text(page + (f"\n## {below}" if below else ""))
