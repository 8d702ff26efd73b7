"""Zones of pytz, as datetimes and pandas hold them: stand-ins for constructors that keep what they make for the whole process."""

from __future__ import annotations

import datetime
import importlib
from typing import Any

from .. import _tables
from ._checks import integer, need


def pytz_zone(zone: Any, utcoffset: Any = None, dst: Any = None, tzname: Any = None) -> Any:
    """Stand in for ``pytz._p``, which adds an offset that it does not know to the zone of the whole process."""
    need(type(zone) is str, "the name of a zone is no text")
    found = importlib.import_module("pytz").timezone(zone)
    if utcoffset is None:
        return found
    for part in (utcoffset, dst):
        integer(part, "an offset", -86400, 86400)
    at = datetime.timedelta(seconds=utcoffset), datetime.timedelta(seconds=dst), tzname
    need(type(tzname) is str and at in getattr(found, "_tzinfos", ()), "{} has no such offset", zone)
    return found._tzinfos[at]


def pytz_offset(minutes: Any) -> Any:
    """Stand in for ``pytz.FixedOffset``, which keeps one zone for each number it was ever given."""
    return importlib.import_module("pytz").FixedOffset(integer(minutes, "an offset", -1439, 1439))


_tables.overrides["pytz:_p"] = pytz_zone
_tables.overrides["pytz:FixedOffset"] = pytz_offset
