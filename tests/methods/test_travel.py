"""LSD, CSD and METRA: how far phi may travel, by hand."""

import dataclasses
import math

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import norm
from test_methods import SPEC, a_batch, small

from cim.methods import METHODS
from cim.methods.csd import Ordinary
from cim.parts.nets import MLP, Lipschitz
from cim.parts.skills import Skills
from methods.plain import numpy_mlp
from methods.test_competence import k0, linear, loss_of, made, paid, plain, practised, steps

TETHERED = ["csd", "metra"]


def phi_of(name):
    return {"lsd": lambda s: s.phi.model.net}.get(name, lambda s: s.tethered.phi.model)


def step(by, skill):
    """From (5, 1), so by this."""
    by = np.asarray(by, np.float32)[None]
    return steps(np.full_like(by, (5, 1)), by + np.float32([5, 1]), np.asarray(skill)[None])


@pytest.mark.parametrize("name", ["lsd", *TETHERED])
def test_a_step_is_paid_by_how_far_it_goes_along_z(name):
    """phi = (x + y, y) bare, over its largest singular value, the golden number 1.618, in LSD once
    that is found. By (1, 2): d = (3, 2); along (4/5, -3/5): 6/5; along (0, 1): 2."""
    method = plain(name, learning_rate=0.0, skill_dim=2)
    state = made(method, phi_of(name), [[1, 0], [1, 1]])
    batch = step([[1, 2], [1, 2]], [[0.8, -0.6], [0, 1]])
    for _ in range(9 if name == "lsd" else 0):
        state, _ = method.update(state, batch, k0())
    sigma = (1 + 5**0.5) / 2 if name == "lsd" else 1
    np.testing.assert_allclose(paid(method, state, batch), [[[1.2 / sigma, 2 / sigma]]], rtol=1e-4)
    if name == "lsd":
        assert loss_of(method, state, batch) == pytest.approx(-1.6 / sigma, rel=1e-4)


@pytest.mark.parametrize("name", ["lsd", *TETHERED])
def test_one_hot_skills_ask_for_directions_of_mean_zero(name):
    """Of three: z = (1, 0, 0) asks for (1, -1/2, -1/2). phi = (x, y, 0), already at length one: by
    (4, 2) skill 0 gets 4 - 1 = 3, skill 1 gets -2 + 2 = 0, skill 2 gets -3: zero in sum."""
    method = plain(name, skill_kind="discrete", skill_dim=3)
    state = made(method, phi_of(name), np.eye(3)[:2])
    if name == "lsd":  # the estimate of a matrix whose singular values are all one
        state = eqx.tree_at(lambda s: s.phi.model, state, state.phi.model.estimated())
    got = paid(method, state, step([[4, 2]] * 3, np.eye(3)))
    np.testing.assert_allclose(got, [[[3, 0, -3]]], atol=1e-5)


# LSD


@pytest.fixture(scope="module")
def lsd():
    return practised("lsd", layers=2)


def norms(net):
    return [np.linalg.svd(np.asarray(a.weight), compute_uv=False)[0] for a in net.layers]


def test_the_largest_singular_values_are_found_and_taken_out(lsd):
    _, state, _ = lsd
    assert max(norms(state.phi.model.net)) > 1.45  # there is something to take out
    np.testing.assert_allclose(norms(state.phi.model.bounded), 1, rtol=0.02)


def test_the_estimate_turns_to_the_svd():
    """Singular values 3, 2, 1: after i steps it is off by (2/3)^2i or so."""
    u, v = (
        np.linalg.qr(np.random.default_rng(i).normal(size=(n, n)))[0] for i, n in ((0, 3), (1, 5))
    )
    matrix = u @ np.diag([3, 2, 1]) @ v[:3]
    phi = Lipschitz(linear(MLP([3, 5], k0()), matrix))
    for _ in range(20):
        phi = phi.estimated()
    np.testing.assert_allclose(phi.bounded.layers[0].weight, matrix / 3, atol=1e-5)
    np.testing.assert_array_equal(phi.net.layers[0].weight, np.float32(matrix))


def farthest(phi):
    """How many times further two states lie in phi than they do."""
    x, y = jax.random.normal(jax.random.key(4), (2, 4000, 2))
    y = jnp.concatenate([x[:2000] + 0.01 * y[:2000], 5 * y[2000:]])
    return jnp.linalg.norm(phi(x) - phi(y), axis=-1) / jnp.linalg.norm(x - y, axis=-1)


