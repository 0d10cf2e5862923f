"""Batches and nets made for a purpose, and trees compared."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from test_methods import ACT, N, T, a_batch, small

VISITED = 1.5


def says(mlp, outputs):
    """The net that says this of everything; of stacked nets, each its row."""
    bias = jnp.array(outputs, jnp.float32)
    still = jax.tree.map(jnp.zeros_like, mlp)
    return eqx.tree_at(lambda net: net.layers[-1].bias, still, bias)


def around(centre):
    """Steps near (centre, centre), by a policy that differs from place to place."""
    batch = a_batch(small("rnd").skills, jax.random.key(1))
    obs, next_obs = (centre + 0.2 * x for x in (batch.obs, batch.next_obs))
    spread = jnp.full((T, N, ACT), -0.5)
    policy = jnp.concatenate([jnp.full((T, N, ACT), 1.0 * centre), spread], axis=-1)
    return eqx.tree_at(lambda b: (b.obs, b.next_obs, b.policy), batch, (obs, next_obs, policy))


def one_step(batch):
    """The same steps as a sample of the replay."""
    return jax.tree.map(lambda a: a[None], batch.flat)


def leaves(tree):
    return [x for x in jax.tree.leaves(tree) if isinstance(x, jax.Array)]


def same(one, other):
    """To the bit."""
    pairs = zip(leaves(one), leaves(other), strict=True)
    return all(np.array_equal(a, b) for a, b in pairs)
