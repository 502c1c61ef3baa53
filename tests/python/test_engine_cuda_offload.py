"""On a GPU: states on the host give the bits that states on the device do."""
import pytest
import torch
from engine_models import settings, start
from gpu_runs import DTYPES, NEEDS_GPU, PRECISIONS, assert_same_bits, computing_on, inputs, parts

pytestmark = NEEDS_GPU
OPTIMIZER_AWAY = {"offload_optimizer": {"device": "cpu", "pin_memory": True}}
UNPINNED = {"offload_optimizer": {"device": "cpu", "pin_memory": False}}
HALF_AWAY = {"offload_optimizer": {"device": "cpu", "ratio": 0.5}}
BOTH_AWAY = OPTIMIZER_AWAY | {"offload_param": {"device": "cpu"}}
PARAMETERS_AWAY = {"offload_param": {"device": "cpu"}}


def run(stage, precision, away, accumulation=1, clip=0.0, steps=6):
    with computing_on("cuda"):
        engine = start(parts(), settings(stage, accumulation, zero=away, **PRECISIONS[precision]) | {"gradient_clipping": clip})
    found = {}
    for step, value in enumerate(inputs(steps * accumulation, precision)):
        loss = engine(value)
        engine.backward(loss)
        engine.step()
        found[f"loss {step}"] = loss.detach().clone()
    engine.finish()
    found |= {name: value.cpu().clone() for name, value in engine.core.rank_tensors().items()}
    found["norm"] = torch.tensor(engine.get_global_grad_norm(), dtype=torch.float64)
    engine.destroy()
    return found


@pytest.mark.parametrize("accumulation, clip", ((1, 0.0), (1, 1e-3), (3, 0.1)))
@pytest.mark.parametrize("precision", DTYPES)
@pytest.mark.parametrize("stage", range(4))
def test_offloaded_runs_equal_resident_ones(stage, precision, accumulation, clip):
    resident = run(stage, precision, {}, accumulation, clip)
    for away in (OPTIMIZER_AWAY, UNPINNED, HALF_AWAY) + ((BOTH_AWAY, PARAMETERS_AWAY) if stage == 3 else ()):
        assert_same_bits(run(stage, precision, away, accumulation, clip), resident)


def test_many_steps_of_a_larger_model():
    """Updates, copies and computation overlap: whatever is read too early shows."""
    def train(away):
        with computing_on("cuda"):
            engine = start(parts(width=1024, depth=12), settings(2, zero=away, bf16={"enabled": True}))
        losses = []
        for value in inputs(60, "bf16", width=1024):
            loss = engine(value)
            engine.backward(loss)
            engine.step()
            losses.append(loss.detach())
        engine.destroy()
        return {"losses": torch.stack(losses)}

    assert_same_bits(train(OPTIMIZER_AWAY), train({}))
