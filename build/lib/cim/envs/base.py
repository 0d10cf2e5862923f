"""What an environment is: N worlds at once, reset and stepped together."""

from typing import Any, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Array, Float, Int

from cim.types import EnvSpec, Timestep


@runtime_checkable
class Env(Protocol):
    """No fake transitions: `reached` is the true last state of an episode, and the next action acts
    on the first state of the next. Actions are raw: worlds clip them to [-1, 1] and scale them to
    their bounds; where actions are discrete, they are one-hot."""

    @property
    def spec(self) -> EnvSpec: ...

    def reset(self, seeds: Int[np.ndarray, "N"]) -> tuple[Any, Timestep]:
        """New episodes everywhere, one seed a world. EnvPool cannot be seeded twice: given the same
        seeds again, it goes on with its own random numbers."""
        ...

    def step(
        self, state: Any, action: Float[Array | np.ndarray, "N act"]
    ) -> tuple[Any, Timestep]: ...
