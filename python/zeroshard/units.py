"""A model's units: which parameters are gathered and released together, and whose call uses them."""
from collections.abc import Iterable
from dataclasses import dataclass, field

from torch import nn

# Parameters of a module that is no block are a unit of their own from this many elements on.
MINIMUM_NUMEL = 100_000


@dataclass
class Unit:
    """Parameters by name, and the module whose forward uses them. The root unit's is the model."""

    name: str
    module: nn.Module
    parameters: dict[str, nn.Parameter] = field(default_factory=dict)
    is_root: bool = False


def _numel(parameter: nn.Parameter) -> int:
    return getattr(parameter, "ds_numel", parameter.numel())


def _block_class_names(model: nn.Module) -> set[str]:
    """HuggingFace models name the modules that belong together."""
    names: set[str] = set()
    for module in model.modules():
        named = getattr(module, "_no_split_modules", None)
        if isinstance(named, (list, tuple, set)):
            names.update(named)
    return names


def _repeated_blocks(model: nn.Module) -> list[nn.Module]:
    """Several modules of one class in a list, each with modules inside: blocks of a deep model."""
    blocks: list[nn.Module] = []
    for module in model.modules():
        if not isinstance(module, (nn.ModuleList, nn.Sequential)):
            continue
        kinds = {type(child) for child in module}
        deep = all(any(True for _ in child.children()) for child in module)
        if len(module) > 1 and len(kinds) == 1 and deep:
            blocks.extend(module)
    return blocks


def find_blocks(model: nn.Module) -> list[nn.Module]:
    """The outermost blocks, in the order of the tree: those that the user has marked, and those that look like it."""
    names = _block_class_names(model)
    modules = [module for module in model.modules() if module is not model]
    wanted = [module for module in modules if type(module).__name__ in names] or _repeated_blocks(model)
    wanted += [module for module in modules if getattr(module, "_z3_leaf", False)]  # deepspeed.utils.set_z3_leaf_modules
    inner = {id(module) for block in wanted for module in block.modules() if module is not block}
    return [block for block in dict.fromkeys(wanted) if id(block) not in inner and any(True for _ in block.parameters())]


class _Search:
    """Gives every module that owns parameters the unit it belongs to."""

    def __init__(self, model: nn.Module) -> None:
        self.model = model
        self.blocks = {id(block) for block in find_blocks(model)}
        self.unit_module: dict[int, nn.Module] = {}  # by owner: the module whose call uses its parameters
        self.visited: set[int] = set()
        for owner in self._visit(model):
            self.unit_module[id(owner)] = model

    def _visit(self, module: nn.Module) -> list[nn.Module]:
        """Owners of parameters below that have no unit yet."""
        if id(module) in self.visited:
            return []
        self.visited.add(id(module))
        if id(module) in self.blocks:
            for owner in module.modules():
                self.visited.add(id(owner))
                self.unit_module[id(owner)] = module
            return []
        left = [owner for child in module.children() for owner in self._visit(child)]
        if any(parameter is not None for parameter in module._parameters.values()):
            left.append(module)
        return self._settle(module, left)

    def _settle(self, module: nn.Module, left: list[nn.Module]) -> list[nn.Module]:
        """Enough parameters for a unit, and a module that is called: then it is one."""
        is_called = type(module).forward is not nn.Module.forward and not isinstance(module, (nn.ModuleList, nn.ModuleDict))
        numel = sum(_numel(p) for owner in left for p in owner._parameters.values() if p is not None)
        if module is self.model or not is_called or numel < MINIMUM_NUMEL:
            return left
        for owner in left:
            self.unit_module[id(owner)] = module
        return []


def is_left_alone(parameter: nn.Parameter) -> bool:
    """Frozen weights in whole numbers or in eight bits (quantized ones, under QLoRA) stay as they are, on every rank."""
    return not parameter.requires_grad and (not parameter.is_floating_point() or parameter.element_size() == 1)


def _owners(model: nn.Module) -> Iterable[tuple[str, nn.Module, nn.Parameter]]:
    """Each place where a parameter is registered; shared ones come several times."""
    for path, module in model.named_modules():
        for name, parameter in module._parameters.items():
            if parameter is not None and not is_left_alone(parameter):
                yield f"{path}.{name}" if path else name, module, parameter


def find_units(model: nn.Module) -> list[Unit]:
    """The root unit first, then the others in the order of the tree.

    A parameter that several units use is the root's, which is never released.
    """
    search = _Search(model)
    names = {id(module): name for name, module in model.named_modules()}
    used_by: dict[int, set[int]] = {}
    for _, owner, parameter in _owners(model):
        used_by.setdefault(id(parameter), set()).add(id(search.unit_module[id(owner)]))
    root = Unit("root", model, is_root=True)
    units: dict[int, Unit] = {id(model): root}
    seen: set[int] = set()
    for name, owner, parameter in _owners(model):
        if id(parameter) in seen:
            continue
        seen.add(id(parameter))
        module = search.unit_module[id(owner)] if len(used_by[id(parameter)]) == 1 else model
        unit = units.setdefault(id(module), Unit(names[id(module)] or "root", module))
        unit.parameters[name] = parameter
    return [unit for unit in units.values() if unit.parameters]
