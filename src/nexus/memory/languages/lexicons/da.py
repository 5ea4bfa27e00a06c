"""What Nexus knows about Danish."""

from typing import Final

from nexus.memory.languages.lexicon import Lexicon, words

LEXICON: Final = Lexicon(
    code="da",
    stemmer="danish",
    letters="æøå",
    function_words=words("""
ad af aldrig alle alt anden at bare begge blev blive bliver da de dem den denne der deres det dette dig
din dine disse dit dog du efter eller en end er et for fordi fra før få ham han hans har have havde hende
hendes her hos hun hvad hvem hver hvilken hvilke hvis hvor hvordan hvorfor hvornår i ikke ind ingen jeg
jer jeres jo kan kunne man mange med meget mellem men mig min mine mit mod måtte nogen noget nogle nu når
og også om op os over på selv sig sin sine sit skal skulle som sådan så til ud uden under var ved vi vil
ville vor være været
"""),
    time_words=words("""
går dag morgen aften sidste næste uge uger weekend måned måneder år dage siden mandag tirsdag onsdag
torsdag fredag lørdag søndag sommer vinter forår efterår januar februar marts april maj juni juli august
september oktober november december
"""),
    number_words=words("""
to tre fire fem seks syv otte ni ti elleve tolv tyve tredive hundrede tusind par gange
"""),
    cues={
        "question": r"^(?:og |men )?(?:hvem|hvad|hvornår|hvor|hvilken|hvilket|hvilke|hvorfor|hvordan)\b",
        "request": (
            "^(?:kan du )?(?:bestil|book|find|foreslå|forklar|giv|hjælp|køb|lav|oversæt|planlæg|ring"
            r"|send|skriv|svar|vis)\b"
        ),
    },
)
