"""The live page in a real browser: it shows what the server gives, and does what is pressed."""

import io
import json
import re
import time
import urllib.request
from contextlib import contextmanager
from pathlib import Path

import pytest
from helpers.browsers import NARROW, WIDE

import marc.serve

pytest.importorskip("fastapi", reason="the extra serve is not installed")

PAGE = Path(marc.serve.__file__).parent / "web" / "page"
HOSTILE = ["<img src=x onerror=alert(1)>", "</script><b>bold", "\u202eright to left", "W" * 120]
SURE = {0: ([1.0, 0.0], [1.0, 0.0]), 1: ([0.0, 1.0], [0.0, 1.0])}
TORN = [0.5, 0.52], [1.0, 0.0]  # the base answers 1, and all that is near it was 0


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    from marc.serve.server import running

    with running(tmp_path_factory.mktemp("served")) as address:
        yield address


def call(url, method, path, body=None, key=None):
    """What the server answers, as JSON."""
    headers = {
        "Content-Type": "application/json",
        **({"Authorization": f"Bearer {key}"} if key else {}),
    }
    data = None if body is None else json.dumps(body).encode()
    asked = urllib.request.Request(f"{url}/v1/memories{path}", data, headers, method=method)
    with urllib.request.urlopen(asked, timeout=30) as response:
        content = response.read()
    return json.loads(content) if content else None


def make(url, name, classes=("cat", "dog"), mode="shadow", key=None):
    """A memory of two classes which learned both."""
    method = {"name": "marc", "space": "s", "capacity": 4, "weight": 30.0}
    predictor = {"prototypes": [[1, 0], [0, 1]], "logit_scale": 10}
    body = {"method": method, "classes": classes, "predictor": predictor, "spaces": {"s": 2}}
    call(url, "PUT", f"/{name}", {**body, "mode": mode}, key)
    for number in range(8):
        step(url, name, f"sure {number}", SURE[number % 2], key)


def step(url, name, id, image=TORN, key=None):
    """One step; by default one of which the two answers differ."""
    predictor, space = image
    features = {"predictor": predictor, "spaces": {"s": space}}
    return call(url, "POST", f"/{name}/step", {"id": id, "features": features}, key)


def sampled_step(url, name, id):
    """One step that is also a sample: those come at most twice a second."""
    time.sleep(0.6)
    return step(url, name, id)


@contextmanager
def opened(browser, url, name="", viewport=WIDE, complaints=(), **options):
    """The page, and a check at the end that it complained of nothing else, and asked only here."""
    page = browser.new_page(viewport=viewport, **options)
    messages, requests = [], []
    page.on("console", lambda message: messages.append(message.text))
    page.on("pageerror", lambda error: messages.append(str(error)))
    page.on("dialog", lambda dialog: messages.append(f"dialog {dialog.message}"))
    page.on("request", lambda request: requests.append(request.url))
    page.goto(f"{url}/#/{name}" if name else url)
    yield page
    page.close()
    assert [m for m in messages if not any(f"status of {code}" in m for code in complaints)] == []
    assert [each for each in requests if not each.startswith((url, "data:", "blob:"))] == []


def part(page, name):
    return page.locator(f"[data-is='{name}']")


def wait_for_text(locator, text):
    """Until it has the text, or the test fails."""
    locator.filter(has_text=re.compile(text)).first.wait_for(timeout=10_000)


def test_an_empty_server_shows_a_command_that_makes_the_first_memory(browser, tmp_path):
    from marc.serve.server import running

    with running(tmp_path) as url, opened(browser, url) as page:
        command = part(page, "command")
        command.wait_for()
        text = command.text_content()
        assert f"curl -X PUT {url}/v1/memories/first" in text
        call(url, "PUT", "/first", json.loads(text[text.index("-d '") + 4 : text.rindex("'")]))
        wait_for_text(page.locator(".memories a"), "first")
        assert page.locator(".memories .badge").text_content() == "shadow"
        wait_for_text(page.locator(".memories .verdict"), "not shown to help")
        assert not command.is_visible()


def test_steps_are_seen_as_they_come(browser, url):
    make(url, "seen")
    with opened(browser, url) as page:
        page.get_by_role("link", name=re.compile("seen")).click()
        wait_for_text(part(page, "state"), "live")
        sampled_step(url, "seen", "the newest")
        row = page.locator(".list li").filter(has_text="the newest")
        row.wait_for(timeout=10_000)
        assert row.locator(".line bdi").all_text_contents() == ["dog", "cat", "the newest"]
        row.locator("button").click()  # which holds it
        assert part(page, "pause").text_content() == "Go on"
        wait_for_text(part(page, "sample"), "The two answers differ; the base answered")
        near = page.locator(".entry")
        assert near.count() == 5
        assert near.first.locator(".label").text_content() == "cat"
        for name in ("chart-disagreement", "chart-weight"):
            assert part(page, name).locator("canvas").count() == 1
        wait_for_text(part(page, "facts"), "9.*1 of 9 answers differ")
        assert part(page, "fill-list").locator("li").count() == 2


