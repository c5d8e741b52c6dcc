"""The sources' exact numbers and the recommended ones, as data."""

from __future__ import annotations
