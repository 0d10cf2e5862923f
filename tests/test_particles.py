"""Neighbours against brute force and scikit-learn; bonuses worked by hand."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import digamma, gamma
from scipy.stats import chi2
from sklearn.neighbors import NearestNeighbors

from cim.parts.particles import (
    Particles,
    among,
    crowd_bonus,
    crowd_scale,
    drawn,
    in_space,
    must_find,
    on_a_line,
    particle_bonus,
    reward,
)
from cim.parts.running import Running
from cim.types import UserError

LINE = jnp.array([[0.0], [1.0], [3.0], [6.0]])  # 2 nearest: (1, 3), (1, 2), (2, 3), (3, 5)


def nearest(gaps, k):
    return [*sorted(float(g) for g in gaps), *[np.inf] * k][:k]


def brute_force(u, group, k):
    n = len(u)
    return [
        nearest([abs(u[i] - u[j]) for j in range(n) if j != i and group[j] == group[i]], k)
        for i in range(n)
    ]


def cloud(n, d, seed=0):
    return np.random.default_rng(seed).normal(size=(n, d)).astype(np.float32)


def neighbours(points, references, k):
    """Of the references themselves, which are not their own, where no points are given."""
    points = None if points is None else points.astype(np.float64)
    tree = NearestNeighbors(n_neighbors=k, algorithm="brute").fit(references.astype(np.float64))
    return tree.kneighbors(points)[0]


@pytest.mark.parametrize("k", [1, 3, 7])
@pytest.mark.parametrize("decimals", [6, 0])
def test_on_a_line_finds_what_brute_force_finds_in_every_group(k, decimals):
    rng = np.random.default_rng(k)
    u = (2 * rng.normal(size=29)).round(decimals).astype(np.float32)
    group = np.repeat([4, 0, 3, 9], [1, 3, 7, 18]).astype(np.int32)  # one is alone, two are small
    group = rng.permutation(group)
    assert decimals or len(set(u)) < 15  # many ties
    found = on_a_line(jnp.asarray(u), jnp.asarray(group), k)
    np.testing.assert_allclose(found, brute_force(u, group, k), rtol=1e-6)


def test_on_a_line_agrees_with_scikit_learn_on_one_group():
    u = cloud(41, 1)
    found = on_a_line(jnp.asarray(u[:, 0]), jnp.zeros(41, jnp.int32), 6)
    np.testing.assert_allclose(found, neighbours(None, u, 6), rtol=1e-4, atol=1e-6)


def test_among_finds_what_brute_force_finds_where_points_coincide():
    rng = np.random.default_rng(0)
    line = np.sort(rng.integers(0, 6, 11)).astype(np.float32)
    query = rng.choice(line, 5, replace=False)
    gaps = [np.delete(abs(line - q), np.flatnonzero(line == q)[0]) for q in query]
    for k in (1, 4, 12):  # the last more than there are
        found = among(jnp.asarray(query), jnp.asarray(line), k)
        np.testing.assert_array_equal(found, [nearest(g, k) for g in gaps])


@pytest.mark.parametrize("block", [1, 5 * 23, 2**23])  # of one row; of five, the last of three; one
def test_in_space_skips_the_point_itself(block):
    points = cloud(23, 3)
    points[7] = points[11]  # a twin is a neighbour at 0
    found = in_space(jnp.asarray(points), jnp.asarray(points), 4, jnp.arange(len(points)), block)
    np.testing.assert_allclose(found, neighbours(None, points, 4), rtol=1e-4, atol=1e-6)
    assert found[7, 0] == found[11, 0] == 0


@pytest.mark.parametrize("block", [1, 5 * 17, 2**23])
def test_in_space_measures_to_the_references(block):
    points, references = cloud(23, 3), cloud(17, 3, seed=1)
    found = in_space(jnp.asarray(points), jnp.asarray(references), 4, None, block)
    np.testing.assert_allclose(found, neighbours(points, references, 4), rtol=1e-5)


def test_in_space_pads_with_infinity_where_references_are_few():
    points = jnp.array([[0.0, 0.0], [3.0, 4.0], [0.0, 1.0]])
    found = in_space(points, points, 4, jnp.arange(len(points)))
    gap = 18**0.5  # from (3, 4) to (0, 1)
    inf = np.inf
    np.testing.assert_allclose(found, [[1, 5, inf, inf], [gap, 5, inf, inf], [1, gap, inf, inf]])
    found = in_space(points[:1], points[1:], 3)
    np.testing.assert_allclose(found, [[1, 5, inf]])


def test_in_space_does_not_lose_digits_far_from_the_origin():
    """Where |p|^2 is 3e8 and float32 tells no two apart that differ by less than 32."""
    points = 1e4 + cloud(37, 3)
    found = in_space(jnp.asarray(points), jnp.asarray(points), 5, jnp.arange(len(points)))
    np.testing.assert_allclose(found, neighbours(None, points, 5), rtol=1e-5)


def test_in_space_gives_the_nearest_first_whatever_is_rounded():
    """Two clouds 2000 apart: |r|^2 - 2 p.r is rounded to 1/8 and puts some in the wrong order."""
    points = cloud(60, 3)
    points[30:] += 2000
    found = np.asarray(
        in_space(jnp.asarray(points), jnp.asarray(points), 29, jnp.arange(len(points)))
    )
    assert (np.diff(found, axis=1) >= 0).all()
    np.testing.assert_allclose(found, neighbours(None, points, 29), rtol=1e-4)  # all of the cloud


def test_in_space_never_holds_all_pairs():
    n, block = 8192, 2**18
    shape = jax.ShapeDtypeStruct((n, 3), jnp.float32)
    search = jax.jit(lambda p: in_space(p, p, 10, jnp.arange(len(p)), block))
    temporary = search.lower(shape).compile().memory_analysis().temp_size_in_bytes
    assert temporary < 4 * 4 * block  # all pairs would be 64 times as many


@pytest.mark.parametrize("d", [1, 3])
def test_distances_give_the_entropy_of_a_gaussian(d):
    """Kozachenko and Leonenko: H = psi(n) - psi(k) + log c_d + d mean log r_k, c_d the volume of
    the unit ball; of a Gaussian H = d/2 log(2 pi e) + sum log sigma."""
    n, k, sigma = 4000, 5, np.array([0.5, 2.0, 3.0])[:d]
    points = jnp.asarray(cloud(n, d) * sigma, jnp.float32)
    if d == 1:
        r = on_a_line(points[:, 0], jnp.zeros(n, jnp.int32), k)[:, -1]
    else:
        r = in_space(points, points, k, jnp.arange(len(points)))[:, -1]
    ball = np.pi ** (d / 2) / gamma(d / 2 + 1)
    entropy = digamma(n) - digamma(k) + np.log(ball) + d * np.log(r).mean()
    expected = d / 2 * np.log(2 * np.pi * np.e) + np.log(sigma).sum()
    assert abs(entropy - expected) < 0.06


# All distances, k = 2: 1, 3, 1, 2, 2, 3, 3, 5; mean 20/8 = 2.5, variance 62/8 - 2.5^2 = 1.5.
# The point itself first: 0, 1, 0, 1, 0, 2, 0, 3; mean 7/8. Second neighbours: 3, 2, 3, 5; mean 13/4
@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ({}, [2, 1.5, 2.5, 4]),
        ({"k": 3}, [10 / 3, 8 / 3, 8 / 3, 14 / 3]),
        ({"k": 4}, [10 / 3, 8 / 3, 8 / 3, 14 / 3]),  # there is no fourth
        ({"log": True}, np.log([3, 2.5, 3.5, 5])),
        ({"include_self": True}, [0.5, 0.5, 1, 1.5]),
        ({"aggregate": "kth"}, [3, 2, 3, 5]),
        ({"aggregate": "kth", "include_self": True}, [1, 1, 2, 3]),
        ({"clip": 1.5}, [0.75, 0.25, 1, 2.5]),
        ({"clip": 1.5, "log": True}, np.log([1.75, 1.25, 2, 3.5])),
        ({"normaliser": "mean"}, [0.8, 0.6, 1, 1.6]),
        ({"normaliser": "variance"}, [4 / 3, 1, 5 / 3, 8 / 3]),
        ({"normaliser": "std"}, np.array([2, 1.5, 2.5, 4]) / 1.5**0.5),
        ({"normaliser": "score"}, [1 / 6, 0, 1 / 6, 1]),  # (d - 2.5) / 1.5, none below 0
        ({"normaliser": "score", "clip": 0.25}, [1 / 24, 0, 1 / 24, 3 / 4]),
        ({"normaliser": "score", "log": True}, np.log([7 / 6, 1, 7 / 6, 2])),
        ({"normaliser": "mean", "clip": 0.5}, [0.35, 0.15, 0.5, 1.1]),
        ({"normaliser": "mean", "include_self": True}, [4 / 7, 4 / 7, 8 / 7, 12 / 7]),
        ({"normaliser": "mean", "aggregate": "kth"}, [12 / 13, 8 / 13, 12 / 13, 20 / 13]),
    ],
    ids=str,
)
def test_bonus_of_a_known_line(kind, expected):
    bonus, _ = particle_bonus(Particles(**({"k": 2, "log": False} | kind)), Running(()), LINE)
    np.testing.assert_allclose(bonus, expected, rtol=1e-5)


def test_a_line_in_the_plane_is_worth_what_it_is_worth_alone():
    """(3, 4) is as far from 0 as 5: the blocks and the sort agree."""
    plane = LINE @ jnp.array([[3.0, 4.0]])
    for kind in (Particles(2), Particles(3, include_self=True, aggregate="kth", log=False)):
        in_plane, _ = particle_bonus(kind, Running(()), plane)
        np.testing.assert_allclose(
            in_plane, particle_bonus(kind, Running(()), 5 * LINE)[0], rtol=1e-5
        )


def test_references_are_the_neighbours_where_they_are_given():
    kind, references = Particles(2, log=False), jnp.array([[0.0], [10.0], [4.0]])
    bonus, _ = particle_bonus(kind, Running(()), LINE, references)
    np.testing.assert_allclose(bonus, [2, 2, 2, 3])  # (0, 4), (1, 3), (1, 3), (2, 4)


def test_neighbours_are_of_the_same_group():
    group = jnp.array([5, 2, 5, 5], jnp.int32)
    bonus, _ = particle_bonus(Particles(2, log=False), Running(()), LINE, group=group)
    np.testing.assert_allclose(bonus, [4.5, 0, 3, 4.5])  # (3, 6), alone, (3, 3), (3, 6)


@pytest.mark.parametrize("kind", [Particles(3), Particles(2, aggregate="kth", include_self=True)])
def test_a_lone_point_earns_nothing(kind):
    for point in (jnp.ones((1, 1)), jnp.ones((1, 2))):
        np.testing.assert_array_equal(particle_bonus(kind, Running(()), point)[0], [0])


def test_the_normaliser_runs_over_all_distances_seen():
    """After the eight of the line, 4 and 6: mean 30/10 = 3, variance 114/10 - 9 = 2.4."""
    new = jnp.array([[4.0, 6.0]])
    score = (1 + 3) / 2.4 / 2
    expectations = {"mean": 5 / 3, "variance": 5 / 2.4, "std": 5 / 2.4**0.5, "score": score}
    for normaliser, expected in expectations.items():
        kind = Particles(2, normaliser=normaliser, log=False)
        _, stats = particle_bonus(kind, Running(()), LINE)
        bonus, stats = reward(kind, stats, new)
        np.testing.assert_allclose(bonus, [expected], rtol=1e-5)
        np.testing.assert_allclose([stats.mean, stats.var, stats.count], [3, 2.4, 10], rtol=1e-5)


def test_a_neighbour_that_does_not_exist_does_not_move_the_normaliser():
    kind = Particles(2, normaliser="mean", log=False)
    bonus, stats = reward(kind, Running(()), jnp.array([[1.0, jnp.inf], [2.0, 3.0]]))
    np.testing.assert_allclose([stats.mean, stats.count], [2, 3])  # of 1, 2, 3
    np.testing.assert_allclose(bonus, [0.5, 1.25])


@pytest.mark.parametrize("normaliser", ["none", "mean", "variance", "std", "score"])
def test_points_that_coincide_earn_nothing(normaliser):
    kind = Particles(2, normaliser=normaliser)
    np.testing.assert_array_equal(particle_bonus(kind, Running(()), jnp.ones((5, 3)))[0], [0] * 5)


@pytest.mark.parametrize("normaliser", ["none", "mean", "variance", "std", "score"])
def test_points_all_as_far_apart_earn_a_finite_bonus(normaliser):
    kind = Particles(2, normaliser=normaliser)
    corners = jnp.array([[0.0, 0.0], [2.0, 0.0], [0.0, 2.0], [2.0, 2.0]])
    assert jnp.isfinite(particle_bonus(kind, Running(()), corners)[0]).all()


def test_without_a_normaliser_nothing_is_counted():
    _, stats = particle_bonus(Particles(2), Running(()), LINE)
    assert stats.count == 0


@pytest.mark.parametrize("d", [1, 3])
def test_compiled_and_side_by_side_give_the_same(d):
    points = jnp.stack([jnp.asarray(cloud(19, d, seed)) for seed in range(2)])
    group = jnp.arange(19, dtype=jnp.int32) % 3 if d == 1 else None
    bonus = partial(particle_bonus, Particles(4, normaliser="std"), group=group, block=19 * 4)
    one_by_one = [bonus(Running(()), p)[0] for p in points]
    stats = jax.tree.map(lambda a: jnp.stack([a] * 2), Running(()))
    together, _ = jax.jit(jax.vmap(bonus))(stats, points)
    np.testing.assert_allclose(together, jnp.stack(one_by_one), rtol=1e-5)


def test_no_neighbours_are_refused():
    with pytest.raises(UserError, match="k = 0"):
        Particles(0)


@pytest.mark.parametrize("block", [1, 5 * 17, 2**23])
def test_in_space_leaves_out_the_reference_that_is_the_point_itself(block):
    """Every second of the references is one of the points, in another order; one has a twin."""
    points, references = cloud(23, 3), cloud(17, 3, seed=1)
    mine = np.random.default_rng(2).permutation(23)[:8]
    references[1::2] = points[mine]
    references[0] = points[mine[3]]  # where mine[3] is, but not it
    own = np.full(23, 17)
    own[mine] = np.arange(1, 17, 2)
    found = in_space(*map(jnp.asarray, (points, references)), 4, jnp.asarray(own), block)
    for i in range(23):
        others = np.delete(references, own[i], 0) if own[i] < 17 else references
        expected = neighbours(points[i : i + 1], others, 4)
        np.testing.assert_allclose(found[i], expected[0], rtol=1e-4, atol=1e-6)
    assert found[mine[3], 0] == 0
    assert (found[:, 0] == 0).sum() == 1


def test_rows_are_drawn_without_repetition_and_evenly():
    keys = jax.random.split(jax.random.key(0), 3000)
    rows = np.asarray(jax.vmap(lambda key: drawn(key, 7, 3))(keys))
    assert all(len(set(r)) == 3 for r in rows.tolist())
    for place in range(3):
        counts = np.bincount(rows[:, place], minlength=7)
        assert ((counts - 3000 / 7) ** 2 / (3000 / 7)).sum() < chi2.ppf(1 - 1e-4, 6)


@pytest.mark.parametrize("d", [1, 3])
@pytest.mark.parametrize("changes", [{}, {"include_self": True}, {"aggregate": "kth"}], ids=str)
def test_a_crowd_is_the_same_for_all_and_a_member_is_not_its_own_neighbour(d, changes):
    kind, points = Particles(4, log=False, **changes), cloud(29, d)
    paid = crowd_bonus(kind, Running(()), jnp.asarray(points), jax.random.key(5), 11)
    members = np.asarray(drawn(jax.random.key(5), 29, 11))
    for i, p in enumerate(points):
        gaps = np.sort(np.linalg.norm(points[[j for j in members if j != i]] - p, axis=1))
        gaps = np.append(0, gaps) if kind.include_self else gaps
        expected = gaps[3] if kind.aggregate == "kth" else gaps[:4].mean()
        np.testing.assert_allclose(paid[i], expected, rtol=1e-4)


def test_a_crowd_of_all_is_all_the_others():
    points = jnp.asarray(cloud(13, 2))
    for crowd in (13, 99):
        paid = crowd_bonus(Particles(3), Running(()), points, jax.random.key(0), crowd)
        expected = np.log1p(neighbours(None, np.asarray(points), 3).mean(1))
        np.testing.assert_allclose(paid, expected, rtol=1e-4)


def test_reading_a_crowd_normalises_by_what_was_learned_and_adds_nothing():
    """The line, all of it: mean 2.5."""
    kind, stats = Particles(2, normaliser="mean", log=False), Running(())
    stats = crowd_scale(kind, stats, LINE, jax.random.key(1), 4)
    paid = crowd_bonus(kind, stats, LINE, jax.random.key(0), 4)
    np.testing.assert_allclose(paid, [0.8, 0.6, 1, 1.6], rtol=1e-5)
    assert stats.count == 8


@pytest.mark.parametrize(("crowd", "rows"), [(11, 11), (40, 29)])
def test_the_scale_of_a_crowd_is_that_of_its_members_among_themselves(crowd, rows):
    points, kind = cloud(29, 3), Particles(4, normaliser="variance")
    before = Running(()).add(jnp.array([7.0, 9.0, 11.0]))
    stats = crowd_scale(kind, before, jnp.asarray(points), jax.random.key(5), crowd)
    members = points[np.asarray(drawn(jax.random.key(5), 29, rows))]
    seen = np.append(neighbours(None, members, 4).reshape(-1), [7, 9, 11])
    expected = [seen.mean(), seen.var(), 4 * rows + 3]
    np.testing.assert_allclose([stats.mean, stats.var, stats.count], expected, rtol=1e-4)


@pytest.mark.parametrize(
    ("sizes", "words"),
    [
        ((5, 5, 9), "5 neighbours among 5 states: 1 to 4"),
        ((9, 99, 9), "9 .* 1 to 8"),
    ],
)
def test_more_neighbours_than_there_are_are_refused(sizes, words):
    with pytest.raises(UserError, match=f"method.k = {words}"):
        must_find(Particles(sizes[0]), *sizes[1:])
    assert must_find(Particles(4), 5, 9) is None
