"""What Nexus knows about Portuguese."""

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
    name_verbs=words("é tem mora trabalha gosta quer e"),
    titles=words("sr sra"),
    nobody=words("o os as um uma"),
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
            r"\b(d?a|na) primeira vez\b|\b\w+(ou|aram|eram)\b.*\bantes\b|\banteriormente\b"
            r"|\banterior(es)?\b|\bantigamente\b"
            r"|\bantig[oa]s?\b|\ba[o]? princ[ií]pio\b|\bno (in[ií]cio|come[cç]o|princ[ií]pio)\b"
            r"|\boriginal(mente)?\b|\binicial(mente)?\b|\bprimeiro (plano|or[cç]amento)\b"
            r"|\bprimeira (data|ideia|proposta)\b|\bna altura\b|\bnaquela (altura|[eé]poca)\b"
            r"|\bcostumava(m|mos)?\b|\bdeixou de\b|\bno ano passado\b|\bo ano passado\b|\b(mor|trabalh"
            "|chama|cham|estud|tom|pag|jog|est|us|gast|ganh|lev|partilh|ensai|d|fic|and|cust)(ava|avas"
            r"|avam|[aá]vamos)\b|\b(viv|faz|com|beb|corr|recebi?|segui?|t)(ia|ias|iam|[ií]amos)\b"
            r"|\b(tinha|tinham|t[ií]nhamos|recebia|seguia|era a|era o|eram)\b|\b(ver[aã]o|inverno|outono"
            r"|primavera) de (19|20)\d\d\b"
        ),
        "before": r"\bantes( (de|do|da|dos|das|que))?\b",
        "due": (
            r"\b(devo|deve|devemos|tenho|tem|temos|h[aá]|posso|pode|podemos|quero|queremos|preciso|precisamos"
            r"|vou|vai|vamos|ando|fa[cç]o|[eé]|s[aã]o)\b.*\bantes\b|\bantes (de|do|da|das) (esta |este "
            r"|pr[oó]xim[oa] |fim d[ea] )*(segunda|ter[cç]a|quarta|quinta|sexta|s[aá]bado|domingo|meio-dia"
            r"|meia-noite|amanh[aã]|almo[cç]o|jantar|dormir|f[eé]rias|semana|m[eê]s|\d)"
        ),
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
        "tag": "né|não é|certo",
        "other": r"(?:e )?(?:ele|ela)\b",
        "unnamed": r"(?:ele|ela)\b",
        "article": "o |a ",
        "no_joke": r"\bsem ?brincadeira",
        "phone": r"\b(?:telefone|celular|telem[óo]vel)\b",
        "birthday": r"\b(?:anivers[áa]rio|nasceu|nascid[oa])\b",
        "lasting": r"\b(?:desde|nasceu|anos|até|cada)\b",
        "refers_back": r"(?:isso|ele|ela|e|mas)\b",
    },
    people=People(
        common=words("""
a à ao aos às as até com como da das de dela dele do dos e é ela ele em era essa esse esta está este eu
foi há isso já lhe mais mas me meu meus minha minhas na não nas no nos nós nossa nosso o onde os ou para
pela pelo por porque porquê qual quais quando quanto quantos que quem são se sem ser seu seus sobre sua
suas também tem tenho um uma você
"""),
        first=words("""
eu me mim comigo meu minha meus minhas nós nosso nossa nossos nossas connosco conosco tenho posso devo
sou estou vou quero faço temos podemos devemos somos estamos vamos
"""),
        possessive=words("meu minha meus minhas nosso nossa nossos nossas"),
        third=words("seu sua seus suas"),
        of=words("de do da dos das"),
        copula=words("é era foi são eram será chama chamava chama-se como chamado chamada"),
        conjunction=words("e"),
        definite=words("o a os as ao à aos às do da pelo pela"),
        neutral=words("o a os as um uma ao à dr dra doutor doutora dona senhor senhora sr sra"),
        unions=unions(
            spouse="casado com|casada com|casaram|casados|casou com",
            partner="namora com|namoram|noivo de|noiva de",
        ),
        roles=roles("""
spouse: marido|esposo / mulher|esposa / cônjuge
partner: namorado|noivo|companheiro / namorada|noiva|companheira / parceiro|parceira
ex: ex-marido|ex-namorado / ex-mulher|ex-namorada / ex
child: filho / filha|filhas / filhos|criança|crianças|miúdo|miúda|miúdos|bebé|bebê|mais velho|mais velha
|mais novo|mais nova|caçula|gémeos|gêmeos
parent: pai|papá|papai|padrasto / mãe|mamã|mamãe|madrasta / pais
sibling: irmão|meio-irmão / irmã|irmãs|meia-irmã / irmãos|gémeo|gémea|gêmeo|gêmea
grandparent: avô|vovô / avó|vovó / avós
grandchild: neto / neta|netas / netos
uncle_aunt: tio / tia|tias / tios
niece_nephew: sobrinho / sobrinha|sobrinhas / sobrinhos
cousin: primo / prima|primas / primos
parent_in_law: sogro / sogra / sogros
child_in_law: genro / nora /
sibling_in_law: cunhado / cunhada / cunhados
godchild: afilhado / afilhada / afilhados
godparent: padrinho / madrinha / padrinhos
friend: amigo / amiga|amigas / amigos
boss: chefe|patrão / chefa|patroa / gerente
report: empregado|funcionário|assistente / empregada|funcionária / adjunto|adjunta
colleague: colega / colega / colegas
mentor: orientador|tutor / orientadora|tutora / mentor|mentora
mentee: aprendiz|estagiário|orientando / estagiária|orientanda /
pupil: aluno / aluna / alunos
neighbor: vizinho / vizinha / vizinhos
roommate: colega de casa|colega de quarto / companheira de casa / colegas de casa
landlord: senhorio / senhoria /
tenant: inquilino / inquilina /
doctor: médico|doutor|pediatra|ginecologista / médica|doutora / cirurgião|cirurgiã|cardiologista
|neurologista
patient: / / paciente
dentist: / / dentista|ortodontista
vet: veterinário / veterinária /
therapist: terapeuta|psicólogo|fisioterapeuta|fisio / psicóloga /
midwife: / / parteira
teacher: professor / professora|educadora /
coach: treinador / treinadora /
lawyer: advogado|notário / advogada|notária /
accountant: contabilista|contador / contadora /
tradesperson: canalizador|encanador|eletricista|carpinteiro|pintor|jardineiro|mecânico|porteiro / /
hairdresser: cabeleireiro / cabeleireira /
sitter: / ama|babá / babysitter
cleaner: / empregada de limpeza|faxineira /
client: / / cliente|clientes
supplier: fornecedor / /
dog: cão|cachorro / cadela|cachorra / cãozinho
cat: gato / gata / gatinho|gatinha
pet: / / animal de estimação|cavalo|coelho|papagaio|tartaruga
"""),
        needs_holder=words("mulher ama ex miúdo miúda"),
        needs_language=words("""
prima primo primas primos neto neta nora ama pais pai tia tias tutor contador
"""),
        called=words("papá mamã papai mamãe vovó vovô"),
    ),
    changes={
        "change": phrases("""
agora, atualmente, novo, nova, novos, novas, mudou, mudaram, mudadas, em vez, passou a, passou para,
adiado, adiada, adiou, alargado, subiu, baixou, substituiu, substituido, trocou, voltou a, renovou,
antecipado, prolongado, doravante
"""),
        "end": phrases("""
ja nao, deixou de, deixou, cancelou, devolveu, pagou, vendeu, terminou, fechou, despediu, acabou,
cortado, ja so
"""),
        "correction": phrases("""
desculpa, queria dizer, enganei, erro, na verdade, alias, ou melhor, afinal
"""),
        "cancellation": phrases("cancelou, desmarcado, desmarcada, ja nao ha"),
        "reschedule": phrases("adiado, adiada, adiou, antecipado, remarcado, remarcada"),
        "addition": phrases("tambem, alem disso, outro, outra"),
        "exception": phrases("so desta vez, temporariamente, enquanto, ate"),
        "many": phrases("""
quer, gosta, leu, visitou, comprou, cozinhou, conhece, fala, tem um, tem uma, e alergico, e alergica
"""),
        "plan": phrases("pretende, quer, querem, tenciona, marcada, marcado, tem de"),
        "hearsay": phrases("brincadeira, boato, talvez, poderia, se"),
        "past": phrases("dantes, no ano passado, antigamente"),
    },
    attributes={
        "home": names("mora moram resid"),
        "work": names("trabalh emprego despedi"),
        "phone": names("telemovel telefone fixo"),
        "debt": names("deve divida"),
        "price": names("custa preco renda bolsa salario ordenado"),
        "name": names("chama chamar nome"),
        "doctor": names("familia"),
        "vehicle": names("carro conduz carrinha"),
        "diet": names("comer"),
        "deadline": names("prazo entrega entregar casamento"),
        "schedule": names("ensaia aula reune"),
        "school": names("estuda escola"),
        "partner": names("namorad namora"),
        "size": names("tamanho calca"),
        "holder": names("fornecedor"),
        "account": names("conta"),
        "birthday": names("aniversario"),
        "time": names("comeca"),
        "pet": names("cao"),
    },
    fillers=words("com dos foi lhe muito nao nas pela pelo quando sao sem seu seus sua suas tem uma umas"),
    topics={
        "food": Topic(
            task=words("jantar almoço pequeno-almoço lanche cozinh receita bolo compras ementa petisco"),
            fact=words("intolerân intolerant comida peixe glúten álcool açúcar leite queijo marisco"),
        ),
        "reach": Topic(
            task=words("""
visita encomenda etiqueta escrev liga manda mensagem carta convida avisa responde telefona combina
"""),
            fact=words("telefone telemóvel número morada email liga escreve fala"),
        ),
        "travel": Topic(
            task=words("voo comboio viagem hotel férias bilhete aeroporto mala alojamento ida"),
            fact=words("lugar corredor janela voo passaporte caduca cartão viagem comboio enjoa elevador"),
        ),
        "gift": Topic(
            task=words("prenda presente anos aniversário flores surpresa casamento natal"),
            fact=words("gosta adora favorit quer deseja tamanho anos nasceu coleciona detesta"),
        ),
        "wear": Topic(
            task=words("sapat botas casaco vestido calças camisa par"),
            fact=words("tamanho calça número"),
        ),
        "health": Topic(
            task=words("médic clínica hospital saúde dentista receita farmácia ficha consulta urgência"),
            fact=words("alérgi comprimido sangue medic operação toma asma seguro"),
        ),
        "time": Topic(
            task=words("marcação calendário reunião semana marca planeia agenda combina data ensaio"),
            fact=words("segunda terça quarta quinta sexta sábado domingo consulta cada até turno"),
        ),
        "money": Topic(
            task=words("fatura orçamento pagar banco imposto preço"),
            fact=words("cobra fatura paga deve imposto conta preço custa renda euros"),
        ),
        "home": Topic(
            task=words("arranj repar senhorio entrega canalizador"),
            fact=words("vive mora rua andar chave senhorio elevador"),
        ),
        "animal": Topic(
            task=words("cão gato animal passear"),
            fact=words("cão gato ração veterinári trela"),
        ),
        "phone": Topic(
            task=words("liga telefona"),
        ),
        "account": Topic(
            task=words("paga transfer renda conta"),
        ),
        "address": Topic(
            task=words("encomenda etiqueta entrega visita morada"),
        ),
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
        halves=counts("meio 1, meia 1"),
        and_half="e mei[oa]",
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
