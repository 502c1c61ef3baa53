"""The model's file: shapes of what is trained, frozen parameters and buffers, counters, and what the client kept."""
from math import prod
from pathlib import Path
from typing import Any

from zeroshard.deepspeed_checkpoint.folder import Files, refuse_incomplete
from zeroshard.deepspeed_checkpoint.inert_pickle import Unknown
from zeroshard.deepspeed_checkpoint.layouts import Piece, Shape
from zeroshard.deepspeed_checkpoint.open_files import OpenFiles
from zeroshard.deepspeed_checkpoint.rank_states import field_of
from zeroshard.deepspeed_checkpoint.refusal import DAMAGED, NEVER, NOT_ZERO, ODD, OTHER_FRAMEWORK, refusal
from zeroshard.deepspeed_checkpoint.stored_tensor import StoredTensor, is_count, is_shape
from zeroshard.deepspeed_checkpoint.torch_file import TorchFile

# What DeepSpeed writes itself; all other keys are the client's.
_OWN = {"module", "buffer_names", "optimizer", "param_shapes", "frozen_param_shapes", "shared_params", "frozen_param_fragments",
        "lr_scheduler", "data_sampler", "random_ltd", "sparse_tensor_module_names", "csr_tensor_module_names", "skipped_steps",
        "global_steps", "global_samples", "dp_world_size", "mp_world_size", "checkpoint_parallel_dimensions", "ds_config", "ds_version",
        "universal_checkpoint_info"}
_COUNTERS = ("global_steps", "global_samples", "skipped_steps")
# Settings of zero_optimization under which files are laid out in ways that we do not know, and the values that are harmless.
_FOREIGN = {
    "mics_shard_size": (-1, 0, None),
    "zero_hpz_partition_size": (1, None),
    "zero_quantized_weights": (False, None),
    "zero_quantized_nontrainable_weights": (False, None),
    "zero_quantized_gradients": (False, None),
    "zenflow": (None,),
}


