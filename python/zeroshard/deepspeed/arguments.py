"""--deepspeed and --deepspeed_config for a script's argument parser."""
from __future__ import annotations

import argparse


def add_config_arguments(parser: argparse.ArgumentParser) -> argparse.ArgumentParser:
    """Adds what initialize(args=...) reads; returns the parser."""
    group = parser.add_argument_group("DeepSpeed", "train with ZeRO, as the config says")
    group.add_argument("--deepspeed", action="store_true", help="train with DeepSpeed's interface")
    group.add_argument("--deepspeed_config", default=None, metavar="FILE", help="the config, a JSON file")
    return parser


def add_tuning_arguments(parser: argparse.ArgumentParser) -> argparse.ArgumentParser:
    """Nothing to add: the schedules take their numbers from the config. Returns the parser."""
    return parser
