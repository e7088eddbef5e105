"""The recipes of docs/notify.md, as they stand there: the relay's programs get what a notification holds."""

from __future__ import annotations

import email
import email.policy
import json
import re
import subprocess
from pathlib import Path

import msgspec

from controller.master.notify.events import HookEvent, body

PAGE = (Path(__file__).parents[4] / "docs" / "notify.md").read_text(encoding="utf-8")
RECIPES = PAGE.partition("## Recipes")[2].partition("\n## ")[0]
LONGEST_LINE = 998
"""Most bytes of a line of mail (RFC 5322, 2.1.1)."""
OF_SLACK = {
    *("attachments", "blocks", "channel", "delete_original", "icon_emoji", "icon_url", "link_names", "metadata", "mrkdwn"),
    *("parse", "replace_original", "response_type", "thread_ts", "unfurl_links", "unfurl_media", "username"),
}
"""Fields that Slack gives a meaning in a message, besides `text`."""


def scripts() -> list[str]:
    found = re.findall(r"^    #!/bin/sh\n(?:    .*\n)+", RECIPES, re.MULTILINE)
    return [re.sub(r"(?m)^    ", "", script) for script in found]


def handed_over(script: str, program: str, folder: Path, *words: str) -> tuple[str, list[str]]:
    """Run the script with a stand-in for the program that it hands the notification to. Return what the stand-in reads, and
    its words."""
    stand_in, text = folder / "stand-in", folder / "script"
    stand_in.write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" > {folder}/words\ncat > {folder}/read\n')
    assert script.count(program) == 1
    text.write_text(script.replace(program, str(stand_in)))
    for path in (stand_in, text):
        path.chmod(0o755)
    subprocess.run([text, *words], check=True, timeout=60, stdin=subprocess.DEVNULL)
    return (folder / "read").read_text(encoding="utf-8"), (folder / "words").read_text(encoding="utf-8").splitlines()


def test_the_hook_calls_the_mails_program_with_fields_of_a_notification() -> None:
    [hook] = json.loads(RECIPES.partition("```json\n")[2].partition("```")[0])
    assert f"and `{hook['execute-command']}`, which is executable" in RECIPES
    passed = hook["pass-arguments-to-command"]
    assert [(one["source"], one["name"]) for one in passed] == [("payload", "event"), ("payload", "text")]
    event = HookEvent(event="submission_refused", name="n")
    assert {one["name"] for one in passed} <= msgspec.json.decode(
        body(event, notification_id="i", epoch_s=1.0, cluster_id="c"), type=dict[str, object]
    ).keys()


def test_a_mail_has_the_text_whatever_a_name_holds_in_lines_that_servers_take(tmp_path: Path) -> None:
    _, mail = scripts()
    said = "nächtlich ~x `id` $(id) %s \\n. was refused: " + "a reason, " * 200
    message, words = handed_over(mail, "/usr/sbin/sendmail", tmp_path, "submission_refused", said)
    assert words == ["-i", "on-call@example.com"]
    assert max(len(line.encode()) for line in message.splitlines()) <= LONGEST_LINE
    read = email.message_from_string(message, policy=email.policy.default)
    assert (read["To"], read["Subject"]) == ("on-call@example.com", "Sparkpace: submission_refused")
    assert str(read.get_payload()).replace("\n", "").strip() == said.strip()


def test_a_card_is_made_of_the_text_and_its_url_is_in_no_list_of_processes(tmp_path: Path) -> None:
    card, _ = scripts()
    _, words = handed_over(card, "apprise", tmp_path, "deadline_at_risk", "n is late: sparkpace explain n")
    assert words == ["--config", "/etc/sparkpace/teams.conf", "--body", "n is late: sparkpace explain n"]


def test_no_field_of_a_notification_has_a_meaning_for_slack_but_its_text() -> None:
    event = HookEvent(event="submission_refused", name="n")
    fields = msgspec.json.decode(body(event, notification_id="i", epoch_s=1.0, cluster_id="c"), type=dict[str, object])
    assert "text" in fields
    assert not fields.keys() & OF_SLACK
