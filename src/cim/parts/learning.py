"""A model together with its optimiser state, and gradient steps on it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float

from cim.types import Batch, Key, UserError

M = TypeVar("M")


class Trained(eqx.Module, Generic[M]):
    model: M
    opt_state: Any


def adam(learning_rate: float, clip_norm: float = 0.5) -> optax.GradientTransformation:
    """Adam on gradients no longer than `clip_norm`."""
    return optax.chain(optax.clip_by_global_norm(clip_norm), optax.adam(learning_rate))


def start(optimizer: optax.GradientTransformation, model: M) -> Trained[M]:
    params: Any = model
    return Trained(model, optimizer.init(params))


def descend(
    optimizer: optax.GradientTransformation,
    trained: Trained[M],
    loss: Callable[[M], Float[Array, ""]],
) -> tuple[Trained[M], Float[Array, ""]]:
    """One step down `loss`; returns the new model and the loss before the step."""
    params: Any = trained.model
    value, grads = jax.value_and_grad(loss)(params)
    with jax.numpy_dtype_promotion("standard"):  # optax raises a float to an integer count
        updates, opt_state = optimizer.update(grads, trained.opt_state, params)
    return Trained(eqx.apply_updates(params, updates), opt_state), value


@dataclass(frozen=True)
class Schedule:
    passes: int
    minibatch: int
    merge_last: bool


def lessons(batch: Batch, count: int, minibatch: int, merge_last: bool = False) -> Schedule:
    """So many passes over a rollout. A sample of the replay (one step long) is one minibatch, and
    is seen once: the next is drawn for the next step."""
    if batch.reward.shape[0] == 1:
        return Schedule(min(count, 1), batch.reward.size, merge_last=False)
    return Schedule(count, minibatch, merge_last)


def must_fit(minibatch: int, rows: int) -> None:
    if not 1 <= minibatch <= rows:
        raise UserError(f"method.minibatch = {minibatch}: 1 to {rows}, the steps of a batch")


def passes(
    carry: Any,
    step: Callable[[Any, Any], tuple[Any, Any]],
    rows: Any,
    key: Key,
    schedule: Schedule,
) -> tuple[Any, Any]:
    """Passes over shuffled `rows`: `step(carry, part)` for each minibatch of them.

    The last minibatch of a pass takes what is left over: fewer rows than the others, or, where
    `merge_last`, up to twice as many (the splitting of the authors' code).
    """
    count = jax.tree.leaves(rows)[0].shape[0]
    full = count // schedule.minibatch
    if schedule.merge_last:
        full = max(-(-count // schedule.minibatch) - 2, 0)
    body, tail = full * schedule.minibatch, count - full * schedule.minibatch

    def take(carry, chosen):
        return step(carry, jax.tree.map(lambda a: a[chosen], rows))

    def one_pass(carry, number):  # keys are folded: the reuse checker cannot see vmapped splits
        order = jnp.argsort(jax.random.bits(jax.random.fold_in(key, number), (count,)))
        carry, out = jax.lax.scan(take, carry, order[:body].reshape(-1, schedule.minibatch))
        if tail:
            carry, last = take(carry, order[body:])
            out = jax.tree.map(lambda a, b: jnp.concatenate([a, b[None]]), out, last)
        return carry, out

    return jax.lax.scan(one_pass, carry, jnp.arange(schedule.passes, dtype=jnp.int32))


def fit(
    optimizer: optax.GradientTransformation,
    trained: Trained[M],
    loss: Callable[[M, Any], Float[Array, ""]],
    rows: Any,
    key: Key,
    schedule: Schedule,
) -> tuple[Trained[M], Float[Array, "P U"]]:
    """Descend on every minibatch of every pass; the losses come with it."""

    def one(trained, part):
        return descend(optimizer, trained, lambda model: loss(model, part))

    return passes(trained, one, rows, key, schedule)
