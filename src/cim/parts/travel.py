"""Skills as directions in which phi travels: r = d.z, d = phi(s') - phi(s). The brick of LSD, CSD
and METRA, which differ in how far they let phi travel in a step."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from cim.parts.learning import Trained, adam, descend
from cim.parts.nets import MLP
from cim.parts.skills import Kind, centred
from cim.types import Batch


class Tethered(eqx.Module):
    """phi, and the multiplier that holds it to its constraint."""

    phi: Trained[MLP]
    log_lam: Trained[Array]


def displacement(phi: MLP, batch: Batch) -> Float[Array, "*n z"]:
    """d, whatever way the steps lie."""
    return phi(batch.next_obs) - phi(batch.obs)


def way(kind: Kind, batch: Batch) -> Float[Array, "*n z"]:
    """The direction that z asks for: of one-hot skills the one with mean zero."""
    return centred(batch.skill) if kind == "discrete" else batch.skill


def travelled(phi: MLP, kind: Kind, batch: Batch) -> Float[Array, "*n"]:
    """d.z"""
    return jnp.sum(displacement(phi, batch) * way(kind, batch), axis=-1)


def pull(
    tethered: Tethered,
    part: Batch,
    reach: Float[Array, "m"],
    kind: Kind,
    slack: float,
    rates: tuple[float, float],
) -> tuple[Tethered, Float[Array, ""]]:
    """One step of phi up E[d.z + lam c], and of lam down log(lam) E[c]:

    c = min(slack, reach - mean_j d_j^2)
    """
    lam = jax.lax.stop_gradient(jnp.exp(tethered.log_lam.model))

    def room(phi: MLP) -> Float[Array, "m"]:
        return jnp.minimum(slack, reach - jnp.mean(displacement(phi, part) ** 2, axis=-1))

    def loss(phi: MLP) -> Float[Array, ""]:
        return -jnp.mean(travelled(phi, kind, part) + lam * room(phi))

    left = jax.lax.stop_gradient(room(tethered.phi.model).mean())
    phi, _ = descend(adam(rates[0]), tethered.phi, loss)
    log_lam, _ = descend(adam(rates[1]), tethered.log_lam, lambda log_lam: log_lam * left)
    return Tethered(phi, log_lam), left
