import io
import re
from itertools import combinations, pairwise

import matplotlib
import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_hex
from matplotlib.patches import Circle, FancyBboxPatch, Rectangle
from matplotlib.text import Text

from marc.report.style import INK, LINE, MUTED, PALETTE, drawing
from marc.report.vectors import inline_svg, save_figures
from marc_paper.study.schematic_intervention import (
    BASE,
    IN_CLIP,
    IN_RETRIEVAL,
    STORED,
    draw_intervention,
    evidence,
    fused,
    nearest,
)
from marc_paper.study.schematic_workflow import (
    CLIP_COLOR,
    RETRIEVAL_COLOR,
    WIDTH,
    Rect,
    arrow,
    board,
    draw_workflow,
)

DRAWINGS = (draw_workflow, draw_intervention)
SLACK = 0.5  # pixels


@pytest.fixture(params=DRAWINGS, ids=lambda draw: draw.__name__)
def figure(request):
    with drawing():
        made = request.param()
        FigureCanvasAgg(made).draw()
        yield made


def texts(figure):
    return [text for text in figure.findobj(Text) if text.get_text() and text.get_visible()]


def extent(figure, artist):
    return artist.get_window_extent(figure.canvas.get_renderer())


def common(one, other):
    """Width and height of what two extents share; negative when they are apart."""
    return (
        min(one.x1, other.x1) - max(one.x0, other.x0),
        min(one.y1, other.y1) - max(one.y0, other.y0),
    )


def meets(one, other):
    return min(common(one, other)) > SLACK


def inside(small, large):
    return (
        small.x0 >= large.x0 - SLACK
        and small.x1 <= large.x1 + SLACK
        and small.y0 >= large.y0 - SLACK
        and small.y1 <= large.y1 + SLACK
    )


def svg_of(draw):
    with drawing():
        buffer = io.BytesIO()
        draw().savefig(buffer, format="svg", metadata={"Date": None})
    return buffer.getvalue()


def test_a_page_wide_and_without_axes(figure):
    assert figure.get_size_inches()[0] == WIDTH == 7.2
    assert len(texts(figure)) > 25
    assert not figure.axes[0].axison


def test_no_two_texts_overlap(figure):
    found = [(text.get_text(), extent(figure, text)) for text in texts(figure)]
    clashes = [(a, b) for (a, one), (b, other) in combinations(found, 2) if meets(one, other)]
    assert clashes == []


def test_every_text_is_inside_the_figure(figure):
    outside = [t.get_text() for t in texts(figure) if not inside(extent(figure, t), figure.bbox)]
    assert outside == []


def is_ring(artist):
    """The outline around the neighbours, which a text may stand in."""
    return isinstance(artist, Circle) and artist.radius > 0.2


def test_a_text_is_inside_a_shape_or_apart_from_it(figure):
    kinds = FancyBboxPatch | Circle | Rectangle
    shapes = [patch for patch in figure.axes[0].patches if isinstance(patch, kinds)]
    written = [(text.get_text(), extent(figure, text)) for text in texts(figure)]
    cut = []
    for shape in shapes:
        frame = extent(figure, shape)
        for words, place in written:
            if not is_ring(shape) and meets(place, frame) and not inside(place, frame):
                cut.append(words)
    assert cut == []


def test_a_ring_cuts_no_text():
    with drawing():
        figure = draw_intervention()
        FigureCanvasAgg(figure).draw()
    rings = [patch for patch in figure.axes[0].patches if is_ring(patch)]
    assert len(rings) == 2
    for ring in rings:
        center = figure.axes[0].transData.transform(ring.center)
        radius = extent(figure, ring).width / 2
        for text in texts(figure):
            far = np.hypot(*(extent(figure, text).corners() - center).T) > radius
            assert far.all() or not far.any()


def test_no_line_or_mark_runs_through_a_text(figure):
    """Points every few pixels along each line, and the middle of each mark."""
    places = [(text.get_text(), extent(figure, text)) for text in texts(figure)]
    hit = []
    for line in figure.axes[0].lines:
        corners = line.get_transform().transform(line.get_xydata())
        steps = np.linspace(0, 1, 400)[:, None]
        pieces = [a + steps * (b - a) for a, b in pairwise(corners)]
        points = np.concatenate([corners, *pieces])
        for words, place in places:
            within = (points > [place.x0, place.y0]) & (points < [place.x1, place.y1])
            if within.all(axis=1).any():
                hit.append(words)
    assert hit == []


def test_lines_in_ink_run_level_or_upright(figure):
    for line in figure.axes[0].lines:
        steps = np.abs(np.diff(line.get_xydata(), axis=0))
        assert line.get_color() != INK or (steps.min(axis=1, initial=1) < 1e-9).all()


def test_every_font_can_be_read_in_print(figure):
    assert min(text.get_fontsize() for text in texts(figure)) >= 7


