"""What Nexus knows about Swedish."""

from typing import Final

from nexus.memory.languages.lexicon import Lexicon, words

LEXICON: Final = Lexicon(
    code="sv",
    stemmer="swedish",
    letters="åäö",
    function_words=words("""
alla allt att av bara bli blir blev de dem den denna deras dess det detta dig din dina ditt du där därför
då efter ej eller en er era ett från för ha hade han hans har henne hennes hon honom hos hur här i icke
idag inga ingen inget inte ja jag kan kunde man med mellan men mig min mina mitt mot mycket må många måste
ni nog nu när någon något några och också om oss på samma sedan ser sig sin sina sitt ska skulle som så
till under upp ut utan vad var vara varför varit varje vars vem vems vi vid vilken vilka vilket vill vår
våra vårt är över
"""),
    time_words=words("""
igår idag imorgon ikväll förra nästa vecka veckor helg månad månader år dag dagar sedan måndag tisdag
onsdag torsdag fredag lördag söndag sommar vinter vår höst januari februari mars april maj juni juli
augusti september oktober november december
"""),
    number_words=words("""
ett två tre fyra fem sex sju åtta nio tio elva tolv tjugo trettio hundra tusen par gånger
"""),
    cues={
        "question": r"^(?:och |men )?(?:vem|vad|när|var|vart|vilken|vilket|vilka|varför|hur)\b",
        "request": (
            "^(?:snälla |kan du )?(?:beställ|boka|föreslå|förklara|gör|hitta|hjälp|köp|ordna|planera"
            r"|påminn|ring|räkna|sammanfatta|skicka|skriv|svara|sök|visa|översätt)\b"
        ),
    },
)
