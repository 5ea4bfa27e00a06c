"""What Nexus knows about Portuguese."""

from typing import Final

from nexus.memory.languages.lexicon import Calendar, Lexicon, Periods, counts, names, words

LEXICON: Final = Lexicon(
    code="pt",
    stemmer="portuguese",
    letters="ãõçâêô",
    function_words=words("""
a à ah ainda algo alguém algum alguma algumas alguns ali além ambos ante antes ao aos apenas apesar após
aquela àquela aquelas aquele àquele aqueles aqui aquilo as às assim até através bastante bem cada cá cadê
com como comigo conosco connosco contigo contra cuja cujas cujo cujos da daquela daquele daqui dar das de
dela delas dele deles demais dentro depois desde dessa dessas desse desses desta destas deste destes deve
devem devia devo disso disto do dos durante e é ela elas ele eles em embora enquanto então entre era eram
éramos essa essas esse esses esta está estamos estão estar estas estás estava estavam estávamos este
esteja esteve estes estive estiveram estou eu fez foi fomos for foram fosse fui há haja havia hei houve
isso isto já jamais lá lhe lhes lo logo mais mas me meio menos meu meus mesma mesmas mesmo mesmos mim
minha minhas muita muitas muito muitos na nada não naquela naquele nas nem nenhum nenhuma nessa nessas
nesse nesses nesta nestas neste nestes ninguém nisso nisto no nos nós nossa nossas nosso nossos num numa
nunca o onde os ou outra outras outro outros para pela pelas pelo pelos perante pode podem podia posso
pouca pouco poucos por porém porque porquê pois pra próprio própria quais qual qualquer quando quanta
quantas quanto quantos quase que quê quem quer se seja sejam sem sempre sendo ser será seria seu seus si
sido sob sobre somos sou sua suas são só tal talvez também tampouco tanta tanto tão te tem têm temos tendo
tenha tenho ter terá teria teu teus teve ti tinha tinham tive tiveram toda todas todavia todo todos tu tua
tuas tudo um uma umas uns vai vais vamos vão várias vários você vocês vos vosso vou
"""),
    time_words=words("""
ontem anteontem hoje amanhã noite passada passado passadas passados próxima próximo última último semana
semanas dia dias mês meses ano anos há atrás recentemente desde segunda terça quarta quinta sexta sábado
domingo feira verão inverno primavera outono janeiro fevereiro março abril maio junho julho agosto
setembro outubro novembro dezembro hora horas
"""),
    number_words=words("""
um uma dois duas três quatro cinco seis sete oito nove dez onze doze vinte trinta cem mil par vários
várias vez vezes
"""),
    cues={
        "restriction": (
            r"\bal[eé]rgi|\bintoler|\bvegetarian|\bvegan|\bdiab[eé]t|\bcelíac|\basm[aá]|\bgrávida\b"
            r"|\bhalal\b|\bnão (?:pode (?:comer|beber|tomar)|come|bebe|tolera|toma)\b"
        ),
        "circumstance": r"\bvive (?:em|com|na|no)\b|\bmora\b|\btrabalha (?:como|em|na|no|para)\b",
        "question": (
            "^(?:(?:e|mas|olha|olá|ok|então)[,!. ]+)*(?:quem|que|o que|quando|onde|aonde|qual|quais"
            r"|porque|porquê|por que|como|quant[oa]s?|a quem|com quem|de quem|desde quando)\b"
        ),
        "request": (
            "^(?:(?:por favor|olha|olá|ok|e|então|agora|(?:podes|pode|poderias))[,!. ]+)*(?:acrescenta"
            "|ajuda|arranja|avisa|calcula|chama|combina|compara|compra|converte|corrige|cria|dá|diz"
            "|encomenda|encontra|envia|escolhe|escreve|explica|faz|inscreve|junta|lembra|liga|manda"
            "|marca|monta|mostra|muda|ordena|organiza|pede|planeia|planeja|preenche|prepara|procura"
            r"|propõe|renomeia|reserva|responde|resume|revê|sugere|traduz|trata)\b"
        ),
        "constraint": (
            r"\bal[eé]rgi|\bintoler|\bnão (?:pode|come|bebe|suporta|quer|gosta|tolera)\b|\b(?:prefere"
            r"|gosta|adora|odeia|detesta|favorit\w+|precisa|deve|só|apenas|nunca|vegetarian\w+|vegan\w+"
            r"|celíac\w+|medo)\b"
        ),
        "reason": r"\bporque\b|\bpois\b|\bpor causa\b|\bpara que\b|\bjá que\b|\bdevido a\b",
        "when": (
            r"\bquando\b|\b(em |a )?que (dias?|datas?|horas?|ano|m[eê]s|semana)\b|\bqual (é |era "
            r"|foi )?(a )?(data|hora|dia)\b|\bquanto tempo\b|\bh[aá] quanto\b|\bquantos anos\b|\b(desde"
            r"|at[eé]) quando\b"
        ),
        "count": r"\bquant[oa]s?\b|\bn[uú]mero de\b|\bcom que frequ[eê]ncia\b",
        "why": (
            r"\bpara quê\b|\bporqu[eê]\b|\bpor que\b|\bpor qu[eê]\b|\bpor que (raz[aã]o|motivo)\b"
            r"|\bqual (é|foi|era) (a raz[aã]o|o motivo|a causa)\b|\b(raz[aã]o|motivo|causa) (de|da|do"
            r"|para|por)\b|\ba que se deve\b|\bo que (levou|fez|causou)\b"
            r"|\bcomo é que (foi que )?aconteceu\b"
        ),
        "past": (
            r"\b(d?a|na) primeira vez\b|\bantes\b|\banteriormente\b|\banterior(es)?\b|\bantigamente\b"
            r"|\bantig[oa]s?\b|\ba[o]? princ[ií]pio\b|\bno (in[ií]cio|come[cç]o|princ[ií]pio)\b"
            r"|\boriginal(mente)?\b|\binicial(mente)?\b|\bprimeiro (plano|or[cç]amento)\b"
            r"|\bprimeira (data|ideia|proposta)\b|\bna altura\b|\bnaquela (altura|[eé]poca)\b"
            r"|\bcostumava(m|mos)?\b|\bdeixou de\b|\bno ano passado\b|\bo ano passado\b|\b(mor|trabalh"
            "|chama|cham|estud|tom|pag|jog|est|us|gast|ganh|lev|partilh|ensai|d|fic|and|cust)(ava|avas"
            r"|avam|[aá]vamos)\b|\b(viv|faz|com|beb|corr|recebi?|segui?|t)(ia|ias|iam|[ií]amos)\b"
            r"|\b(tinha|tinham|t[ií]nhamos|recebia|seguia|era a|era o|eram)\b|\b(ver[aã]o|inverno|outono"
            r"|primavera) de (19|20)\d\d\b"
        ),
        "before": r"\bantes (de|do|da|dos|das|que)\b",
        "present": (
            r"\bagora\b|\batual(mente)?\b|\bactual(mente)?\b|\bhoje( em dia)?\b|\bneste momento\b"
            r"|\bde momento\b|\bno fim( de contas)?\b|\bafinal\b|\bfinalmente\b|\bpor fim\b|\bainda\b"
            r"|\bultimamente\b|\bcontinua\b"
        ),
        "survey": r"\bresum|\bordem\b|\bao longo\b|\blista\b|\benumera\b|\bcomo (tem|foi) (mudado|evolu)",
        "first_person": (
            r"\b(eu|meu|meus|minha|minhas|mim|me|comigo|n[oó]s|nosso|nossos|nossa|nossas|nos|connosco"
            r"|conosco)\b"
        ),
        "yes": (
            "sim|claro|ok|okay|certo|exato|exatamente|isso(?: mesmo)?|com certeza|pode ser|pode"
            "|perfeito|está bem|tá bem|tá bom|combinado|correto|verdade"
        ),
        "no": "não|nao|nada disso|nunca|errado|falso",
        "negation": r"\b(?:não|nao|nunca|jamais|ninguém|nada|nem|nenhum[a]?|sem)\b",
        "harmless": (
            r"\b(?:não (?:te )?esqueças?|não se esqueça|não só|não tem problema|sem problema"
            r"|por que não)\b|^n[ãa]o[,.!:; -]+"
        ),
        "negative": r"\b(?:odei|detest|evit|alérgi|intoleran|deix|cancel|recus)",
        "contrast": r"\b(?:mas|em vez|sim|exceto|mais|já|até)\b",
        "asks": (
            "^(?:(?:e|mas|olha|então|por favor)[, ]+)*(?:o que|que|onde|quem|qual|quais|por que|porque"
            r"|como|quando|quant[oa]s?)\b|^(?:podes|pode|poderia|sabes|sabe|diz-me|me diga|mostra"
            r"|procura)\b(?=.*\?)"
        ),
        "remember": (
            r"\b(?:lembra(?:-te)?(?: de)? que|lembre(?:-se)? (?:de )?que|anota que|anote que"
            r"|não esqueças que|tem em conta que)\b"
        ),
        "hypothetical": (
            r"\be se\b|\bimagin[ae]|\bsupon|\bhipotétic|\bem teoria\b|\bse (?:eu|nós|a gente|ele"
            r"|ela)?\s?\w+(?:asse|esse|isse|ássemos|êssemos)\w*\b|\bse\b.*\b\w+ria\w*\b"
        ),
        "joke": (
            r"\b(?:(?:é|era|estou a) (?:brincadeira|brincar)|brincadeira|tô brincando|estou brincando"
            r"|piada)\b|\bkkk|\brsrs"
        ),
        "reported": r"\b(?:diz|disse|dizem|conta|contou|escreve|escreveu|segundo|afirma|afirmou)\b",
        "naming": (
            r"\b(?:chamam|chama|chamo|chamamos|apelido|apelidad[oa]|conhecid[oa] como|alcunha|alias)\b"
        ),
        "introduces": (
            r"(?:\bchamo-me|\bme chamo|\bmeu nome é|\bo meu nome é|\beu sou(?: [oa])?"
            r"|\bsou(?: [oa])?)\s+"
        ),
        "refers": (
            r"\b(?:ele|ela|eles|elas|[oa]s?|lhe|lhes|seu|sua|seus|suas|dele|dela|esse|essa|isso|este"
            r"|esta|isto|ali|lá)\b"
        ),
        "me": "eu|me|mim|meu|minha|nós|don[oa]|[oa] don[oa]|usuári[oa]|utilizador[a]?|proprietári[oa]",
    },
    calendar=Calendar(
        months=names("""
janeiro|jan fevereiro|fev março|marco|mar abril|abr maio|mai junho|jun julho|jul agosto|ago setembro|set
outubro|out novembro|nov dezembro|dez
"""),
        weekdays=names("""
segundas?(?:-feiras?)? terças?(?:-feiras?)? quartas?(?:-feiras?)? quintas?(?:-feiras?)?
sextas?(?:-feiras?)? sábados?|sabados? domingos?
"""),
        units={
            "day": "dias?",
            "week": "semanas?",
            "weekend": "fi(?:m|ns) de semana|fds",
            "month": "m[eê]s(?:es)?",
            "quarter": "trimestres?",
            "year": "anos?",
        },
        days=counts("anteontem -2, ontem -1, hoje 0, amanhã 1, depois de amanhã 2"),
        cardinals=names("""
um dois três quatro cinco seis sete oito nove dez onze doze treze catorze quinze dezesseis dezessete
dezoito dezenove vinte
"""),
        ordinals=names("primeiro segundo terceiro quarto quinto sexto sétimo oitavo nono décimo"),
        numbers=counts("""
uma 1, duas 2, dezasseis 16, dezassete 17, dezanove 19, quatorze 14, trinta 30, quarenta 40, cinquenta
50, cem 100, mil 1000
"""),
        next="próxim[oa]s?|que vem",
        last="passad[oa]|últim[oa]|ultim[oa]|anterior",
        ahead=("(?:em|daqui a|dentro de) {count} {unit}",),
        ago=("há {count} {unit}", "{count} {unit} atrás"),
        bare_day=r"\b(?:dia|no|ao|para o|pro) (?P<day>\d{1,2})\b(?!:|h\b)",
        periods=Periods(
            seasons=names("primavera verão|verao outono inverno"),
            quarters=names("primeiro segundo terceiro quarto"),
            about="cerca de |quase |mais de ",
            rough=counts("um par de 2, alguns 3, algumas 3, uns 3, umas 3"),
            this="n?est[ea]",
            within="em|no|na|o|a|desde|durante|até|do|da",
            of="de|do",
            joins="e|a|até",
        ),
    ),
)
