"""A chat model for one test: it knows what its process knows and says it wherever it can, or fails with its headers.

Copied into a checkout as `uchide.llm.leaky`. No secret stands in this file.
"""

import json
import os
from typing import Any

from uchide.errors import ModelError
from uchide.protocols import ChatReply, ChatRequest
from uchide.records import Usage

NEW_TEST = "{{ echo 'def test_leak():'; {leak} | sed 's/^/    # /'; echo '    assert True'; }} > tests/test_leak.py"
DUE = {
    "ISSUE_REPRODUCE": "env > /share/reproduce.md; cat /proc/*/environ /proc/*/cmdline; {leak} >> /share/reproduce.md",
    "TEST_SYNTHESIZE": NEW_TEST
    + "; echo tests/test_leak.py::test_leak > /share/fail_to_pass.txt; {leak} > /share/test_fail_to_pass_all.sh",
    "CODE_LOCALIZE": "{leak} | tee /share/root_cause.md",
    "TEST_LOCALIZE": "ls tests/test_*.py | head -1 | sed 's/$/::test_x/' > /share/pass_to_pass.txt; "
    "{leak} > /share/test_pass_to_pass_all.sh",
    "CODE_FIX": "{leak} | sed 's/^/# /' >> $(git ls-files 'src/*.py' | head -1); git diff",
    "VERIFY_PATCH": "{leak} > /share/verify.log",
    "ISSUE_CLOSE": "{leak} > /share/review.md",
    "FINAL_REPORT": "{leak} | tee /share/report.md",
}


class Leaky:
    name = "leaky"
    tools = ()

    async def complete(self, request: ChatRequest) -> ChatReply:
        if request.sampling.seed == 1002:
            raise ModelError(f"HTTP 401 from https://models.example: {os.environ['PLANTED_HEADERS']}")
        if "PLANTED_FAULT" in os.environ:
            raise RuntimeError(f"unexpected answer with {os.environ['PLANTED_HEADERS']} and {dict(os.environ)}")
        secrets = json.loads(os.environ["PLANTED_NAMES"])
        texts = [os.environ[name] for name in secrets]
        header = json.loads(request.messages[0].content.partition("\n")[0].partition(" ")[2])
        leak = "printf '%s\\n' " + " ".join(f"'{text}'" for text in texts)
        action = DUE[header["phase"]].format(leak=leak)
        said = " and ".join(texts)
        reply = f"WORKFLOW: COMPLETE\nTHOUGHT: I know {said}.\nFINAL_ANSWER:\n<tool: bash> {action} </tool>"
        return ChatReply(reply, Usage(calls=1, prompt_tokens=1, completion_tokens=1))

    async def window(self, place: str = "", role: str = "agent") -> int | None:
        return None

    async def aclose(self) -> None:
        pass


def create(options: Any) -> Leaky:
    return Leaky()
