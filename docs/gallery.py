"""Make the live pages of the gallery and a picture of each: `make gallery`."""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from PIL import Image
from playwright.sync_api import sync_playwright

from marc_lab.streams import plan_stream

DOCS = Path(__file__).parent
_ADAPT = ["adapt", "photos", "--class-names", "names.txt", "--predictor", "mini:captions"]
# name, the command that leaves a folder, the page in it
PAGES = [
    ("demo", ["demo"], "sketch-12/report.html"),
    ("own-pictures", [*_ADAPT, "--encoder", "mini:pairs-large", "mini:vicreg"], "report.html"),
    ("study", ["study", "--lab", "--quick"], "index.html"),
]


def main() -> None:
    """Run each command in a folder of its own, and keep what its page needs."""
    for name, command, page in PAGES:
        kept = DOCS / "_gallery" / "pages" / name
        with tempfile.TemporaryDirectory() as work:
            marc = str(Path(sys.executable).with_name("marc"))
            _draw_pictures(Path(work))
            subprocess.run([marc, *command, "-o", "out"], cwd=work, check=True)
            shutil.rmtree(kept, ignore_errors=True)
            data = shutil.ignore_patterns("work", "features", "*.npz", "*.lock", "*.pdf")
            shutil.copytree((Path(work) / "out" / page).parent, kept, ignore=data)
        _picture(kept / Path(page).name, DOCS / "images" / "gallery" / f"{name}.jpg")


def _draw_pictures(folder: Path) -> None:
    """The lab's sketches as files without labels, as docs/own-pictures.md has them."""
    plan = plan_stream("sketch-12")
    (folder / "photos").mkdir()
    for row in range(200):
        Image.fromarray(plan.picture(row)).save(folder / "photos" / f"{row:03}.png")
    (folder / "names.txt").write_text("\n".join(plan.class_names), encoding="utf-8")


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
