"""from_pretrained at stage 3: no rank reads more of a file than its own parts, and what it gets is what transformers would have brought."""
import ctypes
import logging
import re
from pathlib import Path

import pytest
import torch
from engine_ranks import on_ranks
from test_engine_save import grown

import zeroshard
from zeroshard import distributed

M_MMAP_THRESHOLD = -3  # of malloc.h


class Stage3:
    """What HfDeepSpeedConfig is to transformers, which may have been imported before there was a `deepspeed`."""

    config = {"train_micro_batch_size_per_gpu": 1, "zero_optimization": {"stage": 3}}

    def is_zero3(self):
        return True


def model_of(kind, **more):
    import transformers

    if kind == "gpt2":  # a name of its own for the base model; Conv1D; buffers
        return transformers.GPT2LMHeadModel(transformers.GPT2Config(vocab_size=61, n_embd=24, n_layer=2, n_head=2, n_positions=32, **more))
    sizes = {"vocab_size": 61, "hidden_size": 24, "intermediate_size": 40, "num_hidden_layers": 2, **more}
    return transformers.LlamaForCausalLM(transformers.LlamaConfig(
        num_attention_heads=2, num_key_value_heads=1, max_position_embeddings=32, **sizes))


def loaded(kind, folder, replaced=True, **options):
    """A model of parts, as a script has it; what was said meanwhile."""
    import transformers
    from transformers import modeling_utils
    from transformers.integrations.deepspeed import set_hf_deepspeed_config

    from zeroshard import from_pretrained

    zeroshard.use_as_deepspeed()
    distributed.init_distributed()
    lines = []
    handler = logging.Handler()
    handler.emit = lambda record: lines.append((record.levelname, record.getMessage()))
    log = logging.getLogger("zeroshard")
    log.addHandler(handler)
    log.setLevel("INFO")
    originals = modeling_utils.PreTrainedModel.__dict__[from_pretrained._READS], getattr(modeling_utils, from_pretrained._HANDS_OUT)
    if not replaced:
        from_pretrained._seen.append(modeling_utils)
    else:
        from_pretrained._seen.clear()
    alive = Stage3()
    set_hf_deepspeed_config(alive)  # which keeps a weak reference
    try:
        torch.manual_seed(distributed.rank())  # what is not loaded is rank 0's
        return transformers.AutoModelForCausalLM.from_pretrained(folder, **options), lines
    finally:
        del alive
        log.removeHandler(handler)
        setattr(modeling_utils.PreTrainedModel, from_pretrained._READS, originals[0])
        setattr(modeling_utils, from_pretrained._HANDS_OUT, originals[1])
        from_pretrained._seen.clear()


def bytes_read(lines):
    found = [re.search(r"rank \d+ has read (\d+) bytes", line) for level, line in lines if level == "INFO"]
    return [int(match[1]) for match in found if match]


def warnings(lines):
    return [line for level, line in lines if level == "WARNING" and "from_pretrained" in line]


def weights(model):
    with zeroshard.full_params(model):
        return {name: value.clone() for name, value in model.state_dict().items()}


def same(kind, folder, options):
    ours, lines = loaded(kind, folder, **options)
    theirs, _ = loaded(kind, folder, replaced=False, **options)
    ours_full, theirs_full = weights(ours), weights(theirs)
    assert ours_full.keys() == theirs_full.keys()
    for name, value in theirs_full.items():
        assert ours_full[name].dtype == value.dtype
        assert torch.equal(ours_full[name], value), name
    assert not warnings(lines)
    return bytes_read(lines)[0], sum(value.numel() * value.element_size() for value in ours.buffers())


def saved(kind, folder, dtype=torch.float32, shard="5GB", **more):
    torch.manual_seed(3)
    model = model_of(kind, **more).to(dtype)
    model.save_pretrained(folder, max_shard_size=shard)
    return sum(parameter.numel() * parameter.element_size() for parameter in model.parameters())


@pytest.mark.parametrize("ranks", (1, 2, 3))
@pytest.mark.parametrize("kind", ("llama", "gpt2"))
def test_each_rank_reads_its_parts_and_no_more(kind, ranks, tmp_path):
    for number, (shard, options) in enumerate((("5GB", {}), ("20KB", {"dtype": torch.bfloat16}))):
        folder = tmp_path / f"model_{number}"
        total = saved(kind, folder, shard=shard, tie_word_embeddings=False)
        assert (len(list(folder.glob("*.safetensors"))) > 1) == (number == 1)
        read = on_ranks(ranks, same, kind, str(folder), options)
        assert sum(count for count, _ in read) == total, "all ranks together read each byte once"
        assert max(count for count, _ in read) <= 1.3 * total / ranks, "and about as much each: small ones are one rank's"