def test_what_is_chosen_stays_while_others_come(browser, url):
    make(url, "held")
    with opened(browser, url, "held") as page:
        chosen = page.locator(".list li").filter(has_text="sure 0")
        chosen.locator("button").click()
        sampled_step(url, "held", "another")
        wait_for_text(part(page, "facts"), "1 of 9 answers differ")
        assert page.locator(".list li").filter(has_text="another").count() == 0
        assert "sure 0" in part(page, "sample").text_content()
        part(page, "pause").click()
        page.locator(".list li").filter(has_text="another").wait_for()


def test_the_list_stays_short_and_pictures_are_drawn(browser, url):
    from PIL import Image

    make(url, "long")
    picture = io.BytesIO()
    Image.new("RGB", (8, 8), (255, 0, 0)).save(picture, "PNG")
    shown = call(url, "GET", "/long/samples?n=1")["items"][0]
    many = [{**shown, "seq": n, "id": f"n{n}", "picture": True} for n in range(1, 1001)]
    events = {
        "content_type": "text/event-stream",
        "body": "".join(f"event: step\r\ndata: {json.dumps(each)}\r\n\r\n" for each in many),
    }
    with opened(browser, url) as page:
        page.route("**/events", lambda route: route.fulfill(**events))
        page.route("**/pictures/*", lambda route: route.fulfill(body=picture.getvalue()))
        page.goto(f"{url}/#/long")
        page.locator("#sample-1000 canvas[width='8']").wait_for(timeout=10_000)
        assert page.locator(".list li").count() <= 60
        red = "c => [...c.getContext('2d').getImageData(4, 4, 1, 1).data]"
        assert page.locator("#sample-1000 canvas").evaluate(red) == [255, 0, 0, 255]


def test_live_is_confirmed_and_ends_where_labels_by_keys_show_harm(browser, url):
    make(url, "harmful")
    for number in range(12):
        assert step(url, "harmful", f"torn {number}")["disagree"]
    with opened(browser, url, "harmful", complaints=(409,)) as page:
        wait_for_text(part(page, "mode"), "shadow")
        live = part(page, "modes").get_by_role("button", name="live")
        live.click()
        wait_for_text(part(page, "switch-judge"), "without labels nothing is proven")
        page.keyboard.press("Enter")  # what has the focus leaves everything as it is
        assert call(url, "GET", "/harmful")["mode"] == "shadow"
        live.click()
        part(page, "switch-yes").click()
        wait_for_text(part(page, "mode"), "live")
        assert call(url, "GET", "/harmful")["mode"] == "live"
        page.get_by_role("button", name="Begin to label").click()
        page.locator(".card:focus").wait_for()
        assert page.locator(".card .choices bdi").all_text_contents() == ["cat", "dog"]
        for count in range(1, 11):
            page.keyboard.press("2")
            wait_for_text(part(page, "audit-count"), f"^{count} of 12 labelled")
        wait_for_text(part(page, "banner"), "Fell back from live to shadow at step 20")
        wait_for_text(part(page, "sentence"), "Harms")
        assert part(page, "mode").text_content() == "shadow"
        live.click()
        part(page, "switch-yes").click()
        wait_for_text(page.get_by_role("alert"), "this memory harms")
        live.click()
        part(page, "switch-anyway").check()
        part(page, "switch-yes").click()
        wait_for_text(part(page, "mode"), "live")


def test_undo_neither_and_skip(browser, url):
    make(url, "undone")
    for number in range(3):
        step(url, "undone", f"torn {number}")

    def labelled():
        counts = call(url, "GET", "/undone/judgement")["labelled"]
        return [counts[name] for name in ("won", "lost", "neither")]

    with opened(browser, url, "undone") as page:
        page.get_by_role("button", name="Begin to label").click()
        count = part(page, "audit-count")
        first = page.locator(".card").get_attribute("aria-label")
        page.keyboard.press("s")
        page.locator(f".card:not([aria-label='{first}'])").wait_for()
        page.keyboard.press("1")
        wait_for_text(count, "1 of 3")
        assert labelled() == [1, 0, 0]
        page.keyboard.press("u")
        wait_for_text(page.locator(".card"), "Labelled cat")
        page.keyboard.press("n")
        wait_for_text(count, "1 of 3")
        page.wait_for_function("document.activeElement.matches('.card')")
        assert labelled() == [0, 0, 1]
        page.keyboard.press("2")
        wait_for_text(count, "2 of 3")
        page.locator(f".card[aria-label='{first}']").wait_for()
        page.keyboard.press("2")
        wait_for_text(part(page, "audit"), "3 labelled")
        assert labelled() == [0, 2, 1]
        page.locator("h1").click()
        page.keyboard.press("u")  # elsewhere a letter is only a letter
        assert page.locator(".card").count() == 0


def test_a_switch_is_refused_in_words_where_the_mode_changed_meanwhile(browser, url):
    make(url, "raced")
    with opened(browser, url, "raced", complaints=(409,)) as page:
        wait_for_text(part(page, "mode"), "shadow")
        part(page, "modes").get_by_role("button", name="canary").click()
        call(url, "POST", "/raced/mode", {"to": "off"})
        part(page, "switch-yes").click()
        wait_for_text(page.get_by_role("alert"), "the mode is another by now")
        wait_for_text(part(page, "mode"), "off")


