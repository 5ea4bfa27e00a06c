"""Times in German, Spanish, French and Portuguese questions, relative to a fixed now."""

from datetime import UTC, datetime

import pytest

from nexus.memory.languages import dates

NOW = datetime(2026, 11, 15, 12, 0, tzinfo=UTC)  # a Sunday

SPRING = ("2026-03-01", "2026-06-01")
SUMMER_2024 = ("2024-06-01", "2024-09-01")
MARCH = ("2026-03-01", "2026-04-01")
MAY_TO_JULY = ("2026-05-01", "2026-08-01")
TWO_WEEKS_AGO = ("2026-10-31", "2026-11-03")
LAST_WEEK = ("2026-11-02", "2026-11-09")
LAST_YEAR = ("2025-01-01", "2026-01-01")
MONDAY = ("2026-11-09", "2026-11-10")
YESTERDAY = ("2026-11-14", "2026-11-15")
THE_DAY = ("2023-05-07", "2023-05-08")
AUGUST_2023 = ("2023-08-01", "2023-09-01")
HALF_A_YEAR_AGO = ("2026-04-25", "2026-06-09")
LATE_2025 = ("2025-11-01", "2026-03-01")


def days(text: str, language: str) -> tuple[str, str] | None:
    found = dates.find_window(text, NOW, language)
    return None if found is None else (found[0].date().isoformat(), found[1].date().isoformat())


@pytest.mark.parametrize(
    ("language", "text", "expected"),
    [
        ("de", "Was haben wir letzten Frühling geplant?", SPRING),
        ("de", "Wo waren wir im Sommer 2024?", SUMMER_2024),
        ("de", "Was war im März?", MARCH),
        ("de", "Was geschah zwischen Mai und Juli?", MAY_TO_JULY),
        ("de", "Wen habe ich vor zwei Wochen getroffen?", TWO_WEEKS_AGO),
        ("de", "Wen habe ich vor etwa dreizehn Tagen getroffen?", ("2026-11-01", "2026-11-04")),
        ("de", "Was habe ich letzte Woche gesagt?", LAST_WEEK),
        ("de", "Wie viel Honig war es letztes Jahr?", LAST_YEAR),
        ("de", "Wie viel Honig war es im vergangenen Jahr?", LAST_YEAR),
        ("de", "Wer kam letzten Montag?", MONDAY),
        ("de", "Was war gestern?", YESTERDAY),
        ("de", "Was war am 7. Mai 2023?", THE_DAY),
        ("de", "Was war am 07.05.2023?", THE_DAY),
        ("de", "Was war im August 2023?", AUGUST_2023),
        ("de", "von November bis Februar", LATE_2025),
        ("de", "Was haben wir 2025 verdient?", LAST_YEAR),
        ("de", "im ersten Quartal 2025", ("2025-01-01", "2025-04-01")),
        ("de", "Was war vor drei Monaten?", ("2026-08-06", "2026-08-29")),
        ("de", "Was war vor einem halben Jahr?", HALF_A_YEAR_AGO),
        ("es", "¿Qué planeamos la primavera pasada?", SPRING),
        ("es", "¿Qué pasó hace medio año?", HALF_A_YEAR_AGO),
        ("fr", "Qui ai-je vu il y a une demi-année ?", HALF_A_YEAR_AGO),
        ("pt", "Quem vi há meio ano?", HALF_A_YEAR_AGO),
        ("en", "Whom did I meet half a year ago?", HALF_A_YEAR_AGO),
        ("es", "¿Dónde estuvimos en verano de 2024?", SUMMER_2024),
        ("es", "¿Qué pasó en marzo?", MARCH),
        ("es", "¿Qué pasó entre mayo y julio?", MAY_TO_JULY),
        ("es", "¿A quién vi hace dos semanas?", TWO_WEEKS_AGO),
        ("es", "¿Qué dije la semana pasada?", LAST_WEEK),
        ("es", "¿Cuánto gané el año pasado?", LAST_YEAR),
        ("es", "¿Quién vino el lunes pasado?", MONDAY),
        ("es", "¿Qué hice ayer?", YESTERDAY),
        ("es", "el 7 de mayo de 2023", THE_DAY),
        ("es", "en agosto de 2023", AUGUST_2023),
        ("es", "de noviembre a febrero", LATE_2025),
        ("es", "¿Qué gané en 2025?", LAST_YEAR),
        ("fr", "Qu'avons-nous prévu le printemps dernier ?", SPRING),
        ("fr", "Où étions-nous l'été 2024 ?", SUMMER_2024),
        ("fr", "Que s'est-il passé en mars ?", MARCH),
        ("fr", "Que s'est-il passé entre mai et juillet ?", MAY_TO_JULY),
        ("fr", "Qui ai-je vu il y a deux semaines ?", TWO_WEEKS_AGO),
        ("fr", "Qu'ai-je dit la semaine dernière ?", LAST_WEEK),
        ("fr", "Qui dirigeait le lycée l'an dernier ?", LAST_YEAR),
        ("fr", "Qui est venu lundi dernier ?", MONDAY),
        ("fr", "Qu'ai-je fait hier ?", YESTERDAY),
        ("fr", "le 7 mai 2023", THE_DAY),
        ("fr", "en août 2023", AUGUST_2023),
        ("fr", "de novembre à février", LATE_2025),
        ("fr", "Qu'ai-je gagné en 2025 ?", LAST_YEAR),
        ("fr", "Le toit a-t-il été terminé ?", None),
        ("pt", "O que planeámos na primavera passada?", SPRING),
        ("pt", "Onde estivemos no verão de 2024?", SUMMER_2024),
        ("pt", "O que aconteceu em março?", MARCH),
        ("pt", "O que aconteceu entre maio e julho?", MAY_TO_JULY),
        ("pt", "Quem vi há duas semanas?", TWO_WEEKS_AGO),
        ("pt", "Quem vi duas semanas atrás?", TWO_WEEKS_AGO),
        ("pt", "O que disse na semana passada?", LAST_WEEK),
        ("pt", "Que nome tinha a banda no ano passado?", LAST_YEAR),
        ("pt", "Quem veio na segunda-feira passada?", MONDAY),
        ("pt", "O que fiz ontem?", YESTERDAY),
        ("pt", "a 7 de maio de 2023", THE_DAY),
        ("pt", "em agosto de 2023", AUGUST_2023),
        ("pt", "de novembro a fevereiro", LATE_2025),
        ("pt", "Quanto ganhei em 2025?", LAST_YEAR),
        ("de", "Wie heißt mein Chef?", None),
        ("de", "Wer bekommt die 2000 Euro?", None),
        ("es", "¿Cómo se llama mi jefa?", None),
        ("pt", "Quem é o meu médico?", None),
        ("de", "Was war am 31. Februar 2023?", None),
    ],
)
def test_times_are_read_in_the_questions_language(
    language: str, text: str, expected: tuple[str, str] | None
) -> None:
    assert days(text, language) == expected
