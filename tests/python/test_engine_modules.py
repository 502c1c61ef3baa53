"""Models that use their modules and parameters in unusual ways train alike at every stage, and as plain torch does."""
import dataclasses
from typing import Any

import pytest
import torch
from engine_models import Block, Net, close, every_leaf_a_unit, made, next_token_loss, settings, train_new, train_plainly
from engine_ranks import on_ranks
from torch import nn
from torch.nn import functional as F


class OneBlockTwice(Net):
    """The same module at two places of the list, and another called three times."""

    def __init__(self):
        super().__init__(depth=3)
        self.blocks[2] = self.blocks[0]

    def body(self, tokens):
        x = self.blocks[1](super().body(tokens))
        return self.blocks[1](self.blocks[1](x))


class SharedBetweenBlocks(Net):
    def __init__(self):
        super().__init__()
        self.blocks[2].up.weight = self.blocks[0].up.weight
        self.blocks[1].norm = self.blocks[0].norm


class Adapters(Net):
    """LoRA: inside each unit a frozen matrix, and next to it a small trained one."""

    def __init__(self):
        super().__init__()
        self.requires_grad_(False)
        for block in self.blocks:
            block.low = nn.Linear(11, 2, bias=False)
            block.high = nn.Linear(2, 11, bias=False)
            block.register_forward_hook(lambda block, inputs, output: output + block.high(block.low(inputs[0])))


class ReadsOutside(Net):
    """Parameters of modules that are never called: a head's weight, a norm's, and one deep in a block."""

    def forward(self, tokens):
        x = F.layer_norm(self.body(tokens), (11,), self.blocks[0].norm.weight, self.blocks[0].norm.bias)
        x = F.linear(x, self.blocks[1].up.weight[:11, :11])
        return F.linear(x, self.head.weight, self.head.bias)


class ReadsAllAtTheEnd(Net):
    """As AdaLoRA's penalty does: every block's weights once more, while those of the next are fetched ahead."""

    def forward(self, tokens):
        logits = super().forward(tokens)
        return logits + 0.01 * sum((block.up.weight @ block.up.weight.t()).norm() for block in self.blocks)


class CallsPartsOfABlock(Net):
    """Below the unit's own module."""

    def forward(self, tokens):
        x = self.body(tokens)
        return self.head(x + self.blocks[1].down(F.relu(self.blocks[1].up(x))))


class CallsPartsBeforeTheBlock(Net):
    def forward(self, tokens):
        x = self.blocks[1].down(F.relu(self.blocks[1].up(self.embedding(tokens))))
        for block in self.blocks:
            x = block(x)
        return self.head(x)


class ReadsBeforeTheBlock(Net):
    def forward(self, tokens):
        x = F.linear(self.embedding(tokens), self.blocks[1].down.weight[:, :11])
        for block in self.blocks:
            x = block(x)
        return self.head(x)


class Attends(Net):
    """torch's own layers read each other's weights without calling each other."""

    def __init__(self):
        super().__init__(width=12)
        self.encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(12, 3, 17, dropout=0.0, batch_first=True), 2,
                                             enable_nested_tensor=False)
        self.recurrent = nn.LSTM(12, 12, batch_first=True)

    def body(self, tokens):
        return self.recurrent(self.encoder(super().body(tokens)))[0]


class Reparametrized(Net):
    def __init__(self):
        super().__init__()
        for block in self.blocks:
            nn.utils.parametrizations.weight_norm(block.up)
        self.scales = nn.ParameterList(torch.full((11,), 1.0 + i) for i in range(3))
        self.shifts = nn.ParameterDict({"a": torch.zeros(11)})

    def body(self, tokens):
        x = super().body(tokens)
        for scale in self.scales:
            x = x * scale
        return x / 6 + self.shifts["a"]


class ChangesInPlace(Net):
    """A block's input and output, as models with `relu(inplace=True)` do."""

    def body(self, tokens):
        x = self.embedding(tokens) * 2.0
        for block in self.blocks:
            x = block(x)
            x += 0.5
            x = F.relu_(x)
        return x


class ActivatesFirst(Block):
    """Changes its own input in place."""

    def forward(self, x):
        return super().forward(F.relu_(x))


class AddsToItsInput(Block):
    """The weights' only way into the loss is the input, which they change in place."""

    def forward(self, x, *, same):
        assert same is x
        x.add_(self.down(F.silu(self.up(self.norm(x.clone())))))


class BlocksReturnNothing(Net):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(AddsToItsInput(11) for _ in range(3))

    def body(self, tokens):
        x = self.embedding(tokens) * 2.0
        for block in self.blocks:
            block(x, same=x)
        return x * self.gain


class BlocksChangeInputs(Net):
    """... which the caller then uses, changed as it is."""

    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(ActivatesFirst(11) for _ in range(3))

    def body(self, tokens):
        x = self.blocks[0](self.embedding(tokens) * 2.0) - 1.0
        y = self.blocks[1](x)
        return self.blocks[2](y + 0.5 * x) * self.gain


class SomeUnused(Net):
    """No gradient ever for one block, and for another only every second sample decides."""

    def body(self, tokens):
        x = self.blocks[0](self.embedding(tokens))
        return self.blocks[2](x) if tokens[0, 0] % 2 == 0 else x * self.gain