def test_a_key_is_asked_for_once_and_what_it_may_not_do_is_switched_off(browser, tmp_path):
    from marc.serve.server import running
    from marc.serve.web.access import new_key

    keys = {scope: new_key(tmp_path / "keys.json", scope, scope) for scope in ("read", "admin")}
    with running(tmp_path / "data", key_file=tmp_path / "keys.json") as url:
        make(url, "secret", key=keys["admin"])
        step(url, "secret", "torn", key=keys["admin"])
        with opened(browser, url, "secret", complaints=(401, 403)) as page:
            field = page.get_by_label("Key", exact=True)
            field.fill("wrong")
            field.press("Enter")
            wait_for_text(page.locator("#key-why"), "not known")
            field.fill(keys["read"])
            field.press("Enter")
            wait_for_text(part(page, "state"), "live")
            page.get_by_role("button", name="Begin to label").click()
            page.get_by_role("button", name="dog").click()
            wait_for_text(page.get_by_role("alert"), "does not have the scope 'write'")
            assert page.get_by_role("button", name="dog").is_disabled()
            part(page, "modes").get_by_role("button", name="live").click()
            part(page, "switch-yes").click()
            wait_for_text(part(page, "mode-means"), "The key in use may not change it")
            assert part(page, "modes").locator("button:disabled").count() == 4
            page.reload()
            wait_for_text(part(page, "state"), "live")  # the tab still has the key


def test_names_are_text_and_nothing_is_wider_than_a_phone(browser, url):
    name = "n" * 63
    make(url, name, HOSTILE[:2])
    make(url, "wide", HOSTILE[2:])
    for each in (name, "wide"):
        step(url, each, "<svg onload=alert(2)>" + "i" * 300)
    for each in ("", name, "wide"):
        with opened(browser, url, each, NARROW) as page:
            page.locator(".memories li, .list li").first.wait_for()
            if each:
                page.get_by_role("button", name="Begin to label").click()
                page.locator(".card").wait_for()
                wait_for_text(part(page, "fill-list"), re.escape(HOSTILE[0 if each == name else 2]))
            assert (
                page.evaluate(
                    "document.querySelectorAll('main img, main svg[onload], main b b').length"
                )
                == 0
            )
            assert page.evaluate("document.documentElement.scrollWidth") <= NARROW["width"]


def test_a_memory_that_is_deleted_is_said_to_be_gone(browser, url):
    make(url, "passing")
    with opened(browser, url, "passing", complaints=(404, 503)) as page:
        wait_for_text(part(page, "state"), "live")
        call(url, "DELETE", "/passing")
        wait_for_text(page.get_by_role("alert"), "there is no such memory")
        wait_for_text(part(page, "state"), "stopped")


def test_the_page_goes_on_where_the_server_comes_back(browser, tmp_path):
    from marc.serve.server import running

    with running(tmp_path) as url:
        make(url, "back")
        page = browser.new_page()
        page.goto(f"{url}/#/back")
        wait_for_text(part(page, "state"), "live")
    wait_for_text(part(page, "state"), "reconnecting")
    with running(tmp_path, port=int(url.rpartition(":")[2])):
        wait_for_text(part(page, "state"), "live")
        sampled_step(url, "back", "after the pause")
        wait_for_text(part(page, "samples"), "after the pause")
        assert not page.get_by_role("alert").is_visible()
        page.close()


def test_a_snapshot_is_downloaded(browser, url):
    make(url, "kept")
    with opened(browser, url, "kept") as page, page.expect_download() as download:
        part(page, "snapshot").click()
    assert download.value.suggested_filename == "kept-000000000008.safetensors"


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1400])
def test_axe_finds_nothing(browser, url, axe, width, scheme):
    make(url, "checked")
    for number in range(3):
        step(url, "checked", f"torn {number}")
    call(url, "POST", "/checked/labels", {"labels": [{"id": "torn 0", "label": "cat"}]})
    size = {"width": width, "height": 900}
    for name in ("", "checked"):
        with opened(browser, url, name, size, color_scheme=scheme, bypass_csp=True) as page:
            page.locator(".memories li, .list li").first.wait_for()
            checks = [lambda: None]
            if name:
                page.get_by_role("button", name="Begin to label").click()
                page.locator("summary").click()
                page.locator(".card").wait_for()
                modes = part(page, "modes")
                checks.append(modes.get_by_role("button", name="canary").click)
            for change in checks:
                change()
                page.evaluate(f"{axe}; 0")
                result = page.evaluate("axe.run(document, { resultTypes: ['violations'] })")
                violations = [(each["id"], [node["target"] for node in each["nodes"]])
                              for each in result["violations"]]  # fmt: skip
                assert violations == []


def test_the_licence_of_what_others_wrote_is_beside_it():
    assert "MIT License" in (PAGE / "uplot.LICENSE.txt").read_text("utf-8")
    assert "uPlot" in (PAGE / "uplot.js").read_text("utf-8")[:80]
