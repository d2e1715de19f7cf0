"""The loop that all parts with rows share: what is missing, a bounded number at once, retries, one append per row."""

import asyncio
import signal
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from typing import Any

from uchide.errors import SpendLimit, StageError, UchideError
from uchide.pipeline.worker import Work
from uchide.records import Record

RETRIES = 2
"""How often a row is tried again after a failure of infrastructure."""

Make = Callable[[str, int], Awaitable[Record]]
"""(id, attempt from 1) -> the finished row."""


async def each(
    work: Work,
    ids: Iterable[str],
    make: Make,
    *,
    failed: Callable[[str, UchideError, int], Record] | None = None,
    is_infra: Callable[[Record], bool] = lambda _: False,
) -> None:
    """Make the rows `ids` that are missing or failed for infrastructure earlier, `work.spec.concurrency` at once.

    A retryable error is tried again; after that `failed` gives the row that says so (without it, the error stops the
    job, as any other error does). Raises StageError when too many rows failed for reasons of infrastructure, SpendLimit
    when a spend cap is reached: no row is begun then, and those under way end as far as they get without the model.
    """
    ids = list(ids)
    known = {item: row for name in work.part.models for item, row in work.part.rows(name).items()}
    todo = iter([item for item in ids if item not in known or is_infra(known[item])])
    bad = {item for item in ids if item in known and is_infra(known[item])}
    tally = _Tally(work, ids, done={item for item in ids if item in known} - bad)

    async def one(item: str) -> None:
        row = await _patiently(item, make, failed, work)
        work.part.append(row, id=item, name=file_of(work, row))
        tally.add(item, infra=is_infra(row))

    reached: list[SpendLimit] = []

    async def lane() -> None:
        for item in todo:
            try:
                await one(item)
            except SpendLimit as limit:
                reached.append(limit)
            if reached:
                return

    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(work.spec.concurrency):
                group.create_task(lane())
    except ExceptionGroup as many:
        raise _first(many) from many
    if reached:
        count = f"{len(tally.done)} of {len(ids)} rows of this job are done"
        raise SpendLimit(f"{reached[0].message}; {count}", hint=reached[0].hint)
    tally.check(work.spec.max_infra)


def file_of(work: Work, row: Record) -> str:
    """Name of the row file that takes rows of this class."""
    return next(name for name, model in work.part.models.items() if type(row) is model)


class _Tally:
    def __init__(self, work: Work, ids: list[str], done: set[str]) -> None:
        self.work = work
        self.total = len(ids)
        self.done = done
        self.infra: list[str] = []
        self.show()

    def add(self, item: str, *, infra: bool) -> None:
        self.done.add(item)
        if infra:
            self.infra.append(item)
        self.show()

    def show(self) -> None:
        self.work.reporter.counts(done=len(self.done), infra=len(self.infra), total=self.total)

    def check(self, allowed: float) -> None:
        if self.infra and len(self.infra) > allowed * self.total:
            shown = ", ".join(sorted(self.infra)[:5])
            raise StageError(
                f"{len(self.infra)} of {self.total} rows failed for reasons of infrastructure "
                f"(policy.max_infra allows {allowed:.0%}): {shown}",
                hint="mend the cause and run the same command: only these rows are tried again",
            )


async def _patiently(
    item: str, make: Make, failed: Callable[[str, UchideError, int], Record] | None, work: Work
) -> Record:
    for attempt in range(1, RETRIES + 2):
        try:
            return await make(item, attempt)
        except UchideError as error:
            if not error.retryable:
                raise
            again = attempt <= RETRIES
            work.reporter.event(f"{item}: {error.message}" + (f" (try {attempt + 1})" if again else ""))
            if not again:
                if failed is None:
                    raise
                return failed(item, error, attempt)
    raise AssertionError


def _first(many: ExceptionGroup[Exception]) -> Exception:
    """The first error of a group: one message for the user; the others are of the same kind."""
    found = many.exceptions[0]
    return _first(found) if isinstance(found, ExceptionGroup) else found


def run_async(main: Coroutine[Any, Any, None]) -> None:
    """Run to the end; SIGTERM cancels it, so that open sandboxes are closed, and exits with 143."""

    async def guarded() -> None:
        task = asyncio.ensure_future(main)
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
        try:
            await task
        except asyncio.CancelledError:
            raise SystemExit(128 + signal.SIGTERM) from None

    asyncio.run(guarded())
