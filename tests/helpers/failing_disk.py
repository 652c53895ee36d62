"""A disk that keeps only what was synced, under a writer whose every step is noted."""

import os
import signal
import stat
from pathlib import Path

from marc.files import writing


class Cut(BaseException):
    """The power goes."""


class Disk:
    """Notes each step of `write_whole`, and what was synced; after one step the power goes.

    With `kill` the writer is killed instead.
    """

    def __init__(self, monkeypatch, cut_after=None, kill=False):
        self.steps, self.synced, self.named = [], {}, False
        self._cut_after, self._kill = cut_after, kill
        begin, fsync, replace = writing._begin, os.fsync, Path.replace

        def noted_begin(path):
            partial, file = begin(path)
            return partial, _NotedFile(file, self)

        def noted_fsync(descriptor):
            fsync(descriptor)
            self._note_sync(os.fstat(descriptor))

        def noted_replace(path, target):
            replace(path, target)
            self.note("rename")

        monkeypatch.setattr(writing, "_begin", noted_begin)
        monkeypatch.setattr(os, "fsync", noted_fsync)
        monkeypatch.setattr(Path, "replace", noted_replace)

    def note(self, step):
        self.steps.append(step)
        if step == self._cut_after:
            if self._kill:
                os.kill(os.getpid(), signal.SIGKILL)
            raise Cut

    def _note_sync(self, facts):
        if stat.S_ISDIR(facts.st_mode):
            self.named = True
            self.note("sync folder")
        else:
            self.synced[facts.st_ino] = facts.st_size
            self.note("sync file")


class _NotedFile:
    def __init__(self, file, disk):
        self._file, self._disk = file, disk

    def __enter__(self):
        try:
            self._disk.note("create")
        except Cut:
            self._file.close()
            raise
        return self

    def __exit__(self, *error):
        self._file.close()
        if error == (None, None, None):
            self._disk.note("close")

    def write(self, content):
        self._file.write(content)
        self._disk.note("write")

    def flush(self):
        self._file.flush()
        self._disk.note("flush")

    def fileno(self):
        return self._file.fileno()
