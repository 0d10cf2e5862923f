"""CIC's representation: what a step (s, s') looks like is matched with the skill it was made by.

    l_i = -S(q_i, k_i) / T + log sum_j exp S(q_i, k_j) / T,     q = g_z(z), k = f(g_s(s), g_s(s'))

S is the cosine. The released code subtracts exp(1/T) from the sum, as if the positive in it had
cosine 1: `released`.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from cim.parts.nets import MLP
from cim.parts.skills import unit
from cim.types import Batch, Key


class Contrast(eqx.Module):
    state: MLP  # g_s
    pair: MLP  # f
    project: MLP | None  # g_z; none: z itself

    def __init__(
        self, obs_dim: int, skill_dim: int, features: int, hidden: list[int], projects: bool,
        key: Key,
    ):  # fmt: skip
        k_state, k_pair, k_project = jax.random.split(key, 3)
        out = features if projects else skill_dim
        self.state = MLP([obs_dim, *hidden, features], k_state)
        self.pair = MLP([2 * features, *hidden, out], k_pair)
        self.project = MLP([skill_dim, *hidden, out], k_project) if projects else None


def mismatch(net: Contrast, steps: Batch, temperature: float, released: bool) -> Float[Array, "m"]:
    """l_i of every row of a minibatch."""
    rows = steps.reward.shape[0]
    both = net.state(jnp.concatenate([steps.obs, steps.next_obs]))
    keys = unit(net.pair(jnp.concatenate([both[:rows], both[rows:]], axis=-1)))
    asked = steps.skill if net.project is None else net.project(steps.skill)
    scores = unit(asked) @ keys.T / temperature
    if not released:
        return jax.nn.logsumexp(scores, axis=1) - jnp.diag(scores)
    rest = jnp.maximum(jnp.sum(jnp.exp(scores), axis=1) - jnp.exp(1 / temperature), 1e-6)
    return jnp.log(rest + 1e-6) - jnp.diag(scores)
