"""A server in a process of its own, which may be slow."""

import contextlib
import subprocess
import sys

from helpers.asking import Asker

_SCRIPT = """
import sys, time
import marc
from marc.serve.memory.served import Served

steps = Served.steps

def slowly(self, requests):
    time.sleep({pause} * len(requests))
    return steps(self, requests)

Served.steps = slowly
marc.serve(sys.argv[1], port=0, on_ready=lambda url: print(url, flush=True), **{options})
"""


@contextlib.contextmanager
def process(data, pause=0.0, **options):
    """A server in a process of its own: the process, and somebody who asks it."""
    script = _SCRIPT.format(pause=pause, options=options)
    with subprocess.Popen(
        [sys.executable, "-c", script, str(data)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as started:
        try:
            url = started.stdout.readline().strip()
            assert url, started.stderr.read()
            yield started, Asker(url)
        finally:
            started.kill()
