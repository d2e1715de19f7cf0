"""Times of day and durations as people write them; all in minutes."""

import re

from spanlib.errors import TimeFormatError

TIME = re.compile(r"(?P<hour>\d{1,2})(?:[:.](?P<minute>\d{2}))?\s*(?P<half>[ap]\.?m\.?)?", re.IGNORECASE)
PART = re.compile(r"(\d+(?:\.\d+)?)\s*(w|d|h|m|min)(?![a-z])", re.IGNORECASE)
MINUTES = {"w": 7 * 24 * 60, "d": 24 * 60, "h": 60, "m": 1, "min": 1}
WORDS = {"midnight": 0, "noon": 12 * 60}


def parse_time(text):
    """Minutes since midnight, from `9`, `9:30`, `09.30`, `9am`, `12:15 p.m.`, `noon`. `24:00` is the end of the day."""
    compact = text.strip().lower()
    if compact in WORDS:
        return WORDS[compact]
    match = TIME.fullmatch(compact)
    if not match:
        raise TimeFormatError(text)
    hour, minute = int(match["hour"]), int(match["minute"] or 0)
    if match["half"]:
        hour = _from_half(hour, match["half"], text)
    if minute > 59 or hour * 60 + minute > 24 * 60:
        raise TimeFormatError(text)
    return hour * 60 + minute


def _from_half(hour, half, text):
    """The hour of the day from an hour of a half day: 12 am is midnight, 12 pm is noon."""
    if not 1 <= hour <= 12:
        raise TimeFormatError(text)
    if hour == 12:
        hour = 0
    if half.startswith("p"):
        hour += 12
    return hour


def parse_duration(text):
    """Minutes, from `90`, `1h30m`, `1.5 h`, `2d 4h`, `45 min`."""
    compact = text.strip().lower()
    if compact.isdigit():
        return int(compact)
    total, position = 0.0, 0
    for match in PART.finditer(compact):
        if compact[position : match.start()].strip():
            raise TimeFormatError(text)
        total += float(match[1]) * MINUTES[match[2]]
        position = match.end()
    if position == 0 or compact[position:].strip():
        raise TimeFormatError(text)
    return round(total)


def format_time(minutes, twelve=False):
    """`09:30`, or `9:30 am` with `twelve`. Days beyond the first are shown as `+1`."""
    days, rest = divmod(minutes, 24 * 60)
    hour, minute = divmod(rest, 60)
    if twelve:
        half = "am" if hour < 12 else "pm"
        shown = f"{(hour + 11) % 12 + 1}:{minute:02d} {half}"
    else:
        shown = f"{hour:02d}:{minute:02d}"
    return f"{shown} +{days}" if days else shown


def format_duration(minutes):
    """`1h30m`, `45m`, `2d`; `0m` for nothing, a minus sign in front when negative."""
    if minutes < 0:
        return "-" + format_duration(-minutes)
    parts = []
    for unit in ("d", "h", "m"):
        count, minutes = divmod(minutes, MINUTES[unit])
        if count:
            parts.append(f"{count}{unit}")
    return "".join(parts) or "0m"
