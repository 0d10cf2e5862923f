"""Three steps whose losses are worked by hand.

    phi(s)      phi(s')     d         z         s' - s, the dimensions phi ignores
    (1, 0)      (2, 0)      (1, 0)    (1, 1)    (2, 2): moved by 3
    (0, -4)     (0, -2)     (0, 2)    (0, 1)    (0, 0): moved by 2
    (2, 3)      (3, 4)      (1, 1)    (1, 1)    (1, 1): moved by 2

phi, f and g are set to linear maps: relu(x) - relu(-x) = x.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import logsumexp, softmax

from cim.parts.alignment import ALIGNMENTS, Encoder, Steps, misalignment

STEPS = Steps(
    s=jnp.array([[1.0, 0, 5, 6], [0, -4, 7, 8], [2, 3, 9, 1]]),
    next_s=jnp.array([[2.0, 0, 7, 8], [0, -2, 7, 8], [3, 4, 10, 2]]),
    kin=jnp.array([[3.0, 4, 1, 1], [1, 0, 2, 2], [0, -5, 3, 3]]),
    skill=jnp.array([[1.0, 1], [0, 1], [1, 1]]),
)
EYE, HALF = np.eye(2), 0.5**0.5
SCORES = np.array([[1, 2, 2], [0, 2, 1], [1, 2, 2]])  # z_i . d_j


def linear(mlp, matrix):
    """The two layers of x -> x @ matrix; the hidden units it does not need are 0."""
    spare = mlp.layers[0].bias.size - 4
    first = np.pad(np.concatenate([matrix, -matrix], axis=1), ((0, 0), (0, spare)))
    last = np.pad(np.concatenate([EYE, -EYE]), ((0, spare), (0, 0)))
    weights = [
        jnp.asarray(weight if layer.widens else weight.T, jnp.float32)
        for layer, weight in zip(mlp.layers, (first, last), strict=True)
    ]
    return eqx.tree_at(lambda m: [layer.weight for layer in m.layers], mlp, weights)


def encoder(alignment, scale=1.0, lam=2.0):
    """phi(s) = scale (s_0, s_1); f(phi, phi') = phi' - phi; g swaps; the multiplier is lam."""
    made = Encoder(alignment, 4, 2, 5, jax.random.key(0))
    made = eqx.tree_at(
        lambda e: e.phi, made, linear(made.phi, scale * np.concatenate([EYE, 0 * EYE]))
    )
    if alignment == "cic":
        pair = linear(made.pair, np.concatenate([-EYE, EYE]))
        swap = linear(made.project, EYE[::-1])
        made = eqx.tree_at(lambda e: (e.pair, e.project), made, (pair, swap))
    if alignment == "lsd":
        made = eqx.tree_at(lambda e: e.log_lam, made, jnp.log(jnp.asarray(lam)))
    return made


# Cosines. cic, rows g(z_i) = (1, 1), (1, 0), (1, 1): of d = (1, 0), (0, 2), (1, 1).
CIC = np.array([[HALF, HALF, 1], [1, 0, HALF], [HALF, HALF, 1]])
# becl: phi(s') along (1, 0), (0, -1), (.6, .8); kin along (.6, .8), (1, 0), (0, -1).
BECL = np.array([[np.nan, 0, 0.6], [0, np.nan, -0.8], [0.6, -0.8, np.nan]])
KIN = np.array([0.6, 0, -0.8])


def against(mine, scores, rivals, temperature=1.0):
    """-mine_i + log of exp mine_i and the rivals' exp, everything over the temperature."""
    return [
        logsumexp([m / temperature, *(scores[i][j] / temperature for j in rivals[i])])
        - m / temperature
        for i, m in enumerate(mine)
    ]


ALL, OTHER_SKILLS = [[1, 2], [0, 2], [0, 1]], [[1], [0, 2], [1]]


@pytest.mark.parametrize(
    ("alignment", "options", "expected"),
    [
        ("mse", {}, [2, 9, 13]),
        ("vmf", {}, [-HALF, 1, -1.4 * HALF]),
        ("lsd", {}, [-1 + 2 * (1 - 3), -2 + 2 * (2 - 2), -2 + 2 * (2**0.5 - 2)]),
        ("cim", {}, [1.862, 0.4076, 0.862]),  # log(e + 2 e^2) - 1, log(1 + e + e^2) - 2, ... - 2
        ("cim", {"other_skills_only": True}, [1.3133, 0.4076, 0.6931]),  # log(e + e^2) - 1, log 2
        ("cic", {}, against(np.diag(CIC), CIC, ALL)),
        ("cic", {"temperature": 0.5}, against(np.diag(CIC), CIC, ALL, 0.5)),
        ("cic", {"other_skills_only": True}, against(np.diag(CIC), CIC, OTHER_SKILLS)),
        ("becl", {}, against(KIN, BECL, ALL)),
        ("becl", {"temperature": 0.5}, against(KIN, BECL, ALL, 0.5)),
        ("becl", {"other_skills_only": True}, against(KIN, BECL, OTHER_SKILLS)),
    ],
    ids=str,
)
def test_loss_of_three_known_steps(alignment, options, expected):
    loss = misalignment(alignment, encoder(alignment), STEPS, **options)
    np.testing.assert_allclose(loss, expected, rtol=1e-3)


def test_all_six_losses_are_worked_above():
    assert sorted(ALIGNMENTS) == ["becl", "cic", "cim", "lsd", "mse", "vmf"]


@pytest.mark.parametrize("alignment", ALIGNMENTS)
def test_only_becl_looks_at_kin(alignment):
    moved = eqx.tree_at(lambda s: s.kin, STEPS, STEPS.kin[::-1])
    before, after = (misalignment(alignment, encoder(alignment), s) for s in (STEPS, moved))
    assert bool((before != after).any()) == (alignment == "becl")


def test_cim_moves_both_ends_of_a_step():
    """d l / d d_j = -z_j + sum_i p_ij z_i, p the shares of the steps under each z."""
    apart = Steps(STEPS.s + 0.5, STEPS.next_s + 0.5, STEPS.kin, STEPS.skill)  # off relu's corner
    gradient = jax.grad(lambda s: misalignment("cim", encoder("cim"), s).sum())(apart)
    z = np.asarray(STEPS.skill)
    expected = softmax(SCORES, axis=1).T @ z - z
    np.testing.assert_allclose(gradient.next_s[:, :2], expected, rtol=1e-4)
    np.testing.assert_allclose(gradient.s[:, :2], -expected, rtol=1e-4)


@pytest.mark.parametrize(("scale", "room"), [(1, 2**0.5 - 4), (3, 3 * (3 + 2**0.5) - 7)])
def test_the_multiplier_climbs_where_the_constraint_is_broken(scale, room):
    """room = sum || d || - || s' - s ||, d grown by `scale`: kept at 1, broken at 3. Descent on the
    loss adds lam room to log lam."""
    gradient = jax.grad(lambda e: misalignment("lsd", e, STEPS).sum())(encoder("lsd", scale))
    np.testing.assert_allclose(-gradient.log_lam, 2 * room, rtol=1e-4)


def test_phi_feels_the_constraint_times_the_multiplier():
    """phi grows by a: d/da of sum -a d.z + lam a || d ||, at a = 1, lam = 3."""
    made = encoder("lsd", lam=3.0)
    gradient = jax.grad(lambda e: misalignment("lsd", e, STEPS).sum())(made)
    along = jnp.sum(gradient.phi.layers[1].weight * made.phi.layers[1].weight)
    np.testing.assert_allclose(along, -5 + 3 * (3 + 2**0.5), rtol=1e-4)


@pytest.mark.parametrize("alignment", ALIGNMENTS)
def test_a_step_that_leads_nowhere_has_a_finite_gradient(alignment):
    zero = jnp.zeros_like(STEPS.s)
    still = Steps(zero, zero, zero, STEPS.skill)
    gradient = jax.grad(lambda e: misalignment(alignment, e, still).sum())(encoder(alignment))
    assert all(jnp.isfinite(leaf).all() for leaf in jax.tree.leaves(gradient))
