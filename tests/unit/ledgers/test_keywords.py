"""Which words of a question choose the rows, which only weigh, and which are left out."""

from nexus.ledgers.keywords import Frequency, Plan, frequencies, plans


def test_nothing_to_look_for_asks_for_nothing() -> None:
    assert plans([]) == []


def test_rare_words_are_all_asked_for() -> None:
    assert plans([Frequency("contract", 3), Frequency("signature", 900)]) == [
        Plan('"contract" OR "signature"', ranked=True)
    ]


def test_a_frequent_word_weighs_on_the_order_and_adds_no_row() -> None:
    assert plans([Frequency("contract", 3), Frequency("sarah", 20_000)]) == [
        Plan('("contract") AND ("contract" OR "sarah")', ranked=True)
    ]


def test_a_very_frequent_word_is_left_out_where_a_rarer_one_remains() -> None:
    assert plans([Frequency("contract", 3), Frequency("the", 900_000)]) == [Plan('"contract"', ranked=True)]


def test_frequent_words_alone_are_asked_for_together_and_then_the_rarest() -> None:
    assert plans([Frequency("what", 400_000), Frequency("did", 500_000)]) == [
        Plan('"what" AND "did"', ranked=False),
        Plan('"what"', ranked=False),
    ]


def test_frequent_words_are_ranked_where_counting_them_is_affordable() -> None:
    assert plans([Frequency("berlin", 20_000), Frequency("holiday", 25_000)])[0] == Plan(
        '"berlin" AND "holiday"', ranked=True
    )


def test_one_very_frequent_word_gives_its_newest_rows() -> None:
    assert plans([Frequency("the", 900_000)]) == [Plan('"the"', ranked=False)]


def test_ranking_visits_a_bounded_number_of_rows_and_words() -> None:
    question = [Frequency(f"w{number}", 100 * number) for number in range(1, 65)]
    plan = plans(question)[0]
    chosen = plan.match.partition(" AND ")[0].count('"') // 2
    assert 1 < chosen <= 12
    assert sum(each.rows for each in question[:chosen]) <= 8_000


def test_words_are_told_rarest_first_and_unknown_ones_are_left_out() -> None:
    rows = {"common": list(range(1, 401)), "rare": [7]}

    def probe(word: str, most: int) -> tuple[int, int]:
        newest = sorted(rows.get(word, []), reverse=True)[:most]
        return len(newest), min(newest, default=0)

    found = frequencies(["common", "unknown", "rare"], 400, probe)
    assert found == [Frequency("rare", 1), Frequency("common", 400)]


def test_a_frequent_word_is_estimated_from_its_newest_rows() -> None:
    asked: list[int] = []

    def probe(word: str, most: int) -> tuple[int, int]:
        asked.append(most)
        return most, 1_000_000 - 2 * most + 1  # every second row

    assert frequencies(["the"], 1_000_000, probe) == [Frequency("the", 500_000)]
    assert max(asked) < 1_000


def test_a_word_that_was_frequent_only_long_ago_is_not_taken_for_rare() -> None:
    def probe(word: str, most: int) -> tuple[int, int]:
        return (most, 100_000) if most < 8_000 else (most, 90_000)

    assert frequencies(["once"], 1_000_000, probe)[0].rows > 8_000


def test_a_pasted_document_costs_no_more_than_a_long_question() -> None:
    asked: list[str] = []

    def probe(word: str, most: int) -> tuple[int, int]:
        asked.append(word)
        return 1, 1

    frequencies((f"w{number}" for number in range(20_000)), 1, probe)
    assert len(asked) == 64
