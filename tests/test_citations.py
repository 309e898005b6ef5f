"""Every citation ``docs/mathematics/page#section`` in the code leads to a page, and to a heading on it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = ROOT / "docs" / "mathematics"
CITATION = re.compile(r"docs/mathematics/(\w+)(?:\.md)?(?:#([\w-]+))?")
FOLDERS = ("structopt", "tests", "benchmarks", "models", "notebooks", "docs")
KINDS = {".py", ".md", ".toml", ".ipynb"}

pytestmark = pytest.mark.skipif(not PAGES.is_dir(), reason="the pages are beside the tests in a checkout only")


def anchor(heading: str) -> str:
    """The anchor of a heading, as GitHub and MyST make it."""
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")


@pytest.fixture(scope="module")
def anchors() -> dict[str, set[str]]:
    return {
        page.stem: {anchor(title) for title in re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.M)}
        for page in PAGES.glob("*.md")
    }


def citations() -> list[tuple[str, str, str]]:
    """File, page and section of every citation."""
    found = []
    for folder in FOLDERS:
        for file in sorted((ROOT / folder).rglob("*")):
            if file.suffix in KINDS and "_build" not in file.parts and file != Path(__file__):
                text = file.read_text(encoding="utf-8")
                found += [(str(file.relative_to(ROOT)), *match) for match in CITATION.findall(text)]
    return found


def test_citations_lead_somewhere(anchors):
    found = citations()
    assert len(found) > 50
    lost = [
        f"{file}: {page}#{section}"
        for file, page, section in found
        if page not in anchors or (section and section not in anchors[page])
    ]
    assert not lost, "\n".join(lost)
