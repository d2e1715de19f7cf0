"""A server that speaks as much of the OpenAI API as the benchmark needs, and takes its time. Standard library only.

Usage: python server.py LATENCY. Prints its port; ends when its standard input does. Every answer comes LATENCY seconds
after the last byte of its request and holds the next of a few commands as a turn of the phases agent.
"""

import asyncio
import itertools
import json
import sys

COMMANDS = (
    "grep -rn 'def ' src | head -n 40",
    "sed -n '1,60p' src/module_{n}.py",
    "git status --short | head",
    "echo 'step {step}' >> $UCHIDE_SHARE/notes.md; wc -l $UCHIDE_SHARE/notes.md",
    "sed -i 's/value = [0-9]*/value = {step}/' src/module_{n}.py && git diff --stat",
)


def answer(step: int, size: int) -> bytes:
    command = COMMANDS[step % len(COMMANDS)].format(n=step % 40, step=step)
    text = f"WORKFLOW: W0\nTHOUGHT: step {step}\nFINAL_ANSWER:\n<tool: bash> {command} </tool>"
    choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
    usage = {"prompt_tokens": size // 4, "completion_tokens": len(text) // 4}
    return json.dumps({"id": str(step), "object": "chat.completion", "choices": [choice], "usage": usage}).encode()


def http(body: bytes) -> bytes:
    return b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)


async def main(latency: float) -> None:
    steps = itertools.count()
    models = http(json.dumps({"object": "list", "data": [{"id": "bench", "object": "model"}]}).encode())

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).lower()
                _, _, length = head.partition(b"content-length:")
                body = await reader.readexactly(int(length.split()[0])) if length else b""
                if b"/chat/completions" in head:
                    await asyncio.sleep(latency)
                    writer.write(http(answer(next(steps), len(body))))
                else:
                    writer.write(models)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, limit=1 << 20, backlog=1024)
    print(server.sockets[0].getsockname()[1], flush=True)
    async with server:
        await asyncio.to_thread(sys.stdin.read)


asyncio.run(main(float(sys.argv[1])))