def test_phi_moves_no_further_than_its_state_and_nearly_as_far(lsd):
    _, state, _ = lsd
    gone = farthest(state.phi.model.bounded)
    assert gone.max() < 1.03
    assert gone.max() > 0.8  # the skills want it as long as it may be
    assert farthest(state.phi.model.net).max() > 2  # and bare it is longer


def test_phi_moves_no_further_than_its_state_before_any_lesson():
    state = small("lsd", width=64).init(SPEC, k0())
    assert farthest(state.phi.model.bounded).max() < 1.001


def test_a_lesson_pulls_the_weights_by_the_slope_of_what_they_are_divided_by():
    """For one row w of length 2, phi = w.x / |w|: its slope is at right angles to w, so that Adam's
    first step of size a along (-, +) leaves w_2 > w_1 > 0 nearer to the told direction, and a loss
    that took |w| for constant would move both up."""
    method = plain("lsd", skill_dim=1, learning_rate=0.1)
    state = made(method, phi_of("lsd"), [[2], [2]])
    after, _ = method.update(state, step([[1, 3]], [[1]]), k0())
    moved = np.asarray(after.phi.model.net.layers[0].weight).ravel() - 2
    np.testing.assert_allclose(moved, [-0.1, 0.1], atol=1e-3)


# CSD's distance


def ordinary(mean, log_std, slope=0):
    """Expects this of every state; its log deviations rise with s at this slope."""
    nets = Ordinary(MLP([2, 2], k0()), MLP([2, 2], jax.random.key(1)))
    set_to = (
        linear(nets.mean, np.zeros((2, 2)), mean),
        linear(nets.log_std, slope * np.eye(2), log_std),
    )
    return eqx.tree_at(lambda q: (q.mean, q.log_std), nets, set_to)


def test_what_is_ordinary_is_near_and_what_is_not_is_far():
    """Deviations 1/2 and 8 at the origin: their geometric mean is 2, so w = 4 and 1/4. A step of
    (3, 7), ordinarily of (1, -1): ((4 . 2)^2 + (8/4)^2) / 2 = 34. One of (1, -1): nothing."""
    q = ordinary([1, -1], [math.log(0.5), math.log(8)], slope=1)
    zero = np.zeros((1, 2, 2))
    batch = steps(zero, [[[3, 7], [1, -1]]], zero)
    np.testing.assert_allclose(q.distance(batch), [[34, 0]], rtol=1e-4)
    further = steps(zero + [0, 0.5], [[[3, 7.5], [1, -0.5]]], zero)  # log deviations follow s
    w = np.exp([0.25, -0.25]) * [4, 1 / 4]
    expected = ((w * [2, 8]) ** 2).mean()
    np.testing.assert_allclose(q.distance(further), [[expected, 0]], rtol=1e-4)


def test_how_ordinary_is_the_likelihood_of_a_gaussian():
    q = ordinary([1, -1], [math.log(0.5), math.log(8)])
    zero = np.zeros((1, 2, 2))
    batch = steps(zero, [[[3, 7], [1, 2]]], zero)
    expected = -norm.logpdf([[3, 7], [1, 2]], [1, -1], [0.5, 8]).sum(axis=1)
    np.testing.assert_allclose(q.miss(batch), expected[None], rtol=1e-5)


def test_what_states_ordinarily_do_is_learned_from_steps_whatever_their_skills():
    """x drifts by 2 +- 1/10, y is moved by 1 +- 2: D then weighs x twenty times y, and y's
    deviation is found. Neither z nor the multiplier has a say in it."""
    by = np.random.default_rng(0).normal([2, 1], [0.1, 2], (1, 600, 2))
    batch = steps(np.zeros_like(by), by, np.ones_like(by))
    method = plain("csd", learning_rate=0.02, lam=1.0)
    state, update = method.init(SPEC, k0()), jax.jit(method.update)
    turned = eqx.tree_at(lambda b: b.skill, batch, -3 * batch.skill)
    loose = eqx.tree_at(lambda s: s.tethered.log_lam.model, state, jnp.array(5.0))
    ways = [
        update(state, batch, k0())[0],
        update(state, turned, k0())[0],
        update(loose, batch, k0())[0],
    ]
    for way in ways[1:]:
        for a, b in zip(*(jax.tree.leaves(s.ordinary) for s in (ways[0], way)), strict=True):
            np.testing.assert_array_equal(a, b)
    assert not np.array_equal(*(s.tethered.phi.model.layers[0].weight for s in ways[:2]))
    for number in range(600):
        state, _ = update(state, batch, jax.random.fold_in(k0(), number))
    mean, log_std = state.ordinary.model(jnp.zeros(2))
    np.testing.assert_allclose(mean, [2, 1], atol=0.2)
    np.testing.assert_allclose(jnp.exp(log_std), [0.1, 2], rtol=0.15)


