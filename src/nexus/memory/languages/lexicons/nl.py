"""What Nexus knows about Dutch."""

from typing import Final

from nexus.memory.languages.lexicon import Lexicon, words

LEXICON: Final = Lexicon(
    code="nl",
    stemmer="dutch",
    letters="",
    function_words=words("""
aan achter al alle alleen als altijd andere ben bij bijna daar daarom dan dat de der deze die dit doch
doen door dus een eens elke en er ergens etc haar had hadden heb hebben heeft hem hen het hier hij hoe
hoeveel hun iemand iets ik in is ja je jij jou jouw jullie kan kon kunnen kunt maar me mee meer men met
mij mijn misschien moest moet moeten na naar naast nee niemand niet niets nog nooit nu of om omdat onder
ons onze ook op over overal reeds samen sinds te tegen terwijl toch toen tot tussen u uit uw vaak van veel
vanaf voor waar waarom waarop wanneer want waren was wat we wel welk welke werd werden wie wij wil wilde
worden wordt zal ze zelf zich zij zijn zo zonder zou zouden
"""),
    time_words=words("""
gisteren vandaag morgen vanavond vorige volgende afgelopen week weken weekend maand maanden jaar jaren dag
dagen geleden sinds maandag dinsdag woensdag donderdag vrijdag zaterdag zondag zomer winter lente voorjaar
herfst januari februari maart april mei juni juli augustus september oktober november december
"""),
    number_words=words("""
één twee drie vier vijf zes zeven acht negen tien elf twaalf twintig dertig honderd duizend paar keer
"""),
    cues={
        "question": (
            r"^(?:en |maar |dus )?(?:wie|wat|wanneer|waar|welke?|waarom|hoe|hoeveel|met wie|van wie)\b"
        ),
        "request": (
            "^(?:alsjeblieft,? |kun je |kan je )?(?:antwoord|bel|bereken|bestel|boek|geef|help|herinner"
            "|koop|maak|organiseer|plan|regel|reserveer|schrijf|stel|stuur|vat|vertaal|vertel|vind"
            r"|vraag|vul|zeg|zoek)\b"
        ),
    },
)
