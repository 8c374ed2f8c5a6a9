#!/usr/bin/env python3
"""Makes a Llama of random weights: its configuration and a tokenizer, for `vllm serve --load-format dummy`.

usage: make_model.py DIR --size tiny|small

No network and no torch. The tokenizer is a byte pair encoding of 4,096 tokens, trained on the sources of Python's standard
library, so that English text gets varied tokens and every token is visible text. Needs the package `tokenizers`.
"""

import argparse
import glob
import json
import math
import os
import sysconfig

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

# Hidden size, intermediate size, layers, heads, key/value heads.
SIZES = {"tiny": (256, 768, 4, 4, 2), "small": (512, 1536, 8, 8, 4)}
VOCABULARY = 4096
LENGTH_MAX = 8192
SPECIAL = {"pad": "<pad>", "bos": "<s>", "eos": "</s>", "unk": "<unk>"}
CHAT_TEMPLATE = "{% for m in messages %}{{ m['content'] }} {% endfor %}"


def configuration(size):
    hidden, intermediate, layers, heads, kv_heads = SIZES[size]
    return dict(
        architectures=["LlamaForCausalLM"],
        model_type="llama",
        hidden_size=hidden,
        intermediate_size=intermediate,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        num_key_value_heads=kv_heads,
        head_dim=hidden // heads,
        vocab_size=VOCABULARY,
        max_position_embeddings=LENGTH_MAX,
        rms_norm_eps=1e-5,
        rope_theta=10000.0,
        hidden_act="silu",
        attention_bias=False,
        mlp_bias=False,
        tie_word_embeddings=False,
        initializer_range=0.02,
        bos_token_id=1,
        eos_token_id=2,
        pad_token_id=0,
        torch_dtype="float32",
        use_cache=True,
    )


def parameters(config):
    """Weights of the model, in numbers."""
    h, i, layers = config["hidden_size"], config["intermediate_size"], config["num_hidden_layers"]
    d, heads, kv_heads = config["head_dim"], config["num_attention_heads"], config["num_key_value_heads"]
    attention = math.prod((heads * d, h)) * 2 + math.prod((kv_heads * d, h)) * 2
    return 2 * VOCABULARY * h + h + layers * (attention + 3 * h * i + 2 * h)


def source_lines():
    for path in sorted(glob.glob(sysconfig.get_paths()["stdlib"] + "/*.py")):
        with open(path, encoding="utf8", errors="ignore") as lines:
            yield from (line for line in lines if line.isascii())


def tokenizer():
    made = Tokenizer(models.BPE(unk_token=SPECIAL["unk"]))
    made.pre_tokenizer = pre_tokenizers.Metaspace()
    made.decoder = decoders.Metaspace()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY, special_tokens=list(SPECIAL.values()), show_progress=False
    )
    made.train_from_iterator(source_lines(), trainer)
    assert made.get_vocab_size() == VOCABULARY, made.get_vocab_size()
    return made


def main():
    arguments = argparse.ArgumentParser(description="Makes a Llama of random weights.")
    arguments.add_argument("dir")
    arguments.add_argument("--size", choices=SIZES, default="tiny")
    given = arguments.parse_args()
    os.makedirs(given.dir, exist_ok=True)
    tokenizer().save(os.path.join(given.dir, "tokenizer.json"))

    def write(name, value):
        with open(os.path.join(given.dir, name), "w", encoding="utf8") as file:
            json.dump(value, file, indent=1)

    config = configuration(given.size)
    special = {f"{name}_token": token for name, token in SPECIAL.items()}
    write("config.json", config)
    write("generation_config.json", dict(bos_token_id=1, eos_token_id=2, pad_token_id=0))
    write("special_tokens_map.json", special)
    write(
        "tokenizer_config.json",
        dict(
            tokenizer_class="PreTrainedTokenizerFast",
            model_max_length=LENGTH_MAX,
            clean_up_tokenization_spaces=False,
            chat_template=CHAT_TEMPLATE,
            **special,
        ),
    )
    print(f"{given.size}: {parameters(config) / 1e6:.1f} M parameters")


if __name__ == "__main__":
    main()