# The tether of CSD and METRA


def tethered(name, **changes):
    """phi = (x, y); D of CSD is the mean of s' - s squared, for q expects 0 +- 1."""
    method = plain(name, **changes)
    state = made(method, phi_of(name), np.eye(2))
    if name == "csd":
        state = eqx.tree_at(lambda s: s.ordinary.model, state, ordinary([0, 0], [0, 0]))
    return method, state


def after(method, state, batch):
    """phi, log lam and what was left of the tether, after one lesson."""
    new, metrics = method.update(state, batch, k0())
    moved = np.asarray(new.tethered.phi.model.layers[0].weight) - np.eye(2)
    log_lam = new.tethered.log_lam.model - state.tethered.log_lam.model
    np.testing.assert_allclose(metrics["lam"], jnp.exp(new.tethered.log_lam.model), rtol=1e-6)
    return moved, float(log_lam), float(metrics["slack"])


@pytest.mark.parametrize("z", [0.0, 5.0])
def test_metra_tightens_where_phi_goes_too_far_and_slackens_where_it_does_not(z):
    """By (1, 3): mean square 5, c = -4; by (0, 1/2): 1/8, c = min(1/4, 7/8). Mean -15/8, so log lam
    rises by its rate, whatever z is. The second alone: c = 1/4, and it falls."""
    method, state = tethered("metra", slack=0.25, lam_rate=0.01)
    both, near = step([[1, 3], [0, 0.5]], [[z, z]] * 2), step([[0, 0.5]], [[z, z]])
    _, rise, left = after(method, state, both)
    assert (rise, left) == (pytest.approx(0.01, rel=1e-3), pytest.approx(-15 / 8))
    _, fall, left = after(method, state, near)
    assert (fall, left) == (pytest.approx(-0.01, rel=1e-3), pytest.approx(0.25))


@pytest.mark.parametrize("z", [0.0, 5.0])
def test_csd_tightens_where_phi_goes_further_than_its_distance(z):
    """phi twice as long as D: by (1, 3) D = 5, mean square 20, c = -15. Half as long: c = eps."""
    method, state = tethered("csd", slack=0.25, lam_rate=0.01)
    for by, expected, way in [(2, -15, 0.01), (0.5, 0.25, -0.01)]:
        set_to = jnp.eye(2) * by
        scaled = eqx.tree_at(lambda s: phi_of("csd")(s).layers[0].weight, state, set_to)
        _, moved, left = after(method, scaled, step([[1, 3]], [[z, z]]))
        assert (moved, left) == (pytest.approx(way, rel=1e-3), pytest.approx(expected, rel=1e-4))


@pytest.mark.parametrize("name", TETHERED)
def test_phi_climbs_along_z_while_the_tether_is_slack(name):
    """c = eps has no slope: only d.z counts. By (1, -3) along (2, 5) the slopes of phi's matrix are
    the products: + + in its first row, - - in its second, however large lam is."""
    method, state = tethered(name, learning_rate=0.01, lam=1e6, slack=1e-6)
    shrunk = eqx.tree_at(lambda s: phi_of(name)(s).layers[0].weight, state, jnp.eye(2) / 10)
    new, _ = method.update(shrunk, step([[1, -3]], [[2, 5]]), k0())
    moved = np.asarray(phi_of(name)(new).layers[0].weight) - np.eye(2) / 10
    np.testing.assert_allclose(moved, [[0.01, 0.01], [-0.01, -0.01]], rtol=1e-3)


@pytest.mark.parametrize("name", TETHERED)
@pytest.mark.parametrize(("lam", "way"), [(0.1, 1), (1.0, -1)])
def test_phi_is_held_by_its_multiplier_once_the_tether_is_tight(name, lam, way):
    """phi 2 x, steps (3, 0) and d = (6, 0), z = (1, 0): the slope of d.z is 3, that of mean d^2,
    lam . 2 . 6 / 2 . 3 = 18 lam: it goes on at lam = 1/10, and back at 1."""
    method, state = tethered(name, learning_rate=0.01, lam=lam)
    longer = eqx.tree_at(lambda s: phi_of(name)(s).layers[0].weight, state, 2 * jnp.eye(2))
    new, _ = method.update(longer, step([[3, 0]], [[1, 0]]), k0())
    moved = np.asarray(phi_of(name)(new).layers[0].weight)[0, 0] - 2
    assert moved == pytest.approx(0.01 * way, rel=1e-3)


