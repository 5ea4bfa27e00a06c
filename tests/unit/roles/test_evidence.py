"""What a message says, what it only asks, supposes or jokes, and what was only remembered."""

from dataclasses import dataclass
from datetime import date

import pytest

from nexus.ledgers.events import Event
from nexus.ledgers.identity.senders import Sender
from nexus.roles.memory_writer import anchors
from nexus.roles.memory_writer.evidence import Evidence, Heard, Referred
from nexus.roles.memory_writer.turns import Message

MEMORIES = """<memory_context>
Tyler's birthday is March 12 (2025-06-01)
Tyler likes Italian food (2025-08-15)
Sarah Chen leads the engineering team on Project X (2026-02-10)
</memory_context>"""
OWNER = Referred(id="ent_owner", names=("Owner",), granted=True)


@dataclass(frozen=True, kw_only=True)
class Case:
    """A message of 15 November 2026, and a statement that cites it."""

    said: str
    statement: str
    answers: str = ""
    memories: tuple[str, ...] = ()
    before: tuple[str, ...] = ()
    about: tuple[str, ...] = ()
    owner: bool = False

    def heard(self) -> Heard:
        return _heard(self.said, self.answers)

    def verdict(self) -> str:
        """`said`, or why it is refused."""
        *earlier, cited = [_heard(text, self.answers) for text in (*self.before, self.said)]
        made = Evidence(heard=[*earlier, cited], due=[cited])
        made.remember(self.memories)
        referred = [*([OWNER] if self.owner else []), *(Referred(names=(name,)) for name in self.about)]
        found = made.find(self.statement, referred, cited)
        return found.refusal or "said"


def _heard(text: str, answers: str) -> Heard:
    event = Event(
        id="evt_1",
        seq=1,
        thread_id=None,
        channel="cli",
        direction="inbound",
        kind="message",
        external_id=None,
        sender="owner",
        content=text,
        content_type="text",
        reply_to_event_id=None,
        request_id=None,
        metadata={},
        occurred_at="2026-11-15T10:00:00.000Z",
        created_at="2026-11-15T10:00:00.000Z",
    )
    sender = Sender(entity_id="ent_owner", contact_id="con_1", is_owner=True)
    return Heard(text=text, message=Message(event=event, sender=sender), answers=answers)


FLIGHT = {
    "en": ("The flight to Lisbon is on 16 December", "The flight to Lisbon is on 17 December"),
    "de": ("Der Flug nach Lissabon ist am 16. Dezember", "Der Flug nach Lissabon ist am 17. Dezember"),
    "es": ("El vuelo a Lisboa es el 16 de diciembre", "El vuelo a Lisboa es el 17 de diciembre"),
    "fr": ("Le vol pour Lisbonne est le 16 décembre", "Le vol pour Lisbonne est le 17 décembre"),
    "pt": ("O voo para Lisboa é no dia 16 de dezembro", "O voo para Lisboa é no dia 17 de dezembro"),
    "ja": ("リスボンへのフライトは12月16日です", "リスボンへのフライトは12月17日です"),
}
CORRECTIONS = [
    ("en", "they moved it, it's the 17th now"),
    ("en", "no, the 17th"),
    ("en", "It's been rescheduled to December 17."),
    ("en", "Actually it is on the seventeenth"),
    ("en", "wrong, one day later: 17"),
    ("en", "not the 16th, the 17th"),
    ("en", "The airline changed my flight to 17 December"),
    ("de", "Der wurde auf den 17. verschoben"),
    ("es", "Lo cambiaron al 17"),
    ("fr", "Ils l'ont décalé au 17"),
    ("pt", "mudaram para o dia 17"),
    ("ja", "17日に変わりました"),
]


@pytest.mark.parametrize(("language", "said"), CORRECTIONS)
def test_a_correction_of_a_recalled_memory_is_news(language: str, said: str) -> None:
    old, new = FLIGHT[language]
    case = Case(said=said, statement=new, answers=old, memories=(f"- {old} (2026-11-01, fact_01)",))

    assert case.verdict() == "said"


@pytest.mark.parametrize(("language", "said"), CORRECTIONS)
def test_what_the_correction_corrects_is_not(language: str, said: str) -> None:
    old, _ = FLIGHT[language]
    case = Case(said=said, statement=old, answers=old, memories=(f"- {old} (2026-11-01, fact_01)",))

    assert case.verdict() != "said"


