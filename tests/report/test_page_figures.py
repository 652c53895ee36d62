"""Figures, the map and every page as a whole, in a real browser."""

import numpy as np
import pytest
from helpers.browsers import data_of, opened


@pytest.fixture(scope="module")
def pages(pages_to_open):
    return pages_to_open


@pytest.mark.parametrize("name", ["run", "means"])
def test_one_space_stands_out_in_every_figure(browser, pages, name):
    with opened(browser, pages[name]) as page:
        looks = data_of(page)["looks"]
        menu = page.locator(".figure-tools select").first
        assert menu.locator("option").all_text_contents() == [
            "every space",
            *(looks[int(o.get_attribute("value"))] for o in menu.locator("option").all()[1:]),
        ]
        menu.focus()
        page.keyboard.press("ArrowDown")
        [place] = {e.get_attribute("data-space") for e in page.locator("[data-space].on").all()}
        assert menu.input_value() == place
        for figure in page.locator(".figure").all():
            here = figure.locator(f'[data-space="{place}"]').count() > 0
            assert ("lit" in figure.get_attribute("class")) == here
        other = page.locator(f'.figure [data-space]:not([data-space="{place}"]) text').last
        other.hover()
        [lit] = {e.get_attribute("data-space") for e in page.locator("[data-space].on").all()}
        assert looks[int(lit)].startswith(other.text_content().rstrip("…"))
        page.mouse.move(0, 0)
        assert page.locator(f'[data-space="{place}"].on').count() > 0
        other.click()
        other.click()
        page.mouse.move(0, 0)
        assert page.locator("[data-space].on").count() == 0


@pytest.mark.parametrize("name", ["run", "unlabelled", "means"])
def test_the_map_marks_one_image_in_every_space_and_opens_it(browser, pages, name):
    with opened(browser, pages[name]) as page:
        data = data_of(page)
        drawn, listed = data["map"], {query["row"] for query in data["queries"]}
        assert page.locator(".plane .point").count() == 2 * len(drawn["rows"])
        plane = page.locator(".plane").last
        plane.focus()
        seen = set()
        for key in ["ArrowLeft", "ArrowUp", "ArrowRight", "ArrowDown"] * 3:
            page.keyboard.press(key)
            place = page.evaluate("marks.place")
            seen.add(place)
            for ring, points in zip(
                page.locator(".ring").all(), drawn["planes"].values(), strict=True
            ):
                at = [float(ring.get_attribute(name)) for name in ("cx", "cy")]
                assert at == points[2 * place : 2 * place + 2]
            answer = data["classes"][drawn["answers"][place]]
            assert answer.strip() in page.locator("#map-card b").text_content()
        assert len(seen) > 3
        place = next(n for n, row in enumerate(drawn["rows"]) if row in listed)
        page.evaluate(f"mark({place})")
        plane.focus()
        page.keyboard.press("Enter")
        row = drawn["rows"][place]
        page.wait_for_selector(f'.option[data-row="{row}"][aria-selected="true"]')
        first = page.locator("#map-classes button").first
        first.focus()
        page.keyboard.press("Enter")
        apart = sum(answer != drawn["legend"][0] for answer in drawn["answers"])
        assert page.locator(".point.faint").count() == 2 * apart
        page.keyboard.press("Enter")
        assert page.locator(".point.faint").count() == 0


def test_the_pointer_finds_the_image_under_it(browser, pages):
    with opened(browser, pages["run"]) as page:
        plane = page.locator(".plane").first
        plane.scroll_into_view_if_needed()
        box, drawn = plane.bounding_box(), data_of(page)["map"]
        points = np.reshape(next(iter(drawn["planes"].values())), (-1, 2))
        for place in (0, 50, 100):
            x, y = (points[place] + 40) / 1080 * box["width"]
            plane.hover(position={"x": x, "y": y})
            found = points[page.evaluate("marks.place")]
            nearest = np.linalg.norm(points - points[place], axis=1) < 8
            assert found.tolist() in points[nearest].tolist()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 768, 1400])
@pytest.mark.parametrize("name", ["run", "unlabelled", "means", "tda"])
def test_axe_finds_nothing(browser, pages, axe, name, width, scheme):
    size = {"width": width, "height": 900}
    with opened(browser, pages[name], size, color_scheme=scheme, bypass_csp=True) as page:
        for summary in page.locator("summary").all():
            summary.click()
        page.evaluate(f"{axe}; 0")
        found = page.evaluate("axe.run(document, { resultTypes: ['violations'] })")["violations"]
        assert [(each["id"], [node["target"] for node in each["nodes"]]) for each in found] == []
