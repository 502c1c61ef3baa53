"""The engine's backward, and what becomes of gradients between it and the step."""
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn

from zeroshard import _C
from zeroshard.batch_sizes import BatchSizes
from zeroshard.errors import StateError
from zeroshard.out_of_memory import telling_what_is_held
from zeroshard.step_report import StepReport


def refuse_without_optimizer(optimizer: Any) -> None:
    if optimizer is None:
        raise StateError(
            "[state] this engine was made without an optimizer; name one in the configuration or pass one to initialize()"
        )


class MicroSteps:
    """Who says where a step ends: the core counts, the caller has said it, or a scope is open whose backwards only collect."""

    def __init__(self, core: "_C.EngineCore", keeps_local: bool) -> None:
        self._core = core
        self._keeps_local = keeps_local  # gradients stay on their ranks until they are reduced
        self._boundary: bool | None = None  # what the caller says
        self._scope: str | None = None

    def set_boundary(self, is_boundary: bool | None) -> None:
        self._boundary = is_boundary
        self._core.set_boundary(is_boundary)

    @contextmanager
    def collecting(self, scope: str) -> Iterator[None]:
        if self._scope is not None:
            raise StateError(
                f"[state] {scope} context manager reentry is unsupported: {scope}() inside {self._scope}(); use one of them"
            )
        self._scope, before = scope, self._boundary
        if self._keeps_local:
            self.set_boundary(False)
            self._core.show_local(True)
        try:
            yield
        finally:
            self._scope = None
            if self._keeps_local:
                self._core.show_local(False)
                self.set_boundary(before)

    def refuse_step_inside(self) -> None:
        if self._scope is not None:
            raise StateError(
                f"[state] It is illegal to call Engine.step() inside {self._scope} context manager: "
                f"{self._scope}() is not over; call step() after it"
            )


class EngineGradients:
    """Gradients are taken where autograd would put them into `.grad`, whoever calls backward(). `optimizer` is None where
    nothing is trained."""

    def __init__(
        self,
        module: nn.Module,
        core: "_C.EngineCore",
        optimizer: Any,
        micro_steps: MicroSteps,
        batch: BatchSizes,
        shards_gradients: bool,
        report: StepReport,
    ) -> None:
        self._module, self._core, self._optimizer = module, core, optimizer
        self._micro_steps, self._batch, self._report = micro_steps, batch, report
        self._shards_gradients = shards_gradients
        self._updates_early = core.early_updates() is not None

    def backward(self, loss: torch.Tensor, retain_graph: bool = False, scale_wrt_gas: bool = True) -> torch.Tensor:
        """Scales, differentiates, reduces. Returns the loss, divided by the micro-steps of a step."""
        refuse_without_optimizer(self._optimizer)
        self._refuse_unfit_loss(loss, "backward")
        self._report.note_loss(loss)
        if self._updates_early:  # a scheduler may have changed them since the last step
            self._core.take_parameter_groups(self._optimizer.param_groups)
        with self._report.timed("backward"), telling_what_is_held(self._core, "backward"):
            self._core.backward(loss, scale_wrt_gas, retain_graph)
        return loss.detach() / self._batch.gradient_accumulation_steps() if scale_wrt_gas else loss.detach()

    def scale(self, loss: torch.Tensor) -> torch.Tensor:
        """The loss times the loss scale, for those who call backward() on it themselves. In fp16 they must; and whatever the
        precision, what such a backward brings is divided by the micro-steps of a step, as by engine.backward()."""
        refuse_without_optimizer(self._optimizer)
        self._refuse_unfit_loss(loss, "scale")
        return self._core.scale(loss)

    def _refuse_unfit_loss(self, loss: torch.Tensor, call: str) -> None:
        if not isinstance(loss, torch.Tensor):
            raise StateError(f"[state] {call} needs a loss of one number: {type(loss).__name__}; pass a tensor")
        if loss.numel() != 1 and call == "scale":
            raise StateError(
                f"[state] scale needs a loss of one number: {tuple(loss.shape)}; reduce it with mean() or sum(), "
                "or scale what it is reduced to"
            )

    @contextmanager
    def no_sync(self) -> Iterator[None]:
        """Gradients are only collected inside, where `.grad` shows this rank's sum. Stages 0 and 1, whose gradients stay on
        their ranks."""
        if self._shards_gradients:
            raise StateError(
                "[state] no_sync context manager is incompatible with gradient partitioning: no_sync() at a stage that shards "
                "gradients; they are reduced as they appear there, so leave it out"
            )
        with self._micro_steps.collecting("no_sync"):
            yield

    @contextmanager
    def coalesce_grad_reduction(self) -> Iterator[None]:
        """Several backwards of one step are reduced together, when it ends. Where gradients are sharded there is no room for
        a rank's own sum: they are reduced as they appear, with the same result."""
        with self._micro_steps.collecting("coalesce_grad_reduction"):
            yield
        self._core.reduce_gradients()

    def set_gradient_accumulation_boundary(self, is_boundary: bool | None) -> None:
        """The caller counts micro-steps from now on; with None the engine does."""
        self._micro_steps.set_boundary(is_boundary)

    def is_gradient_accumulation_boundary(self) -> bool:
        return self._core.at_boundary()

    def allreduce_gradients(self, bucket_size: int | None = None) -> None:
        """Reduces what backwards at the accumulation boundary have only collected. Most often that is nothing: a backward
        reduces by itself, in buckets of reduce_bucket_size. Collective."""
        if self._core.at_boundary():
            self._core.reduce_gradients()

    def _backward_epilogue(self) -> None:
        """For loops that end a backward by hand, of one loss through several engines: each engine has seen its end already."""

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Drops the gradients that `.grad` shows: at stage 0 those of the step, after a no_sync() what it has collected. Others
        it leaves alone, and a step takes its own with it."""
        if self._core.shows_gradients():
            self._module.zero_grad(set_to_none)
