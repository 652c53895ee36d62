"""The page in a real browser: what it shows is what the library gives, at any weight."""

import json

import numpy as np
import pytest
from helpers.browsers import NARROW, data_of, opened
from helpers.report_pages import NASTY, make_stream

import marc


def shown(page):
    """The selected row, the weight, and the answer in each space."""
    row = page.locator('.option[aria-selected="true"]').get_attribute("data-row")
    answers = [int(p.get_attribute("data-answer")) for p in page.locator(".panel").all()]
    return int(row), float(page.locator("#weight").input_value()), answers


@pytest.fixture(scope="module")
def pages(pages_to_open):
    return pages_to_open


def library_answers(row, weight, spaces):
    """What the library answers for one image when the memory is read in each space."""
    stream = make_stream().shuffled(0)
    runs = [marc.replay(marc.MARC(space, 4, weight), stream) for space in spaces]
    return [int(run.predictions[run.order == row][0]) for run in runs]


def test_slider_and_keys_show_the_answers_of_the_library(browser, pages):
    draw = np.random.default_rng(0)
    with opened(browser, pages["run"]) as page:
        data = data_of(page)
        names = data["classes"]
        seen = set()
        for _ in range(8):
            page.locator("#list").focus()
            for _ in range(int(draw.integers(1, 9))):
                page.keyboard.press(str(draw.choice(["j", "ArrowDown", "ArrowRight"])))
            page.locator("#slider").focus()
            page.keyboard.press(str(draw.choice(["Home", "End", "PageUp"])))
            for _ in range(int(draw.integers(1, 30))):
                page.keyboard.press(str(draw.choice(["ArrowRight", "ArrowLeft"], p=[0.6, 0.4])))
            row, weight, answers = shown(page)
            assert weight in data["stops"]
            assert answers == library_answers(row, weight, data["spaces"])
            lines = page.locator(".panel .answer b").all_text_contents()
            assert lines == [names[answer] for answer in answers]
            seen.add((row, weight))
        assert len({row for row, _ in seen}) > 4
        assert len({weight for _, weight in seen}) > 4


