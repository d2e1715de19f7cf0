"""Errors of spanlib."""


class SpanError(ValueError):
    """Base of all errors."""


class TimeFormatError(SpanError):
    """A text that is no time or duration."""

    def __init__(self, text):
        super().__init__(f"not a time: {text!r}")
        self.text = text


class Conflict(SpanError):
    """A booking that overlaps others; `others` lists them."""

    def __init__(self, booking, others):
        super().__init__(f"{booking.title} overlaps {', '.join(other.title for other in others)}")
        self.booking = booking
        self.others = list(others)