@pytest.mark.parametrize(
    ("asked", "said", "statement"),
    [
        ("Is Hana vegetarian?", "yes", "Hana is vegetarian"),
        ("Ist Hana Vegetarierin?", "ja", "Hana ist Vegetarierin"),
        ("¿Hana es vegetariana?", "sí", "Hana es vegetariana"),
        ("Hana est végétarienne ?", "oui", "Hana est végétarienne"),
        ("A Hana é vegetariana?", "sim", "Hana é vegetariana"),
        ("ハナはベジタリアンですか?", "はい", "ハナはベジタリアンです"),
        ("Is Hana vegetarian?", "no", "Hana is not vegetarian"),
        ("Ist Hana Vegetarierin?", "Nein", "Hana ist keine Vegetarierin"),
        ("Which day is Hana's concert?", "the 17th", "Hana's concert is on the 17th"),
        ("Does Hana eat meat, or is she vegetarian?", "vegetarian", "Hana is vegetarian"),
        ("When is the dinner with Hana?", "at eight", "The dinner with Hana is at 8"),
        ("Should I book a table at Nero for Hana?", "yes please", "A table at Nero is booked for Hana"),
    ],
)
def test_a_short_answer_says_what_was_asked(asked: str, said: str, statement: str) -> None:
    name = "ハナ" if "ハナ" in statement else "Hana"
    assert Case(said=said, statement=statement, answers=asked, about=(name,)).verdict() == "said"


@pytest.mark.parametrize(
    ("asked", "said", "statement"),
    [
        ("Is Hana vegetarian?", "no", "Hana is vegetarian"),
        ("Is Hana vegetarian?", "maybe", "Hana is vegetarian"),
        ("Is Hana vegetarian?", "yes", "Hana has two dogs"),
        ("You could visit Hana in Rome.", "hm", "The owner visits Hana in Rome"),
        ("You could visit Hana in Rome.", "thanks!", "The owner visits Hana in Rome"),
    ],
)
def test_what_was_not_agreed_to_is_not_said(asked: str, said: str, statement: str) -> None:
    assert Case(said=said, statement=statement, answers=asked, about=("Hana",)).verdict() != "said"


@pytest.mark.parametrize(
    ("said", "statement", "reason"),
    [
        ("If I moved to Lisbon, would rent be lower?", "The owner moved to Lisbon", "supposed"),
        ("What if we went to Japan in May?", "The owner goes to Japan in May", "supposed"),
        ("Angenommen, ich würde nach Wien ziehen", "Der Besitzer zieht nach Wien", "supposed"),
        ("Si je déménageais à Nice, ce serait cher", "Le propriétaire déménage à Nice", "supposed"),
        ("Si me mudara a Madrid, sería caro", "El dueño se muda a Madrid", "supposed"),
        ("I quit my job! Just kidding.", "The owner quit their job", "joke"),
        ("Ich habe gekündigt. War nur ein Scherz!", "Der Besitzer hat gekündigt", "joke"),
        ("Does Erik like sushi?", "Erik likes sushi", "asked"),
        ("Erik likes sushi, right?", "Erik likes sushi", "asked"),
        ("what does Erik like best", "Erik likes best", "asked"),
        ('Mara told me "I\'m moving to Rome"', "The owner is moving to Rome", "quoted"),
        ("I'm not allergic to nuts", "The owner is allergic to nuts", "denies"),
        ("Erik doesn't work at Volvo", "Erik works at Volvo", "denies"),
        ("My sister moved to Oslo, she quit her job", "The owner quit their job", "somebody else"),
        ("Hana is allergic to nuts", "The owner is allergic to nuts", "somebody else"),
    ],
)
def test_what_is_asked_supposed_joked_quoted_or_denied_is_not_said(
    said: str, statement: str, reason: str
) -> None:
    verdict = Case(said=said, statement=statement, owner="Erik" not in statement).verdict()

    assert reason in verdict


@pytest.mark.parametrize(
    ("said", "statement"),
    [
        ("Could you note that Erik is lactose intolerant?", "Erik is lactose intolerant"),
        ("My sister Hana is visiting on Friday, can you book?", "Hana visits on Friday 2026-11-20"),
        ("My sister Hana is visiting tomorrow", "Hana visits on 16 November 2026"),
        ('Mara told me "I\'m moving to Rome"', "Mara is moving to Rome"),
        ("Wir ziehen nächsten Monat nach Graz", "The owner moves to Graz in December"),
        ("Meine Schwester Hana hat am 4. Mai Geburtstag", "Hana's birthday is 4 May"),
        ("mi hermana Ana es alérgica a las nueces", "Ana is allergic to nuts"),
        ("妹のハナは5月4日が誕生日です", "ハナの誕生日は5月4日です"),
        ("I paid 1,200 euros for the bike", "The bike cost 1200 euros"),
        ("We have three kids", "The owner has 3 kids"),
        ("I don't like mornings", "The owner dislikes mornings"),
        ("I stopped eating fish", "The owner doesn't eat fish"),
    ],
)
def test_paraphrases_resolved_dates_and_other_languages_are_said(said: str, statement: str) -> None:
    assert Case(said=said, statement=statement, owner="owner" in statement).verdict() == "said"


