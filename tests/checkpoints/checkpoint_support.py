"""What the tests of this folder share."""

from __future__ import annotations

from collections.abc import Callable

Stored = Callable[[], bytes]
"""All bytes that a database holds at the moment."""