def peak_of(folder):
    libc = ctypes.CDLL(None)
    libc.mallopt(M_MMAP_THRESHOLD, 1 << 20)  # what is freed is given back at once, and not kept for the next
    loaded("llama", str(Path(folder) / "small"))  # what is imported or allocated once
    libc.malloc_trim(0)
    models = []
    peak = grown(lambda: models.append(loaded("llama", str(Path(folder) / "large"))[0]))
    sharded = [each for each in models[0].parameters() if hasattr(each, "zs_home")]
    held = sum(each.zs_home.own_part(each).nbytes for each in sharded)
    return peak, held, max(each.ds_numel * each.element_size() for each in sharded)


def test_a_rank_holds_its_part_and_one_tensor(tmp_path):
    """Of 92 MB; transformers by itself has a peak of 152 MB on rank 0, and of 75 MB on rank 1."""
    saved("llama", tmp_path / "small")
    total = saved("llama", tmp_path / "large", hidden_size=512, intermediate_size=1024, num_hidden_layers=8, vocab_size=4000)
    parts = on_ranks(2, peak_of, str(tmp_path))
    assert sum(held for _, held, _ in parts) == total
    for peak, held, largest in parts:
        assert 0.9 * held < peak < held + largest + 8e6, (peak, held, largest)  # modules, and the pages that they share


def test_tied_weights_and_16_bit_files(tmp_path):
    total = saved("llama", tmp_path / "model", torch.bfloat16, tie_word_embeddings=True)
    read = on_ranks(2, same, "llama", str(tmp_path / "model"), {"dtype": "auto"})
    assert total <= sum(count for count, _ in read) <= 1.5 * total


def reads_whole(folder, word):
    model, lines = loaded("llama", folder)
    assert len(warnings(lines)) == (distributed.rank() == 0)
    assert all(word in line for line in warnings(lines))
    assert not bytes_read(lines)
    return {name: value for name, value in weights(model).items()}


def test_other_files_are_read_whole_and_it_is_said(tmp_path):
    torch.manual_seed(3)
    model = model_of("llama", tie_word_embeddings=False)
    model.save_pretrained(tmp_path / "model")
    (tmp_path / "model/model.safetensors").unlink()
    torch.save(model.state_dict(), tmp_path / "model/pytorch_model.bin")
    for found in on_ranks(2, reads_whole, str(tmp_path / "model"), "not all in safetensors files"):
        assert all(torch.equal(found[name], value) for name, value in model.state_dict().items())


def with_a_hook(folder):
    import transformers

    original = transformers.models.llama.modeling_llama.LlamaMLP.__init__

    def make(module, *arguments, **keywords):
        original(module, *arguments, **keywords)
        module.up_proj._register_load_state_dict_pre_hook(lambda *ignored: None)

    transformers.models.llama.modeling_llama.LlamaMLP.__init__ = make
    try:
        return reads_whole(folder, "changes weights as it loads them")
    finally:
        transformers.models.llama.modeling_llama.LlamaMLP.__init__ = original


def test_modules_that_change_what_they_load_get_it_whole(tmp_path):
    saved("llama", tmp_path / "model", tie_word_embeddings=False)
    expected = model_of("llama", tie_word_embeddings=False).from_pretrained(tmp_path / "model").state_dict()
    for found in on_ranks(2, with_a_hook, str(tmp_path / "model")):
        assert all(torch.equal(found[name], value) for name, value in expected.items())


def cut_short(folder):
    with pytest.raises(zeroshard.StorageError, match="model.safetensors"):
        loaded("llama", folder)


def test_a_damaged_file_is_an_error_of_all_ranks(tmp_path):
    saved("llama", tmp_path / "model")
    path = tmp_path / "model/model.safetensors"
    path.write_bytes(path.read_bytes()[:-100])
    on_ranks(2, cut_short, str(tmp_path / "model"))


def unknown(folder):
    from transformers import modeling_utils

    original = modeling_utils.PreTrainedModel.__dict__["_load_pretrained_model"]
    inner = original.__func__

    def another(model, state_dict, checkpoint_files, load_config, expected_keys=None, surprise=None):
        return inner(model, state_dict, checkpoint_files, load_config, expected_keys)

    modeling_utils.PreTrainedModel._load_pretrained_model = staticmethod(another)
    try:
        return reads_whole(folder, "in a way that is not known here")
    finally:
        modeling_utils.PreTrainedModel._load_pretrained_model = original


def test_another_transformers_loads_as_it_does(tmp_path):
    saved("llama", tmp_path / "model", tie_word_embeddings=False)
    on_ranks(2, unknown, str(tmp_path / "model"))
