"""Limits of users: as words of an option, `"alice priority=high cores=4"`, and as tables [users.NAME] of `sparkpace.toml`.

Not covered: the effect of the limits (`controller.master.core.share_rules`).
"""

from __future__ import annotations

import pwd
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from controller.asks.user_limits import UserLimits
from stage_model.errors import BadInput
from stage_model.nearest import nearest_names
from stage_model.units import parse_cores, parse_memory_mb, parse_priority

OPTION = "user-limits"
"""Name of the option that the tables of the file stand for."""
USERS = "users"
"""Name of the table that has a table for each user."""
DEFAULT_USER = "default"
"""Name in the place of a user's for all users that have no limits of their own."""
MOST_APPLICATIONS = 1_000_000
_NUMBER = re.compile(r"[0-9]{1,9}", re.ASCII)


def _parse_applications(text: str, *, option: str) -> int:
    if _NUMBER.fullmatch(text) and 1 <= int(text) <= MOST_APPLICATIONS:
        return int(text)
    raise BadInput(f"{option} {text[:80]!r} is not a number of applications; give a whole number, 1 to {MOST_APPLICATIONS}")


_LIMITS: Mapping[str, tuple[str, Callable[..., Any]]] = {
    "priority": ("priority", parse_priority),
    "cores": ("cores", parse_cores),
    "memory": ("memory_mb", parse_memory_mb),
    "applications": ("applications", _parse_applications),
}
"""Field and parser of each limit, by its name for people."""
_EXAMPLE = '"alice priority=high cores=4 memory=8g applications=3"'
LIMITS_HELP = f"Limits of one user (repeat), as {_EXAMPLE}; the name {DEFAULT_USER} is for each user without its own."


def parse_user_limits(text: str, *, option: str) -> UserLimits:
    """Parse a user's name and limits from words. Raise `BadInput`, also for a user that does not exist on this machine."""
    name, *words = text.split() or [""]
    said: dict[str, str] = {}
    for word in words:
        key, equals, value = word.partition("=")
        if not equals or key in said:
            raise BadInput(f"{option} {word[:80]!r} cannot be read; give words as in {_EXAMPLE}")
        said[key] = value
    return _limits_of(name, said, option)


def checked_users(texts: Sequence[str], *, option: str) -> tuple[UserLimits, ...]:
    """Return the limits of all users. Raise `BadInput`, also for two names of one user."""
    found = tuple(parse_user_limits(text, option=option) for text in texts)
    _check_different(found, option)
    return found


def user_texts(tables: Mapping[str, Any]) -> tuple[list[str], list[str]]:
    """Return the tables of the file as values of the option, and a sentence for each table that is wrong."""
    users, found, wrong = tables.get(USERS, {}), list[UserLimits](), list[str]()
    if not isinstance(users, dict):
        return [], [f"{USERS} is not a table; write [{USERS}.NAME], with the limits of that user below"]
    for name, table in users.items():
        at = f"[{USERS}.{name[:80]}]"
        if not isinstance(table, dict):
            wrong.append(f"[{USERS}] has {name[:80]!r}, which is not a table; write [{USERS}.NAME], with limits below")
            continue
        try:
            found.append(_limits_of(name, {key: str(value) for key, value in table.items()}, at))
        except BadInput as error:
            wrong.append(str(error))
        except ValueError:  # a number of thousands of digits
            wrong.append(f"{at} has a very large number; give a smaller one")
    try:
        _check_different(found, f"[{USERS}]")
    except BadInput as error:
        wrong.append(str(error))
    return [_as_text(limits) for limits in found], wrong


def _limits_of(name: str, said: Mapping[str, str], option: str) -> UserLimits:
    """Return the limits that are `said` of the user with that name or number. Raise `BadInput`."""
    if not said:
        raise BadInput(f"{option} gives {name[:80]!r} no limit; give {', '.join(_LIMITS)}, or some of them")
    values: dict[str, Any] = {}
    for key, text in said.items():
        if key not in _LIMITS:
            raise BadInput(f"{option} has {key[:80]!r}, which is not a limit of a user; {nearest_names(key, _LIMITS)}")
        field, parse = _LIMITS[key]
        values[field] = parse(text, option=f"{option} {key}")
    return UserLimits(user=name, uid=_uid_of(name, option), **values)


def _uid_of(name: str, option: str) -> int | None:
    """Return the number of a user of this machine, or the number that is given; None for the default. Raise `BadInput`."""
    if name == DEFAULT_USER:
        return None
    try:
        return pwd.getpwnam(name).pw_uid
    except (KeyError, ValueError):
        if _NUMBER.fullmatch(name):
            return int(name)
    raise BadInput(
        f"{option} names {name[:80]!r}, which is not a user of this machine; give a user's name or uid, or {DEFAULT_USER}"
    )


def _check_different(users: Sequence[UserLimits], option: str) -> None:
    named: dict[int | None, str] = {}
    for one in users:
        if one.uid in named:
            raise BadInput(
                f"{option} gives limits to {named[one.uid]!r} and {one.user!r}, which are one user; give them once"
            )
        named[one.uid] = one.user


def _as_text(limits: UserLimits) -> str:
    """Return the words that `parse_user_limits` reads the limits from."""
    said = {name: getattr(limits, field) for name, (field, _) in _LIMITS.items()}
    return " ".join([limits.user, *(f"{name}={value}" for name, value in said.items() if value is not None)])
