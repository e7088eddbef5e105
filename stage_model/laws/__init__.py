"""The control laws, by name: the table. Another law is a file here and a row below."""

from __future__ import annotations

from collections.abc import Mapping

from stage_model.errors import BadInput
from stage_model.laws import constant, forecast, paper
from stage_model.laws.base import Law
from stage_model.settings import LAW_PREFIX, parse, unknown_key

LAWS: Mapping[str, Law] = {
    "paper": paper.LAW,
    "forecast": forecast.LAW,
    "constant": constant.LAW,
}


def parse_law(text: str, *, option: str = "--law") -> str:
    """Return the name of a law. Raise `BadInput`."""
    if text in LAWS:
        return text
    *others, last = LAWS
    raise BadInput(f"{option} {text[:100]!r} is not a law; give {', '.join(others)} or {last}.")


def parse_constants(conf: Mapping[str, str]) -> dict[str, float]:
    """Return the constants of every law from an application's conf, as plans carry them: {"paper.alpha": 0.95, ...}. Raise
    `BadInput` as `parse`, for any `spark.pace.law.*`."""
    topics = [law.settings for law in LAWS.values()]
    known = [LAW_PREFIX + key for topic in topics for key, _ in topic.plan_names()]
    for key in conf:
        if key.startswith(LAW_PREFIX) and key not in known:
            raise unknown_key(key, known)
    given = [(topic, parse(topic, conf)) for topic in topics]
    return {key: getattr(constants, name) for topic, constants in given for key, name in topic.plan_names()}
