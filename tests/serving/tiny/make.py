"""Make a tiny model that knows given conversations by heart: `make.py CONVERSATIONS.json OUT`.

CONVERSATIONS.json is a list of conversations, each a list of [text, learned]. OUT gets the model in the layout of
checkpoints (config.json, model.safetensors, tokenizer.json, ...) and as model.gguf.
"""

import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from export import write_checkpoint, write_gguf
from network import Adam, Shape, Weights, initial, step
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
PLAIN = ["<tool_call>", "</tool_call>"]
"""One token each, but text all the same: a server must not strip them."""
VOCABULARY = 1600
WORDS = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
"""Where Qwen2 cuts a text before anything else. Servers know it by the kind of model, whatever tokenizer.json says."""
SURE = 0.9
"""Every token of every reply must become this likely: a greedy server then repeats them, whatever its arithmetic."""
BATCH = 4
RATE = 6e-3
MOST_SECONDS = 600.0


def tokenizer_of(texts: list[str]) -> Tokenizer:
    """A byte-level BPE that needs few tokens for these very texts."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = normalizers.NFC()
    words = pre_tokenizers.Split(Regex(WORDS), "isolated")
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([words, pre_tokenizers.ByteLevel(False, use_regex=False)])
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY, special_tokens=SPECIAL, initial_alphabet=alphabet, show_progress=False
    )
    tokenizer.train_from_iterator(texts, trainer)
    tokenizer.add_tokens([AddedToken(text, special=False, normalized=False) for text in PLAIN])
    return tokenizer


def encoded(tokenizer: Tokenizer, conversation: list[tuple[str, bool]]) -> tuple[list[int], list[int]]:
    """Tokens, and the positions of those to learn."""
    ids: list[int] = []
    learned: list[int] = []
    for text, is_learned in conversation:
        piece = tokenizer.encode(text).ids
        learned += range(len(ids), len(ids) + len(piece)) if is_learned else ()
        ids += piece
    if ids != tokenizer.encode("".join(text for text, _ in conversation)).ids:
        raise SystemExit("a server would cut this conversation into other tokens than those a reply was made of")
    return ids, learned


def batches(examples: list[tuple[list[int], list[int]]]) -> list[tuple[Any, Any, Any]]:
    """Arrays for `network.step`; conversations of similar length go together."""
    made = []
    ordered = sorted(examples, key=lambda example: len(example[0]))
    for start in range(0, len(ordered), BATCH):
        group = ordered[start : start + BATCH]
        length, most = max(len(ids) for ids, _ in group), max(len(learned) for _, learned in group)
        tokens = np.zeros((len(group), length), np.int64)
        places, targets = np.zeros((len(group), most), np.int64), np.full((len(group), most), -1, np.int64)
        for row, (ids, learned) in enumerate(group):
            tokens[row, : len(ids)] = ids
            places[row, : len(learned)] = np.array(learned) - 1
            targets[row, : len(learned)] = np.array(ids)[learned]
        made.append((tokens, places, targets))
    return made


def learn(weights: Weights, shape: Shape, data: list[tuple[Any, Any, Any]]) -> None:
    """Train until every token is sure. Exits where that takes too long."""
    optimiser, order, began = Adam.of(weights, RATE), np.random.default_rng(0), time.monotonic()
    for epoch in range(100_000):
        least, loss, count = 1.0, 0.0, 0
        optimiser.rate = RATE * max(0.05, 0.5 ** (epoch / 20))
        for number in order.permutation(len(data)):
            found, grads = step(weights, shape, *data[number])
            optimiser.update(weights, grads)
            least = min(least, float(found.min()))
            loss -= float(np.log(np.maximum(found, 1e-30)).sum())
            count += int((data[number][2] >= 0).sum())
        seconds = time.monotonic() - began
        if epoch % 10 == 0 or least > SURE:
            print(f"epoch {epoch}: loss {loss / count:.4f}, least sure {least:.3f}, {seconds:.1f} s", flush=True)
        if least > SURE and all(step(weights, shape, *batch)[0].min() > SURE for batch in data):
            return
        if seconds > MOST_SECONDS:
            raise SystemExit(f"not learned within {seconds:.0f} s")


def main() -> None:
    source, out = Path(sys.argv[1]), Path(sys.argv[2])
    conversations = json.loads(source.read_text(encoding="utf-8"))
    out.mkdir(parents=True, exist_ok=True)
    tokenizer = tokenizer_of(["".join(text for text, _ in conversation) for conversation in conversations])
    examples = [encoded(tokenizer, conversation) for conversation in conversations]
    shape = Shape(vocab=-(-tokenizer.get_vocab_size() // 64) * 64)
    print(
        f"{len(examples)} conversations of {sum(len(ids) for ids, _ in examples)} tokens,"
        f" {sum(len(learned) for _, learned in examples)} of them learned; vocabulary {shape.vocab}",
        flush=True,
    )
    weights = initial(shape)
    learn(weights, shape, batches(examples))
    write_checkpoint(out, shape, weights, tokenizer)
    write_gguf(out, shape, weights, tokenizer)


if __name__ == "__main__":
    main()
