"""What Nexus knows about Polish."""

from typing import Final

from nexus.memory.languages.lexicon import Lexicon, words

LEXICON: Final = Lexicon(
    code="pl",
    stemmer="polish",
    letters="łżśąęćńź",
    function_words=words("""
a aby albo ale ani bardzo bez bo być był była było były byli będzie chce ci co czy dla do dlaczego gdy
gdzie go i ich ile im inny ja jak jaka jaki jakie jako je jednak jego jej jest jestem jeszcze jeśli już
kiedy kto która które który którzy ma mam mają mi miał miała mnie mną mogę może mój moja moje moim mu my
na nad nam nas nasz nasza nic nich nie niego nim niż o od on ona one oni ono oraz po pod przed przez przy
są się sobie swoją swój ta tak także tam te tego tej ten teraz też to tu twoja twój ty tych tylko tym w
was we wasz wszystko wy z za ze że
"""),
    time_words=words("""
wczoraj dziś dzisiaj jutro ostatni ostatnio zeszły zeszłym tydzień tygodniu miesiąc miesiące rok roku lat
dzień dni temu poniedziałek wtorek środa czwartek piątek sobota niedziela lato zima wiosna jesień styczeń
luty marzec kwiecień maj czerwiec lipiec sierpień wrzesień październik listopad grudzień
"""),
    number_words=words("""
jeden dwa trzy cztery pięć sześć siedem osiem dziewięć dziesięć dwadzieścia sto tysiąc kilka raz razy
"""),
    cues={
        "question": (
            "^(?:a |i |ale )?(?:kto|kogo|komu|co|kiedy|gdzie|jak[aie]?|jaki|który|która|które|dlaczego"
            r"|czemu|ile|czy)\b"
        ),
        "request": (
            "^(?:proszę,? |czy możesz )?(?:daj|kup|napisz|odpowiedz|policz|pomóż|powiedz|przetłumacz"
            "|przygotuj|przypomnij|streść|umów|wyjaśnij|wyślij|zadzwoń|zamów|zaplanuj|zaproponuj"
            r"|zarezerwuj|znajdź|zorganizuj|zrób)\b"
        ),
    },
)
