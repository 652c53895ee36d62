"""Make the live pages of the gallery and a picture of each: `make gallery`."""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import sync_playwright

DOCS = Path(__file__).parent
# name, the command, the folder it leaves, the page in it
PAGES = [
    ("demo", ["demo", "-o", "out"], "report.html"),
    ("study", ["study", "--lab", "--quick", "-o", "out"], "index.html"),
]


def main() -> None:
    """Run each command in a folder of its own, and keep what its page needs."""
    for name, command, page in PAGES:
        kept = DOCS / "_gallery" / "pages" / name
        with tempfile.TemporaryDirectory() as work:
            marc = str(Path(sys.executable).with_name("marc"))
            subprocess.run([marc, *command], cwd=work, check=True)
            shutil.rmtree(kept, ignore_errors=True)
            data = shutil.ignore_patterns("work", "*.npz", "*.lock", "*.pdf")
            shutil.copytree(Path(work) / "out", kept, ignore=data)
        _picture(kept / page, DOCS / "images" / "gallery" / f"{name}.jpg")


def _picture(page: Path, file: Path) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    chromium = shutil.which("chromium")
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        tab = browser.new_page(viewport={"width": 1200, "height": 750})
        tab.goto(page.as_uri())
        tab.screenshot(path=file, type="jpeg", quality=70)
        browser.close()


if __name__ == "__main__":
    main()
