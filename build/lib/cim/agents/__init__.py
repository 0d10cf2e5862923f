"""The agents, by the name they have on the command line."""

from cim.agents.base import Agent
from cim.agents.ddpg import DDPG
from cim.agents.ppo import PPO

AGENTS: dict[str, type[Agent]] = {"ppo": PPO, "ddpg": DDPG}
NAMES = {agent: name for name, agent in AGENTS.items()}
