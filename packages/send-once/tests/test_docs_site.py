"""The documentation builds, is complete, and asks no other host for anything."""

from __future__ import annotations

import os
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

import send_once
import send_once.mail
import send_once.testing

ROOT = Path(__file__).parents[3]
SECONDS_MAX = 300

pytestmark = pytest.mark.xdist_group("site")  # built once, in one worker


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The built site. In strict mode a broken link or a page that is not in the navigation fails the build."""
    folder = tmp_path_factory.mktemp("site")
    built = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", folder],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        timeout=SECONDS_MAX,
        check=False,
    )
    assert built.returncode == 0, built.stderr
    return folder


@pytest.mark.parametrize("module", [send_once, send_once.mail, send_once.testing], ids=lambda module: module.__name__)
def test_every_public_name_is_in_the_reference(site: Path, module: object) -> None:
    pages = "".join(path.read_text() for path in (site / "reference").glob("*.html"))
    described = {anchor.rpartition(".")[2] for anchor in re.findall(r'id="(send_once\.[\w.]+)"', pages)}
    assert sorted({*vars(module)["__all__"]} - described - {"__version__"}) == []


def test_no_page_loads_anything_from_another_host(site: Path) -> None:
    loads = re.compile(
        r'<(?:script|img|iframe)[^>]*\ssrc="?(?:https?:)?//|<link[^>]*\shref="?(?:https?:)?//[^>]*>|@import'
    )
    assert [page.name for page in site.rglob("*.html") if loads.search(page.read_text())] == []


def test_the_generated_pages_are_current() -> None:
    pages = runpy.run_path(str(ROOT / "docs" / "generate.py"))["pages"]()
    assert [path.name for path, text in pages.items() if path.read_text() != text] == [], "run `make docs`"
