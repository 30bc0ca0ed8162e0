# SPDX-License-Identifier: GPL-2.0
"""Waiting for something to become true, always with an end."""

import time


class Timeout(Exception):
    """What was waited for did not come; the text says what and for how long."""


def wait_until(condition, what, timeout=60.0, interval=0.02):
    """Poll condition() until it is true and return its value; Timeout after timeout seconds."""
    deadline = time.monotonic() + timeout
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() >= deadline:
            raise Timeout(f"waited {timeout:g} s for {what() if callable(what) else what}")
        time.sleep(interval)
