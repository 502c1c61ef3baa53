"""How an engine comes to be: what is trained, what all ranks agree on, whose memory the parameters get."""
import itertools
import os

import torch
from torch import nn

from zeroshard import _C, distributed
from zeroshard.agreement import of_all_ranks
from zeroshard.engine_parts import EngineParts
from zeroshard.errors import ConfigError
from zeroshard.gather import EngineHome
from zeroshard.leaf_modules import apply_zero_leaf_module_config
from zeroshard.optimizer import ShardSteps, kernel_of
from zeroshard.parameter_groups import group_of_parameter
from zeroshard.sharded_parameter import ShardHome, describe_whole, make_plain, make_sharded
from zeroshard.units import Unit, is_left_alone
from zeroshard.unshown_gradients import UnshownGradients


class EngineSetup(EngineParts):
    """The engine's steps while it is made."""

    def _freeze_what_is_not_trained(self) -> None:
        """What the optimizer has not been given is not trained. (An engine without one leaves all as it is.)"""
        if self.basic_optimizer is None:
            return
        self._group_of_id = trained = group_of_parameter(self.module, self.basic_optimizer)
        for parameter in self.module.parameters():
            if parameter.requires_grad and id(parameter) not in trained:
                parameter.requires_grad_(False)
                self._frozen_here.append(parameter)
        if self._frozen_here:
            self.say(f"{len(self._frozen_here)} parameters are in no parameter group and stay as they are")

    def _mark_leaf_modules(self) -> None:
        """What the configuration names, beside what the user has marked himself."""
        section = self.configuration.section("zero_optimization")
        apply_zero_leaf_module_config(self.module, section.get("leaf_module") if isinstance(section, dict) else None)

    def _meet_other_ranks(self) -> None:
        """Ranks that have built different models would wait for each other; here all of them say so. And
        what a rank chooses by its processors is chosen alike."""
        self._runs_aside = self._has_idle_processor()
        if distributed.world_size() == 1:
            return
        mine = [f"stage {self.configuration.parsed.stage}, {self._accumulation} micro-steps"] + [
            f"{unit.name}: {name} {tuple(getattr(p, 'ds_shape', p.shape))} {p.dtype} {'trained' if p.requires_grad else 'frozen'}"
            for unit in self.units
            for name, p in unit.parameters.items()
        ]
        everybody = of_all_ranks((self._runs_aside, mine))
        self._runs_aside = all(runs_aside for runs_aside, _ in everybody)
        for rank, (_, theirs) in enumerate(everybody):
            for one, other in itertools.zip_longest(everybody[0][1], theirs, fillvalue="nothing more"):
                if one != other:
                    raise ConfigError(
                        f"[engine] the ranks have different models: rank 0 has ({one}), rank {rank} has ({other}); "
                        "build the same model, with the same configuration, on every rank"
                    )

    def _has_idle_processor(self) -> bool:
        """For communication, beside those that compute."""
        cores_wanted = distributed.local_ranks() * (torch.get_num_threads() + 1)
        return self.device.type != "cpu" or len(os.sched_getaffinity(0)) >= cores_wanted

    def _core_settings(self) -> "_C.CoreSettings":
        settings = _C.CoreSettings()
        settings.device = str(self.device)
        settings.threads = torch.get_num_threads()
        settings.runs_aside = self._runs_aside
        settings.parameters = sum(getattr(p, "ds_numel", p.numel()) for p in self.module.parameters())
        settings.accumulation_steps = self._accumulation
        # A model that was born sharded has its precision already; what was added since (PEFT's
        # adapters, in fp32) keeps its own, as with DeepSpeed.
        wanted = self.get_data_types()[0]
        settings.keeps_dtypes = any(
            isinstance(getattr(p, "zs_home", None), ShardHome) and p.dtype == wanted for p in self.module.parameters()
        )
        self._unshown = UnshownGradients(self.module.parameters())
        if self.basic_optimizer is not None:
            settings.after_backward = self._unshown
            self._settle_optimizer(settings)
        return settings

    def _settle_optimizer(self, settings: "_C.CoreSettings") -> None:
        kernel = kernel_of(self.basic_optimizer)
        settings.parameter_groups = self.basic_optimizer.param_groups
        settings.group_of = {
            name: self._group_of_id[id(p)] for name, p in self.module.named_parameters() if id(p) in self._group_of_id
        }
        if kernel is not None:
            settings.optimizer_kind = kernel
            return
        self._shard_steps = ShardSteps(self.basic_optimizer)
        settings.update = self._shard_steps
        self.say(f"{type(self.basic_optimizer).__name__} steps on flat shards, by its own code")

    def _hand_over(self, index: int, unit: Unit) -> None:
        """One unit at a time is here in full: rank 0's values, on the device."""
        for parameter in unit.parameters.values():
            if isinstance(getattr(parameter, "zs_home", None), ShardHome):
                parameter.zs_home.gather(parameter)
                continue
            self._bring_rank_0s(parameter)
        home = EngineHome(self, index)
        for parameter in unit.parameters.values():
            if self.configuration.parsed.shards_parameters:
                make_sharded(parameter, home).ds_enable_sanity_checks = self.configuration.parsed.enable_sanity_checks
            else:
                make_plain(parameter)
        names, parameters = list(unit.parameters), list(unit.parameters.values())
        self.core.add_unit(unit.name, names, parameters, not unit.is_root, self.basic_optimizer is None)

    def _move_what_is_left_alone(self) -> None:
        """Rank 0's values, too; but classes of other libraries (bitsandbytes) have their own ideas of `.data`."""
        for parameter in filter(is_left_alone, self.module.parameters()):
            if type(parameter) is nn.Parameter:
                self._bring_rank_0s(parameter)
            if self.configuration.parsed.shards_parameters:
                describe_whole(parameter)

    def _bring_rank_0s(self, parameter: nn.Parameter) -> None:
        """Values to the device. As bytes: backends do not know all dtypes."""
        parameter.data = parameter.data.to(self.device)
        if distributed.world_size() > 1:
            values = parameter.data.contiguous()
            torch.distributed.broadcast(values.view(-1).view(torch.uint8), src=0)
            parameter.data.copy_(values)

    def _move_buffers(self) -> None:
        for module in self.module.modules():
            for name, buffer in module._buffers.items():
                if buffer is not None:
                    module._buffers[name] = buffer.to(self.device)
