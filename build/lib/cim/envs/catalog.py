"""A name -> an Env. One entry an environment; this table is what `cim envs` prints."""

from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from typing import Any

from cim.envs.base import Env
from cim.types import Area, EnvSpec, UserError

SQUARE = Area((-60.0, 60.0), (-60.0, 60.0), (48, 48))  # Ant: 2.5 m cells
FIELD = Area((-100.0, 100.0), (-100.0, 100.0), (80, 80))  # Humanoid: 2.5 m cells
TABLE = Area((0.5, 2.0), (0.0, 1.5), (15, 15))  # Fetch: 0.1 m cells
MAZE = Area((-1.5, 1.5), (-1.5, 1.5), (12, 12))  # the inside of the U: 0.25 m cells
TRACK = Area((-60.0, 60.0), (-5.0, 5.0), (48, 1))  # HalfCheetah: 2.5 m of track
PLANE = Area((-5.0, 5.0), (-5.0, 5.0), (20, 20))


@dataclass(frozen=True)
class Entry:
    task: str  # EnvPool's name; none: a pure function of arrays in toy.py
    obs_dim: int
    action_dim: int
    horizon: int
    position: tuple[int, int]  # the observation dimensions that are x and y
    area: Area
    options: dict[str, Any] = field(default_factory=dict)
    parts: tuple[str, ...] = ()  # of a dictionary observation
    num_envs: int = 64  # a seed, by default
    rollout: int = 512  # steps an iteration of each, by default


WITH_XY = {"exclude_current_positions_from_observation": False}
BODY = WITH_XY | {"post_constraint": True}  # sees contact forces, as in Gymnasium
ANT = WITH_XY | {"use_contact_force": False, "healthy_z_min": 0.25, "healthy_z_max": 1.0}
SEEN = ("observation",)

CATALOG = {
    "Ant": Entry("Ant-v4", 29, 8, 200, (0, 1), SQUARE, ANT),
    "Humanoid": Entry("Humanoid-v4", 378, 17, 1000, (0, 1), FIELD, BODY),
    "HalfCheetah": Entry("HalfCheetah-v4", 18, 6, 1000, (0, 1), TRACK, WITH_XY),
    "HumanoidStandup": Entry("HumanoidStandup-v4", 378, 17, 1000, (0, 1), FIELD, BODY),
    "FetchPush": Entry("FetchPush-v4", 25, 4, 50, (3, 4), TABLE, {"initial_slide0": 0.405}, SEEN),
    "FetchSlide": Entry("FetchSlide-v4", 25, 4, 50, (3, 4), TABLE, {"initial_slide0": 0.05}, SEEN),
    "PointMaze": Entry("PointMaze_UMaze-v3", 4, 2, 300, (0, 1), MAZE, parts=SEEN, num_envs=16,
                       rollout=300),
    "PointWorld": Entry("", 2, 2, 50, (0, 1), PLANE, num_envs=16, rollout=100),
}  # fmt: skip


def entry_of(name: str) -> Entry | None:
    """The entry of the catalogue, or none for `gym:` names; anything else is the user's mistake."""
    if name.startswith("gym:"):
        return None
    if name not in CATALOG:
        near = get_close_matches(name, CATALOG, n=1, cutoff=0.5)
        hint = f"did you mean {near[0]}? " if near else ""
        known = ", ".join(CATALOG)
        raise UserError(
            f"environment {name!r} is unknown; {hint}known: {known}; or gym:ID, any of Gymnasium's"
        )
    return CATALOG[name]


def make_env(
    name: str,
    num_envs: int,
    time_limit: int | None = None,
    position: tuple[int, int] | None = None,
    area: Area | None = None,
) -> Env:
    """N worlds of it. `position` and `area` tell the metrics where x and y are, where to count."""
    entry = entry_of(name)
    if entry is None:
        from cim.envs.host import GymnasiumWorlds

        worlds = GymnasiumWorlds(name.removeprefix("gym:"), num_envs, time_limit)
        worlds.spec = replace(worlds.spec, position=position, area=area)
    else:
        worlds = _of_catalog(entry, num_envs, time_limit, position, area)
    where = worlds.spec.position
    if where and not all(0 <= i < worlds.spec.obs_dim for i in where):
        raise UserError(f"position = {where}: dimensions are 0 to {worlds.spec.obs_dim - 1}")
    return worlds


def _of_catalog(
    entry: Entry,
    num_envs: int,
    time_limit: int | None,
    position: tuple[int, int] | None,
    area: Area | None,
) -> Env:
    horizon = time_limit or entry.horizon
    position, area = position or entry.position, area or entry.area
    if not entry.task:
        from cim.envs.toy import PointWorld

        return PointWorld(num_envs, horizon, position, area)
    from cim.envs.host import EnvPoolWorlds

    spec = EnvSpec(
        obs_dim=entry.obs_dim,
        action_dim=entry.action_dim,
        num_envs=num_envs,
        horizon=horizon,
        position=position,
        area=area,
    )
    return EnvPoolWorlds(entry.task, entry.options, entry.parts, spec)


def listing() -> list[dict[str, Any]]:
    """The catalogue, for people and machines."""
    return [
        {
            "name": name,
            "engine": entry.task or "JAX",
            "sims": ["cpu"],
            "observation": entry.obs_dim,
            "action": entry.action_dim,
            "time_limit": entry.horizon,
            "position": list(entry.position),
            "num_envs": entry.num_envs,
            "rollout": entry.rollout,
        }
        for name, entry in CATALOG.items()
    ]
