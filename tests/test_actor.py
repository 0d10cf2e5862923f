"""Distributions over actions against SciPy and against integrals."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from methods.plain import numpy_mlp
from scipy.integrate import quad
from scipy.special import log_softmax
from scipy.stats import chi2, entropy, kstest, norm

from cim.parts.actor import Actor, kl, log_prob

X = jnp.linspace(-1, 1, 4 * 3).reshape(4, 3)


def gaussians(seed=0, shape=(4,), act=2):
    """Means and log deviations side by side, and each for itself."""
    rng = np.random.default_rng(seed)
    m, log_s = rng.normal(size=(*shape, act)), rng.uniform(-0.7, 0.7, (*shape, act))
    return jnp.asarray(np.concatenate([m, log_s], -1), jnp.float32), m, np.exp(log_s)


def odds(seed=0, shape=(4,), act=3):
    p = np.random.default_rng(seed).dirichlet(np.ones(act), shape)
    return jnp.asarray(np.log(p), jnp.float32), p


@pytest.fixture(scope="module", params=[False, True], ids=["gaussian", "discrete"])
def actor(request):
    return Actor([3, 8, 2], request.param, jax.random.key(0))


def test_kl_of_gaussians_is_the_integral_it_stands_for():
    (p, m, s), (q, n, t) = gaussians(0), gaussians(1)
    for i, found in enumerate(kl(p, q, False)):
        expected = 0
        for d in range(2):
            one, other = norm(m[i, d], s[i, d]), norm(n[i, d], t[i, d])

            def integrand(a, one=one, other=other):
                return one.pdf(a) * (one.logpdf(a) - other.logpdf(a))

            expected += quad(integrand, m[i, d] - 12, m[i, d] + 12)[0]
        np.testing.assert_allclose(found, expected, rtol=1e-4)


def test_kl_of_odds_is_scipys():
    (p, plain), (q, other) = odds(0, (4, 5)), odds(1, (4, 5))
    np.testing.assert_allclose(kl(p, q, True), entropy(plain, other, axis=-1), rtol=1e-4)


@pytest.mark.parametrize(("draw", "discrete"), [(gaussians, False), (odds, True)])
def test_kl_is_zero_to_itself_above_zero_to_others_and_has_a_direction(draw, discrete):
    p, q = draw(0)[0], draw(1)[0]
    np.testing.assert_allclose(kl(p, p, discrete), 0, atol=1e-6)
    assert (kl(p, q, discrete) > 0.01).all()
    assert (abs(kl(p, q, discrete) - kl(q, p, discrete)) > 1e-3).any()


def test_log_prob_is_scipys():
    (p, m, s), action = gaussians(shape=(4, 5)), np.random.default_rng(2).normal(size=(4, 5, 2))
    found = log_prob(p, jnp.asarray(action, jnp.float32), False)
    np.testing.assert_allclose(found, norm.logpdf(action, m, s).sum(-1), rtol=1e-4, atol=1e-5)
    p, plain = odds()
    chosen = jax.nn.one_hot(jnp.array([2, 0, 1, 2]), 3)
    expected = np.log(plain[np.arange(4), [2, 0, 1, 2]])
    np.testing.assert_allclose(log_prob(p, chosen, True), expected, rtol=1e-5)


def test_entropy_is_scipys():
    gaussian, discrete = (Actor([3, 2], kind, jax.random.key(0)) for kind in (False, True))
    p, m, s = gaussians()
    np.testing.assert_allclose(gaussian.entropy(p), norm(m, s).entropy().sum(-1), rtol=1e-5)
    p, plain = odds()
    np.testing.assert_allclose(discrete.entropy(p), entropy(plain, axis=-1), rtol=1e-5)


def test_an_actor_says_its_net_and_its_deviation(actor):
    out, policy = numpy_mlp(actor.net, np.asarray(X)), actor.policy(X)
    if actor.log_std is None:
        np.testing.assert_allclose(policy, log_softmax(out, axis=-1), rtol=1e-5)
        expected = (policy * jnp.eye(2)[jnp.ones(4, int)]).sum(-1)
        np.testing.assert_allclose(actor.log_prob(policy, jnp.eye(2)[jnp.ones(4, int)]), expected)
    else:
        np.testing.assert_allclose(policy, np.concatenate([out, 0 * out], -1), atol=1e-6)
        expected = norm.logpdf(0.3, out, 1).sum(-1)
        found = actor.log_prob(policy, jnp.full((4, 2), 0.3))
        np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_an_actor_samples_from_what_it_says():
    gaussian, discrete = (Actor([3, 2], kind, jax.random.key(0)) for kind in (False, True))
    n = 3000
    p = jnp.tile(jnp.array([[0.5, -1.0, 0.0, np.log(3)]]), (n, 1))
    drawn = np.asarray(gaussian.sample(p, jax.random.key(1)))
    assert kstest(drawn[:, 0], norm(0.5, 1).cdf).pvalue > 1e-3
    assert kstest(drawn[:, 1], norm(-1, 3).cdf).pvalue > 1e-3
    assert abs(np.corrcoef(drawn.T)[0, 1]) < 4 / n**0.5
    odd = np.array([0.2, 0.5, 0.3])
    chosen = np.asarray(discrete.sample(jnp.tile(jnp.log(odd)[None], (n, 1)), jax.random.key(2)))
    np.testing.assert_array_equal(np.sort(chosen, axis=-1), np.tile([0, 0, 1], (n, 1)))
    assert ((chosen.sum(0) - n * odd) ** 2 / (n * odd)).sum() < chi2.ppf(1 - 1e-4, 2)


def test_the_best_action_is_the_mean_or_the_likeliest():
    gaussian, discrete = (Actor([3, 2], kind, jax.random.key(0)) for kind in (False, True))
    p, m, _ = gaussians()
    np.testing.assert_allclose(gaussian.best(p), m, rtol=1e-6)
    p, plain = odds()
    np.testing.assert_array_equal(discrete.best(p), np.eye(3)[plain.argmax(-1)])
