"""Where the elements of a parameter lie in the ranks' flat tensors."""
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from zeroshard.deepspeed_checkpoint.rank_states import Flat, RankStates
from zeroshard.deepspeed_checkpoint.refusal import DAMAGED, ODD, refusal
from zeroshard.deepspeed_checkpoint.stored_tensor import StoredTensor, is_count

Shape = tuple[int, ...]


class Piece(NamedTuple):
    """Elements begin to end of a stored tensor. A state's pieces, end to end, are the parameter, flat."""

    tensor: StoredTensor
    begin: int
    end: int


class Layout(Protocol):
    shapes: dict[str, Shape]

    def states(self, name: str) -> list[str]:
        """What is stored of a parameter; its master among it."""

    def pieces(self, name: str, state: str) -> list[Piece]: ...

    def scalars(self, name: str) -> dict[str, float]: ...

    def group(self, name: str) -> int: ...


@dataclass(frozen=True)
class _Place:
    flat: int
    offset: int
    shape: Shape

    @property
    def numel(self) -> int:
        return prod(self.shape)


class _RankLayout:
    """What the layouts of all stages have in common."""

    def __init__(self, ranks: list[RankStates]) -> None:
        self._ranks = ranks
        self._places: dict[str, _Place] = {}
        for rank in ranks[1:]:
            self._compare(ranks[0], rank)

    @property
    def shapes(self) -> dict[str, Shape]:
        return {name: place.shape for name, place in self._places.items()}

    def states(self, name: str) -> list[str]:
        return list(self._flat(name).states)

    def scalars(self, name: str) -> dict[str, float]:
        return self._flat(name).scalars

    def group(self, name: str) -> int:
        return self._flat(name).group

    def _flat(self, name: str) -> Flat:
        return self._ranks[0].flats[self._places[name].flat]

    def _compare(self, first: RankStates, other: RankStates) -> None:
        """Ranks step together: what they keep has the same names, and the same count of steps."""
        for mine, theirs in zip(first.flats, other.flats):
            if mine.states.keys() != theirs.states.keys() or mine.scalars != theirs.scalars:
                raise refusal("the ranks' files are not of one save", f"{first.path} and {other.path} differ in states or steps", DAMAGED)
        if len(first.flats) != len(other.flats):
            raise refusal("the ranks' files are not of one save", f"{first.path} and {other.path} differ in groups", DAMAGED)

    def _mismatch(self, rank: RankStates, flat: int, has: int, wants: int) -> Exception:
        return refusal("the sizes do not add up", f"{rank.path}, group {flat} has {has} elements where its parameters take {wants}", DAMAGED)

    def _placed(self, name: str, shape: Shape, flat: int, offset: int) -> _Place:
        if name in self._places:
            raise refusal("a parameter is there twice", f"{self._ranks[0].path.parent}, {name}", DAMAGED)
        self._places[name] = _Place(flat, offset, shape)
        return self._places[name]


class ConcatenatedLayout(_RankLayout):
    """Stages 1 and 2: the parameters of a group lie end to end in one tensor, of which each rank has an equal part.

    Its end is padded. Most optimizers save masters without the padding, and states with it.
    """

    def __init__(self, ranks: list[RankStates], shapes: list[dict[str, Shape]]) -> None:
        super().__init__(ranks)
        if len(shapes) != len(ranks[0].flats):
            raise self._mismatch(ranks[0], 0, len(ranks[0].flats), len(shapes))
        self._sizes = [self._part(flat) for flat in range(len(shapes))]
        for flat, names in enumerate(shapes):
            self._place_group(flat, names)

    def _part(self, flat: int) -> int:
        """Elements that each rank has of a group."""
        sizes = {rank.flats[flat].size for rank in self._ranks}
        if len(sizes) != 1:
            raise refusal("the ranks' files are not of one save", f"{self._ranks[0].path.parent}, group {flat} has parts of "
                          f"{min(sizes)} and {max(sizes)} elements", DAMAGED)
        return sizes.pop()

    def _place_group(self, flat: int, names: dict[str, Shape]) -> None:
        offset = 0
        for (name, shape), padding in zip(names.items(), self._behind(flat, len(names))):
            offset += self._placed(name, shape, flat, offset).numel + padding
        has = self._sizes[flat] * len(self._ranks) - sum(rank.flats[flat].padding for rank in self._ranks)
        if has != offset:
            raise self._mismatch(self._ranks[0], flat, has, offset)

    def _behind(self, flat: int, count: int) -> list[int]:
        """Elements of padding behind each parameter, which zero_optimization.parameter_alignment asks for."""
        said = self._ranks[0].alignment_paddings
        if said is None:
            return [0] * count
        paddings = said[flat] if isinstance(said, list) and flat < len(said) else None
        if not isinstance(paddings, list) or len(paddings) != count or not all(is_count(each) for each in paddings):
            raise refusal("the sizes do not add up", f"{self._ranks[0].path}, paddings of group {flat}", DAMAGED)
        return paddings

    def pieces(self, name: str, state: str) -> list[Piece]:
        place = self._places[name]
        size = self._sizes[place.flat]
        found = []
        for number in range(place.offset // size, -(-(place.offset + place.numel) // size)):
            begin = max(place.offset - number * size, 0)
            end = min(place.offset + place.numel - number * size, size)
            tensor = self._ranks[number].flats[place.flat].states[state]
            if end > tensor.numel:
                raise self._mismatch(self._ranks[number], place.flat, tensor.numel, end)
            found.append(Piece(tensor, begin, end))
        return found


class ShardedLayout(_RankLayout):
    """Stage 3: of each parameter every rank has an equal part, the last ones padded; parts lie end to end in sub-groups."""

    def __init__(self, ranks: list[RankStates], shapes: list[dict[str, Shape]]) -> None:
        super().__init__(ranks)
        if len(shapes) != len(ranks[0].flats):
            raise self._mismatch(ranks[0], 0, len(ranks[0].flats), len(shapes))
        for flat, names in enumerate(shapes):
            offset = 0
            for name, shape in names.items():
                offset += self._share(self._placed(name, shape, flat, offset))
            self._refuse_other_sizes(flat, offset)

    def _share(self, place: _Place) -> int:
        return -(-place.numel // len(self._ranks))

    def _refuse_other_sizes(self, flat: int, wants: int) -> None:
        for rank in self._ranks:
            for tensor in rank.flats[flat].states.values():
                if tensor.numel != wants:
                    raise self._mismatch(rank, flat, tensor.numel, wants)

    def pieces(self, name: str, state: str) -> list[Piece]:
        place = self._places[name]
        share = self._share(place)
        found = []
        for number, rank in enumerate(self._ranks):
            numel = min(share, place.numel - number * share)
            if numel > 0:
                found.append(Piece(rank.flats[place.flat].states[state], place.offset, place.offset + numel))
        return found


_LAYOUTS = {1: ConcatenatedLayout, 2: ConcatenatedLayout, 3: ShardedLayout}


def layout_of(ranks: list[RankStates], shapes: list[dict[str, Shape]], folder: Path) -> Layout:
    if any(rank.stage != ranks[0].stage for rank in ranks):
        raise refusal("the ranks' files are not of one save", f"{folder}, they are of several stages", DAMAGED)
    if ranks[0].stage not in _LAYOUTS:
        raise refusal("the checkpoint is of an unknown stage", f"{folder}, {ranks[0].stage}", ODD)
    return _LAYOUTS[ranks[0].stage](ranks, shapes)