class ModelState:
    def __init__(self, files: Files, open_files: OpenFiles) -> None:
        self._files = files
        self._open_files = open_files
        self.path = files.models[0]
        self.root = self._read(self.path)
        self._refuse_foreign()
        self._module = _tensors(field_of(self.root, "module", dict, self.path), self.path)
        self.param_shapes: list[dict[str, Shape]] = self._shapes()
        self.tied: dict[str, str] = dict(self._optional("shared_params", dict) or {})
        self.counters = {name: self._counter(name) for name in _COUNTERS}
        self.version = str(self.root.get("ds_version", "unknown"))
        self.buffers = {name: self._module[name].shape for name in self._optional("buffer_names", list) or [] if name in self._module}
        self.frozen: dict[str, Shape] = self._frozen_shapes()
        self._fragments = [self._fragments_of(self.root, self.path)]  # of frozen parameters, by rank

    def _read(self, path: Path) -> dict[str, Any]:
        root = TorchFile(path, self._open_files).take_root()
        if not isinstance(root, dict):
            raise refusal("a file of the checkpoint is of another format", path, DAMAGED)
        return root

    def _optional(self, key: str, kind: Any) -> Any:
        return None if self.root.get(key) is None else field_of(self.root, key, kind, self.path)

    def _counter(self, name: str) -> int:
        value = self.root.get(name, 0)
        if not is_count(value):
            raise refusal("a file of the checkpoint does not add up", f"{self.path}, {name}", DAMAGED)
        return value

    def _shapes(self) -> list[dict[str, Shape]]:
        if self.root.get("param_shapes") is None:
            raise refusal("the checkpoint has no states of ZeRO's optimizer", f"{self.path}, it is of stage 0", NOT_ZERO)
        shapes = field_of(self.root, "param_shapes", list, self.path)
        return [self._shapes_in(names) for names in shapes]

    def _shapes_in(self, table: Any) -> dict[str, Shape]:
        if not isinstance(table, dict) or not all(isinstance(name, str) and is_shape(shape) for name, shape in table.items()):
            raise refusal("the model's file has a shape that is none", self.path, DAMAGED)
        return {name: tuple(shape) for name, shape in table.items()}

    def _frozen_shapes(self) -> dict[str, Shape]:
        said = self._optional("frozen_param_shapes", dict)
        if said is not None:
            return self._shapes_in(said)
        if self._files.by_rank:  # they were left out, and what stands for them is empty
            return {}
        trained = {name for names in self.param_shapes for name in names}
        return {name: tensor.shape for name, tensor in self._module.items()  # stage 1 does not list them
                if name not in trained and name not in self.buffers and name not in self.tied}

    def _fragments_of(self, root: dict[str, Any], path: Path) -> dict[str, StoredTensor]:
        return _tensors(root.get("frozen_param_fragments") or {}, path)

    def expect(self, ranks: int) -> None:
        """Where each rank has its part of frozen parameters, all of them are needed."""
        if self._files.by_rank:
            refuse_incomplete(self._files, self._files.models, ranks, "*_model_states.pt")
            for rank in range(1, ranks if self.frozen else 0):
                path = self._files.models[rank]
                self._fragments.append(self._fragments_of(self._read(path), path))
        for name, shape in self.frozen.items():
            found = sum(piece.end - piece.begin for piece in self.pieces(name))
            if found != prod(shape):
                raise refusal("the sizes do not add up", f"{self.path.parent}, {name} has {found} elements of {prod(shape)}", DAMAGED)

    def pieces(self, name: str) -> list[Piece]:
        """Of a frozen parameter or a buffer. The last parts of a frozen one may be padded."""
        parts = [fragments[name] for fragments in self._fragments if name in fragments] if name in self.frozen else []
        if not parts:
            return [Piece(self._module[name], 0, self._module[name].numel)]
        left = prod(self.frozen[name])
        found = []
        for tensor in parts:
            found.append(Piece(tensor, 0, min(left, tensor.numel)))
            left -= found[-1].end
        return found

    def dtype(self, name: str) -> str:
        tensor = self._module.get(name, self._fragments[0].get(name))
        return "float32" if tensor is None else tensor.dtype

    def client_state(self) -> dict[str, Any]:
        return {key: value for key, value in self.root.items() if key not in _OWN}

    def _refuse_foreign(self) -> None:
        parallel = self.root.get("checkpoint_parallel_dimensions") or {}
        degrees = [self.root.get("mp_world_size", 1), *(parallel.values() if isinstance(parallel, dict) else ())]
        if any(degree != 1 for degree in degrees):
            raise refusal("the checkpoint is one of tensor or pipeline parallelism, which cannot be imported", self.path, OTHER_FRAMEWORK)
        if "num_experts" in self.root or "autoep_layers" in self.root:
            raise refusal("the checkpoint is one of a mixture of experts, which cannot be imported", self.path, NEVER)
        config = self.root.get("ds_config")
        zero = config.get("zero_optimization") if isinstance(config, dict) else None
        if isinstance(zero, dict):
            self._refuse_settings(zero)

    def _refuse_settings(self, zero: dict[str, Any]) -> None:
        if not self._files.universal:
            for key, harmless in _FOREIGN.items():
                if zero.get(key) not in harmless:
                    raise refusal("the checkpoint was saved with a setting whose files cannot be imported",
                                  f"{self.path}, zero_optimization.{key}", ODD)
        elif zero.get("round_robin_gradients") and not self._files.by_rank:
            raise refusal("the universal checkpoint has parameters mixed up: DeepSpeed's converter overlooks how they were ordered",
                          f"{self.path}, zero_optimization.round_robin_gradients", "import the checkpoint that it was made from")


def _tensors(table: Any, path: Path) -> dict[str, StoredTensor]:
    if not isinstance(table, dict):
        raise refusal("a file of the checkpoint is of another format", path, DAMAGED)
    for name, value in table.items():
        if isinstance(value, Unknown):
            raise refusal("a weight is of an unknown kind", f"{path}, {name}: {value.kind}", ODD)
    return {name: value for name, value in table.items() if isinstance(name, str) and isinstance(value, StoredTensor)}
