"""What every client script shares: its arguments, its tiny data, and the one JSON file that rank 0 writes at the end.

Only torch and HuggingFace libraries are used here: the scripts must run unchanged under any `deepspeed`.
"""
import argparse
import hashlib
import json
import os
import pathlib

import torch

VOCABULARY = ["<pad>", "<eos>", "<unk>"] + [str(digit) for digit in range(10)] + ["+", "=", "the", "sum", "of", "and", "is", "image"]


ON_CPU = not torch.cuda.is_available()  # where CI runs; the same clients run on a GPU by hand


def client_arguments(**options):
    """--config and --out for all; every keyword becomes an option whose type is that of its default."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--config", help="ds_config.json")
    parser.add_argument("--out", required=True, help="the JSON result that rank 0 writes")
    parser.add_argument("--workdir", default="client_work", help="where models and checkpoints are saved")
    for name, default in options.items():
        flag = "--" + name.replace("_", "-")
        if isinstance(default, bool):
            parser.add_argument(flag, action="store_true")
        else:
            parser.add_argument(flag, type=type(default), default=default)
    return parser.parse_args()


def rank():
    return int(os.environ.get("RANK", 0))


def world_size():
    return int(os.environ.get("WORLD_SIZE", 1))


def each_rank(value):
    """The value of every rank, in rank order: a mean over ranks would hide errors that cancel."""
    if not torch.distributed.is_initialized():
        return [value]
    values = [None] * torch.distributed.get_world_size()
    torch.distributed.all_gather_object(values, value)
    return values


def number(value):
    return None if value is None else float(value)


def write_result(path, **facts):
    if rank() == 0:
        lines = [f"{json.dumps(name)}: {json.dumps(value)}" for name, value in facts.items()]
        pathlib.Path(path).write_text("{" + ",\n ".join(lines) + "}\n")


def described(tensors):
    """Name -> shape, dtype and norm: enough to see a wrong, missing or stale tensor without storing it."""
    return {name: {"shape": list(tensor.shape), "dtype": str(tensor.dtype).removeprefix("torch."),
                   "norm": tensor.detach().double().norm().item()}
            for name, tensor in sorted(tensors.items())}


def described_folder(folder):
    """What is in the weight files (safetensors or torch pickles) of a saved model."""
    from safetensors.torch import load_file
    tensors = {}
    for file in sorted(pathlib.Path(folder).glob("*model*")):
        if file.suffix == ".safetensors":
            tensors.update(load_file(file))
        elif file.suffix == ".bin":
            tensors.update(torch.load(file, map_location="cpu", weights_only=True))
    return described(tensors)


def checksum(tensors):
    """Changes when any bit of any tensor does."""
    digest = hashlib.sha256()
    for name, tensor in sorted(tensors.items()):
        digest.update(name.encode())
        digest.update(tensor.detach().cpu().contiguous().view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()


def random_tokens(samples, length, seed=0, vocabulary=64):
    """Sequences that can be learned: each token follows from the one before, with some noise."""
    generator = torch.Generator().manual_seed(seed)
    tokens = torch.randint(3, vocabulary, (samples, length), generator=generator)
    for position in range(1, length):
        follows = torch.rand(samples, generator=generator) < 0.8
        tokens[:, position] = torch.where(follows, 3 + (tokens[:, position - 1] * 5) % (vocabulary - 3), tokens[:, position])
    return [{"input_ids": row, "labels": row.clone(), "attention_mask": torch.ones_like(row)} for row in tokens]


def tiny_tokenizer():
    """A word-level tokenizer over VOCABULARY with a chat template, made here so that nothing is downloaded."""
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast
    words = Tokenizer(models.WordLevel({word: index for index, word in enumerate(VOCABULARY)}, unk_token="<unk>"))
    words.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=words, pad_token="<pad>", eos_token="<eos>", unk_token="<unk>")
    tokenizer.chat_template = "{% for message in messages %}{{ message['content'] }} {% endfor %}"
    return tokenizer


def save_tiny_qwen(folder):
    """A random base model and its tokenizer, the same each time, for clients that load by name."""
    from transformers import Qwen2Config, Qwen2ForCausalLM, set_seed
    set_seed(7)
    Qwen2ForCausalLM(Qwen2Config(vocab_size=len(VOCABULARY), hidden_size=32, intermediate_size=56, num_hidden_layers=2,
                                 num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=64, pad_token_id=0,
                                 bos_token_id=1, eos_token_id=1, tie_word_embeddings=False)).save_pretrained(folder)
    tiny_tokenizer().save_pretrained(folder)


def trainer_history(trainer):
    """The logged columns of a HuggingFace Trainer, one list per column."""
    steps = [entry for entry in trainer.state.log_history if "loss" in entry]
    return {"losses": [entry["loss"] for entry in steps],
            "learning_rates": [entry["learning_rate"] for entry in steps],
            "grad_norms": [number(entry.get("grad_norm")) for entry in steps]}
