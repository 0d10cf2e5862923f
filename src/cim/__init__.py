"""Intrinsically motivated reinforcement learning: skills without rewards, and bonuses that do not
ruin the task. `import cim` is light; each name below is loaded when it is first used."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cim.agents.ddpg import DDPG as DDPG
    from cim.agents.ppo import PPO as PPO
    from cim.bonus import Bonus as Bonus
    from cim.bonus import BonusEnv as BonusEnv
    from cim.envs.catalog import make_env as make_env
    from cim.evaluate import evaluate as evaluate
    from cim.launch import launch
    from cim.launch import load as load
    from cim.methods.cim import CIM as CIM
    from cim.runs import Run as Run
    from cim.train import Config as Config

    train = launch

__version__ = "0.1.0"

_HOMES = {
    "Bonus": ("cim.bonus", "Bonus"),
    "BonusEnv": ("cim.bonus", "BonusEnv"),
    "CIM": ("cim.methods.cim", "CIM"),
    "Config": ("cim.train", "Config"),
    "DDPG": ("cim.agents.ddpg", "DDPG"),
    "PPO": ("cim.agents.ppo", "PPO"),
    "Run": ("cim.runs", "Run"),
    "evaluate": ("cim.evaluate", "evaluate"),
    "load": ("cim.launch", "load"),
    "make_env": ("cim.envs.catalog", "make_env"),
    "train": ("cim.launch", "launch"),
}
__all__ = [  # noqa: F822  (loaded when asked for)
    "Bonus",
    "BonusEnv",
    "CIM",
    "Config",
    "DDPG",
    "PPO",
    "Run",
    "__version__",
    "evaluate",
    "load",
    "make_env",
    "train",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'cim' has no attribute {name!r}")
    home, attribute = _HOMES[name]
    return getattr(importlib.import_module(home), attribute)
