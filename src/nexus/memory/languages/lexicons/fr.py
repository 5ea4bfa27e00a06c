"""What Nexus knows about French."""

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
    code="fr",
    stemmer="french",
    letters="èêëàâùûîïœ",
    function_words=words("""
a à afin ai aie ainsi alors après as assez au aucun aucune aujourd auprès auquel aura aurait aurai auront
aussi autant autre autres aux auxquels avaient avais avait avant avec avez avions avoir avons ayant bien c
ça car ce ceci cela celle celles celui ces cet cette ceux chacun chacune chaque chez ci combien comme
comment contre d dans de dehors déjà depuis derrière des désormais dessous dessus devais devait devant
devoir devons devrait dois doit doivent donc dont du duquel durant elle elles en encore enfin ensuite
entre envers es est et étaient étais était étant été êtes être eu eue eurent eut eux fait faire fais font
fut furent hors ici il ils j jamais je jusqu jusque l la là laquelle le lequel les lesquelles lesquels
leur leurs lors lorsque lui m ma mais malgré me même mêmes mes mien mienne moi moins mon n ne ni non nos
notre nôtre nous on ont or ou où par parce parfois parmi pas pendant personne peu peut peuvent peux plus
plusieurs plutôt pour pourquoi pourrait pourtant pouvait pouvoir près presque pu puis puisque qu quand
quant que quel quelle quelles quelqu quelque quelques quels qui quoi quoique rien s sa sans sauf se selon
sera serai serait seront ses si sien sienne soi soient sois soit sommes son sont sous suis sur t ta tandis
tant te tel telle telles tels tes toi ton toujours tous tout toute toutefois toutes très trop tu un une va
vais vas vers voici voilà vont vos votre vôtre vous y
"""),
    time_words=words("""
hier aujourd'hui demain soir dernier dernière derniers dernières prochain prochaine passé passée semaine
semaines week-end jour jours mois an ans année années récemment depuis lundi mardi mercredi jeudi vendredi
samedi dimanche été hiver printemps automne janvier février mars avril mai juin juillet août septembre
octobre novembre décembre heure heures
"""),
    number_words=words("""
un deux trois quatre cinq six sept huit neuf dix onze douze vingt trente cent mille plusieurs fois paire
"""),
    name_verbs=words("est a habite travaille aime veut et était"),
    titles=words("monsieur madame"),
    nobody=words("le la les il je nous vous"),
    cues={
        "restriction": (
            r"\ballergi|\bintoléran|\bvégétarien|\bvégan|\bdiabét|\bcœliaque|\bcoeliaque|\basthm"
            r"|\benceinte\b|\bhalal\b|\bne (?:peut pas (?:manger|boire|prendre)|mange|boit|supporte)\b"
        ),
        "circumstance": r"\bhabite\b|\bvit (?:à|en|avec|chez)\b|\btravaille (?:comme|à|chez|pour|dans)\b",
        "question": (
            "^(?:(?:et|mais|alors|dis|ok|bonjour|salut)[,!. ]+)*(?:qui|que|qu'|quoi|quand|où"
            "|quel(?:le)?s?|pourquoi|comment|combien|est-ce|est-il|à qui|avec qui|de qui"
            r"|depuis quand)(?:\b|(?<='))"
        ),
        "request": (
            "^(?:(?:s'il te plaît|stp|bonjour|salut|ok|et|alors|(?:peux|pourrais)-tu)[,!. ]+)*(?:achète"
            "|aide|ajoute|appelle|cale|calcule|cherche|choisis|classe|commande|compare|convertis"
            "|corrige|crée|demande|dis|donne|dresse|écris|envoie|explique|fais|fusionne|invite|liste"
            "|montre|organise|planifie|prépare|préviens|propose|rappelle|rédige|réduis|remplis|renomme"
            r"|réponds|réserve|résume|suggère|traduis|trie|trouve|vérifie)(?:\b|-)"
        ),
        "constraint": (
            r"\ballergi|\bintoléran|\bne (?:peut|mange|boit|supporte|veut|aime)\b|\bn'aime\b"
            r"|\b(?:préfère|aime|adore|déteste|préféré\w*|doit|besoin|seulement|jamais|végétarien\w*"
            r"|végan\w*|peur)\b"
        ),
        "reason": r"\bparce qu|\bpuisqu|\bcar\b|\bà cause\b|\bafin\b|\bpour que\b|\bgrâce à\b",
        "when": (
            r"\bquand\b|\bquel(le)?s? (jours?|dates?|heures?|ann[eé]es?|mois|semaines?)\b"
            r"|\bcombien de temps\b|\bdepuis combien\b|\bquel [aâ]ge\b|\b(depuis|jusqu'[aà]"
            r"|jusqu) quand\b|\bà partir de quand\b"
        ),
        "count": r"\bcombien\b|\bquel (est le )?(nombre|montant|prix)\b|\bnombre de\b",
        "why": (
            r"\bpourquoi\b|\bpour quelle(s)? raisons?\b|\bà cause de quoi\b|\bquelle(s)? (est|sont|était"
            r"|a été) (la|les) (raison|cause)s?\b|\b(raison|cause)s? (de|pour)\b|\bcomment se fait\b"
            r"|\bqu'est-ce qui (a|fait|explique)\b|\bdans quel but\b"
        ),
        "past": (
            r"\bla premi[eè]re fois\b|\bauparavant\b|\bpr[eé]c[eé]dent(e|es|s)?\b"
            r"|\bpr[eé]c[eé]demment\b|\bautrefois\b|\bjadis\b|\bà l'origine\b|\binitial(e|ement|s|es)?\b"
            r"|\bau (tout )?d[eé]but\b|\bd'abord\b|\bà l'[eé]poque\b|\ben ce temps\b|\bl'(an"
            r"|ann[eé]e) (dernier|derni[eè]re|pass[eé]e?)\b|\bancien(ne|s|nes)?\b|\b(viv|habit|travaill"
            "|appel|dirige|touch|fais|pren|pay|jou|all|gagn|log|conduis|suiv|command|livr)(ait|ais"
            r"|aient|ions)\b|\b([eé]tait|[eé]taient|avait|avaient|avions|[eé]tions)\b|\bpremi(er"
            r"|[eè]re) (devis|plan|date|id[eé]e|offre|choix)\b"
        ),
        "before": r"\bavant\b",
        "due": (
            r"\b(dois|doit|devons|doivent|faut|peux|peut|pouvons|veux|veut|voulons|vais|va|allons|est|sont"
            r"|prendre|fais|faire)\b.*\bavant\b|(?<!\ba)-t-(on|il|elle)\b.*\bavant\b|\bavant (ce |cette |la "
            r"|le |l'|fin |de )*(lundi|mardi|mercredi|jeudi|vendredi|samedi|dimanche|midi|minuit|demain|soir"
            r"|déjeuner|dîner|week-end|semaine|mois|fin|coucher|\d)"
        ),
        "present": (
            r"\bmaintenant\b|\bactuel(le|lement|s|les)?\b|\ben ce moment\b|\baujourd'hui\b"
            r"|\bd[eé]sormais\b|\bfinalement\b|\bau final\b|\bencore\b|\btoujours\b|\bces temps-ci\b"
            r"|\bà pr[eé]sent\b"
        ),
        "survey": r"\br[eé]sum|\bordre\b|\bau fil\b|\bliste\b|\b[eé]num[eè]re\b|\bcomment (a|ont) [eé]volu",
        "first_person": r"\b(je|j|mon|ma|mes|moi|me|m|mien|mienne|nous|notre|nos)\b",
        "yes": (
            "oui|ouais|ok|okay|d'accord|exactement|c'est ça|c'est vrai|bien sûr|tout à fait|parfait"
            "|vas-y|absolument|correct|volontiers|ça marche|si"
        ),
        "no": "non|pas du tout|jamais|faux|c'est faux",
        "negation": r"\b(?:pas|jamais|rien|personne|aucune?|sans|ni)\b|\bn'\w+|\bne\b",
        "harmless": (
            r"\b(?:n'oublie[sz]? pas|pas seulement|pas de problème|pourquoi pas|pas de souci)\b"
            "|^non[,.!:; -]+"
        ),
        "negative": r"\b(?:détest|évit|allergi|intolér|arrêt|annul|refus|renonc)",
        "contrast": r"\b(?:mais|plutôt|au lieu|sauf|plus|jusqu)",
        "asks": (
            "^(?:(?:et|mais|dis|alors|s'il te plaît)[, ]+)*(?:que|qu'est-ce|quoi|où|qui|quel(?:le)?s?"
            r"|pourquoi|comment|quand|combien|est-ce)\b|^(?:peux-tu|pourrais-tu|sais-tu|as-tu|dis-moi"
            r"|montre-moi|cherche)\b"
        ),
        "remember": (
            r"\b(?:retiens que|souviens-toi que|note que|rappelle-toi que|n'oublie pas que|sache que)\b"
        ),
        "hypothetical": (
            r"\bet si\b|\bimagin|\bsuppos|\bhypothé|\ben théorie\b|\bsi (?:je|j'|on|nous|il|elle|tu"
            r"|vous)\s?\w+(?:ais|ait|ions|iez|aient)\b|\bsi\b.*\b\w+rai[ts]\b"
        ),
        "joke": (
            r"\b(?:je (?:plaisante|rigole|blague)|c'est une blague|pour rire|je déconne|blague à part)\b"
            r"|\bmdr\b"
        ),
        "naming": r"\b(?:appelle|appellent|appelons|surnom|surnommée?|connue? sous|alias|dit|dite)\b",
        "introduces": r"(?:\bje m'appelle|\bmon nom est|\bje suis|\bappelle-moi|\bmoi c'est)\s+",
        "refers": (
            r"\b(?:il|elle|ils|elles|le|la|les|lui|leur|son|sa|ses|ce|cet|cette|cela|ça|c'est|y|là)\b"
        ),
        "me": "je|j'|moi|mon|ma|mes|nous|propriétaire|le propriétaire|la propriétaire|utilisat(?:eur|rice)",
        "tag": "n'est-ce pas|non",
        "other": r"(?:et )?(?:il|elle)\b",
        "unnamed": r"(?:il|elle)\b",
        "article": "le |la ",
        "no_joke": r"\bsans ?blague",
        "phone": r"\b(?:t[ée]l[ée]phone|portable)\b",
        "birthday": r"\b(?:anniversaire|n[ée]e? le)\b",
        "diet": r"\b(?:intol[ée]ran\w*|v[ée]g[ée]tarien\w*|v[ée]gan\w*)\b",
        "lasting": r"\b(?:depuis|partir|dès|née?|anniversaire|jusqu|chaque)\b",
        "refers_back": r"(?:il|elle|ils|ça|cela|et|mais)\b",
    },
    people=People(
        common=words("""
à au aux avec c ce ces cette combien comme comment dans de depuis des donc du elle en est et était fait
il ils j je l la le les leur lui ma mais me mes moi mon n ne nos notre nous on ont ou où par pas plus
pour pourquoi qu quand que quel quelle quelles quels qui s sa se ses si son sont sur ta ton tu un une
vos votre vous y
"""),
        first=words("je j moi me m mon ma mes mien mienne nous notre nos"),
        possessive=words("mon ma mes notre nos"),
        third=words("son sa ses leur leurs"),
        of=words("de du d des chez"),
        copula=words("est était sont étaient sera fut appelle appelait comme nommé nommée devient"),
        conjunction=words("et"),
        definite=words("le la les l au aux du"),
        neutral=words("le la les l un une au aux dr docteur docteure m mme monsieur madame maître"),
        unions=unions(
            spouse="marié à|mariée à|marié avec|mariée avec|sont mariés|a épousé",
            partner="fiancé à|fiancée à|fiancés|pacsés|pacsée avec|pacsé avec|en couple avec",
        ),
        roles=roles("""
spouse: mari|époux / femme|épouse / conjoint|conjointe
partner: petit ami|copain|compagnon|fiancé|chéri / petite amie|copine|compagne|fiancée|chérie / partenaire
ex: ex-mari|ex mari|ex-copain / ex-femme|ex femme|ex-copine / ex|ex-conjoint|ex-conjointe
child: fils|beau-fils / fille|filles|belle-fille / enfant|enfants|gamin|gamine|gamins|bébé|aîné|aînée|cadet
|cadette|jumeaux|jumelles
parent: père|papa|beau-père / mère|maman / parents
sibling: frère|frères|frangin|demi-frère / sœur|soeur|sœurs|frangine|demi-sœur / frères et sœurs|jumeau
|jumelle
grandparent: grand-père|papi|papy|pépé / grand-mère|mamie|mémé / grands-parents
grandchild: petit-fils / petite-fille|petites-filles / petits-enfants
uncle_aunt: oncle|tonton / tante|tata|tatie /
niece_nephew: neveu|neveux / nièce|nièces /
cousin: cousin / cousine|cousines / cousins
parent_in_law: beau-père / belle-mère / beaux-parents
child_in_law: gendre|beau-fils / belle-fille|bru /
sibling_in_law: beau-frère / belle-sœur /
godchild: filleul / filleule / filleuls
godparent: parrain / marraine /
friend: ami|copain|pote / amie|copine|amies / amis|copains
boss: chef|patron|responsable|supérieur / cheffe|patronne|supérieure / manager
report: employé|assistant|subordonné / employée|assistante / adjoint|adjointe
colleague: collègue / collègue / collègues
mentor: tuteur|directeur de thèse|maître de stage / tutrice|directrice de thèse / mentor|mentore
mentee: apprenti / apprentie / stagiaire|stagiaires
pupil: élève|étudiant / étudiante / élèves
neighbor: voisin / voisine / voisins
roommate: colocataire|coloc / colocataire|coloc / colocataires|colocs
landlord: propriétaire|proprio|bailleur / propriétaire|proprio /
tenant: locataire / locataire /
doctor: médecin|docteur|généraliste|gynéco|pédiatre / doctoresse|gynécologue / chirurgien|chirurgienne
|cardiologue|neurologue
patient: / / patient|patiente
dentist: / / dentiste|orthodontiste
vet: / / vétérinaire|véto
therapist: thérapeute|psy|psychologue|kiné|kinésithérapeute|ostéopathe|ostéo / /
midwife: / / sage-femme
teacher: professeur|prof|instituteur|maître / professeure|prof|institutrice|maîtresse /
coach: entraîneur|coach / entraîneuse /
lawyer: avocat|notaire / avocate /
accountant: comptable|expert-comptable / comptable /
tradesperson: plombier|électricien|menuisier|maçon|peintre|jardinier|garagiste|couvreur|gardien
|concierge / /
hairdresser: coiffeur / coiffeuse /
sitter: / nounou|nourrice|assistante maternelle / baby-sitter
cleaner: / femme de ménage /
client: client / cliente / clients
supplier: fournisseur / /
dog: chien / chienne / toutou|chiot
cat: chat / chatte / chaton
pet: / / animal|animaux|cheval|lapin|perroquet|tortue
"""),
        needs_holder=words("""
femme fille filles patient patiente étudiant étudiante animal animaux aîné aînée cadet cadette
responsable maître maîtresse propriétaire ex
"""),
        needs_language=words("""
chat mari chef bru pote patron ami amis papi tata patient animal client clients coach parents cousin
cousins responsable
"""),
        called=words("papa papi maman papy mamie mémé pépé tata tatie tonton"),
    ),
    changes={
        "change": phrases("""
maintenant, desormais, dorenavant, actuellement, depuis, nouveau, nouvel, nouvelle, au lieu, a la place,
passe a, est passe, est passee, reporte, reportee, repousse, repoussee, demenage, s installe,
finalement, remplace, remplacee, renomme, augmente, baisse, change, a nouveau, avance, avancee,
prolonge, renouvele, encore, remange
"""),
        "end": phrases("""
ne plus, n est plus, n a plus, plus de, plus d, a renonce, a arrete, a cesse, annule, annulee, a rendu,
rembourse, a vendu, a rompu, a quitte, a ferme, efface
"""),
        "correction": phrases("""
je voulais dire, erreur, me suis trompe, trompee, attends, en fait, plutot, desole
"""),
        "cancellation": phrases("annule, annulee, tombe a l eau, n a plus lieu"),
        "reschedule": phrases("reporte, reportee, repousse, repoussee, avance, avancee, decale, decalee"),
        "addition": phrases("aussi, egalement, autre, deuxieme, seconde, en plus, supplementaire"),
        "exception": phrases("""
cette semaine, cette fois, exceptionnellement, provisoirement, pendant, jusqu
"""),
        "many": phrases("""
veut, aime, a lu, a visite, a achete, a cuisine, connait, parle, joue, possede, a un, a une, est
allergique
"""),
        "plan": phrases("prevoit, prevoient, prevu, prevue, veut, espere, doit, compte, inscrit, inscrite"),
        "hearsay": phrases("blague, rumeur, peut etre, pourrait"),
        "past": phrases("avant, autrefois, l annee derniere, l an dernier, a l epoque"),
    },
    attributes={
        "home": names("habit demeur install appart studio"),
        "work": names("travaill emploi profess metier chomage"),
        "phone": names("telephone portable"),
        "debt": names("doit dette rembou"),
        "price": names("coute prix loyer tarif gagne touche devis salaire"),
        "name": names("appell nomme"),
        "doctor": names("medecin dentiste traitant"),
        "vehicle": names("voiture conduit"),
        "diet": names("mange viande boit vegetarienne"),
        "deadline": names("echeance remise"),
        "schedule": names("cours reunit repetition"),
        "school": names("etudie lycee formation"),
        "partner": names("copain copine compagn sort rompu"),
        "size": names("taille pointure chausse pese"),
        "health": names("prend comprime"),
        "holder": names("fournisseur proviseur mecanicien"),
        "tool": names("utilise"),
        "email": names("courriel"),
        "account": names("compte"),
        "birthday": names("anniversaire"),
        "dose": names("dosage"),
        "time": names("ouvre commence"),
        "pet": names("chien chat"),
    },
    fillers=words("""
aux avec chez dans dont elle elles est etait ils leur leurs mais ont par pas plus pour qui ses sont sous
sur tres une
"""),
    topics={
        "food": Topic(
            task=words("""
dîner déjeuner menu cuisin recette resto gâteau goûter apéro pique-nique courses repas colis gourmand
"""),
            fact=words("""
intoléran végétarien mange boit viande poisson noix sucre alcool plat cœliaque fromage
"""),
        ),
        "reach": Topic(
            task=words("""
visite colis étiquette écri appel envoi message courrier lettre invite préviens répon rédige
"""),
            fact=words("téléphone numéro portable adresse mail joign appel écrit parle"),
        ),
        "travel": Topic(
            task=words("""
vol train voyage hôtel vacances billet aéroport valise escapade séjour trajet transport
"""),
            fact=words("""
siège couloir fenêtre vol passeport expire carte billet voyage train mal ascenseur
"""),
        ),
        "gift": Topic(
            task=words("cadeau anniversaire fleurs surprise fête mariage noël offrir"),
            fact=words("aime adore préfér veut souhait taille anniversaire collectionn déteste"),
        ),
        "wear": Topic(
            task=words("chaussure bottes veste manteau robe pantalon chemise paire baskets"),
            fact=words("taille pointure chausse"),
        ),
        "health": Topic(
            task=words("""
médecin clinique hôpital santé médical dentiste ordonnance pharmacie fiche urgence
"""),
            fact=words("allergi comprimé sang médic opération traitement prend asthme cœur mutuelle"),
        ),
        "time": Topic(
            task=words("rendez-vous calendrier réunion semaine planning cale organise date créneau"),
            fact=words("""
lundi mardi mercredi jeudi vendredi samedi dimanche rendez-vous chaque jusqu absent
"""),
        ),
        "money": Topic(
            task=words("facture budget payer devis banque impôt prix argent"),
            fact=words("facture tarif paie doit impôt compte prix coûte loyer euros"),
        ),
        "home": Topic(
            task=words("répar plombier chaudière propriétaire livr maçon chantier fuit"),
            fact=words("habite rue appartement étage clé propriétaire ascenseur code sonnette"),
        ),
        "animal": Topic(
            task=words("chien chat animal garde promen"),
            fact=words("chien chat croquettes vétérinaire laisse"),
        ),
        "email": Topic(
            task=words("courriel"),
        ),
        "phone": Topic(
            task=words("appelle téléphone"),
        ),
        "account": Topic(
            task=words("paie payer virement loyer compte"),
        ),
        "address": Topic(
            task=words("colis étiquette livr visite adresse"),
        ),
    },
    calendar=Calendar(
        months=names("""
janvier|janv février|fevrier|févr mars avril|avr mai juin juillet|juil août|aout septembre|sept
octobre|oct novembre|nov décembre|decembre|déc
"""),
        weekdays=names("lundis? mardis? mercredis? jeudis? vendredis? samedis? dimanches?"),
        units={
            "day": "jours?",
            "week": "semaines?",
            "weekend": "week-?ends?",
            "month": "mois",
            "quarter": "trimestres?",
            "year": "ans?|années?",
        },
        days=counts("""
avant-hier -2, hier -1, aujourd'hui 0, ce soir 0, ce matin 0, demain 1, après-demain 2
"""),
        cardinals=names("""
un deux trois quatre cinq six sept huit neuf dix onze douze treize quatorze quinze seize dix-sept
dix-huit dix-neuf vingt vingt-et-un vingt-deux vingt-trois vingt-quatre vingt-cinq vingt-six vingt-sept
vingt-huit vingt-neuf trente trente-et-un
"""),
        ordinals=names("""
premier deuxième troisième quatrième cinquième sixième septième huitième neuvième dixième
"""),
        numbers=counts("une 1, douzaine 12, quarante 40, cinquante 50, soixante 60, cent 100, mille 1000"),
        halves=counts("une demi 1, un demi 1, une demie 1"),
        and_half="et demie?",
        next="prochaine?s?",
        last="derni(?:er|ère|ere)|passée?|précédente?",
        ahead=("dans {count}(?: |-){unit}",),
        ago=("il y a {count}(?: |-){unit}",),
        bare_day=r"\b(?:le|au|du) (?P<day>\d{1,2})(?:er)?\b(?!\s?h\b|:)",
        periods=Periods(
            seasons=names("printemps été automne hiver"),
            quarters=names("premier|1er deuxième|second troisième quatrième"),
            about="environ |presque |plus de ",
            rough=counts("quelques 3, une quinzaine de 15"),
            this="ce(?:t|tte)?",
            within="en|au|à l['’]|l['’]|le|la|depuis|durant l['’]|pendant l['’]|depuis l['’]|cet",
            of="de(?: l['’])?|d['’]",
            joins="et|à|au",
        ),
    ),
)