@pytest.mark.parametrize(
    ("said", "statement", "missing"),
    [
        ("I live in Gothenburg", "Sarah Chen leads Project X", "Sarah"),
        ("I live in Gothenburg", "The owner lives in Gothenburg, Sweden", "Sweden"),
        ("I saw a movie with Erik", "The owner saw Titanic with Erik", "Titanic"),
        ("I paid 1,200 euros for the bike", "The bike cost 1300 euros", "1300"),
        ("We have three kids", "The owner has two kids", "2"),
        ("they moved it to the 17th", "The flight is on 18 December", "12-18"),
        ("Ich treffe Anna am Freitag", "Anna trifft Bernd am Freitag", "Bernd"),
    ],
)
def test_a_name_number_or_date_that_nobody_said_is_refused(said: str, statement: str, missing: str) -> None:
    assert Case(said=said, statement=statement, owner=True).verdict() == f"Nobody said {missing!r} here"


def test_what_stands_in_every_conversation_is_a_memory_that_names_nobody() -> None:
    heard = _heard("My dog died", "")
    made = Evidence(heard=[heard], due=[heard])
    made.remember(["- Elin is the owner's sister"], standing=True)

    assert (
        made.find("Elin's dog died", [Referred(names=("Elin",))], heard).refusal == "Nobody said 'Elin' here"
    )


BEFORE = "Petra works as a nurse at the LKH hospital, and she can't stand coriander."


@pytest.mark.parametrize(
    ("said", "statement"),
    [
        ("She works nights this week", "Petra works as a nurse at the LKH hospital"),
        ("The hospital is near the river", "Petra works as a nurse at the LKH hospital"),
        ("She grows basil and coriander for me", "Petra can't stand coriander"),
    ],
)
def test_what_an_earlier_message_says_is_not_laid_to_a_later_one(said: str, statement: str) -> None:
    case = Case(said=said, statement=statement, before=(BEFORE,), about=("Petra",))

    assert case.verdict() == "An earlier message says this, and this one does not"


@pytest.mark.parametrize(
    ("said", "statement"),
    [
        ("She works there as a doctor now", "Petra works as a doctor at the LKH hospital"),
        ("She no longer works at the hospital", "Petra no longer works at the LKH hospital"),
        ("She started at the hospital in 2019", "Petra has worked at the LKH hospital since 2019"),
        ("Lena works at the hospital, too", "Lena works as a nurse at the LKH hospital"),
        ("Coriander is fine, she says", "Petra can stand coriander"),
    ],
)
def test_what_a_later_message_changes_or_adds_is_its_own(said: str, statement: str) -> None:
    case = Case(said=said, statement=statement, before=(BEFORE,), about=(statement.split()[0],))

    assert case.verdict() == "said"


def test_a_wrong_number_is_put_right_among_the_messages_of_the_turn() -> None:
    first, second = _heard(BEFORE, ""), _heard("She works nights this week", "")
    made = Evidence(heard=[first, second], due=[first, second])

    found = made.find("Petra works as a nurse at the LKH hospital", [Referred(names=("Petra",))], second)

    assert (found.heard, found.refusal) == (first, "")


def test_a_word_that_corrects_a_memory_is_news_though_it_is_no_number_and_no_name() -> None:
    case = Case(
        said="green, actually",
        statement="Theo's favorite color is green",
        memories=("- Theo's favorite color is blue (2026-11-01)",),
        about=("Theo",),
        answers="Theo's favorite color is blue, so I looked for a blue one.",
    )

    assert case.verdict() == "said"


def test_a_day_on_which_much_was_said_counts_once() -> None:
    given = anchors.find_mentions(["Hana arrives tomorrow"], [date(2026, 11, 15)] * 200)

    assert given.spans == ((date(2026, 11, 16), date(2026, 11, 16)),)


@pytest.mark.parametrize("word", ["Bloß", "Muß", "März"])
def test_a_small_word_with_a_capital_is_no_name(word: str) -> None:
    assert anchors.is_common(word, "de")
