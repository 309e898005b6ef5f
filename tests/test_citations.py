"""Every citation ``docs/mathematics/page#section`` leads to a heading, every named file of ``benchmarks/`` exists."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = ROOT / "docs" / "mathematics"
CITATION = re.compile(r"docs/mathematics/(\w+)(?:\.md)?(?:#([\w-]+))?")
FOLDERS = ("structopt", "tests", "benchmarks", "models", "notebooks", "docs")
BENCHMARK = re.compile(r"\bbenchmarks/(?:\w+/)*\w+\.(?:py|toml|md|txt)\b")
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


def texts() -> Iterator[tuple[str, str]]:
    """Yield the name and the text of every file that may cite another."""
    for file in sorted([*ROOT.glob("*.md"), *(file for folder in FOLDERS for file in (ROOT / folder).rglob("*"))]):
        if file.suffix in KINDS and "_build" not in file.parts and file != Path(__file__):
            yield str(file.relative_to(ROOT)), file.read_text(encoding="utf-8")


def citations() -> list[tuple[str, str, str]]:
    """File, page and section of every citation."""
    return [(file, *match) for file, text in texts() for match in CITATION.findall(text)]


def test_citations_lead_somewhere(anchors):
    found = citations()
    assert len(found) > 50
    lost = [
        f"{file}: {page}#{section}"
        for file, page, section in found
        if page not in anchors or (section and section not in anchors[page])
    ]
    assert not lost, "\n".join(lost)


def test_named_files_of_benchmarks_exist():
    lost = [
        f"{file}: {path}" for file, text in texts() for path in BENCHMARK.findall(text) if not (ROOT / path).is_file()
    ]
    assert not lost, "\n".join(lost)
