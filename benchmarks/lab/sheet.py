"""Draw docs/images/lab.jpg: things of the lab under every shift.

python -m benchmarks.lab.sheet docs/images/lab.jpg
"""

from __future__ import annotations

import sys
from pathlib import Path

from PIL import Image, ImageDraw, ImageFont

from marc_lab.classes import CLASS_NAMES, HELD_BACK
from marc_lab.world import SHIFTS, render

SEED = 4  # of these pictures alone
STEP, LEFT, TOP = 68, 84, 26
INK, PAPER = (40, 40, 48), (252, 252, 250)


def sheet(labels: tuple[int, ...]) -> Image.Image:
    """A row for each class, a column for each shift."""
    font = ImageFont.load_default(13)
    page = Image.new("RGB", (LEFT + STEP * len(SHIFTS), TOP + STEP * len(labels)), PAPER)
    draw = ImageDraw.Draw(page)
    for column, shift in enumerate(SHIFTS):
        draw.text((LEFT + STEP * column + 2, 6), shift, fill=INK, font=font)
    for row, label in enumerate(labels):
        draw.text((6, TOP + STEP * row + 24), CLASS_NAMES[label], fill=INK, font=font)
        for column, shift in enumerate(SHIFTS):
            picture = render(SEED, 2 * (len(SHIFTS) * row + column), shift, label)
            page.paste(Image.fromarray(picture.image), (LEFT + STEP * column, TOP + STEP * row))
    return page


if __name__ == "__main__":
    sheet(HELD_BACK[:8]).save(Path(sys.argv[1]), quality=88)
