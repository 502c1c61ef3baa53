"""The engine's backward, and what becomes of gradients between it and the step."""
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from zeroshard.engine_parts import EngineParts
from zeroshard.errors import StateError


class EngineGradients(EngineParts):
    """Gradients are taken where autograd would put them into `.grad`, whoever calls backward()."""

    def backward(self, loss: torch.Tensor, retain_graph: bool = False, scale_wrt_gas: bool = True) -> torch.Tensor:
        """Scales, differentiates, reduces. Returns the loss, divided by the micro-steps of a step."""
        self._refuse_without_optimizer()
        self._refuse_unfit_loss(loss, "backward")
        self._report.note_loss(loss)
        with self._report.timed("backward"):
            self.core.backward(loss, scale_wrt_gas, retain_graph)
        return loss.detach() / self._accumulation if scale_wrt_gas else loss.detach()

    def scale(self, loss: torch.Tensor) -> torch.Tensor:
        """The loss times the loss scale, for those who call backward() on it themselves. In fp16 they must; and whatever the
        precision, what such a backward brings is divided by the micro-steps of a step, as by engine.backward()."""
        self._refuse_without_optimizer()
        self._refuse_unfit_loss(loss, "scale")
        return self.core.scale(loss)

    def _refuse_without_optimizer(self) -> None:
        if self.basic_optimizer is None:
            raise StateError(
                "[state] this engine was made without an optimizer; name one in the configuration or pass one to initialize()"
            )

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
        if self.configuration.parsed.shards_gradients:
            raise StateError(
                "[state] no_sync context manager is incompatible with gradient partitioning: no_sync() at a stage that shards "
                "gradients; they are reduced as they appear there, so leave it out"
            )
        with self._collecting("no_sync"):
            yield

    @contextmanager
    def coalesce_grad_reduction(self) -> Iterator[None]:
        """Several backwards of one step are reduced together, when it ends. Where gradients are sharded there is no room for
        a rank's own sum: they are reduced as they appear, with the same result."""
        with self._collecting("coalesce_grad_reduction"):
            yield
        self.core.reduce_gradients()

    @contextmanager
    def _collecting(self, call: str) -> Iterator[None]:
        if self._collects is not None:
            raise StateError(
                f"[state] {call} context manager reentry is unsupported: {call}() inside {self._collects}(); use one of them"
            )
        self._collects, before = call, self._boundary
        keeps = not self.configuration.parsed.shards_gradients
        if keeps:
            self.set_gradient_accumulation_boundary(False)
            self.core.show_local(True)
        try:
            yield
        finally:
            self._collects = None
            if keeps:
                self.core.show_local(False)
                self.set_gradient_accumulation_boundary(before)

    def set_gradient_accumulation_boundary(self, is_boundary: bool | None) -> None:
        """The caller counts micro-steps from now on; with None the engine does."""
        self._boundary = is_boundary
        self.core.set_boundary(is_boundary)

    def is_gradient_accumulation_boundary(self) -> bool:
        return self.core.at_boundary()

    def _refuse_step_inside(self) -> None:
        if self._collects is not None:
            raise StateError(
                f"[state] It is illegal to call Engine.step() inside {self._collects} context manager: "
                f"{self._collects}() is not over; call step() after it"
            )

    def allreduce_gradients(self, bucket_size: int | None = None) -> None:
        """Reduces what backwards at the accumulation boundary have only collected. Most often that is nothing: a backward
        reduces by itself, in buckets of reduce_bucket_size. Collective."""
        if self.core.at_boundary():
            self.core.reduce_gradients()

    def _backward_epilogue(self) -> None:
        """For loops that end a backward by hand, of one loss through several engines: each engine has seen its end already."""

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Drops the gradients that `.grad` shows: at stage 0 those of the step, after a no_sync() what it has collected. Others
        it leaves alone, and a step takes its own with it."""
        if self.core.shows_gradients():
            self.module.zero_grad(set_to_none)
