"""Tests, examples in docstrings and notebooks leave nothing behind, whichever of them are run."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile

# No test, and no process that one starts, leaves vectors in the user's cache, nor a key among what the user's programs
# keep: each run has a folder of its own, which its processes share.
os.environ["MEMKIT_CACHE"] = "off"
if "PYTEST_XDIST_WORKER" not in os.environ:
    # Where the system keeps a file system in memory, no test waits for a disk, which took up to a half of its time.
    if "TMPDIR" not in os.environ and os.path.ismount("/dev/shm") and shutil.disk_usage("/dev/shm").free > 4 << 30:
        os.environ["TMPDIR"] = tempfile.tempdir = "/dev/shm"
    _OF_THE_RUN = tempfile.mkdtemp(prefix="memkit-tests-")
    atexit.register(shutil.rmtree, _OF_THE_RUN, ignore_errors=True)
    os.environ["MEMKIT_STATE"] = f"{_OF_THE_RUN}/state"
    os.environ["MEMKIT_TESTS_CACHE"] = f"{_OF_THE_RUN}/cache"
