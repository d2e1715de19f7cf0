"""The learned network as files that servers read."""

import json
import shutil
from pathlib import Path

import gguf
from network import EPSILON, THETA, Shape, Weights
from safetensors.numpy import save_file
from tokenizers import Tokenizer

CONTEXT = 8192
TEMPLATE = Path(__file__).parent / "chat_template.jinja"
GGUF_NAMES = {
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
}


def write_checkpoint(out: Path, shape: Shape, weights: Weights, tokenizer: Tokenizer) -> None:
    """The layout of published checkpoints, which vLLM reads."""
    stop, pad = tokenizer.token_to_id("<|im_end|>"), tokenizer.token_to_id("<|endoftext|>")
    config = {
        "architectures": ["Qwen2ForCausalLM"],
        "model_type": "qwen2",
        "vocab_size": shape.vocab,
        "hidden_size": shape.hidden,
        "intermediate_size": shape.inner,
        "num_hidden_layers": shape.layers,
        "num_attention_heads": shape.heads,
        "num_key_value_heads": 1,
        "max_position_embeddings": CONTEXT,
        "max_window_layers": shape.layers,
        "use_sliding_window": False,
        "hidden_act": "silu",
        "rms_norm_eps": EPSILON,
        "rope_theta": THETA,
        "tie_word_embeddings": True,
        "torch_dtype": "float32",
        "bos_token_id": None,
        "eos_token_id": stop,
        "pad_token_id": pad,
    }
    tokens = {
        "tokenizer_class": "Qwen2Tokenizer",
        "eos_token": "<|im_end|>",
        "pad_token": "<|endoftext|>",
        "model_max_length": CONTEXT,
        "clean_up_tokenization_spaces": False,
        "chat_template": TEMPLATE.read_text(encoding="utf-8"),
    }
    for name, data in (
        ("config.json", config),
        ("tokenizer_config.json", tokens),
        ("generation_config.json", {"eos_token_id": [stop, pad], "pad_token_id": pad}),
    ):
        (out / name).write_text(json.dumps(data, indent=1), encoding="utf-8")
    shutil.copy(TEMPLATE, out / TEMPLATE.name)
    tokenizer.save(str(out / "tokenizer.json"))
    save_file(weights, out / "model.safetensors", metadata={"format": "pt"})


def write_gguf(out: Path, shape: Shape, weights: Weights, tokenizer: Tokenizer) -> None:
    """One file, which llama.cpp reads."""
    writer = gguf.GGUFWriter(out / "model.gguf", "qwen2")
    writer.add_name("tiny")
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(shape.hidden)
    writer.add_block_count(shape.layers)
    writer.add_feed_forward_length(shape.inner)
    writer.add_head_count(shape.heads)
    writer.add_head_count_kv(1)
    writer.add_rope_freq_base(THETA)
    writer.add_layer_norm_rms_eps(EPSILON)
    writer.add_file_type(gguf.LlamaFileType.ALL_F32)
    _add_vocabulary(writer, shape, tokenizer)
    for name, weight in weights.items():
        writer.add_tensor(_gguf_name(name), weight)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _add_vocabulary(writer: gguf.GGUFWriter, shape: Shape, tokenizer: Tokenizer) -> None:
    data = json.loads(tokenizer.to_str())
    added = {token["id"]: token for token in data["added_tokens"]}
    texts, kinds = [], []
    for number in range(shape.vocab):
        text = tokenizer.id_to_token(number)
        kind = gguf.TokenType.NORMAL if text is not None else gguf.TokenType.UNUSED
        if number in added:
            kind = gguf.TokenType.CONTROL if added[number]["special"] else gguf.TokenType.USER_DEFINED
        texts.append(text if text is not None else f"[unused {number}]")
        kinds.append(kind)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("qwen2")
    writer.add_token_list(texts)
    writer.add_token_types(kinds)
    writer.add_token_merges([" ".join(pair) for pair in data["model"]["merges"]])
    writer.add_eos_token_id(tokenizer.token_to_id("<|im_end|>"))
    writer.add_pad_token_id(tokenizer.token_to_id("<|endoftext|>"))
    writer.add_add_bos_token(False)
    writer.add_chat_template(TEMPLATE.read_text(encoding="utf-8"))


def _gguf_name(name: str) -> str:
    if name == "model.embed_tokens.weight":
        return "token_embd.weight"
    if name == "model.norm.weight":
        return "output_norm.weight"
    _, _, layer, rest = name.split(".", 3)
    base, kind = rest.rsplit(".", 1)
    return f"blk.{layer}.{GGUF_NAMES[base]}.{kind}"
