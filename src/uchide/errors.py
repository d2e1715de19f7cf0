"""Every error that Uchide raises on purpose: one class per boundary, classified here and nowhere else.

`retryable` says whether the same call may succeed later without anybody changing anything. The command line turns
an `UchideError` into one message and exit code 1; anything else that escapes is a fault of ours.
"""

from uchide.redact import scrub


class UchideError(Exception):
    """What went wrong, where, and what to do about it. Secrets are taken out of the text at once: an error may end in a
    log, a row, a page or a terminal."""

    retryable = False

    def __init__(self, message: str, *, hint: str = "") -> None:
        self.message = scrub(message)
        self.hint = scrub(hint)
        super().__init__(self.message)

    def __str__(self) -> str:
        return f"{self.message}\n  {self.hint}" if self.hint else self.message


class ConfigError(UchideError):
    """An experiment, site or profile file that cannot be used as written."""


class DatasetError(UchideError):
    """A dataset, or one row of it, that is malformed or cannot be obtained."""


class EnvironmentBuildError(UchideError):
    """An environment of a repository could not be built."""


class StoreError(UchideError):
    """An artifact that is missing, tampered with, or does not fit where it is used."""


class LeaseError(UchideError):
    """Another live process writes the same part."""


class PlanError(UchideError):
    """A plan that cannot be made, or does not fit the code that is asked to run it."""


class StageError(UchideError):
    """A stage that cannot be finished as its rows came out."""


class SandboxError(UchideError):
    """The sandbox itself failed (not the command in it): infrastructure, worth another try."""

    retryable = True


class SandboxUnavailable(UchideError):
    """This host cannot run the sandbox at all; an administrator has to act."""


class ModelError(UchideError):
    """The model or its server failed."""

    retryable = True


class ContextOverflow(ModelError):
    """The request is longer than the model's context: to be compacted, never sent again as it is."""

    retryable = False


class RateLimited(ModelError):
    """The server refused for too long (429): infrastructure, not the model's failure."""


class SpendLimit(UchideError):
    """The experiment's spend cap is reached. Finished rows are kept; a higher cap goes on from there."""


class ActionError(UchideError):
    """A call that an action format cannot spell."""


class PatchError(UchideError):
    """A patch that is not a patch, or cannot be collected."""


class GraderError(UchideError):
    """The grader itself failed: an infrastructure verdict, never the model's fault."""

    retryable = True


class ReportError(UchideError):
    """A report that cannot be made from the artifacts at hand."""
