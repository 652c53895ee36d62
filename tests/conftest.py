import os

from hypothesis import settings

# No deadline: the first example of a test may compile a kernel. In continuous integration the
# examples are the same every time, so that a red run can be repeated.
settings.register_profile("marc", deadline=None, derandomize="CI" in os.environ)
settings.load_profile("marc")
