"""Quick engine: a model that says nothing and spends `QUICK_TOKENS` tokens each time it is asked."""

import os
import time
from pathlib import Path
from typing import Any

from uchide.llm.folders import with_files
from uchide.llm.spend import Ledger, Meter, SpendCaps, Spent
from uchide.records import Usage


class QuickModel:
    def __init__(self, meter: Meter | None) -> None:
        self.meter = meter

    def ask(self) -> None:
        assert self.meter is not None
        self.meter.check()
        tokens = int(os.environ.get("QUICK_TOKENS", "0"))
        if tokens:
            now = time.time()
            self.meter.add(Spent("quick", now, now, Usage(calls=1, prompt_tokens=tokens)))

    async def aclose(self) -> None:
        pass


def create(config: dict[str, Any], meter: Meter | None = None, root: Path = Path()) -> QuickModel:
    return QuickModel(meter)


def keyed(config: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in config.items() if key != "base_url"}


def refuse_uncountable(config: dict[str, Any], caps: SpendCaps) -> None:
    pass


__all__ = ["Ledger", "SpendCaps", "create", "keyed", "refuse_uncountable", "with_files"]