def test_only_the_colours_of_the_style_are_used(figure):
    named = {INK, MUTED, LINE, *PALETTE}
    svg = io.StringIO()
    figure.savefig(svg, format="svg", metadata={"Date": None})
    used = set(re.findall(r"#[0-9a-f]{6}\b", svg.getvalue()))
    # the clip paths and glyphs of matplotlib name black; nothing is white, for a dark page
    assert used - {"#000000"} <= named


@pytest.mark.parametrize("draw", DRAWINGS)
def test_a_drawing_is_the_same_each_time(draw):
    first = svg_of(draw)
    assert first == svg_of(draw)
    assert len(first) > 10_000


def test_it_is_saved_in_every_format_and_text_stays_text(figure, tmp_path):
    with drawing():
        paths = save_figures({"drawing": figure}, tmp_path)
        page = inline_svg(figure, "drawing")
    assert sorted(path.suffix for path in paths) == [".pdf", ".png", ".svg"]
    assert (
        b"/FontFile2" in (tmp_path / "drawing.pdf").read_bytes()
    )  # TrueType, so it can be searched
    assert page.count("<text") >= len(texts(figure))
    assert "frozen" in page
    assert "$" not in "".join(re.findall(r"<text[^>]*>(.*?)</text>", page, flags=re.DOTALL))


def test_mathematics_is_set_though_the_style_turns_it_off(figure):
    with drawing():
        assert not matplotlib.rcParams["text.parse_math"]
    assert all(text.get_parse_math() for text in texts(figure) if "$" in text.get_text())


def test_the_workflow_names_what_the_stages_make():
    with drawing():
        words = " ".join(text.get_text() for text in texts(draw_workflow()))
    for symbol in ("$b_t$", r"\hat y_t", r"\pi_t", "$w$", "L_t^s", "g_s", "$q_t$", r"\tilde y_t"):
        assert symbol in words


def test_both_memories_get_the_dashed_label():
    """The dashed lines in ink end at the left side of a blue and of an orange frame."""
    with drawing():
        axes = draw_workflow().axes[0]
    frames = [patch for patch in axes.patches if isinstance(patch, FancyBboxPatch)]
    reached = []
    for line in axes.lines:
        x, y = line.get_xydata()[-1]
        if line.get_linestyle() != "--" or line.get_color() != INK:
            continue
        for frame in frames:
            low, high = frame.get_y(), frame.get_y() + frame.get_height()
            if 0 < frame.get_x() - x < 0.1 and low < y < high:
                reached.append(to_hex(frame.get_edgecolor()))
    assert sorted(reached) == sorted([CLIP_COLOR, RETRIEVAL_COLOR])


def test_the_spaces_hold_the_same_items_with_other_neighbours():
    assert set(IN_CLIP) == set(IN_RETRIEVAL) == set(STORED)
    assert not set(nearest(IN_CLIP)) & set(nearest(IN_RETRIEVAL))
    assert {STORED[item] for item in nearest(IN_CLIP)} == {"b"}
    assert {STORED[item] for item in nearest(IN_RETRIEVAL)} == {"a"}


@pytest.mark.parametrize("places", [IN_CLIP, IN_RETRIEVAL])
def test_the_items_stand_apart_from_each_other_and_from_the_query(places):
    apart = [np.hypot(*np.subtract(a, b)) for a, b in combinations([*places.values(), (0, 0)], 2)]
    assert min(apart) > 0.25  # inches; an item is 0.21 wide


def test_only_the_evidence_of_the_second_space_corrects_the_answer():
    def best(scores):
        return max(scores, key=scores.get)

    assert best(BASE) == best(evidence(IN_CLIP)) == best(fused(IN_CLIP)) == "b"
    assert best(evidence(IN_RETRIEVAL)) == best(fused(IN_RETRIEVAL)) == "a"


def test_evidence_is_a_sum_over_the_items_of_a_class():
    total = sum(np.exp(-8 * (x * x + y * y)) for x, y in (IN_CLIP[i] for i in (5, 6, 7, 8)))
    assert evidence(IN_CLIP)["b"] == pytest.approx(total)
    assert fused(IN_CLIP)["b"] == pytest.approx(BASE["b"] + 0.5 * total)


def test_the_nearest_come_first():
    near = {1: (3.0, 4.0), 2: (0.0, 1.0), 3: (-2.0, 0.0), 4: (0.5, 0.0)}
    assert nearest(near) == [4, 2, 3]


def test_an_arrow_ends_at_its_last_point():
    with drawing():
        _, axes = board(1.0)
        arrow(axes, [(0.0, 0.0), (1.0, 0.0), (1.0, 0.5)])
    (head,) = axes.patches
    tip, left, right = head.get_xy()[:3]
    assert tuple(tip) == (1.0, 0.5)
    assert left[1] == right[1] < 0.5
    assert (left[0] + right[0]) / 2 == pytest.approx(1.0)
    assert axes.lines[0].get_xydata()[-1] == pytest.approx([1.0, left[1]])


def test_a_rectangle_knows_its_sides():
    rect = Rect(1.0, 2.0, 0.5, 0.25)
    assert (rect.right, rect.top, rect.middle) == (1.5, 2.25, (1.25, 2.125))
