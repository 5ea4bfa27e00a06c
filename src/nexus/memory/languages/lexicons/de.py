"""What Nexus knows about German."""

from typing import Final

from nexus.memory.languages.lexicon import (
    Calendar,
    Lexicon,
    People,
    Periods,
    Topic,
    counts,
    names,
    phrases,
    roles,
    unions,
    words,
)

LEXICON: Final = Lexicon(
    code="de",
    stemmer="german",
    letters="ßäöü",
    function_words=words("""
aber alle allem allen aller alles als also am an ander andere anderen anderer anderes auch auf aus bei
beim bereits bin bis bist bitte bloß da dabei dadurch dafür dagegen daher damit danach daneben dann daran
darauf darf darfst daraus darin darüber darum darunter das dass davon davor dazu dein deine deinem deinen
deiner deines dem den denen denn der deren des deshalb dessen deswegen dich die dies diese dieselbe diesem
diesen dieser dieses dir doch dort du durch durfte durften dürfen eben ebenso eigentlich ein eine einem
einen einer eines einige einigem einigen einiger einiges er es etwa etwas euch euer eure eurem euren eurer
für gegen gegenüber gewesen geworden gibt gab hab habe haben habt hast hat hatte hatten hattest hier hin
hinter hätte hätten ich ihm ihn ihnen ihr ihre ihrem ihren ihrer ihres im immer in indem ins irgendwann
irgendwas irgendwie irgendwo ist ja jede jedem jeden jeder jedes jene jenem jenen jener jenes jetzt kann
kannst kein keine keinem keinen keiner keines konnte konnten können könnte könnten mal man manche manchem
manchen mancher manches mehr mein meine meinem meinen meiner meines mich mir mit muss musst musste mussten
muß müssen müsste nach nachdem neben nein nicht nichts noch nun nur ob obwohl oder ohne schon sehr sei
seid sein seine seinem seinen seiner seines seit sich sie sind so sobald sodass sogar solche solchem
solchen solcher soll sollen sollte sollten somit sondern sonst soweit sowie statt trotz um und uns unser
unsere unserem unseren unserer unseres unter viel viele vielen vieler vom von vor wann war waren warst
warum was weder wegen weil weiter welche welchem welchen welcher welches wem wen wenn wer werde werden
wessen weshalb wie wieder wieso wieviel will willst wir wird wirst wo wobei wodurch wofür woher wohin
womit wonach woran worauf woraus worin worüber wovon wozu wollen wollte wollten worden wurde wurden
während wäre wären würde würden zu zum zur zwar zwischen über überhaupt
"""),
    time_words=words("""
gestern heute morgen vorgestern übermorgen abends morgens letzte letzten letzter letztes letztem nächste
nächsten nächster nächstes vorige vorigen vergangene vergangenen woche wochen wochenende tag tage tagen
monat monate monaten jahr jahre jahren vor seit kürzlich neulich montag dienstag mittwoch donnerstag
freitag samstag sonnabend sonntag sommer winter frühling frühjahr herbst januar jänner februar märz april
mai juni juli august september oktober november dezember uhr
"""),
    number_words=words("""
eins zwei drei vier fünf sechs sieben acht neun zehn elf zwölf zwanzig dreißig hundert tausend paar
mehrere einmal zweimal dreimal
"""),
    name_verbs=words("ist war hat mag wohnt arbeitet leitet braucht und heißt"),
    noun_articles=words("""
der die das den dem des ein eine einen einem einer kein keine keinen mein meine meinen meinem meiner sein
seine seinen ihr ihre ihren ihrem ihrer im am zum zur beim vom ins ans jeden jede jedes diese dieser
dieses diesen ohne viel viele als zu für mit gegen auf an in bei von aus nach seit um pro neue neuen neuer
neues alte alten großen kleine
"""),
    titles=words("herr frau"),
    nobody=words("besitzer nutzer der die das er sie ich wir"),
    cues={
        "restriction": (
            r"\ballerg|\bunverträglich|\bintoleran|\bvegetari|\bvegan|\bdiabet|\bzöliakie|\basthma"
            r"|\bschwanger|\bhalal\b|\bkoscher\b|\b(?:darf|verträgt|isst|trinkt)\b[^.]*\b(?:nicht"
            r"|kein\w*)\b"
        ),
        "circumstance": (
            r"\bwohnt\b|\blebt (?:in|bei|mit)\b|\barbeitet (?:als|bei|in|für)\b|\bist von Beruf\b"
        ),
        "question": (
            "^(?:(?:und|also|aber|hey|hallo|ok|okay|na|sag mal)[,!. ]+)*(?:wer|wen|wem|wessen|was|wann"
            "|wo|wohin|woher|welche[rsnm]?|warum|wieso|weshalb|wie|womit|wofür|worüber|ist|sind|war"
            r"|waren|hat|haben|hast|kann|kannst|könntest|wird|soll|darf|gibt es|wei(?:ß|ss)t du)\b"
        ),
        "request": (
            "^(?:(?:bitte|hey|hallo|ok|okay|und|dann|jetzt|(?:kannst|könntest"
            "|würdest) du(?: bitte)?)[,!. ]+)*(?:antworte|bereite|berechne|bestell|besorg|buch|entwirf"
            "|erinner|erklär|erstell|fass|find|formatier|formulier|frag|füll|gib|hilf|hol|kauf|koch"
            "|korrigier|leg|lies|mach|melde|nenn|ordne|organisier|pack|plan|prüf|rechne|reservier"
            "|richte|ruf|sag|schick|schreib|sortier|stell|such|trag|übersetz|vergleich|wandle|zeig"
            r"|zähl)e?\b"
        ),
        "constraint": (
            r"\ballerg|\bunverträglich|\bintoleran|\b(?:kann|darf|will|mag|isst|trinkt"
            r"|verträgt)\b[^.]*\b(?:nicht|kein\w*)\b|\b(?:lieber|bevorzugt|am liebsten|mag|hasst|muss"
            r"|braucht|nur|nie|vegetari\w*|vegan\w*|Angst)\b"
        ),
        "reason": r"\bweil\b|\bdenn\b|\bwegen\b|\bdamit\b|\bda (?:er|sie|es|die|der|das)\b|\bnachdem\b",
        "when": (
            r"\bwann\b|\b(an )?(welche[mnrs]?|was für ein(em|en)?) (tag|tage|tagen|datum|uhrzeit|jahr"
            r"|monat|woche|wochentag|termin)\b|\bwie lange\b|\bwie alt\b|\bwie bald\b"
            r"|\bum wie ?viel uhr\b|\bwie spät\b|\bbis wann\b|\bseit wann\b|\bauf welchen tag\b"
        ),
        "count": r"\bwie ?viele?[nr]?\b|\bwie oft\b|\bwie hoch\b|\bwie teuer\b|\banzahl\b",
        "why": (
            r"\bwarum\b|\bwieso\b|\bweshalb\b|\bweswegen\b|\baus welche[mn] gr(und|ünden)\b"
            r"|\bwelche[rn]? gr(und|ünde)\b|\bgr(und|ünde) (für|dafür|warum)\b|\bwie kam es\b"
            r"|\bwie kommt es\b|\bwas war der grund\b|\bwozu\b|\bworan (ist|lag|liegt|sind|war)\b"
            r"|\bwodurch\b"
        ),
        "past": (
            r"\bbeim ersten mal\b|\b(das )?erste mal\b|\b(war|waren|warst|hatte|hatten|hie(?:ß|ss)(?:en)?"
            r"|galt|galten)\b.*\b(19|20)\d\d\b|\b(war\w*|hatten?|wohnte\w*|arbeitete\w*)\b.*\b(bevor|vor)\b"
            r"|\b(wo|wer|was|wie|wem|wann|welche\w*)\b.*\b(bevor|vor)\b.*\b(war\w*|hatten?|ge\w{3,}(t|en))\b"
            r"|\bvorher(ige[nmrs]?)?\b|\bzuvor\b|\bdavor\b"
            r"|\bfrüher(e[nmrs]?)?\b|\behemalige?[nmrs]?\b|\bursprünglich(e[nmrs]?)?\b|\banfangs\b"
            r"|\bam anfang\b|\bzu beginn\b|\bzuerst\b|\bzunächst\b|\bdamals\b|\bseinerzeit\b|\beinst\b"
            r"|\b(letztes|voriges|vergangenes) jahr\b|\bim (letzten|vorigen|vergangenen) jahr\b"
            r"|\balte[nrs]? (adresse|nummer|telefonnummer|wohnung|auto|chef|chefin|arzt|ärztin|schule"
            r"|name|preis|miete|vermieter|stelle|job|termin|plan)\b|\berste[nrs]? (plan"
            r"|angebot|termin|idee|entwurf|preis)\b"
        ),
        "before": (
            r"\bbevor\b|\bvor (?=(dem|der|den|herrn|frau|seine[mr]|ihre[mr]|meine[mr]|unsere[mr])\b"
            r"(?! (tür|haustür|haus)))"
        ),
        "due": (
            r"\b(bin|ist|sind|soll\w*|muss\w*|müssen|darf|dürfen|kann\w*|können|will|wollen|möchte\w*|werden?"
            r"|wird|brauch\w*|mach\w*|gibt)\b.*\b(bevor|vor)\b|\b(bevor|vor)\b.*\bzu \w+n\b|\bvor (dem|der)"
            r" (montag|dienstag|mittwoch|donnerstag|freitag|samstag|sonntag|mittag\w*|abend\w*|früh\w*"
            r"|schlafen\w*|wochenende|nächsten|kommenden|ende|\d)"
        ),
        "present": (
            r"\bjetzt\b|\baktuell(e[nmrs]?)?\b|\bmomentan\b|\bzur ?zeit\b|\bderzeit(ige[nmrs]?)?\b"
            r"|\bgerade\b|\bheute\b|\binzwischen\b|\bmittlerweile\b|\bam ende\b|\bletztlich\b"
            r"|\bletzten endes\b|\bschlie(?:ß|ss)lich\b|\bim moment\b|\bnoch (?!nie)|\bgegenwärtig\b"
            r"|\bneueste[nmrs]?\b|\bneue[nmrs]? (adresse|nummer|wohnung|chef|chefin)\b"
        ),
        "survey": (
            r"\bzusammenfass|\breihenfolge\b|\bim laufe der\b|\büber die zeit\b|\bliste\b"
            r"|\bzähl(e)? .*auf\b|\balle[ns]?\b.*\b(die|was|wo)\b|\bwie hat sich\b|\bwie haben sich\b"
        ),
        "first_person": (
            r"\b(ich|mein|meine|meinem|meinen|meiner|meines|mich|mir|wir|uns|unser|unsere|unserem"
            r"|unseren|unserer|unseres)\b"
        ),
        "yes": (
            "ja|jap|jo|jawohl|klar|ok|okay|genau|stimmt|richtig|gerne?|natürlich|sicher|auf jeden fall"
            "|passt|mach das|mach|doch|in ordnung|einverstanden|perfekt|gut|korrekt"
        ),
        "no": "nein|nee|ne|nö|falsch|stimmt nicht|auf keinen fall|niemals",
        "negation": r"\b(?:nicht|kein\w*|nie|niemals|niemand|nichts|weder|ohne)\b",
        "harmless": (
            r"\b(?:nicht vergessen|vergiss nicht|nicht nur|kein problem|keine sorge|warum nicht)\b"
            "|^(?:nein|nee|nö|ne)[,.!:; -]+"
        ),
        "negative": (
            r"\b(?:hass|meide|vermeid|allerg|intoleran|unverträglich|aufgehört|aufgegeben|abgesagt"
            r"|verweiger|un\w{4,})"
        ),
        "contrast": r"\b(?:sondern|aber|stattdessen|statt|au(?:ß|ss)er|mehr|bis)\b",
        "asks": (
            "^(?:(?:und|aber|also|hey|na|bitte|übrigens)[, ]+)*(?:was|wo|wer|wessen|wem|wen"
            r"|welche[rsnm]?|warum|wieso|weshalb|wie|wohin|woher|wann)\b|^(?:ist|sind|war|hat|habe|haben"
            r"|kann|kannst|können|könntest|soll|sollte|darf|wird|wirst|wei(?:ß|ss)t|gibt)\s+(?:ich"
            r"|du|er|sie|es|wir|ihr|mein|meine|der|die|das|man|jemand)\b|^(?:sag mir|zeig mir|such|finde)\b"
        ),
        "remember": (
            r"\b(?:merk dir|merke dir|notiere?|denk daran|denk dran|vergiss nicht|beachte|schreib auf"
            r"|erinnere? mich daran)\b"
        ),
        "hypothetical": (
            r"\bwas wäre,? wenn\b|\bangenommen\b|\bstell dir vor\b|\bhypothetisch|\btheoretisch\b"
            r"|\b(?:wenn|falls)\b.*\b(?:würde\w*|wäre\w*|hätte\w*|könnte\w*|käme\w*|zöge\w*|ginge\w*)\b"
            r"|\b(?:würde\w*|wäre\w*|hätte\w*|könnte\w*)\b.*\b(?:wenn|falls)\b"
        ),
        "joke": (
            r"\b(?:nur |kleiner )?(?:scherz|spa(?:ß|ss)|witz)\b"
            r"|\bich (?:scherze|mach(?:e)? nur spa(?:ß|ss))\b|\bnicht ernst gemeint\b|\bverarsch"
        ),
        "naming": (
            r"\b(?:nennt|nennen|nenne|genannt|spitzname\w*|hei(?:ß|ss)[te]|kurz für|rufname"
            r"|ruft|rufen|alias)\b"
        ),
        "introduces": (
            r"(?:\bmein name ist|\bich hei(?:ß|ss)e|\bich bin(?: die| der)?|\bnenn mich|\bhier ist)\s+"
        ),
        "refers": (
            r"\b(?:er|sie|es|ihn|ihm|ihr|ihre[rnms]?|sein\w*|der|die|das|dies\w*|dort|da|beide\w*|darauf"
            r"|dahin)\b"
        ),
        "me": "ich|mich|mir|mein|meine|wir|uns|besitzer|besitzerin|der besitzer|eigentümer|nutzer|benutzer",
        "tag": "oder|nicht wahr|stimmt's",
        "other": r"(?:und )?er\b",
        "unnamed": r"(?:er|sie|ihre?|seine?)\b",
        "article": "der |die ",
        "no_joke": r"\bkein ?(?:scherz|spa(?:ß|ss))",
        "phone": r"\b(?:telefon\w*|handy\w*|nummer)\b",
        "birthday": r"\b(?:geburtstag|geboren)\b",
        "diet": r"\b(?:unverträglich\w*|vegetarier\w*|vegetarisch|zöliakie|koscher|laktose\w*)\b",
        "lasting": r"\b(?:seit|ab|geboren|geburtstag|jede[nrms]?|bis|zog)\b",
        "refers_back": r"(?:er|sie|es|das|dann|und|aber|oder)\b",
    },
    people=People(
        common=words("""
aber als am an auch auf aus bei beim bin bis das dem den der des die du ein eine einem einen einer er es
für hat habe haben ich ihm ihn ihr ihre ihren im in ist kann man mein meine meinem meinen meiner mich
mir mit muss nach nicht noch oder sein seine seit sich sie sind über um und uns unser unsere von vom vor
war warum wann was wem wen wer wie wieder wir wird wo wurde zu zum zur
"""),
        first=words("""
ich mich mir mein meine meinem meinen meiner meines wir uns unser unsere unserem unseren unserer unseres
"""),
        possessive=words("""
mein meine meinem meinen meiner meines unser unsere unserem unseren unserer unseres
"""),
        third=words("sein seine seinem seinen seiner seines ihr ihre ihrem ihren ihrer ihres"),
        of=words("von vom bei des der"),
        copula=words("ist war sind waren wird wurde bleibt heißt hieß namens als"),
        conjunction=words("und"),
        definite=words("der die das dem den"),
        neutral=words("der die das dem den des ein eine einen einer einem dr herr frau prof"),
        unions=unions(
            spouse="verheiratet mit|verheiratet|heirateten|heiratete",
            partner="verlobt mit|verlobt|liiert mit|zusammen mit",
        ),
        roles=roles("""
spouse: mann|ehemann|gatte / frau|ehefrau|gattin / ehepartner
partner: freund|lebensgefährte|lebenspartner|verlobter|partner / freundin|lebensgefährtin|lebenspartnerin
|verlobte|partnerin / liebste|liebster|schatz
ex: ex-mann|exmann|ex-freund|exfreund / ex-frau|exfrau|ex-freundin|exfreundin / ex|ex-partner|ex-partnerin
child: sohn|söhne|jungs|stiefsohn|pflegesohn / tochter|töchter|mädchen|mädels|stieftochter
|pflegetochter / kind|kinder|kids|baby|älteste|ältester|jüngste|jüngster|zwillinge|pflegekind
parent: vater|papa|papi|stiefvater|paps / mutter|mama|mami|stiefmutter|mutti / eltern|elternteil
sibling: bruder|brüder|halbbruder / schwester|schwestern|halbschwester / geschwister|zwilling
grandparent: großvater|opa|opi / großmutter|oma|omi / großeltern
grandchild: enkel|enkelsohn / enkelin|enkelinnen|enkeltochter / enkelkind|enkelkinder|enkel
uncle_aunt: onkel / tante|tanten /
niece_nephew: neffe|neffen / nichte|nichten /
cousin: cousin|vetter / cousine /
parent_in_law: schwiegervater / schwiegermutter / schwiegereltern
child_in_law: schwiegersohn / schwiegertochter /
sibling_in_law: schwager / schwägerin /
godchild: patensohn / patentochter / patenkind
godparent: patenonkel|pate / patentante|patin / paten
friend: freund|kumpel|freunde / freundin|freundinnen / freunde
boss: chef|vorgesetzter|teamleiter|abteilungsleiter|chefs / chefin|vorgesetzte|teamleiterin
|abteilungsleiterin / vorgesetzten
report: mitarbeiter|angestellter|geselle|gesellen|assistent / mitarbeiterin|angestellte|gesellin
|assistentin / mitarbeitende|stellvertreter|stellvertreterin
colleague: kollege|kollegen|arbeitskollege / kollegin|kolleginnen|arbeitskollegin /
mentor: betreuer|doktorvater|ausbilder|meister / betreuerin|doktormutter|ausbilderin|meisterin / mentor
|mentorin
mentee: azubi|lehrling|auszubildender|praktikant / azubine|auszubildende|praktikantin /
pupil: schüler|student / schülerin|studentin / schülern
neighbor: nachbar|nachbarn / nachbarin|nachbarinnen /
roommate: mitbewohner / mitbewohnerin /
landlord: vermieter|hausbesitzer / vermieterin|hausbesitzerin /
tenant: mieter|untermieter / mieterin|untermieterin /
doctor: arzt|hausarzt|kinderarzt|frauenarzt|doktor / ärztin|hausärztin|kinderärztin|frauenärztin / chirurg
|chirurgin|orthopäde|orthopädin|kardiologe|kardiologin|neurologe|neurologin
patient: patient / patientin /
dentist: zahnarzt|kieferorthopäde / zahnärztin|kieferorthopädin /
vet: tierarzt / tierärztin /
therapist: therapeut|psychologe|physiotherapeut|krankengymnast / therapeutin|psychologin|physiotherapeutin
|krankengymnastin / physio|osteopath|osteopathin
midwife: / / hebamme
teacher: lehrer|klassenlehrer|erzieher|dozent / lehrerin|klassenlehrerin|erzieherin|dozentin / chorleiter
|chorleiterin
coach: trainer / trainerin /
lawyer: anwalt|rechtsanwalt|notar / anwältin|rechtsanwältin|notarin /
accountant: steuerberater|buchhalter / steuerberaterin|buchhalterin /
tradesperson: klempner|elektriker|schreiner|maler|gärtner|mechaniker|handwerker|hausmeister
|schornsteinfeger / klempnerin|elektrikerin|schreinerin|malerin|gärtnerin|mechanikerin /
hairdresser: friseur / friseurin /
sitter: / tagesmutter / babysitter|babysitterin|hundesitter|hundesitterin
cleaner: / putzfrau / putzhilfe|reinigungskraft
client: kunde|kunden|auftraggeber / kundin|auftraggeberin /
supplier: lieferant / lieferantin / lieferanten
dog: hund|rüde|hunde / hündin / welpe|dackel|pudel|terrier
cat: kater / katze|katzen /
pet: / / haustier|haustiere|pferd|kaninchen|hase|hamster|papagei|meerschweinchen|wellensittich|schildkröte
"""),
        needs_holder=words("""
mann frau freund freundin mädchen jungs partner partnerin patient patientin student studentin liebste
liebster schatz pate meister meisterin älteste ältester jüngste jüngster ex
"""),
        needs_language=words("""
kind chef mama hase pate papi patient cousin kids baby partner trainer student frau mann
"""),
        called=words("mama papa mami papi mutti paps oma opa omi opi"),
    ),
    changes={
        "change": phrases("""
jetzt, nun, inzwischen, mittlerweile, kunftig, neu, neue, neuer, neues, neuen, seit, ab, statt,
stattdessen, anstatt, anstelle, verschoben, verlegt, umgezogen, gewechselt, wechselt, umbenannt,
ersetzt, gestiegen, steigt, erhoht, gesenkt, geandert, wieder, heisst, nachfolger, nachfolgerin,
vorgezogen, verlangert, endgultig, endgultige, endgultiger, bestanden
"""),
        "end": phrases("""
nicht mehr, kein, keine, keinen, keiner, nur noch, aufgehort, aufgegeben, beendet, abgesagt, gekundigt,
zuruckgezahlt, zuruckgegeben, verkauft, getrennt, geschlossen, abgemeldet
"""),
        "correction": phrases("""
korrektur, ich meinte, meinte, tippfehler, verschrieben, vertippt, versprochen, falsch, moment, warte,
nein, eigentlich, doch, entschuldigung, pardon
"""),
        "cancellation": phrases("""
abgesagt, fallt aus, findet nicht statt, storniert, gestrichen, doch nicht
"""),
        "reschedule": phrases("verschoben, verlegt, vorgezogen"),
        "addition": phrases("""
auch, ausserdem, zusatzlich, weitere, weiterer, weiteres, zweite, zweiter, zweites
"""),
        "exception": phrases("""
diese woche, dieses mal, diesmal, ausnahmsweise, nur heute, vorubergehend, solange, bis
"""),
        "many": phrases("""
mochte, mag, liebt, hat gelesen, besuchte, kaufte, kocht, kennt, spricht, spielt, besitzt, hat ein, hat
eine, ist allergisch
"""),
        "plan": phrases("plant, geplant, mochte, will, soll, sollen, muss, voraussichtlich, hofft"),
        "hearsay": phrases("scherz, gerucht, vielleicht, uberlegt, konnte, wenn"),
        "past": phrases("fruher, damals, letztes jahr, letzten, ehemals, ursprunglich"),
    },
    attributes={
        "home": names("wohn umgezog zuhaus adresse"),
        "work": names("arbeit angestell beruf firma praxis"),
        "phone": names("telefon handy nummer festnetz"),
        "debt": names("schulde geliehen"),
        "price": names("kostet preis miete stundensatz verdien gehalt"),
        "name": names("heisst namen umbenannt"),
        "doctor": names("hausarzt hausarztin arzt zahnarzt tierarzt"),
        "vehicle": names("auto wagen fahrt"),
        "diet": names("isst vegetarier vegetarierin fleisch trinkt"),
        "deadline": names("fertigstellung termin frist"),
        "schedule": names("unterricht probe kurs"),
        "school": names("schule klasse studiert"),
        "partner": names("freund freundin partnerin verlobt"),
        "size": names("schuhgrosse grosse wiegt"),
        "health": names("nimmt tablette medikament"),
        "holder": names("zustandig leitet ansprech"),
        "tool": names("benutzt"),
        "account": names("konto"),
        "birthday": names("geburtstag"),
        "dose": names("dosis"),
        "time": names("beginnt offnet"),
        "color": names("farbe"),
        "pet": names("hund katze"),
    },
    fillers=words("""
aber als auch auf aus bei das dass dem den der des die ein eine einem einen einer eines fur haben hat
hatte ihr ihre ihrem ihren ist kann mit nach nicht noch nur oder schon sehr sein seine seinem seinen
seiner sich sie sind uber und uns unter vom von vor war waren weil wenn werden wie wird wurde zum zur
"""),
    topics={
        "food": Topic(
            task=words("""
abendessen mittagessen frühstück essen menü koch koche kocht rezept kuchen backe grill picknick
einkaufszettel snack lokal
"""),
            fact=words("""
allergi unverträg vegetari vegan isst trinkt essen fleisch fisch nüsse laktose zöliak alkohol schmeckt
"""),
        ),
        "reach": Topic(
            task=words("""
besuch paket päckchen etikett überweis schreib mail ruf rufe anruf sag sage nachricht schick einlad
antwort frag frage melde brief bescheid
"""),
            fact=words("telefon nummer handy mail adresse erreich anruf schreibt spricht"),
        ),
        "travel": Topic(
            task=words("""
flug flüge flieg zug züge reise hotel urlaub fahrkarte ticket flughafen fähre koffer ausflug wochenende
abgeholt abhol
"""),
            fact=words("""
sitz gang fenster flug pass reisepass gültig abgelaufen bahncard vielflieger koffer reise zug fähre
aufzug treppe seekrank
"""),
        ),
        "gift": Topic(
            task=words("""
geschenk geburtstag blumen überrasch feier fest hochzeit weihnacht dankeschön einladung
"""),
            fact=words("mag liebt liebling wünscht größe geburtstag geboren sammelt hasst"),
        ),
        "wear": Topic(
            task=words("schuhe stiefel jacke mantel kleid hose hemd helm handschuh paar"),
            fact=words("größe trägt schuh"),
        ),
        "health": Topic(
            task=words("""
arzt klinik krankenhaus gesundheit zahnarzt rezept apotheke fragebogen aufnahmebogen kur notfall
"""),
            fact=words("""
allergi tablette blut medikament operation arzt diagnose versicher nimmt asthma herz rücken penicillin
"""),
        ),
        "time": Topic(
            task=words("termin kalender treffen woche plan einsatzplan verabred festleg"),
            fact=words("""
montag dienstag mittwoch donnerstag freitag samstag sonntag termin immer jeden jede bis schicht
"""),
        ),
        "money": Topic(
            task=words("rechnung angebot bezahl steuer bank kosten preis gebühr anteil"),
            fact=words("berechnet stundensatz rechnung zahlt schuldet steuer konto preis kostet miete"),
        ),
        "home": Topic(
            task=words("liefer reparier handwerk heizung vermieter klempner fahrer"),
            fact=words("wohnt straße wohnung stock schlüssel vermieter aufzug klingel"),
        ),
        "animal": Topic(
            task=words("hund katze haustier gassi füttern aufpass"),
            fact=words("hund katze tierarzt futter leine"),
        ),
        "phone": Topic(
            task=words("ruf anrufen telefon"),
        ),
        "account": Topic(
            task=words("überweis bezahl miete konto"),
        ),
        "address": Topic(
            task=words("paket päckchen etikett liefer besuch adresse postkarte"),
        ),
    },
    calendar=Calendar(
        months=names("""
januar|jänner|jan februar|feber|feb märz|maerz|mär april|apr mai juni|jun juli|jul august|aug
september|sept|sep oktober|okt november|nov dezember|dez
"""),
        weekdays=names("""
montags? dienstags? mittwochs? donnerstags? freitags? samstags?|sonnabends? sonntags?
"""),
        units={
            "day": "tag(?:e|en)?",
            "week": "wochen?",
            "weekend": "wochenendes?",
            "month": "monat(?:e|en|s)?",
            "quarter": "quartals?",
            "year": "jahr(?:e|en|s)?",
        },
        days=counts("vorgestern -2, gestern -1, heute 0, morgen 1, übermorgen 2"),
        cardinals=names("""
eins zwei drei vier fünf sechs sieben acht neun zehn elf zwölf dreizehn vierzehn fünfzehn sechzehn
siebzehn achtzehn neunzehn zwanzig einundzwanzig zweiundzwanzig dreiundzwanzig vierundzwanzig
fünfundzwanzig sechsundzwanzig siebenundzwanzig achtundzwanzig neunundzwanzig dreißig einunddreißig
"""),
        ordinals=names("""
erste zweite dritte vierte fünfte sechste siebte achte neunte zehnte elfte zwölfte dreizehnte vierzehnte
fünfzehnte sechzehnte siebzehnte achtzehnte neunzehnte zwanzigste einundzwanzigste zweiundzwanzigste
dreiundzwanzigste vierundzwanzigste fünfundzwanzigste sechsundzwanzigste siebenundzwanzigste
achtundzwanzigste neunundzwanzigste dreißigste einunddreißigste
"""),
        numbers=counts("""
ein 1, eine 1, einem 1, einer 1, einen 1, ersten 1, zweiten 2, dritten 3, siebten 7, siebzehnten 17,
sechzehnten 16, zwanzigsten 20, paar 2, dutzend 12, vierzig 40, fünfzig 50, sechzig 60, siebzig 70,
achtzig 80, neunzig 90, hundert 100, tausend 1000
"""),
        halves=counts("einem halben 1, einer halben 1, halben 1, anderthalb 3, eineinhalb 3, zweieinhalb 5"),
        next="nächste[mnrs]?",
        coming="kommende[mnrs]?",
        last="(?:letzt|vorig|vergangen)e[mnrs]?",
        ahead=("in {count} {unit}",),
        ago=("vor {count} {unit}",),
        bare_day=(
            r"\b(?:am|den|dem|der|auf|vom|zum) (?P<day>\d{1,2})\.?(?!\d|\.\d|:)"
            r"|\b(?P<day2>\d{1,2})\.(?=\s|$|,)"
        ),
        past=r"war|waren|hatte\w*|ging\w*|traf\w*|kam\w*|ge\w{3,}(?:t|en)",
        habit="jede[nrs]?|immer",
        periods=Periods(
            seasons=names("frühling|frühjahr sommer herbst winter"),
            quarters=names("erste[mnrs]? zweite[mnrs]? dritte[mnrs]? vierte[mnrs]?"),
            about="etwa |ungefähr |rund |gut ",
            rough=counts("ein paar 3, einigen 3"),
            this="diese[mnrs]?|am",
            within="im|in|seit|ab|bis|des|den|am",
            joins="und|bis",
            has_bare_years=True,
        ),
    ),
)