def test_typed_weights_change_the_answer_exactly_where_the_library_does(browser, pages):
    with opened(browser, pages["run"]) as page:
        data = data_of(page)
        turning = [
            (place, start)
            for place, query in enumerate(data["queries"])
            for segments in query["segments"]
            for start, _ in segments[1:]
            if 0.5 < start < 500
        ]
        before = 0
        for place, start in turning[:: len(turning) // 8]:
            for _ in range(place - before):
                page.keyboard.press("j")
            before = place
            for weight in (0.99 * start, 1.01 * start):
                page.locator("#weight").fill(repr(weight))
                page.locator("#weight").blur()
                row, typed, answers = shown(page)
                assert (row, typed) == (data["queries"][place]["row"], weight)
                assert answers == library_answers(row, weight, data["spaces"])


def test_equal_sums_go_to_the_lower_class(browser, pages):
    lines = {"classes": [2, 5, 9, 11], "constant": [1, 3, 4, 0], "slopes": [[0, 1, 0.5, 1.75]]}
    with opened(browser, pages["run"]) as page:
        for weight, expected in [(0, 9), (2, 5), (4, 5), (4.5, 11)]:
            assert page.evaluate(f"answerAt({json.dumps(lines)}, 0, {weight})") == expected


def test_a_weight_that_is_none_is_ignored_and_the_button_goes_back(browser, pages):
    with opened(browser, pages["run"]) as page:
        for text in ("50", "-3", ""):
            page.locator("#weight").fill(text)
            lines = page.locator(".panel .answer").all_text_contents()
            assert len(lines) == 2
            assert all(line.startswith("at w = 50:") for line in lines)
        page.locator("#reset").click()
        row, weight, answers = shown(page)
        assert weight == 7
        assert answers == library_answers(row, 7.0, data_of(page)["spaces"])


def test_j_and_k_work_anywhere_but_in_a_text_field(browser, pages):
    with opened(browser, pages["run"]) as page:
        rows = [query["row"] for query in data_of(page)["queries"]]
        assert shown(page)[0] == rows[0]
        for key, expected in [("j", 1), ("j", 2), ("k", 1), ("k", 0), ("k", 0)]:
            page.keyboard.press(key)
            assert shown(page)[0] == rows[expected]
        page.locator("#list").focus()
        page.keyboard.press("End")
        assert shown(page)[0] == rows[-1]
        page.keyboard.press("Home")
        page.locator("#search").focus()
        page.keyboard.type("jk")
        assert page.locator("#search").input_value() == "jk"
        assert page.locator("#found").text_content() == "0 of 80 queries"
        assert page.locator("#list").get_attribute("aria-activedescendant") is None
        page.locator("#search").fill("")
        before = shown(page)[0]
        page.locator(".figure-tools select").first.press("j")  # letters find a space by its name
        assert shown(page)[0] == before


def test_filters_and_search_list_what_they_say(browser, pages):
    with opened(browser, pages["run"]) as page:
        data = data_of(page)
        for kind in ("repaired", "broken", "low margin", "hubs"):
            wanted = [str(q["row"]) for q in data["queries"] if kind in q["kinds"]]
            assert page.locator(f'input[value="{kind}"]').is_disabled() == (not wanted)
            if not wanted:
                continue
            page.locator(f'input[value="{kind}"]').check(force=True)
            rows = [o.get_attribute("data-row") for o in page.locator(".option").all()]
            assert rows == wanted
        page.locator('input[value="all"]').check(force=True)
        page.locator("#search").fill("ALERT(")
        wanted = [q for q in data["queries"] if 1 in (q["truth"], q["base"], q["adapted"])]
        assert page.locator(".option").count() == len(wanted) > 0
        assert NASTY in page.locator(".option").first.text_content()


def test_a_sample_opens_in_the_explorer(browser, pages):
    with opened(browser, pages["run"]) as page:
        link = page.locator(".samples a").last
        link.click()
        page.wait_for_function("document.querySelector('.option[aria-selected=true]') !== null")
        assert f"#q-{shown(page)[0]}" == link.get_attribute("href")


def test_the_address_follows_the_query_and_leads_back_to_it(browser, pages):
    address = "window.location.hash"
    with opened(browser, pages["run"]) as page:
        assert page.evaluate(address) == ""
        rows = [query["row"] for query in data_of(page)["queries"]]
        for key, place in [("j", 1), ("j", 2), ("k", 1)]:
            page.keyboard.press(key)
            assert page.evaluate(address) == f"#q-{rows[place]}"
        first, last = (page.locator(".samples a").nth(place) for place in (0, -1))
        for link in (first, last):
            link.click()
        first, last = (link.get_attribute("href") for link in (first, last))
        assert f"#q-{shown(page)[0]}" == last
        for step, expected in [("back", first), ("back", f"#q-{rows[1]}"), ("forward", first)]:
            page.evaluate(f"window.history.{step}()")
            page.wait_for_function(f"{address} === '{expected}'")
            assert f"#q-{shown(page)[0]}" == expected
        page.goto(pages["run"].as_uri() + last)
        page.reload()
        assert f"#q-{shown(page)[0]}" == last


def test_the_address_names_what_a_filter_leaves(browser, pages):
    with opened(browser, pages["run"]) as page:
        page.keyboard.press("j")
        for query in data_of(page)["queries"]:
            page.locator("#search").fill(data_of(page)["classes"][query["adapted"]])
            assert page.evaluate("window.location.hash") == f"#q-{shown(page)[0]}"


def test_a_link_to_an_image_that_is_not_listed_says_so(browser, pages):
    with opened(browser, pages["run"]) as page:
        before = shown(page)[0]
        page.evaluate("window.location.hash = '#q-99999'")
        page.locator("#found", has_text="not among the 80 queries").wait_for()
        assert shown(page)[0] == before


def test_the_keys_go_on_where_a_link_led(browser, pages):
    with opened(browser, pages["run"]) as page:
        rows = [query["row"] for query in data_of(page)["queries"]]
        link = page.locator(".samples a").first
        link.press("Enter")
        page.wait_for_function("document.activeElement.id === 'list'")
        place = rows.index(int(link.get_attribute("href").removeprefix("#q-")))
        page.keyboard.press("ArrowDown")
        assert shown(page)[0] == rows[min(place + 1, len(rows) - 1)]


def test_names_that_run_to_the_left_do_not_turn_the_arrow(browser, pages):
    isolated = "(part) => getComputedStyle(part).unicodeBidi"
    with opened(browser, pages["run"]) as page:
        for place in (".samples b", ".finding .change b", ".option bdi"):
            assert page.locator(place).first.evaluate(isolated) == "isolate"


def test_only_an_answer_that_stayed_is_marked_as_equal(browser, pages):
    with opened(browser, pages["run"]) as page:
        for query in data_of(page)["queries"]:
            marks = page.locator(f"#option-{query['row']} .mark.same").count()
            assert marks == (query["base"] == query["adapted"])


def test_a_score_below_zero_has_a_minus_as_everywhere_else(browser, pages):
    with opened(browser, pages["run"]) as page:
        assert page.evaluate("[scoreText(-1.5), scoreText(-0.001)]") == ["−1.50", "0.00"]


def test_a_weight_beyond_all_numbers_is_not_taken(browser, pages):
    with opened(browser, pages["run"]) as page:
        before = shown(page)[2]
        page.locator("#weight").fill("1e308")
        assert "Infinity" not in page.locator("#panels").inner_text()
        assert shown(page)[2] == before


def test_what_a_finger_touches_is_large_enough(browser, pages):
    with opened(browser, pages["run"], NARROW) as page:
        for place in (
            "button",
            "nav a",
            "summary",
            ".filters span",
            "select",
            "#slider",
            "#search",
        ):
            for each in page.locator(f"{place}:visible").all():
                box = each.bounding_box()
                assert box["height"] >= 40, (place, each.inner_text())
                assert box["width"] >= 40, (place, each.inner_text())


def test_the_entries_show_label_similarity_vote_and_time(browser, pages):
    with opened(browser, pages["run"]) as page:
        page.keyboard.press("j")
        data = data_of(page)
        query = data["queries"][1]
        panel = page.locator(".panel").nth(1)
        entry, text = query["entries"][1][0], panel.locator(".entry").first.text_content()
        assert panel.locator(".entry").count() == len(query["entries"][1])
        assert data["classes"][entry["label"]] in text
        assert f"similarity {entry['similarity']:.2f}" in text
        assert f"vote {entry['vote']:.3f}" in text
        assert f"stored t = {entry['time']}" in text


def test_a_heading_sorts_the_classes(browser, pages):
    with opened(browser, pages["run"]) as page:
        for column, name in [(3, "gain"), (4, "images"), (1, "without")]:
            head = page.locator(".sortable thead th").nth(column)
            assert head.text_content() == name
            for direction, sign in [("descending", -1), ("ascending", 1)]:
                head.locator("button").click()
                assert head.get_attribute("aria-sort") == direction
                cells = page.locator(f".sortable tbody tr td:nth-child({column + 1})")
                values = [float(c.get_attribute("data-value")) for c in cells.all()]
                assert values == sorted(values, key=lambda value: sign * value)


@pytest.mark.parametrize("name", ["run", "unlabelled"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_phone_needs_no_scrolling_to_the_side(browser, pages, name, scheme):
    with opened(browser, pages[name], NARROW, color_scheme=scheme) as page:
        for details in page.locator("details").all():
            details.locator("summary").click()
        for _ in range(5):
            page.keyboard.press("j")
            wider = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
            assert page.evaluate(wider) <= 0


def test_without_labels_nothing_is_called_right_or_wrong(browser, pages):
    with opened(browser, pages["unlabelled"]) as page:
        for _ in range(5):
            page.keyboard.press("j")
        text = page.locator("#explorer").inner_text()
        assert "right" not in text
        assert "wrong" not in text
        assert page.locator(".panel").count() == 2


def test_everything_that_can_be_used_has_a_name_and_a_visible_focus(browser, pages):
    with opened(browser, pages["run"]) as page:
        tree = page.locator("body").aria_snapshot()
        for name in (
            'slider "Weight of the evidence, w"',
            'listbox "Queries, the most disagreeing first"',
            'searchbox "Class"',
            'button "Next query"',
            'spinbutton "Weight w, any number from 0"',
            'radio "repaired',
        ):
            assert name in tree, name
        slider = page.locator("#slider")
        assert slider.get_attribute("aria-valuetext") == "w = 7"
        for place in ("#slider", "#list", "#search", "#weight"):
            page.locator(place).focus()
            page.keyboard.press("Shift+Tab")
            page.keyboard.press("Tab")
            outline = "getComputedStyle(document.activeElement).outlineStyle"
            assert page.evaluate(outline) != "none", place


def test_the_page_of_several_spaces_shows_who_said_what(browser, pages):
    with opened(browser, pages["means"]) as page:
        data = data_of(page)
        assert page.locator("#slider").count() == 0
        for _ in range(6):
            page.keyboard.press("j")
            row = int(page.locator('.option[aria-selected="true"]').get_attribute("data-row"))
            query = next(query for query in data["queries"] if query["row"] == row)
            whole = sum(query["weights"]) or 1
            heard = [n for n, w in enumerate(query["weights"]) if w >= 0.01 * whole and w]
            heard.sort(key=lambda voice: -query["weights"][voice])
            names = page.locator(".panel:not(.sum) h3").all_text_contents()
            assert names == [data["voices"][voice]["name"] for voice in heard]
            words = page.locator(".panel:not(.sum) .answer").all_text_contents()
            assert [float(word.split()[1]) for word in words] == pytest.approx(
                [query["weights"][voice] for voice in heard], abs=5e-4
            )
            wins = page.locator(".sum tr.wins th").inner_text().removeprefix("✓ ")
            assert wins == data["classes"][query["adapted"]].strip()


@pytest.mark.parametrize("name", ["means", "tda"])
def test_no_page_is_wider_than_a_phone(browser, pages, name):
    with opened(browser, pages[name], NARROW) as page:
        for _ in range(5):
            page.keyboard.press("j")
            wider = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
            assert page.evaluate(wider) <= 0
