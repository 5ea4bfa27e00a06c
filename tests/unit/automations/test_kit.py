"""The kit for tests of automations, from pytest and from `nexus automations test`."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from nexus import Answer, Context, automation
from nexus.automations.kit import Kit
from nexus.cli import program
from nexus.errors import AutomationError, ScriptError, UnknownHookPointError, UsageError
from nexus.memory.recall.item import Item, Match, Reasons

pytest_plugins = ["nexus.testing.pytest_plugin"]


@pytest.fixture
def script(tmp_path: Path) -> Path:
    return tmp_path / "tea.py"


def test_it_has_a_workspace_and_peers_whose_files_can_be_prepared_and_seen(kit: Kit, script: Path) -> None:
    script.write_text(
        "def run(ctx):\n"
        "    seen = ctx.files.read_file('CUPS.md') + ctx.workspace.peers['kettle'].read_file('STATE.md')\n"
        "    ctx.workspace.write_file('SEEN.md', seen)\n"
    )
    kit.workspace.write_file("CUPS.md", "two ")
    kit.peer("kettle").write_file("STATE.md", "hot")
    kit.run(script)
    assert kit.workspace.read_file("SEEN.md") == "two hot"


def test_it_recalls_what_the_test_says_with_the_options_of_the_real_memory(kit: Kit, script: Path) -> None:
    script.write_text(
        "async def run(ctx):\n"
        "    found = await ctx.recall('tea', **ctx.config)\n"
        "    return {'log': {'found': [(each.item.kind, each.item.text) for each in found.results]}}\n"
    )
    item = Item(kind="episode", id="epi_1", text="We had tea", at="2026-05-01T09:00:00.000Z")
    episode = Match(item=item, score=1.0, probability=0.9, tokens=3, reasons=Reasons(arms={}))
    kit.memories += [episode, "The tea is in the tin", "Clara likes tea"]
    kit.config = {"limit": 1, "kinds": ["fact"]}
    assert kit.run(script) == {"log": {"found": [("fact", "The tea is in the tin")]}}
    assert kit.questions == ["tea"]
    kit.config = {"limits": 1}
    with pytest.raises(UsageError, match="no option limits"):
        kit.run(script)


def test_agents_answer_what_the_test_says_in_order(kit: Kit, script: Path) -> None:
    script.write_text(
        "async def run(ctx):\n"
        "    first = await ctx.ask('Which tea?', about={'answer': ctx.result.response.content})\n"
        "    return {'log': {'asked': [first, await ctx.ask('How many cups?')]}}\n"
    )
    kit.answers += ["Green", "Two"]
    returned = kit.run(script, hook_point="after:runAgent", answer="Tea it is.")
    assert returned == {"log": {"asked": ["Green", "Two"]}}
    assert "Tea it is." in kit.prompts[0].current_message
    assert kit.prompts[1].current_message == "How many cups?"
    kit.answers.append("Green")
    with pytest.raises(AutomationError, match="no answer for this agent"):
        kit.run(script, hook_point="after:runAgent", answer="Tea it is.")


def test_its_clock_stands_until_it_is_moved(kit: Kit, script: Path) -> None:
    script.write_text("def run(ctx):\n    return {'log': {'at': f'{ctx.now():%d %H:%M}'}}\n")
    assert kit.run(script) == {"log": {"at": "01 09:00"}}
    kit.forward(days=1, minutes=5)
    assert kit.run(script) == {"log": {"at": "02 09:05"}}


def test_it_keeps_what_was_sent_and_remembered(kit: Kit, script: Path) -> None:
    script.write_text(
        "def run(ctx):\n"
        "    text = ctx.request.event.content\n"
        "    return {'reply': [text, {'text': text.upper(), 'channel': 'telegram'}], 'remember': text}\n"
    )
    kit.run(script, "Tea")
    assert [(each.text, each.channel) for each in kit.sent] == [("Tea", None), ("TEA", "telegram")]
    assert kit.remembered == [{"fact": "Tea"}]


def test_what_nobody_would_read_fails(kit: Kit, script: Path) -> None:
    script.write_text("def run(ctx):\n    return {'response': 'Tea'}\n")
    with pytest.raises(ScriptError, match="nobody reads `response`"):
        kit.run(script)


def test_the_command_gives_tests_a_kit_each_and_says_what_it_has_not_got(script: Path) -> None:
    script.write_text("def run(ctx):\n    return {'reply': ctx.request.event.content}\n")
    script.with_name("test_tea.py").write_text(
        "from pathlib import Path\n"
        "SCRIPT = Path(__file__).with_name('tea.py')\n"
        "def test_one(kit):\n    kit.run(SCRIPT, 'Tea')\n    assert kit.sent[0].text == 'Tea'\n"
        "def test_two(kit):\n    assert kit.sent == []\n"
        "def test_three(kettle):\n    pass\n"
    )
    told = CliRunner().invoke(program, ["automations", "test", str(script)])
    assert told.exit_code == 1
    assert "ok      test_one\nok      test_two\nFAILED  test_three" in told.output
    assert "Unknown fixture kettle" in told.output
    assert "2 passed, 1 failed" in told.output


@automation("before:deliverResponse", config={"word": "tea"})
async def hide_word(context: Context) -> Answer:
    """Hide a word."""
    return Answer(context.answer.text.replace(context.config["word"], "[hidden]"))


def test_it_runs_a_decorated_function_at_its_own_hook_point(kit: Kit) -> None:
    assert kit.run(hide_word, answer="tea at four").text == "[hidden] at four"
    kit.config = {"word": "four"}
    assert kit.run(hide_word, answer="tea at four").text == "tea at [hidden]"
    assert (hide_word.name, hide_word.description) == ("hide-word", "Hide a word.")


def test_it_holds_a_function_to_its_hook_point(kit: Kit) -> None:
    with pytest.raises(ScriptError, match="`answer`, which is not for finalize"):
        kit.run(hide_word, hook_point="finalize", answer="tea at four")
    with pytest.raises(UnknownHookPointError, match="Unknown hook point `before:breakfast`"):
        automation("before:breakfast")


def test_a_plain_function_runs_where_automations_usually_do(kit: Kit) -> None:
    assert kit.run(lambda context: {"log": {"at": context.hook_point}}) == {"log": {"at": "runAutomations"}}
