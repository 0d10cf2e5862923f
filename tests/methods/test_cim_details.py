"""What only CIM has: its constraint, its presets, its other streams."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from test_methods import SPEC, N, T, a_batch, small

from cim.methods.cim import CIM
from cim.parts.alignment import misalignment
from cim.parts.learning import Schedule, passes
from cim.types import UserError


def test_known_values_of_a_trajectory():
    """u = 0, 1, 3, 6 in one segment, k = 3: mean gaps 10/3, 8/3, 8/3, 14/3; log(1 + .) of them."""
    from cim.parts.particles import Particles, particle_bonus
    from cim.parts.running import Running

    u = jnp.array([[0.0], [1.0], [3.0], [6.0]])
    paid, _ = particle_bonus(Particles(3), Running(()), u, group=jnp.zeros(4, jnp.int32))
    np.testing.assert_allclose(paid, [1.4663, 1.2993, 1.2993, 1.7346], atol=1e-4)


def test_the_official_preset_is_the_default_and_the_paper_differs_where_the_docs_say():
    assert CIM.preset("official") == CIM()
    paper = dataclasses.asdict(CIM.preset("paper"))
    changed = {k for k, v in dataclasses.asdict(CIM()).items() if v != paper[k]}
    assert changed == {"negatives", "neighbours", "clamp", "temperature", "summed", "merge_last"}


def test_minimising_the_alignment_loss_tells_skills_apart():
    """A step of skill z moves phi along z: the loss falls below log m, that of a phi that knows
    nothing."""
    method = small("cim", width=32, learning_rate=1e-2, minibatch=T * N, passes=300)
    batch = a_batch(method.skills, jax.random.key(1))
    told = dataclasses.replace(batch, next_obs=batch.obs + batch.skill)  # the way is the skill
    state, metrics = jax.jit(method.update)(
        method.init(SPEC, jax.random.key(0)), told, jax.random.key(2)
    )
    assert metrics["alignment_loss"] < np.log(T * N) - 0.3
    d = state.encoder.model.phi(told.next_obs) - state.encoder.model.phi(told.obs)
    assert jnp.sum(d * told.skill, axis=-1).mean() > 0.3


def test_the_alignment_reward_is_minus_the_loss_of_each_row():
    method = small("cim", alignment_weight=1.0, global_weight=1.0, minibatch=T * N)
    state, batch = method.init(SPEC, jax.random.key(0)), a_batch(method.skills, jax.random.key(1))
    assert list(method.streams) == ["global", "alignment"]
    paid = method.reward(state, batch, jax.random.key(2))[1]
    steps = method._steps(batch, jax.random.key(3))
    expected = -misalignment("cim", state.encoder.model, steps)  # one minibatch: all are rivals
    np.testing.assert_allclose(paid.reshape(-1), expected, rtol=1e-4, atol=1e-5)


def test_streams_weigh_as_the_blend_says():
    assert CIM().streams == {"projection": 1.0}
    blend = CIM(global_weight=0.25, alignment_weight=0.5)
    assert blend.streams == {"projection": 0.75, "global": 0.25, "alignment": 0.5}


def test_phi_sees_only_the_prior_dimensions():
    method = small("cim", prior=(1,))
    state, batch = method.init(SPEC, jax.random.key(0)), a_batch(method.skills, jax.random.key(1))
    other = dataclasses.replace(batch, next_obs=batch.next_obs.at[..., 0].add(7.0))
    unseen = method.reward(state, batch, jax.random.key(2))
    np.testing.assert_array_equal(unseen, method.reward(state, other, jax.random.key(2)))
    assert (unseen > 0).any()


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"k": 5}, "k must be below 5"),
        ({"minibatch": 16}, "minibatch = 16: 1 to 15"),
        ({"prior": (2,)}, "0 to 1"),
        ({"skill_dim": 0}, "too small"),
        ({"skill_kind": "discrete", "skill_dim": 1}, "too small"),
    ],
)
def test_sizes_that_cannot_work_are_refused(changes, word):
    with pytest.raises(UserError, match=word):
        small("cim", **({"k": 2} | changes)).check(SPEC, T * N, T)


def test_an_encoder_step_is_as_long_as_its_clip_says_whatever_the_sum():
    """The paper's sum and the code's mean give Adam the same first step: only signs count."""
    batch = a_batch(CIM().skills, jax.random.key(1))
    moved = []
    for summed in (False, True):
        method = small("cim", summed=summed, passes=1, minibatch=T * N)
        state = method.init(SPEC, jax.random.key(0))
        after, _ = method.update(state, batch, jax.random.key(2))
        moved.append(
            after.encoder.model.phi.layers[0].weight - state.encoder.model.phi.layers[0].weight
        )
    assert jnp.abs(moved[0]).max() > 1e-5
    np.testing.assert_allclose(*moved, atol=2e-5)


def test_every_row_is_fitted_once_a_pass():
    rows = jnp.arange(11.0)
    total, _ = passes(
        0.0, lambda c, part: (c + part.sum(), None), rows, jax.random.key(0), Schedule(3, 4, True)
    )
    assert total == 3 * 55
