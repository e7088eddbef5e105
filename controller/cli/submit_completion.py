"""Offers of a shell for `sparkpace submit`, which reads its words itself: options of ours and Spark's, values, files."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path

import click
from click.shell_completion import CompletionItem

from controller.asks.job_setting import SubmitOption
from controller.asks.submit_args import CLIENT, CLUSTER, OFFERED, OPTIONS, OWN_VALUES, SPARK_VALUES, OptionWord, read_options
from controller.cli.completion import complete_profiles, complete_running, completes
from controller.home import find_home

KEPT = {"application": completes(complete_running), "profile": completes(complete_profiles)}
_SPARK = {
    name: SubmitOption(kind="path", help="")
    for name in (
        *("--archives", "--driver-class-path", "--driver-library-path", "--files", "--jars", "--keytab"),
        *("--properties-file", "--py-files"),
    )
}
_SPARK |= {name: SubmitOption(repeated=True, help="") for name in ("--conf", "-c")}
KNOWN = {**OPTIONS, **_SPARK, "--deploy-mode": SubmitOption(choices=(CLIENT, CLUSTER), help="")}
"""Options whose values have known forms, by name."""
_NOTHING = SubmitOption(help="")


class SubmitCommand(click.Command):
    """Command whose words are all one argument for Click, so that Click knows no option of it."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 - Click's
        with formatter.section("Options"):
            formatter.write_dl([(option.shown, option.help) for option in OPTIONS.values() if not option.ours])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        return complete_submit(ctx, self.params[0], incomplete)


def complete_submit(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete the word that is typed behind those of the context; `incomplete` is what Click and the shell take for it."""
    *before, word = _joined([*(context.params.get("arguments") or ()), incomplete])
    options, application = read_options(before)
    files = [CompletionItem(incomplete, type="file")]
    if application:
        return files
    if option := _waiting(options, word):
        homes = [typed.value for typed in options if typed.name == "--home" and typed.value]
        with suppress(RuntimeError):  # the home of an unknown user
            context.params["home"] = find_home(Path(homes[-1]) if homes else None, os.environ)
        known = KNOWN.get(option, _NOTHING)
        kept = KEPT[known.kind](context, parameter, incomplete) if known.kind in KEPT else []
        return kept or _begun(known.choices, incomplete) or (files if known.kind in ("path", "profile") else [])
    if not word.startswith("-"):
        return files
    given = {typed.name for typed in options if not KNOWN.get(typed.name, _NOTHING).repeated}
    return _begun(sorted(OFFERED - given), incomplete)


def _waiting(options: Sequence[OptionWord], word: str) -> str | None:
    """Return the option whose value the word is, or has in it."""
    before = options[-1].name if options and options[-1].value is None else ""
    for name in (before, word.partition("=")[0] if "=" in word else ""):
        if name in OWN_VALUES | SPARK_VALUES:
            return name
    return None


def _begun(values: Iterable[str], incomplete: str) -> list[CompletionItem]:
    return [CompletionItem(value) for value in values if value.startswith(incomplete)]


def _joined(words: Sequence[str]) -> list[str]:
    """Return the words as they were typed: bash also divides words at = and :."""
    found: list[str] = []
    for before, word in zip(("", *words), words, strict=False):
        if found and any(part and not part.strip("=:") for part in (before, word)):
            found[-1] += word
        else:
            found.append(word)
    return found
