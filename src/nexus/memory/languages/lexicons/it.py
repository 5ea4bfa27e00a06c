"""What Nexus knows about Italian."""

from typing import Final

from nexus.memory.languages.lexicon import Calendar, Lexicon, counts, names, words

LEXICON: Final = Lexicon(
    code="it",
    stemmer="italian",
    letters="ìòàèù",
    function_words=words("""
a abbiamo ad ai al alcune alcuni alla alle allo allora anche ancora avere aveva avevo avuto c che chi ci
ciò come con contro cosa così cui d da dagli dai dal dalla dalle degli dei del della delle dello dentro di
dopo dove dov dovrei e è ed era erano ero essere fa fino fra gli già ha hai hanno ho i il in io l la le
lei li lo loro lui ma me mi mia mie miei mio molto n ne negli nei nel nella nelle nessun nessuno noi non
nostra nostri nostro o ogni oppure per perché perciò più poi possiamo posso prima può qual quale quali
quando quanta quante quanti quanto quasi quel quella quelle quelli quello questa queste questi questo qui
s sarà se sei sempre senza si sia siamo sono sta stata stati stato sto su sua sue sugli sui sul sulla suo
suoi t ti tra tu tua tuo tutta tutte tutti tutto un una uno v vi voi vostra vostro
"""),
    time_words=words("""
ieri oggi domani stasera scorsa scorso prossima prossimo settimana settimane mese mesi anno anni giorno
giorni fa lunedì martedì mercoledì giovedì venerdì sabato domenica estate inverno primavera autunno
gennaio febbraio marzo aprile maggio giugno luglio agosto settembre ottobre novembre dicembre
"""),
    number_words=words("""
uno due tre quattro cinque sei sette otto nove dieci undici dodici venti trenta cento mille paio volte
"""),
    nobody=words("il lo"),
    cues={
        "question": (
            "^(?:e |ma |allora )?(?:chi|che|cosa|quando|dove|quale|quali|perché|come|quant[oaie]"
            r"|con chi|di chi)\b"
        ),
        "request": (
            "^(?:per favore,? |puoi |potresti )?(?:aggiungi|aiuta|calcola|cerca|chiama|compra|confronta"
            "|correggi|crea|dammi|dimmi|fai|invia|mandami|manda|mostra|ordina|organizza|pianifica"
            "|prenota|prepara|proponi|ricorda|riassumi|rispondi|scegli|scrivi|spiega|suggerisci|traduci"
            r"|trova)\w*\b"
        ),
        "yes": "s[ìi]|certo|ok|okay|va bene|esatto|giusto|perfetto|d'accordo|certamente|vero",
        "no": "no|per niente|mai|falso|sbagliato",
        "negation": r"\b(?:non|mai|nessuno|niente|nulla|né|senza)\b",
        "harmless": r"\b(?:non dimenticare|non solo|perché no)\b|^no[,.!:; -]+",
        "negative": r"\b(?:odi|evit|allergic|intollerant|smess|annullat|rifiut)",
        "contrast": r"\b(?:ma|bensì|invece|tranne|più)\b",
        "asks": (
            "^(?:(?:e|ma|allora)[, ]+)*(?:che|cosa|dove|chi|quale|quali|perché|come|quando"
            r"|quant[oaie])\b"
        ),
        "remember": r"\b(?:ricorda che|ricordati che|tieni presente che|annota che)\b",
        "hypothetical": (
            r"\be se\b|\bimmagin|\bsuppon|\bin teoria\b|\bse\b.*\b\w+(?:ass[ei]|ess[ei]|iss[ei]|rebbe"
            r"|rei)\b"
        ),
        "joke": r"\b(?:scherzo|sto scherzando|per scherzo)\b",
        "naming": r"\b(?:chiamano|chiamiamo|soprannome|soprannominat[oa]|chiamat[oa]|alias)\b",
        "introduces": r"(?:\bmi chiamo|\bil mio nome è|\bsono)\s+",
        "refers": r"\b(?:lui|lei|loro|lo|la|li|le|suo|sua|questo|questa|quello|quella|lì|là)\b",
        "me": "io|me|mi|mio|mia|noi|proprietari[oa]|utente",
        "tag": "vero",
        "other": r"(?:e )?(?:lui|lei)\b",
        "article": "il |la ",
        "no_joke": r"\bnessuno? ?scherzo",
        "birthday": r"\b(?:compleanno|nat[oa] il)\b",
        "refers_back": r"(?:lui|lei|poi|ma)\b",
    },
    calendar=Calendar(
        months=names("""
gennaio|gen febbraio|feb marzo|mar aprile|apr maggio|mag giugno|giu luglio|lug agosto|ago settembre|set
ottobre|ott novembre|nov dicembre|dic
"""),
        weekdays=names("lunedì martedì mercoledì giovedì venerdì sabato domenica"),
        units={
            "day": "giorn[oi]",
            "week": "settiman[ae]",
            "weekend": "fine settimana|weekend",
            "month": "mes[ei]",
            "year": "ann[oi]",
        },
        days=counts("ieri -1, oggi 0, stasera 0, domani 1, dopodomani 2"),
        cardinals=names("""
uno due tre quattro cinque sei sette otto nove dieci undici dodici tredici quattordici quindici sedici
diciassette diciotto diciannove venti
"""),
        ordinals=names("primo secondo terzo quarto quinto sesto settimo ottavo nono decimo"),
        numbers=counts("un 1, una 1, trenta 30, quaranta 40, cinquanta 50, cento 100, mille 1000"),
        halves=counts("mezzo 1, mezza 1"),
        and_half="e mezz[oa]",
        next="prossim[oa]",
        last="scors[oa]|passat[oa]",
        ahead=("(?:tra|fra) {count} {unit}",),
        ago=("{count} {unit} fa",),
        bare_day=r"\b(?:il|al|del) (?P<day>\d{1,2})\b(?!:)",
    ),
)