@dataclasses.dataclass
class Output:
    logits: torch.Tensor
    hidden: Any = None
    word: str = "text"


class ReturnsMore(Net):
    """A block that takes and gives containers; a model that gives a dataclass."""

    class Wrapped(nn.Module):
        def __init__(self):
            super().__init__()
            self.block = Block(11)
            self.gate = nn.Linear(11, 11)

        def forward(self, packed, nothing=None, *, extra):
            x, (y, number) = packed["x"], packed["pair"]
            return {"x": self.block(x) + self.gate(extra["y"]) * number, "pair": (y + 1, number), "none": nothing}

    def __init__(self):
        super().__init__()
        self.wrapped = nn.ModuleList(self.Wrapped() for _ in range(2))

    def forward(self, tokens):
        packed = {"x": self.body(tokens), "pair": (torch.zeros(()), 0.5)}
        for each in self.wrapped:
            packed = each(packed, extra={"y": packed["x"]})
        return Output(self.head(packed["x"]), hidden=[packed["x"]])


class ListsParameters(Net):
    """A regulariser, computed where the model is."""

    def forward(self, tokens):
        penalty = sum(parameter.square().sum() for parameter in self.parameters())
        return Output(self.head(self.body(tokens)), hidden=[penalty * 0.01])


def loss_of_output(model, tokens):
    output = model(tokens)
    return F.cross_entropy(output.logits.flatten(0, 1), tokens.roll(-1, 1).flatten()) + output.hidden[0].square().mean()


def two_forwards(model, tokens):
    """Both graphs are alive when backward comes; a third one is dropped."""
    model(tokens)
    return next_token_loss(model, tokens) + 0.5 * next_token_loss(model, tokens.flip(1))


def evaluates_meanwhile(model, tokens):
    """A forward without gradients between a forward and its backward, as a reference for the loss."""
    loss = next_token_loss(model, tokens)
    with torch.no_grad():
        target = model(tokens.flip(0)).softmax(-1)
    return loss + (model(tokens).softmax(-1) - target).square().mean()


def from_an_input(model, tokens):
    """The loss's gradient by an activation, with a graph of its own, before anything is differentiated for good."""
    inputs = torch.linspace(-1, 1, 11).repeat(3, 1).requires_grad_()
    inner = getattr(model, "module", model)
    x = inputs
    for block in inner.blocks:
        x = block(x)
    sensitivity, = torch.autograd.grad(x.square().sum(), inputs)
    return next_token_loss(model, tokens) + sensitivity.detach().norm() * next_token_loss(model, tokens.flip(1)) * 0.01


def adversarial(model, tokens):
    """By the loss's gradient at an input, through the engine's own graph, which is then differentiated for good."""
    inner = getattr(model, "module", model)
    kept = []
    handle = inner.blocks[0].register_forward_pre_hook(lambda module, inputs: kept.append(inputs[0]))
    loss = next_token_loss(model, tokens)
    handle.remove()
    gradient, = torch.autograd.grad(loss, kept, retain_graph=True)
    return loss * (1 + gradient.norm().detach())


CASES = {
    "parameters listed in forward": (ListsParameters, loss_of_output),
    "gradient within the graph first": (Net, adversarial),
    "one block twice": (OneBlockTwice, next_token_loss),
    "shared between blocks": (SharedBetweenBlocks, next_token_loss),
    "adapters beside frozen matrices": (Adapters, next_token_loss),
    "parameters read outside their module": (ReadsOutside, next_token_loss),
    "all blocks' weights read at the end": (ReadsAllAtTheEnd, next_token_loss),
    "parts of a block called by themselves": (CallsPartsOfABlock, next_token_loss),
    "parts of a block called before it": (CallsPartsBeforeTheBlock, next_token_loss),
    "a block's weight read before it": (ReadsBeforeTheBlock, next_token_loss),
    "torch's attention and recurrence": (Attends, next_token_loss),
    "reparametrized, lists and dictionaries": (Reparametrized, next_token_loss),
    "inputs and outputs changed in place": (ChangesInPlace, next_token_loss),
    "inputs changed in place by blocks": (BlocksChangeInputs, next_token_loss),
    "blocks that only change their input": (BlocksReturnNothing, next_token_loss),
    "branches that differ by rank": (SomeUnused, next_token_loss),
    "containers in and out": (ReturnsMore, loss_of_output),
    "two forwards, one backward": (Net, two_forwards),
    "evaluation before backward": (Net, evaluates_meanwhile),
    "gradient of an input first": (Net, from_an_input),
}


def same_at_all_stages(name, ranks):
    """With blocks as units, and with every leaf as one; what is a unit may change the order of autograd's sums."""
    kind, loss = CASES[name]
    plain = train_plainly(made(kind), ranks=ranks, loss=loss)
    for minimum in (100_000, 1):
        runs = []
        for stage in range(4):
            with every_leaf_a_unit(minimum):
                runs.append(train_new(made(kind), settings(stage), loss=loss))
        for stage, run in enumerate(runs):
            assert run.losses == runs[0].losses and run.norms == runs[0].norms and run.same_weights(runs[0]), (stage, minimum)
        assert close(runs[0], plain)


@pytest.mark.parametrize("name", CASES)
def test_same_at_every_stage_and_as_plain_torch(name):
    on_ranks(2, same_at_all_stages, name, 2)
