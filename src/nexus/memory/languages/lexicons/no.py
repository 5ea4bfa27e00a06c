"""What Nexus knows about Norwegian."""

from typing import Final

from nexus.memory.languages.lexicon import Lexicon, words

LEXICON: Final = Lexicon(
    code="no",
    stemmer="norwegian",
    letters="æøå",
    function_words=words("""
alle alt at av bare begge ble blei bli blir da de deg dei dem den denne der deres det dette di din disse
ditt du eg ein eit eller en enn er et etter for fordi fra før få ha hadde ham han hans har henne hennes
her hos hun hva hvem hver hvilken hvilke hvis hvor hvordan hvorfor i ikke ikkje ingen inn jeg kan kom
kunne man mange med meg mellom men meget min mine mitt mot mye må måtte når no noe noen nokre nå og også
om opp oss over på samme seg selv si siden sin sine sitt skal skulle slik som så til ut uten var ved vi
vil ville vår være vært
"""),
    time_words=words("""
går dag morgen kveld forrige neste uke uker helg måned måneder år dager siden mandag tirsdag onsdag
torsdag fredag lørdag søndag sommer vinter vår høst januar februar mars april mai juni juli august
september oktober november desember
"""),
    number_words=words("""
to tre fire fem seks sju syv åtte ni ti elleve tolv tjue tretti hundre tusen par ganger
"""),
    cues={
        "question": r"^(?:og |men )?(?:hvem|hva|når|hvor|hvilken|hvilket|hvilke|hvorfor|hvordan)\b",
        "request": (
            "^(?:kan du )?(?:bestill|finn|foreslå|forklar|gi|hjelp|kjøp|lag|oversett|planlegg|ring|send"
            r"|skriv|svar|vis)\b"
        ),
    },
)
