"""What the tests with servers share."""

import asyncio

import pytest

from . import case, expert


@pytest.fixture(scope="session")
def mini(tmp_path_factory: pytest.TempPathFactory) -> case.Case:
    return asyncio.run(case.prepare(expert.INSTANCE, tmp_path_factory.mktemp("case")))