def test_the_multiplier_starts_as_told_and_stays_positive():
    method = small("metra", lam=0.01, lam_rate=0.5, passes=30)
    state = method.init(SPEC, k0())
    assert jnp.exp(state.tethered.log_lam.model) == pytest.approx(0.01)
    near = a_batch(method.skills, jax.random.key(1))
    near = dataclasses.replace(near, next_obs=near.obs)  # nothing moves: always slack
    _, metrics = method.update(state, near, k0())
    assert 0 < metrics["lam"] < 1e-4


def test_metra_travels_as_far_as_time_allows_and_no_further():
    """The mean square over both dimensions comes to one a step, from below or above."""
    _, state, batch = practised("metra", passes=600, lam=1.0, lam_rate=0.02)
    d = numpy_mlp(phi_of("metra")(state), np.asarray(batch.next_obs))
    d = d - numpy_mlp(phi_of("metra")(state), np.asarray(batch.obs))
    assert (d**2).mean() == pytest.approx(1, abs=0.1)


# Priors


def test_densities_are_those_of_scipy_or_one_over_their_measure():
    z = jnp.array([[0.3, -0.2, 0.9], [0.1, 0.5, 0.0]])
    density = Skills("normal", 3).log_density(z)
    np.testing.assert_allclose(density, norm.logpdf(z).sum(axis=1), rtol=1e-5)
    np.testing.assert_allclose(Skills("box", 3).log_density(z), [-3 * math.log(2)] * 2, rtol=1e-6)
    np.testing.assert_array_equal(Skills("positive", 3).log_density(z), [0, 0])
    np.testing.assert_allclose(
        Skills("discrete", 5).log_density(jnp.eye(5)), [-math.log(5)] * 5, rtol=1e-6
    )


@pytest.mark.parametrize("dim", [1, 2, 3, 4])
def test_the_density_on_a_sphere_is_one_over_its_area(dim):
    """The area is the slope of the ball's volume, here counted by throwing darts at the box: the
    share that falls within 1 of it is volume / 2^dim, and area = dim . volume."""
    darts = np.random.default_rng(dim).uniform(-1, 1, (400_000, dim))
    area = dim * 2**dim * (np.linalg.norm(darts, axis=1) < 1).mean()
    z = Skills("sphere", dim).sample(k0(), 3)
    np.testing.assert_allclose(
        jnp.exp(-Skills("sphere", dim).log_density(z)), [area] * 3, rtol=0.01
    )


@pytest.mark.parametrize("dim", [1, 3])
def test_the_positive_prior_is_the_unit_cube_and_its_evaluation_of_unit_length(dim):
    from scipy.stats import kstest

    skills = Skills("positive", dim)
    for column in np.asarray(skills.sample(k0(), 3000)).T:
        assert kstest(column, "uniform", (0, 1)).pvalue > 1e-3
    z = np.asarray(skills.evaluation(k0(), 3000))
    assert (z >= 0).all()
    np.testing.assert_allclose(np.linalg.norm(z, axis=1), 1, rtol=1e-5)


@pytest.mark.parametrize("kind", ["normal", "box"])
def test_other_priors_are_evaluated_at_unit_length_and_trained_on_as_they_are(kind):
    skills = Skills(kind, 2)
    np.testing.assert_allclose(np.linalg.norm(skills.evaluation(k0(), 500), axis=1), 1, rtol=1e-5)
    square = {"normal": 2, "box": 2 / 3}[kind]  # mean |z|^2
    assert (skills.sample(k0(), 9000) ** 2).sum(axis=1).mean() == pytest.approx(square, rel=0.05)


@pytest.mark.parametrize(("name", "kind"), [
    ("vic", "discrete"), ("diayn", "discrete"), ("visr", "sphere"), ("dads", "box"),
    ("aps", "sphere"), ("cic", "box"), ("moss", "positive"), ("becl", "discrete"),
    ("lsd", "normal"), ("csd", "normal"), ("metra", "sphere"),
])  # fmt: skip
def test_skills_are_drawn_from_the_prior_of_the_paper(name, kind):
    assert METHODS[name]().skills.kind == kind
