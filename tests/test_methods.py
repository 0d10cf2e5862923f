"""What every method must satisfy, and, one case each, what its equation says."""

import dataclasses
import importlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from cim.methods import METHODS
from cim.types import Batch, EnvSpec, UserError

T, N, OBS, ACT = 5, 3, 2, 1  # all different, so a swapped axis cannot go unseen
SPEC = EnvSpec(obs_dim=OBS, action_dim=ACT, num_envs=N, horizon=9, on_device=True)
SMALL = {"width": 8, "minibatch": 4, "k": 3, "crowd": 64, "kept": 6, "memory": 12, "code": 4,
         "features": 4, "prototypes": 3, "queue": 7, "rivals": 5}  # fmt: skip


def case_of(name):
    """The equation again, in NumPy, and what practice does to the rewards."""
    return importlib.import_module(f"methods.{name}")


CASES = [(n, changes) for n in METHODS for changes in getattr(case_of(n), "VARIANTS", [{}])]


def a_batch(skills, key):
    ks = jax.random.split(key, 8)
    ended = jax.random.bernoulli(ks[5], 0.3, (T, N))
    cut = jax.random.bernoulli(ks[6], 0.5, (T, N))
    first = jnp.concatenate([jnp.zeros((1, N), bool), ended[:-1]]).cumsum(axis=0)
    z = skills.sample(ks[3], (T + 1) * N).reshape(T + 1, N, -1)
    return Batch(
        obs=jax.random.normal(ks[0], (T, N, OBS)),
        action=jax.random.normal(ks[1], (T, N, ACT)),
        log_prob=jnp.zeros((T, N)),
        policy=0.5 * jax.random.normal(ks[7], (T, N, 2 * ACT)),
        next_obs=jax.random.normal(ks[2], (T, N, OBS)),
        reward=jax.random.normal(ks[4], (T, N)),
        terminated=ended & cut,
        truncated=ended & ~cut,
        elapsed=steps_since(ended),
        skill=jnp.take_along_axis(z, first[:, :, None], axis=0),  # one a segment
    )


def steps_since(ended):
    """Episodes begin with the batch, and after each end."""
    opens = jnp.concatenate([jnp.ones((1, N), bool), ended[:-1]])
    t = jnp.arange(T)[:, None]
    return (t - jax.lax.cummax(jnp.where(opens, t, 0), axis=0)).astype(jnp.int32)


def small(name, **changes):
    """The method with small sizes, where it has such a size and that is what it is."""
    defaults = {field.name: field.default for field in dataclasses.fields(METHODS[name])}
    sizes = {k: v for k, v in SMALL.items() if type(defaults.get(k)) is int}
    return dataclasses.replace(METHODS[name](), **(sizes | changes))


@pytest.fixture(params=CASES, scope="module", ids=lambda c: f"{c[0]} {c[1]}")
def case(request):
    name, changes = request.param
    method = small(name, **changes)
    k_init, k_batch = jax.random.split(jax.random.key(0))
    reward, update = jax.jit(method.reward), jax.jit(method.update)
    state = jax.jit(lambda key: method.init(SPEC, key))(k_init)
    return name, method, reward, update, state, a_batch(method.skills, k_batch)


def test_reward_is_its_equation(case):
    name, method, reward, _, state, batch = case
    if not hasattr(case_of(name), "oracle"):
        pytest.skip(case_of(name).BATCHWISE)
    expected = case_of(name).oracle(method, state, jax.tree.map(np.asarray, batch))
    actual = reward(state, batch, jax.random.key(1))
    assert actual.shape == (len(method.streams), T, N)
    np.testing.assert_allclose(actual, expected, rtol=1e-3, atol=1e-5)


def test_update_keeps_the_state_a_fixed_point_of_its_type(case):
    _, _, _, update, state, batch = case
    once, metrics = update(state, batch, jax.random.key(1))
    assert jax.tree.structure(once) == jax.tree.structure(state)
    shapes = [[(x.shape, x.dtype) for x in jax.tree.leaves(s)] for s in (once, state)]
    assert shapes[0] == shapes[1]
    assert all(m.shape == () for m in metrics.values())


def test_reward_gives_each_environment_its_own(case):
    """Permuting environments permutes the rewards, where a case does not say why not."""
    name, _, reward, _, state, batch = case
    if why := getattr(case_of(name), "BATCHWISE", ""):
        pytest.skip(why)
    order = jnp.array([2, 0, 1])
    swapped = jax.tree.map(lambda x: x[:, order], batch)
    np.testing.assert_allclose(
        reward(state, swapped, jax.random.key(1)),
        reward(state, batch, jax.random.key(1))[..., order],
        rtol=1e-5,
    )


def test_steps_in_one_row_are_a_batch_too_and_worth_the_same_one_by_one(case):
    """As from the replay: one step of so many worlds."""
    name, method, reward, update, state, batch = case
    if method.needs == "trajectories" or getattr(method, "visits", 0):
        return
    row = batch.flat.timed
    paid = reward(state, row, jax.random.key(1))
    assert paid.shape == (len(method.streams), 1, T * N)
    assert jnp.isfinite(paid).all()
    after, _ = update(state, row, jax.random.key(1))
    assert jax.tree.structure(after) == jax.tree.structure(state)
    if method.needs in ("steps", "policy") and not hasattr(case_of(name), "BATCHWISE"):
        alone = reward(state, batch, jax.random.key(1)).reshape(paid.shape)
        np.testing.assert_allclose(paid, alone, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("name", METHODS)
def test_what_two_hundred_updates_on_one_batch_do_to_its_rewards(name):
    """Novelty wears off, skills become distinct. (The loss is what was minimised: no witness.)"""
    practice = case_of(name).PRACTICE
    if not practice:
        return
    options = {field.name for field in dataclasses.fields(METHODS[name])}
    keen = {k: v for k, v in {"width": 16, "learning_rate": 1e-2}.items() if k in options}
    method = small(name, **keen)
    state, batch = method.init(SPEC, jax.random.key(0)), a_batch(method.skills, jax.random.key(1))

    def again(state, number):
        return method.update(state, batch, jax.random.fold_in(jax.random.key(2), number))

    trained, _ = jax.jit(lambda s: jax.lax.scan(again, s, jnp.arange(200)))(state)
    before, after = (
        dict(
            zip(
                method.streams, method.reward(s, batch, jax.random.key(3)).mean((1, 2)), strict=True
            )
        )
        for s in (state, trained)
    )
    for stream, way in practice.items():
        assert {"falls": after[stream] < before[stream], "rises": after[stream] > before[stream]}[
            way
        ]


def test_an_unknown_preset_names_the_known():
    with pytest.raises(UserError, match="official, paper"):
        METHODS["cim"].preset("papr")
