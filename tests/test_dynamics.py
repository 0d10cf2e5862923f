"""Forward and inverse models against NumPy."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from methods.plain import numpy_mlp
from scipy.special import log_softmax
from test_methods import SPEC, N, T, a_batch, small

from cim.parts.dynamics import Dynamics, effect

OBS, ACT = 4, 3  # of the models here; features 6
SPECS = {kind: replace(SPEC, obs_dim=OBS, action_dim=ACT, discrete=kind) for kind in (False, True)}


def batch_of(discrete=False):
    ks = jax.random.split(jax.random.key(0), 3)
    action = 1.5 * jax.random.normal(ks[0], (T, N, ACT))
    return replace(
        a_batch(small("rnd").skills, jax.random.key(1)),
        obs=jax.random.normal(ks[1], (T, N, OBS)),
        next_obs=jax.random.normal(ks[2], (T, N, OBS)),
        action=jax.nn.one_hot(action.argmax(-1), ACT) if discrete else action,
    )


@pytest.fixture(scope="module", params=[None, 6])
def case(request):
    model = Dynamics(SPECS[False], [8], request.param, jax.random.key(0))
    plain = jax.tree.map(np.asarray, batch_of())
    seen = [
        numpy_mlp(model.encoder, s) if request.param else s for s in (plain.obs, plain.next_obs)
    ]
    return model, *seen, np.clip(plain.action, -1, 1)


def test_an_effect_is_what_worlds_make_of_an_action():
    action = jnp.array([-3.0, -1.0, 0.25, 1.0, 1.01])
    np.testing.assert_allclose(effect(action), [-1, -1, 0.25, 1, 1])


def test_the_forward_error_is_what_is_missed_of_the_next_state(case):
    model, now, then, action = case
    expected = then - numpy_mlp(model.forward, np.concatenate([now, action], -1))
    found = model.forward_error(batch_of())
    assert found.shape == (T, N, 6 if model.encoder else OBS)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


def test_the_inverse_miss_is_a_length_or_its_square(case):
    model, now, then, action = case
    told = np.tanh(numpy_mlp(model.inverse, np.concatenate([now, then], -1)))
    length = np.linalg.norm(action - told, axis=-1)
    np.testing.assert_allclose(model.inverse_miss(batch_of(), False), length, rtol=1e-4)
    np.testing.assert_allclose(model.inverse_miss(batch_of(), True), length**2, rtol=1e-4)


@pytest.mark.parametrize("squared", [False, True])
def test_the_inverse_miss_of_discrete_actions_is_the_cross_entropy(squared):
    model, batch = Dynamics(SPECS[True], [8], None, jax.random.key(0)), batch_of(discrete=True)
    told = numpy_mlp(model.inverse, np.concatenate([batch.obs, batch.next_obs], -1))
    expected = -np.take_along_axis(
        log_softmax(told, -1), np.asarray(batch.action).argmax(-1)[..., None], -1
    )
    np.testing.assert_allclose(model.inverse_miss(batch, squared), expected[..., 0], rtol=1e-4)


def test_a_perfect_inverse_has_a_finite_gradient():
    """Where the norm is 0 its gradient is not a number."""
    model = jax.tree.map(jnp.zeros_like, Dynamics(SPECS[False], [8], None, jax.random.key(0)))
    batch = replace(batch_of(), action=jnp.zeros((T, N, ACT)))
    grads = jax.grad(lambda m: m.inverse_miss(batch, False).mean())(model)
    assert all(jnp.isfinite(g).all() for g in jax.tree.leaves(grads))
    assert model.inverse_miss(batch, False).max() < 1e-5


def test_without_features_states_are_their_own():
    model = Dynamics(SPECS[False], [8], None, jax.random.key(0))
    assert model.encoder is None
    np.testing.assert_array_equal(model.phi(batch_of().obs), batch_of().obs)
