"""A loop of one's own with accelerate: accumulate, clip, unwrap, state dict, save_state and load_state.

Without --config the optimizer and its schedule are torch's and made before prepare(), so the engine must keep reading the
learning rate from the very parameter groups that the schedule writes. With it they are the engine's, and accelerate fills the
file's "auto" values.
"""
import pathlib

import torch
from accelerate import Accelerator, DeepSpeedPlugin, PartialState
from accelerate.utils import DummyOptim, DummyScheduler, set_seed
from transformers import LlamaConfig, LlamaForCausalLM, get_linear_schedule_with_warmup

from recording import (ON_CPU, client_arguments, described_folder, each_rank, number, random_tokens, rank, write_result)

args = client_arguments(steps=6, accumulation=2, precision="no", stage=2, clip=0.5)
# A host without an accelerator: Accelerator(cpu=True) would turn the DeepSpeed path off, and without it accelerate counts
# one process; a CPU state made first is what gives both (transformers' use_cpu does the same).
if ON_CPU:
    PartialState(cpu=True)
set_seed(42)
if args.config:
    plugin = DeepSpeedPlugin(hf_ds_config=args.config)
else:
    plugin = DeepSpeedPlugin(zero_stage=args.stage, gradient_accumulation_steps=args.accumulation, gradient_clipping=args.clip,
                             zero3_save_16bit_model=True)
accelerator = Accelerator(deepspeed_plugin=plugin, mixed_precision=args.precision, gradient_accumulation_steps=args.accumulation)

model = LlamaForCausalLM(LlamaConfig(vocab_size=64, hidden_size=32, intermediate_size=56, num_hidden_layers=2, num_attention_heads=4,
                                     num_key_value_heads=2, max_position_embeddings=64, pad_token_id=0, bos_token_id=1, eos_token_id=1))
# accelerate steps a schedule once per process, so its length counts processes too
warmup, length = 2 * accelerator.num_processes, args.steps * accelerator.num_processes
if args.config:  # the file's optimizer and scheduler sections, filled from these two
    optimizer = DummyOptim(model.parameters(), lr=5e-3, weight_decay=0.01)
    schedule = DummyScheduler(optimizer, total_num_steps=length, warmup_num_steps=2)
else:
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3, weight_decay=0.01)
    schedule = get_linear_schedule_with_warmup(optimizer, warmup, length)
loader = torch.utils.data.DataLoader(random_tokens(96, 24), batch_size=2, shuffle=True)
model, optimizer, loader, schedule = accelerator.prepare(model, optimizer, loader, schedule)


def train(batches, steps, record):
    while len(record["learning_rates"]) < steps:
        batch = next(batches)
        with accelerator.accumulate(model):
            loss = model(**batch).loss
            record["losses"].append(loss.item())
            accelerator.backward(loss)
            if accelerator.sync_gradients:
                record["grad_norms"].append(number(accelerator.clip_grad_norm_(model.parameters(), args.clip)))
            optimizer.step()
            schedule.step()
            optimizer.zero_grad()
        if accelerator.sync_gradients:
            record["learning_rates"].append(schedule.get_last_lr()[0])
            record["skipped"].append(bool(optimizer.step_was_skipped))
    return record


def new_record():
    return {"losses": [], "learning_rates": [], "grad_norms": [], "skipped": []}


model.train()
record = train(iter(loader), args.steps // 2, new_record())
folder = pathlib.Path(args.workdir) / "state"
accelerator.save_state(str(folder))
batches = list(loader)[:args.accumulation * (args.steps - args.steps // 2)]
straight_on = train(iter(batches), args.steps - args.steps // 2, new_record())
accelerator.load_state(str(folder))
model.train()
again = train(iter(batches), args.steps - args.steps // 2, new_record())

state = accelerator.get_state_dict(model)
accelerator.save_model(model, str(pathlib.Path(args.workdir) / "model"))
accelerator.wait_for_everyone()
unwrapped = accelerator.unwrap_model(model)
write_result(args.out, losses=each_rank(record["losses"]), learning_rates=record["learning_rates"], grad_norms=record["grad_norms"],
             skipped_steps=record["skipped"], after_save={**straight_on, "losses": each_rank(straight_on["losses"])},
             after_load={**again, "losses": each_rank(again["losses"])},
             load_is_exact=each_rank(straight_on) == each_rank(again), processes=accelerator.num_processes,
             distributed_type=str(accelerator.distributed_type), wrapped=type(model).__name__, unwrapped=type(unwrapped).__name__,
             gathered_names=sorted(state) if rank() == 0 else None,
             saved=described_folder(pathlib.Path(args.workdir) / "model") if rank() == 0 else None)
