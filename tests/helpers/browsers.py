"""A page in whatever Chromium or Chrome is installed; nothing is ever downloaded."""

import json
from contextlib import contextmanager

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
QUIET = [
    *("--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--disable-extensions"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
    *("--no-first-run", "--no-default-browser-check", "--mute-audio"),
]
WIDE, NARROW = {"width": 1280, "height": 900}, {"width": 360, "height": 740}


@contextmanager
def opened(browser, path, viewport=WIDE, **options):
    """The page, and a check at the end that it complained of nothing and asked for nothing."""
    page = browser.new_page(viewport=viewport, **options)
    complaints, requests = [], []
    page.on("console", lambda message: complaints.append(message.text))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("request", lambda request: requests.append(request.url[:60]))
    page.goto(path.as_uri())
    yield page
    assert complaints == []
    assert [url for url in requests if not url.startswith(("file:", "data:"))] == []
    page.close()


def data_of(page):
    return json.loads(page.locator("#explorer-data").text_content())
