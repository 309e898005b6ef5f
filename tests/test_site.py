"""The built site (`make docs`) shows mathematics without a network."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

SITE = Path(__file__).parents[1] / "docs" / "_build" / "html"
BROWSER = next(
    (path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), None
)


@pytest.mark.slow
@pytest.mark.skipif(BROWSER is None, reason="no Chromium is installed")
@pytest.mark.skipif(not SITE.is_dir(), reason="the site is not built: make docs")
@pytest.mark.parametrize("page", ["mathematics/surrogates", "mathematics/training"])
def test_mathematics_is_typeset_offline(page):
    path = SITE / f"{page}.html"
    command = [
        str(BROWSER),
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--host-resolver-rules=MAP * ~NOTFOUND",  # no network
        "--allow-file-access-from-files",
        "--virtual-time-budget=30000",
        "--dump-dom",
        path.as_uri(),
    ]
    seen = subprocess.run(command, capture_output=True, text=True, timeout=300).stdout
    body = re.sub(r"<(script|style|mjx-assistive-mml).*?</\1>", "", seen, flags=re.DOTALL)
    assert "<mjx-container" in body
    assert r"\(" not in body and r"\[" not in body
    assert not re.findall(r'(?:src|href)="https?://[^"]*(?:cdn|jsdelivr|unpkg|cloudflare)[^"]*"', seen)
