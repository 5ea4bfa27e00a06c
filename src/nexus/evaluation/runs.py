"""An evaluation run in a folder: what is finished is on disk, so a run that was interrupted goes on.

OUT/run.json              what is evaluated: the model, the judge, the version
OUT/<life>/home/          the home, as the sessions left it
OUT/<life>/sessions.jsonl what came of each session
OUT/<life>/answers.jsonl  the answer to each question
OUT/<life>/verdicts.jsonl what the judge said
OUT/<life>/result.json    the scores of the life
OUT/results.json          all of them, and the totals; `results.md` is the same as a table
"""

import json
import os
from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, cast

from nexus import __version__, clock
from nexus.config import Config
from nexus.errors import UsageError
from nexus.evaluation import playback
from nexus.evaluation.life import Life, Row
from nexus.evaluation.playback import PlayedSession, make_home, play, prepare_config
from nexus.evaluation.questions import Answer, Judge, ask
from nexus.evaluation.scores import Scorer, Verdicts
from nexus.home import Home
from nexus.ledgers import Ledgers
from nexus.runs import Totals

Told = Callable[[str], None]
"""Hears one line of progress."""

_QUESTION: Final = "question"
_SESSION: Final = "session"


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What is to be evaluated."""

    model: str
    judge: str = ""
    sessions: int | None = None
    questions: int | None = None

    def to_json(self) -> Row:
        return {"model": self.model, "judge": self.judge, "version": __version__}


def begin(out: Path, plan: Plan) -> Row:
    """Make the folder of a run, or take up one that was interrupted; returns what it is about."""
    file = out / "run.json"
    wanted = plan.to_json()
    if file.exists():
        begun = cast("Row", json.loads(file.read_text(encoding="utf-8")))
        if begun["model"] != plan.model:
            raise UsageError(
                f"{out} holds a run with {begun['model']}",
                hint=f"Pass another folder with --out to evaluate {plan.model}.",
            )
        wanted["date"] = begun["date"]
    else:
        wanted["date"] = clock.day(clock.now())
    out.mkdir(parents=True, exist_ok=True)
    # Other lives of the run begin at the same time, each in its own process, and read it.
    new = out / f"run.json.{os.getpid()}"
    new.write_text(json.dumps(wanted, indent=1), encoding="utf-8")
    new.replace(file)
    return wanted


@dataclass(frozen=True, kw_only=True)
class LifeRun:
    """The evaluation of one life, in its folder."""

    life: Life
    folder: Path
    config: Config
    plan: Plan
    told: Told

    @property
    def home(self) -> Home:
        return Home(self.folder / "home")

    async def run(self) -> Row:
        """Play what is not played yet, ask what is not answered yet, judge, and score."""
        self.folder.mkdir(parents=True, exist_ok=True)
        config = prepare_config(self.life, self.config, self.plan.model)
        played = await self._play(config)
        answers = await self._ask(config)
        async with self._judge() as judge:
            verdicts = judge and await self._verdicts(judge, played, answers)
            judged = judge.spent if judge else Totals()
        result = await self._score(played, answers, verdicts, judged)
        (self.folder / "result.json").write_text(
            json.dumps(result, indent=1, ensure_ascii=False), encoding="utf-8"
        )
        return result

    async def _play(self, config: Config) -> dict[str, PlayedSession]:
        kept = {row["session"]: PlayedSession.from_json(row) for row in _rows(self.folder / "sessions.jsonl")}
        unwanted = kept.keys() - self.life.sessions.keys()
        if unwanted:
            raise UsageError(
                f"{self.folder} has seen more sessions than these: {', '.join(sorted(unwanted))}",
                hint="Allow as many with --sessions, or pass another folder with --out.",
            )
        home = make_home(self.home.root)
        sessions = list(self.life.sessions)
        for number, session in enumerate(sessions, start=1):
            if session in kept:
                continue
            done = await play(self.life, session, home, config, list(kept.values()))
            kept[session] = done
            _append(self.folder / "sessions.jsonl", done.to_json())
            self._tell(
                f"session {number} of {len(sessions)} ({session}): {done.turns} messages, "
                f"{len(done.memories)} memories, {clock.took(done.duration_ms)}"
            )
        return {session: kept[session] for session in sessions}

    async def _ask(self, config: Config) -> dict[str, Answer]:
        """Answers that failed, or that were given after fewer sessions, are asked for again."""
        file = self.folder / "answers.jsonl"
        given = {answer.id: answer for answer in map(Answer.from_json, _rows(file))}
        wanted = {str(row["id"]): row for row in self.life.questions}
        kept = {
            id_: answer
            for id_, answer in given.items()
            if id_ in wanted and not answer.error and answer.sessions == len(self.life.sessions)
        }
        for number, (id_, question) in enumerate(wanted.items(), start=1):
            if id_ in kept:
                continue
            kept[id_] = await ask(self.life, question, self.home, config, self.folder / "asking")
            _append(file, kept[id_].to_json())
            outcome = f"failed: {kept[id_].error}" if kept[id_].error else clock.took(kept[id_].duration_ms)
            self._tell(f"question {number} of {len(wanted)} ({id_}): {outcome}")
        return {id_: kept[id_] for id_ in wanted}

    @asynccontextmanager
    async def _judge(self) -> AsyncGenerator[Judge | None]:
        if not self.plan.judge:
            yield None
            return
        async with Judge.of(self.config, self.plan.judge) as judge:
            judge.owner = self.life.owner
            yield judge

    async def _verdicts(
        self, judge: Judge, played: dict[str, PlayedSession], answers: dict[str, Answer]
    ) -> Verdicts:
        """Ask the judge. A verdict that is on disk is asked for again only if its object changed."""
        file = self.folder / "verdicts.jsonl"
        known = {(row["kind"], row["key"], row["of"], row["judge"]): row["verdict"] for row in _rows(file)}
        scorer = Scorer(self.life, played)

        async def verdict(kind: str, key: str, of: Any, decide: Callable[[], Any]) -> Any:
            text = json.dumps(of, ensure_ascii=False)
            index = (kind, key, text, judge.name)
            if index not in known:
                known[index] = await decide()
                row = {"kind": kind, "key": key, "of": text, "judge": judge.name, "verdict": known[index]}
                _append(file, row)
                self._tell(f"judged {kind} {key}")
            return known[index]

        sessions: dict[str, dict[str, list[bool]]] = {}
        for row in self.life.writer:
            session = str(row["session"])
            notes = [memory.text for memory in played[session].memories]
            statements = [*row["must"], *row["must_not"]]
            stated = await verdict(
                _SESSION, session, [notes, statements], lambda n=notes, s=statements: judge.find_stated(n, s)
            )
            count = len(row["must"])
            sessions[session] = {"must": stated[:count], "must_not": stated[count:]}
        right: dict[str, bool] = {}
        for row in self.life.questions:
            answer = answers[str(row["id"])]
            if not answer.error:
                right[answer.id] = await verdict(
                    _QUESTION,
                    answer.id,
                    answer.text,
                    lambda r=row, a=answer: _judge_answer(judge, scorer, r, a.text),
                )
        return Verdicts(sessions=sessions, answers=right)

    async def _score(
        self,
        played: dict[str, PlayedSession],
        answers: dict[str, Answer],
        verdicts: Verdicts | None,
        judged: Totals,
    ) -> Row:
        async with Ledgers(self.home, self.config.ledgers) as opened:
            links, by_role = await playback.load_successions(opened), await playback.load_spending(opened)
        scorer = Scorer(self.life, played)
        asked = sum((answer.spent for answer in answers.values()), Totals())
        spent = {**by_role, "answers": asked, **({"judge": judged} if self.plan.judge else {})}
        runs: dict[str, int] = {}
        for done in played.values():
            for status, count in done.runs.items():
                runs[status] = runs.get(status, 0) + count
        return {
            "life": self.life.name,
            "language": self.life.language,
            "sessions": len(played),
            "turns": sum(done.turns for done in played.values()),
            "extraction": scorer.extraction(verdicts),
            "attribution": scorer.attribution(),
            "supersession": scorer.supersession(links),
            "answers": scorer.answers(answers, verdicts),
            "writer_runs": runs,
            "refused": [text for done in played.values() for text in done.refused],
            "duration_ms": sum(done.duration_ms for done in played.values())
            + sum(answer.duration_ms for answer in answers.values()),
            "spent": {role: asdict(total) for role, total in spent.items()},
        }

    def _tell(self, line: str) -> None:
        self.told(f"{self.life.name}: {line}")


async def _judge_answer(judge: Judge, scorer: Scorer, question: Row, answer: str) -> bool:
    if not question["evidence"] and not question.get("answer"):
        return await judge.declines(str(question["text"]), answer)
    known, outdated = scorer.known_texts(question), scorer.outdated_texts(question)
    joined = " ".join(known) if question.get("all") else " or: ".join(known)
    return await judge.is_right(str(question["text"]), joined, " ".join(outdated), answer)


def _rows(file: Path) -> Iterable[Row]:
    """Yield the rows of a file that grows; a last line that an interruption cut short is dropped."""
    if not file.exists():
        return
    for line in file.read_text(encoding="utf-8").splitlines():
        try:
            yield json.loads(line)
        except json.JSONDecodeError:
            return


def _append(file: Path, row: Row) -> None:
    with file.open("a", encoding="utf-8") as opened:
        opened.write(json.dumps(row, ensure_ascii=False) + "\n")
