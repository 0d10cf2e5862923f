"""The six alignment losses of the paper's ablation: how well z can be told from what phi makes of a
step. Each gives l_i for the rows of a minibatch; d_i = phi(s'_i) - phi(s_i), S is the cosine.

    mse    || phi(s'_i) - z_i ||^2
    vmf    -S(phi(s'_i), z_i)
    lsd    -d_i.z_i + lam (|| d_i || - || s'_i - s_i ||)               lam: see `LSD`
    cic    -S(f(tau_i), g(z_i)) / T + log sum_j exp S(f(tau_j), g(z_i)) / T
    becl   -S(phi(s+_i), phi(s'_i)) / T + log sum_j exp S(phi(s'_j), phi(s'_i)) / T
    cim    -d_i.z_i + log sum_j exp d_j.z_i

j runs over the row itself (becl: over s+_i) and over its negatives: all other rows, or those of
other skills. tau_i = [phi(s_i), phi(s'_i)]; f and g are learned; s+_i is another state of the same
trajectory.
"""

from typing import Literal, get_args

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from cim.parts.nets import MLP
from cim.parts.skills import unit
from cim.types import Key

Alignment = Literal["cim", "mse", "vmf", "lsd", "cic", "becl"]
ALIGNMENTS = get_args(Alignment)


class Steps(eqx.Module):
    """Rows of a minibatch, as phi sees them."""

    s: Float[Array, "m obs"]
    next_s: Float[Array, "m obs"]
    kin: Float[Array, "m obs"]  # s+: another state reached in the same trajectory
    skill: Float[Array, "m z"]


class Encoder(eqx.Module):
    """phi, and what some of the losses learn beside it."""

    phi: MLP
    pair: MLP | None  # f of cic
    project: MLP | None  # g of cic
    log_lam: Float[Array, ""] | None  # of lsd

    def __init__(self, alignment: Alignment, obs_dim: int, skill_dim: int, width: int, key: Key):
        k_phi, k_pair, k_project = jax.random.split(key, 3)
        self.phi = MLP([obs_dim, width, skill_dim], k_phi)
        cic = alignment == "cic"
        self.pair = MLP([2 * skill_dim, width, skill_dim], k_pair) if cic else None
        self.project = MLP([skill_dim, width, skill_dim], k_project) if cic else None
        self.log_lam = jnp.zeros(()) if alignment == "lsd" else None


def misalignment(
    alignment: Alignment,
    encoder: Encoder,
    steps: Steps,
    other_skills_only: bool = False,
    temperature: float = 1.0,
) -> Float[Array, "m"]:
    rows = steps.skill.shape[0]
    both = encoder.phi(jnp.concatenate([steps.s, steps.next_s]))
    now, then, z = both[:rows], both[rows:], steps.skill
    if alignment == "mse":
        return jnp.sum((then - z) ** 2, axis=-1)
    if alignment == "vmf":
        return -jnp.sum(unit(then) * unit(z), axis=-1)
    if alignment == "lsd":
        return _lsd(encoder, steps, then - now)
    rivals = _rivals(z, other_skills_only)
    if alignment == "becl":
        mine = jnp.sum(unit(then) * unit(encoder.phi(steps.kin)), axis=-1) / temperature
        scores = unit(then) @ unit(then).T / temperature
        return _against(mine, scores, rivals)
    if alignment == "cic":
        assert encoder.pair is not None
        assert encoder.project is not None
        keys = unit(encoder.pair(jnp.concatenate([now, then], axis=-1)))
        scores = unit(encoder.project(z)) @ keys.T / temperature
        return _against(jnp.diag(scores), scores, rivals)
    scores = z @ (then - now).T
    return _against(jnp.diag(scores), scores, rivals)


def _rivals(z: Float[Array, "m z"], other_skills_only: bool) -> Bool[Array, "m m"]:
    """Which rows j are negatives of row i."""
    if other_skills_only:
        return jnp.any(z[:, None, :] != z[None, :, :], axis=-1)
    return ~jnp.eye(z.shape[0], dtype=bool)


def _against(
    mine: Float[Array, "m"], scores: Float[Array, "m m"], rivals: Bool[Array, "m m"]
) -> Float[Array, "m"]:
    """-log of the share of exp(mine) in exp(mine) and the rivals' exp(scores)."""
    theirs = jnp.where(rivals, scores, -jnp.inf)
    return jax.nn.logsumexp(jnp.concatenate([mine[:, None], theirs], axis=1), axis=1) - mine


def _lsd(encoder: Encoder, steps: Steps, d: Float[Array, "m z"]) -> Float[Array, "m"]:
    """phi descends on the loss, lam climbs on it: the multiplier of || d || <= || s' - s ||."""
    assert encoder.log_lam is not None
    lam = jnp.exp(encoder.log_lam)
    square = jnp.sum(d**2, axis=-1)
    moved = square > 0
    length = jnp.where(moved, jnp.sqrt(jnp.where(moved, square, 1)), 0)
    room = length - jnp.linalg.norm(steps.next_s - steps.s, axis=-1)
    dual = lam * jax.lax.stop_gradient(room)  # its gradient with respect to lam, reversed below
    held = jax.lax.stop_gradient(lam) * room
    return -jnp.sum(d * steps.skill, axis=-1) + held - (dual - jax.lax.stop_gradient(dual))
