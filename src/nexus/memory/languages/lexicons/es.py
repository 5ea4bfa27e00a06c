"""What Nexus knows about Spanish."""

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
    code="es",
    stemmer="spanish",
    letters="ñ¿¡",
    function_words=words("""
a al algo alguien algún alguna algunas alguno algunos ambos ante antes aquel aquella aquellas aquellos
aquello aquí así aun aún aunque bajo bastante bien cada casi como cómo con conmigo contigo contra cual
cuál cuales cuáles cualquier cuando cuándo cuanta cuánta cuantas cuántas cuanto cuánto cuantos cuántos
cuya cuyas cuyo cuyos de debe deben debería debía debo del demás dentro desde después donde dónde durante
e el él ella ellas ello ellos en encima entonces entre era éramos eran eras eres es esa esas ese eso esos
esta está estaba estábamos estaban estado estamos están estar estas estás este esto estos estoy estuve
estuvo fue fueron fui fuimos ha había habíamos habían haber habrá hace hacer hacia han has hasta hay haya
he hemos hizo igual jamás junto la las le les lo los luego más me mediante menos mi mí mía mías mientras
mío míos mis misma mismas mismo mismos mucha muchas mucho muchos muy nada nadie ni ningún ninguna ninguno
no nos nosotras nosotros nuestra nuestras nuestro nuestros nunca o os otra otras otro otros para pero poco
pocos podemos podía podría por porque porqué pues puede pueden puedo que qué quien quién quienes quiénes
quizá quizás se sea sean según ser será sería si sí sido siempre sin sino sobre sois solo sólo somos son
soy su sus suya suyas suyo suyos tal también tampoco tan tanta tantas tanto tantos te tenemos tener tengo
tenía tenían ti tiene tienen tienes toda todas todavía todo todos tras tu tú tus tuya tuvo tuyo u un una
unas uno unos usted ustedes va vamos van varias varios vosotras vosotros voy vuestra vuestro y ya yo
"""),
    time_words=words("""
ayer anteayer hoy mañana noche pasada pasado próxima próximo última último semana semanas finde día días
mes meses año años hace recientemente desde lunes martes miércoles jueves viernes sábado domingo verano
invierno primavera otoño enero febrero marzo abril mayo junio julio agosto septiembre setiembre octubre
noviembre diciembre
"""),
    number_words=words("""
uno dos tres cuatro cinco seis siete ocho nueve diez once doce veinte treinta cien mil par varios varias
vez veces
"""),
    name_verbs=words("es está tiene vive trabaja quiere y era"),
    titles=words("sr sra"),
    nobody=words("el la los las un una"),
    cues={
        "restriction": (
            r"\bal[eé]rgi|\bintoleran|\bvegetarian|\bvegan|\bdiab[eé]t|\bcel[ií]ac|\basm[aá]|\bembaraz"
            r"|\bhalal\b|\bno (?:puede (?:comer|beber|tomar)|come|bebe|tolera|toma)\b"
        ),
        "circumstance": r"\bvive (?:en|con)\b|\btrabaja (?:como|en|de|para)\b",
        "question": (
            "^[¿¡]?(?:(?:y|pero|oye|hola|vale|entonces)[,!. ]+)*(?:quién(?:es)?|qué|cuándo|dónde|adónde"
            r"|cuál(?:es)?|por qué|cómo|cuánt[oa]s?|a qué|con quién|de quién|desde cuándo)\b"
        ),
        "request": (
            "^[¿¡]?(?:(?:por favor|oye|hola|vale|y|ahora|(?:puedes|podrías))[,!. ]+)*(?:añade|avisa"
            "|ayúda|busca|calcula|cambia|compara|compra|convierte|corrige|crea|da(?:me|le)|deja|di(?:me"
            "|le)|elige|encarga|encuentra|envía|escrib|explíca|explica|haz|llama|manda|mánda|mira"
            "|muestra|ordena|organiza|pasa|pide|piensa|planifica|prepara|propón|recuérda|redacta"
            r"|rellena|renombra|reserva|responde|resume|revisa|sugiere|traduce)\w*\b"
        ),
        "constraint": (
            r"\bal[eé]rgi|\bintoleran|\bno (?:puede|come|bebe|soporta|quiere|le gusta|tolera)\b"
            r"|\b(?:prefiere|le gusta|le encanta|odia|detesta|favorit\w+|necesita|debe|solo|sólo|nunca"
            r"|vegetarian\w+|vegan\w+|celiac\w+|miedo)\b"
        ),
        "reason": r"\bporque\b|\bya que\b|\bpara que\b|\bdebido a\b|\bpor culpa\b|\bpuesto que\b",
        "when": (
            r"\bcu[aá]ndo\b|\b(qu[eé]|cu[aá]l) (es |era |fue )?(la )?(d[ií]a|d[ií]as|fecha|fechas|hora"
            r"|horas|año|mes|semana)\b|\bcu[aá]nto (tiempo|hace|dura|duró|tarda)\b|\bcu[aá]ntos años\b"
            r"|\b(desde|hasta) cu[aá]ndo\b"
        ),
        "count": r"\bcu[aá]nt[oa]s?\b|\bcada cu[aá]nto\b|\bn[uú]mero de\b",
        "why": (
            r"\bpor ?qu[eé]\b|\ba qu[eé] se deb|\bpor qu[eé] (motivo|raz[oó]n|causa)\b"
            r"|\bcu[aá]l(es)? (es|son|fue|era|fueron) (el|la|los|las) (motivo|raz[oó]n|causa|motivos"
            r"|razones|causas)\b|\b(motivo|raz[oó]n|causa) (de|por|para)\b|\bqu[eé] (le|les|me|te"
            r"|nos)? ?(hizo|llev[oó]|caus[oó])\b|\bc[oó]mo es que\b|\bpara qu[eé]\b"
        ),
        "past": (
            r"\bla primera vez\b|\b\w+(ó|aron|ieron)\b.*\bantes\b|\banteriormente\b"
            r"|\banterior(es)?\b|\bal principio\b"
            r"|\bal comienzo\b|\boriginal(mente)?\b|\binicial(mente)?\b|\ben un principio\b|\bentonces\b"
            r"|\ben aquella [eé]poca\b|\ben esa [eé]poca\b|\bsol[ií](a|as|an|amos)\b|\bel año pasado\b"
            r"|\b(viej[oa]|antigu[oa])s?\b|\bex ?(jefe|jefa|marido|mujer|novio|novia)\b|\b(viv|ten|hac"
            r"|pon|tra|dec|corr|com|beb)[ií]a(s|n|mos)?\b|\b(trabaj|llam|estudi|tom|libr|cobr|pag|jug"
            r"|est|d|entren|gan|us|llev|cost)(aba|abas|aban|ábamos)\b|\b(era|eran|iba|iban)\b|\b(verano"
            r"|invierno|otoño|primavera) de (19|20)\d\d\b|\bprimer(a)? (plan|presupuesto|fecha|idea"
            r"|oferta)\b|\bde pequeñ[oa]\b"
        ),
        "before": r"\bantes( (de|del|que))?\b",
        "due": (
            r"\b(debo|debe|debemos|tengo|tiene|tenemos|hay|puedo|puede|podemos|quiero|queremos|necesito|voy|va"
            r"|vamos|pongo|hago|es|son)\b.*\bantes\b|\bantes de que (?!\w*(ra|ran|ras|ramos)\b)|\bantes del?"
            r" (este |esta |próxim[oa] |fin de )*(lunes|martes|miércoles|jueves|viernes|sábado|domingo"
            r"|mediodía|medianoche|mañana|las \d|la una|comer|cenar|dormir|desayuno|almuerzo|semana|mes|\d)"
        ),
        "present": (
            r"\bahora\b|\bactual(es|mente)?\b|\bhoy( en d[ií]a)?\b|\ben este momento\b|\bpor ahora\b"
            r"|\bal final\b|\bpor fin\b|\bfinalmente\b|\btodav[ií]a\b|\baún\b|\b[uú]ltimamente\b"
            r"|\bsigue\b"
        ),
        "survey": (
            r"\bresum|\borden\b|\ba lo largo\b|\blista\b|\benumera\b|\bc[oó]mo ha (ido|cambiado"
            r"|evolucionado)\b"
        ),
        "first_person": r"\b(yo|mi|mis|m[ií]|m[ií]o|m[ií]a|me|conmigo|nosotr[oa]s|nuestr[oa]s?|nos)\b",
        "yes": (
            "s[ií]|claro|vale|ok|okay|correcto|exacto|eso es|por supuesto|desde luego|de acuerdo"
            "|perfecto|as[ií] es|hazlo|adelante|bueno|venga|cierto"
        ),
        "no": "no|qué va|para nada|nunca|incorrecto|falso",
        "negation": r"\b(?:no|nunca|jamás|nadie|nada|ni|ningun[oa]?|ningún|sin|tampoco)\b",
        "harmless": r"\b(?:no (?:te )?olvides|no solo|no sólo|no hay problema|por qué no)\b|^no[,.!:; -]+",
        "negative": r"\b(?:odi[aoe]|evit|alérgi|intoleran|dej[oóa]|cancel|rechaz)",
        "contrast": r"\b(?:sino|pero|en lugar|en vez|excepto|ya|hasta)\b",
        "asks": (
            "^(?:(?:y|pero|oye|bueno|por favor)[, ]+)*(?:qué|dónde|quién(?:es)?|cuál(?:es)?|por qué"
            r"|cómo|cuándo|cuánt[oa]s?|adónde)\b|^(?:puedes|podrías|sabes|es|está|hay|dime|muéstrame"
            r"|busca)\b(?=.*\?)"
        ),
        "remember": (
            r"\b(?:recuerda que|acuérdate de que|apunta que|ten en cuenta que|no olvides que"
            r"|anota que)\b"
        ),
        "hypothetical": (
            r"\b(?:y )?si (?:yo )?(?:\w+(?:ara|era|iera|ase|ese|iese|áramos|iéramos))\w*\b|\bimagina"
            r"|\bsupong|\bsupón|\bhipotétic|\ben teoría\b|\bsi\b.*\b\w+ría\w*\b"
        ),
        "joke": r"\b(?:es (?:una )?broma|estoy bromeando|de broma|era broma|bromeo)\b|\bjaja",
        "naming": (
            r"\b(?:llaman|llama|llamo|llamamos|apodo|apodad[oa]|conocid[oa] como|alias|le dicen"
            r"|le decimos)\b"
        ),
        "introduces": r"(?:\bme llamo|\bmi nombre es|\bsoy|\bllámame)\s+",
        "refers": (
            r"\b(?:él|ella|ellos|ellas|lo|la|los|las|le|les|su|sus|ese|esa|eso|este|esta|esto|allí|ahí"
            r"|ambos)\b"
        ),
        "me": "yo|me|mí|mi|nosotros|nos|dueñ[oa]|el dueño|la dueña|usuari[oa]|propietari[oa]",
        "tag": "verdad|no es así",
        "other": r"(?:y )?(?:él|ella)\b",
        "unnamed": r"(?:él|ella|ellos)\b",
        "article": "el |la ",
        "no_joke": r"\b(?:no|sin) ?broma",
        "phone": r"\b(?:tel[ée]fono|m[óo]vil)\b",
        "birthday": r"\b(?:cumplea[ñn]os|naci[óo])\b",
        "diet": r"\b(?:al[ée]rgi\w*|celíac\w*)\b",
        "lasting": r"\b(?:desde|nació|cumpleaños|hasta|cada)\b",
        "refers_back": r"(?:eso|esto|él|ella|y|pero)\b",
    },
    people=People(
        common=words("""
a al con como cuál cuándo cuánto cuántos de del desde dónde el ella en era es esta está este fue ha hay
la las le les lo los más me mi mis muy no nos nuestra nuestro o para pero por qué que quién se ser si
sin sobre son su sus también te tengo tiene un una y ya yo
"""),
        first=words("""
yo me mi mis mí mío mía míos mías conmigo nosotros nosotras nos nuestro nuestra nuestros nuestras tengo
puedo debo soy estoy voy quiero hago he tenemos podemos debemos somos estamos vamos hemos
"""),
        possessive=words("mi mis nuestro nuestra nuestros nuestras mío mía"),
        third=words("su sus"),
        of=words("de del"),
        copula=words("es era fue son eran será llama llamaba como llamado llamada"),
        conjunction=words("y e"),
        definite=words("el la los las al del"),
        neutral=words("el la los las un una al dr dra doctor doctora don doña señor señora"),
        unions=unions(
            spouse="casado con|casada con|casados|se casaron|se casó con",
            partner="prometida con|prometido con|sale con|pareja de hecho",
        ),
        roles=roles("""
spouse: marido|esposo / mujer|esposa / cónyuge
partner: novio|chico|prometido|compañero / novia|chica|prometida|compañera / pareja
ex: exmarido|ex marido|exnovio|ex novio / exmujer|ex mujer|exnovia|ex novia / ex|expareja
child: hijo / hija|hijas / hijos|niño|niña|niños|niñas|bebé|crío|cría|críos|mellizos|gemelos
parent: padre|papá|papa|padrastro / madre|mamá|mama|madrastra / padres
sibling: hermano / hermana|hermanas / hermanos|mellizo|melliza|gemelo|gemela
grandparent: abuelo|yayo / abuela|yaya / abuelos
grandchild: nieto / nieta|nietas / nietos
uncle_aunt: tío / tía|tías / tíos
niece_nephew: sobrino / sobrina|sobrinas / sobrinos
cousin: primo / prima|primas / primos
parent_in_law: suegro / suegra / suegros
child_in_law: yerno / nuera /
sibling_in_law: cuñado / cuñada / cuñados
godchild: ahijado / ahijada / ahijados
godparent: padrino / madrina / padrinos
friend: amigo / amiga|amigas / amigos
boss: jefe|encargado / jefa|encargada|dueña /
report: empleado|asistente|ayudante / empleada / segundo|segunda
colleague: compañero de trabajo / compañera de trabajo / colega|colegas|compañeros
mentor: tutor|director de tesis / tutora|directora de tesis / mentor|mentora
mentee: aprendiz|becario / aprendiza|becaria / pupilo|pupila
pupil: alumno / alumna / alumnos
neighbor: vecino / vecina|vecinas / vecinos
roommate: compañero de piso / compañera de piso / compañeros de piso
landlord: casero|arrendador / casera|arrendadora /
tenant: inquilino / inquilina /
doctor: médico|doctor|pediatra|ginecólogo / médica|doctora|ginecóloga|gine / cirujano|cirujana|cardiólogo
|cardióloga|neurólogo|neuróloga
patient: / / paciente
dentist: / / dentista|ortodoncista
vet: veterinario / veterinaria /
therapist: terapeuta|psicólogo|fisioterapeuta|fisio / psicóloga /
midwife: / / matrona|comadrona
teacher: profesor|maestro|profe / profesora|maestra|profe /
coach: entrenador|monitor / entrenadora|monitora /
lawyer: abogado|notario / abogada|notaria /
accountant: asesor|contable|gestor / asesora|gestora /
tradesperson: fontanero|electricista|carpintero|pintor|jardinero|mecánico|conserje / /
hairdresser: peluquero / peluquera /
sitter: / canguro|niñera /
cleaner: / limpiadora|asistenta /
client: / / cliente|clienta|clientes
supplier: proveedor / proveedora / proveedores|pescadero|pescadera|frutero|frutera
dog: perro|galgo / perra / cachorro
cat: gato / gata / gatito|gatita
pet: / / mascota|mascotas|caballo|conejo|loro|tortuga
"""),
        needs_holder=words("""
mujer chico chica compañero compañera segundo segunda asesor gestor gestora monitor ex
"""),
        needs_language=words("prima primo primas primos mama segundo monitor tutor matrona"),
        called=words("mama papa mamá papá yaya yayo"),
    ),
    changes={
        "change": phrases("""
ahora, actualmente, desde, a partir, nuevo, nueva, nuevos, nuevas, cambio, cambia, cambiado, se mudo,
mudado, en lugar, en vez, paso a, pasa a, pasado a, aplazo, aplazado, aplazada, retraso, retrasado,
subio, subido, sube, bajo, bajado, sustituye, sustituido, sustituyo, corregida, corregido, de nuevo,
vuelve a, volvio a, renovo, renovado, adelanto, adelantado, ya, definitivamente, solo
"""),
        "end": phrases("""
ya no, dejo de, ha dejado, dejado de, cancelo, cancelado, cancelada, devolvio, devuelto, vendio,
vendido, rompio, cerro, cerrado, termino, renuncio
"""),
        "correction": phrases("""
perdon, quise decir, queria decir, correccion, me equivoque, equivocado, error, espera, en realidad,
mejor dicho, no era
"""),
        "cancellation": phrases("""
cancelado, cancelada, cancelo, suspendido, suspendida, anulado, no se hace
"""),
        "reschedule": phrases("aplazado, aplazada, aplazo, retrasado, adelantado, pospuesto, pospuesta"),
        "addition": phrases("tambien, ademas, otro, otra, segundo, segunda, adicional"),
        "exception": phrases("""
esta semana, esta vez, solo por, provisionalmente, temporalmente, mientras, hasta
"""),
        "many": phrases("""
quiere, le gusta, le gustan, ha leido, visito, compro, cocino, conoce, habla, toca, tiene un, tiene una,
es alergico, es alergica
"""),
        "plan": phrases("""
planea, planean, previsto, prevista, quiere, quieren, espera, piensa, tiene que, si
"""),
        "hearsay": phrases("broma, quiza, quizas, tal vez, si, podria"),
        "past": phrases("antes, el ano pasado, hace anos, de nina, de nino, antiguamente, originalmente"),
    },
    attributes={
        "home": names("vive viven vivir piso domicil mudo"),
        "work": names("trabaj puesto empleo"),
        "phone": names("telefono movil numero"),
        "debt": names("debe deuda devolv prest"),
        "price": names("cuesta precio alquiler paga sueldo gana"),
        "name": names("llama llaman llamarse nombre"),
        "doctor": names("medico medica doctora ginecol veterin"),
        "vehicle": names("coche conduce moto"),
        "diet": names("come carne bebe vegana"),
        "deadline": names("estreno estrena plazo fecha"),
        "schedule": names("clase clases ensayo"),
        "school": names("estudia colegio curso"),
        "partner": names("novio novia pareja"),
        "size": names("talla calza pesa"),
        "health": names("toma pastilla pastillas"),
        "holder": names("encarg responsable proveedor mecanico"),
        "tool": names("usa"),
        "email": names("correo"),
        "account": names("cuenta"),
        "birthday": names("cumpleanos"),
        "time": names("empieza abre"),
        "pet": names("perro gato"),
    },
    fillers=words("""
como con cuando del donde entre era esa ese esta estar estas este estos fue hay las les los mas muy nos
para pero por porque que ser sin sobre son sus tiene tienen una unas uno unos
"""),
    topics={
        "food": Topic(
            task=words("""
cena comida almuerzo desayuno menú cocin receta restaurante tarta pastel merienda picoteo comer
"""),
            fact=words("""
alérgi alergi intoleran come bebe comida carne pescado celiac celíac azúcar sal picante leche embutido
"""),
        ),
        "reach": Topic(
            task=words("""
visita paquete etiqueta escrib escríb llama manda mánda mensaje correo carta invita avisa responde
contesta confirma recordatorio
"""),
            fact=words("teléfono móvil correo dirección llama escribe whatsapp contesta habla"),
        ),
        "travel": Topic(
            task=words("vuelo tren viaje hotel vacaciones billete aeropuerto maleta escapada"),
            fact=words("""
asiento pasillo ventan vuelo pasaporte caduca tarjeta maleta viaje tren marea ascensor
"""),
        ),
        "gift": Topic(
            task=words("regalo cumpleaños flores sorpresa celebra boda navidad detalle bonito"),
            fact=words("gusta encanta favorit quiere desea talla cumple nació colecciona odia"),
        ),
        "wear": Topic(
            task=words("zapat botas chaqueta abrigo vestido pantal camisa casco"),
            fact=words("talla calza número"),
        ),
        "health": Topic(
            task=words("""
médic clínica hospital salud dentista receta farmacia formulario ingreso parto operación urgenc
"""),
            fact=words("""
alérgi alergi pastilla sangre medic operación médic diagnóst toma asma anemia embaraz seguro
"""),
        ),
        "time": Topic(
            task=words("cita calendario reunión semana planifica cuadrante agenda organiza fecha reserva"),
            fact=words("""
lunes martes miércoles jueves viernes sábado domingo cita cada hasta turno cierra libra
"""),
        ),
        "money": Topic(
            task=words("factura presupuesto pagar banco impuesto precio coste deuda"),
            fact=words("cobra tarifa factura paga debe impuesto cuenta precio cuesta alquiler euros"),
        ),
        "home": Topic(
            task=words("arregl repar calentador casero traigan entrega fontanero"),
            fact=words("vive calle piso llave casero ascensor portal timbre"),
        ),
        "animal": Topic(
            task=words("perro gato mascota cuide paseo"),
            fact=words("perro gato pienso veterinari correa"),
        ),
        "email": Topic(
            task=words("correo"),
        ),
        "phone": Topic(
            task=words("llama"),
        ),
        "account": Topic(
            task=words("paga transfer alquiler cuenta"),
        ),
        "address": Topic(
            task=words("paquete etiqueta entrega visita dirección"),
        ),
    },
    calendar=Calendar(
        months=names("""
enero|ene febrero|feb marzo|mar abril|abr mayo|may junio|jun julio|jul agosto|ago
septiembre|setiembre|sept|sep octubre|oct noviembre|nov diciembre|dic
"""),
        weekdays=names("lunes martes miércoles|miercoles jueves viernes sábados?|sabados? domingos?"),
        units={
            "day": "días?|dias?",
            "week": "semanas?",
            "weekend": "fin de semana|finde",
            "month": "mes(?:es)?",
            "quarter": "trimestres?",
            "year": "años?",
        },
        days=counts("""
anteayer -2, antier -2, ayer -1, anoche -1, hoy 0, esta noche 0, mañana 1, pasado mañana 2
"""),
        cardinals=names("""
uno dos tres cuatro cinco seis siete ocho nueve diez once doce trece catorce quince dieciséis diecisiete
dieciocho diecinueve veinte veintiuno veintidós veintitrés veinticuatro veinticinco veintiséis
veintisiete veintiocho veintinueve treinta treintaiuno
"""),
        ordinals=names("primero segundo tercero cuarto quinto sexto séptimo octavo noveno décimo"),
        numbers=counts("""
un 1, una 1, par 2, docena 12, dieciseis 16, cuarenta 40, cincuenta 50, sesenta 60, setenta 70, ochenta
80, noventa 90, cien 100, mil 1000
"""),
        halves=counts("medio 1, media 1"),
        and_half="y medi[oa]",
        next="próxim[oa]s?|que viene",
        last="pasad[oa]|últim[oa]|ultim[oa]|anterior",
        ahead=("(?:en|dentro de) {count} {unit}",),
        ago=("hace {count} {unit}",),
        bare_day=r"\b(?:el|al|día|del) (?P<day>\d{1,2})\b(?!:)",
        periods=Periods(
            seasons=names("primavera verano otoño|otono invierno"),
            quarters=names("primer segundo tercer cuarto"),
            about="unos |unas |casi |más de ",
            rough=counts("un par de 2, unos pocos 3, unas pocas 3"),
            this="est[ea]",
            within="en|el|la|desde|durante|hasta|del",
            of="de(?:l)?",
            joins="y|a|hasta",
        ),
    ),
)
