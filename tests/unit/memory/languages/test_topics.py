"""What a message is, and which facts matter for which work, in several languages."""

import pytest

from nexus.memory.languages import cues


@pytest.mark.parametrize(
    ("task", "fact", "topic"),
    [
        ("Plan a dinner for Erik, Hana and me", "Hana is lactose intolerant", "food"),
        ("Plan ein Abendessen mit Hana", "Hana isst kein Fleisch", "food"),
        ("Mándale un mensaje a Hana", "El teléfono de Hana es 600 100 200", "reach"),
        ("Réserve-moi un train pour Lyon", "Hana préfère un siège côté fenêtre", "travel"),
        ("Compra uma prenda para a Hana", "A Hana adora orquídeas", "gift"),
        ("Order new boots for Hana", "Hana wears size 38", "wear"),
    ],
)
def test_a_fact_matters_for_the_work_of_its_kind(task: str, fact: str, topic: str) -> None:
    assert topic in cues.find_task_topics(task) & cues.find_fact_topics(fact)


def test_work_that_needs_nothing_is_of_no_kind() -> None:
    assert not cues.find_task_topics("Explain the offside rule")
    assert not cues.find_fact_topics("The offside rule was changed in 1925")


@pytest.mark.parametrize(
    ("text", "asks", "orders", "states"),
    [
        ("When is Hana's birthday?", True, False, False),
        ("when is Hana's birthday", True, False, False),
        ("Wann hat Hana Geburtstag", True, False, False),
        ("Plan a dinner for Hana", False, True, False),
        ("Could you book a table for Hana?", True, True, False),
        ("Schreib Hana eine Nachricht.", False, True, False),
        ("Hana is allergic to nuts.", False, False, True),
        ("Book a table. Hana is allergic to nuts.", False, True, True),
        ("When Hana visits, she stays in the guest room.", False, False, True),
        ("Thanks!", False, False, False),
    ],
)
def test_questions_requests_and_statements_are_told_apart(
    text: str, asks: bool, orders: bool, states: bool
) -> None:
    assert (cues.asks(text), cues.orders(text), cues.states(text)) == (asks, orders, states)
