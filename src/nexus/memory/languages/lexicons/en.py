"""What Nexus knows about English."""

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
    code="en",
    stemmer="porter",
    letters="",
    function_words=words("""
a about after again all also am an and any are as at be because been before being between both but by can
could d did do does doing don down during each either few for from had has have having he her here hers
him his how i if in into is it its just ll m many may me might mine more most much must my no nor not now
of off on once only or other our ours out over own re s same shall she should so some such t than that the
their theirs them then there these they this those through to too under until up us ve very was we were
what when where which while who whom whose why will with would you your yours
"""),
    time_words=words("""
yesterday today tomorrow tonight last next week weekend month year ago recently since monday tuesday
wednesday thursday friday saturday sunday summer winter spring fall autumn january february march april
may june july august september october november december
"""),
    number_words=words("one two three four five six seven eight nine ten couple several once twice"),
    name_verbs=words("""
is was has had will likes loves lives works leads wants needs does prefers and plans moved hates
"""),
    titles=words("dr mr mrs ms prof"),
    nobody=words("i owner user the a an my he she it they we you his her their this that am pm ok utc"),
    cues={
        "restriction": (
            r"\ballerg|\bintoleran|\bvegetarian\b|\bvegan\b|\bdiabet|\bc(?:o)?eliac\b|\bhalal\b"
            r"|\bkosher\b|\basthma|\bpregnan|\bEpiPen\b|\b(?:can(?:no|')t|cannot|must not|mustn't"
            r"|may not|is not allowed to) (?:eat|drink|have|take|tolerate|lift|drive|fly|wear|use)\b"
            r"|\b(?:doesn't|does not|never|no longer) (?:eats?|drinks?|takes?|drunk|eaten)\b"
            r"|\bhas not (?:drunk|eaten)\b"
        ),
        "circumstance": (
            r"\b(?:lives|live) (?:in|at|with|on)\b|\b(?:works|work) (?:as|at|for|in|with)\b"
            r"|\bis an? [^.]{0,40}\b(?:teacher|nurse|doctor|developer|engineer|designer|student|manager"
            r"|freelance\w*|retired|cook|chef|lawyer|artist|writer)\b"
        ),
        "question": (
            "^(?:(?:and|so|but|hey|hi|hello|ok|okay|well|then|also|nexus)[,!. ]+)*(?:who|whom|whose"
            "|what|when|where|which|why|how|is|are|was|were|do|does|did|has|can|could|will|would|should"
            r"|any idea)\b"
        ),
        "request": (
            "^(?:(?:please|pls|hey|hi|hello|ok|okay|so|and|then|now|also|nexus|(?:can|could|would"
            "|will) you(?: please)?|i(?:'d| would) like you to|i need you to"
            "|i want you to)[,!. ]+)*(?:add|answer|apply|arrange|ask|block|book|buy|call|cancel|change"
            "|check|choose|come up|compare|compose|convert|cook|count|create|cut|decide|describe|design"
            "|do me|draft|e?-?mail|explain|fill|find|fix|format|generate|get|give|help|invite|let|list"
            "|look|make|merge|message|move|order|organi[sz]e|outline|pack|pick|plan|prepare|print"
            "|proofread|propose|put|rank|recommend|remind|rename|reply|reserve|respond|rewrite|ring"
            "|schedule|search|send|set|shorten|show|solve|sort|suggest|sum up|summari[sz]e|tell|text"
            r"|translate|turn|update|work out|write)\b"
        ),
        "constraint": (
            r"\ballerg|\bintoleran|\b(?:can(?:no|')t|cannot|won't|never|refuses?|hates?|dislikes?"
            r"|avoids?|afraid|scared|terrified)\b|\b(?:prefers?|likes?|loves?|favou?rite|wants?|must"
            r"|needs?|only|vegetarian|vegan|diabetic|coeliac|celiac|halal|kosher)\b"
        ),
        "reason": (
            r"\bbecause\b|\bsince (?:he|she|it|they|the|her|his)\b|\bso that\b|\bdue to\b|\bafter (?:a"
            r"|an|the|he|she)\b"
        ),
        "when": (
            r"\bwhen\b|\b(what|which) (date|day|days|time|times|year|month|week|weekday)\b|\bhow (long"
            r"|old|soon)\b|\b(days|weeks|months)\b|\b(since|until|till) when\b|\bdate of\b"
        ),
        "count": r"\bhow (many|much|often)\b|\bnumber of\b",
        "why": (
            r"\bwhy\b|\bhow come\b|\b(what|which) (is |was )?(the )?(reason|cause)s?\b|\breasons? (for"
            r"|why|that)\b|\bwhat (made|caused|led)\b|\bbecause of what\b|\bwhat for\b"
        ),
        "past": (
            r"\b(did|do) \w+ first\b|\bfirst time\b|\bvery first\b|\b(was|were|had)\b.*\b(19|20)\d\d\b"
            r"|\b(did|was|were|had|used to|lived|worked|stayed|paid|kept|led|ran)\b.*\bbefore\b"
            r"|\bpreviously\b|\bprevious\b|\bformer(ly)?\b|\bearlier\b"
            r"|\bused? to\b|\b(was|were) (\w+ ){0,3}(supposed|meant|due|going) to\b|\b(the|my|our|his"
            r"|her|their|its|\w+\x27s) (very )?first\b(?! (thing|aid|name|class))|\b(did|was|were"
            r"|had)\b.*\bfirst\b|\bstart(ed)? (out|off)\b|\bbegin with\b|\b(my|our|his|her|their|the"
            r"|\w+\x27s) old\b|\b(did|was|were|had)\b.*\b(back in|back then|until|till)\b"
            r"|\b(did|was|were|had|lived|worked|stayed|kept|led|ran)\b.*\bbetween\b.*\band\b"
            r"|\bonce (was|were|had|did)\b|\boriginal(ly)?\b|\binitial(ly)?\b"
            r"|\bat first\b|\b(in|at) the (very )?beginning\b|\bto begin with\b|\bfirst (plan|quote|idea"
            r"|offer|date|choice|price)\b|\bback (then|when)\b|\bat (the|that) time\b|\bin those days\b"
            r"|\b(the )?old (address|phone|number|job|flat|apartment|house|boss|car|doctor|dentist"
            r"|school|name|price|rent|salary|rate|landlord|plan|date)\b|\blast year\b"
        ),
        "first": (
            r"\b(very |at |did \w+ |the |my |our )first\b|\bfirst (plan|quote|idea|offer|date|choice"
            r"|price|set|booked|ordered|planned)\b|\boriginal(ly)?\b|\binitial(ly)?\b|\bstart(ed)? (out"
            r"|off)\b|\bto begin with\b"
        ),
        "before": r"\bbefore(hand)?\b",
        "due": (
            r"\b(do|does|has|have|am|is|are|should|must|can|could|will|would|shall|need|needs|wants?|what's"
            r"|i'll|i've|we'll|we've|we're|i'm)\b.*\bbefore\b|\bbefore (?:(?:this|next|the|coming|end|of) )*"
            r"(?:\d|(?:mon|tues|wednes|thurs|fri|satur|sun)day|noon|midday|midnight|tonight|tomorrow|lunch"
            r"|dinner|breakfast|bedtime|weekend|week|month|then)"
        ),
        "present": (
            r"\bnow(adays)?\b|\bcurrent(ly)?\b|\bthese days\b|\bat the moment\b|\bright now\b"
            r"|\bin the end\b|\beventually\b|\bfinally\b|\bstill\b|\blatest\b|\bas of today\b|\btoday\b"
        ),
        "survey": (
            r"\bsummar|\border\b|\bover time\b|\bthroughout\b|\bwalk me\b|\blist\b|\bhow (has|have"
            r"|did)\b"
        ),
        "first_person": r"\b(i|my|me|mine|i'm|i've|we|our|ours|us)\b",
        "yes": (
            "yes|yeah|yep|yup|sure|ok|okay|right|correct|exactly|indeed|of course|absolutely|definitely"
            "|agreed|please do|go ahead|sounds good|do (?:it|that)|true|that'?s (?:right|it|true)"
            "|perfect|great|fine|deal|why not|you got it|let'?s do (?:it|that)"
        ),
        "no": "no|nope|nah|not really|wrong|incorrect|no way|never|not at all|false",
        "negation": (
            r"\b(?:not|no|never|none|nobody|nothing|neither|nor|without|cannot|\w+n't|dont|doesnt|isnt"
            r"|cant|wont)\b"
        ),
        "harmless": (
            r"\b(?:(?:don't|do not|dont) forget|not only|why not|no problem|no worries|can't wait"
            r"|no doubt|not bad|not to mention|no idea|if not)\b|^(?:no|nope|nah|oh no)[,.!:; -]+"
        ),
        "negative": (
            r"\b(?:dislik|hat(?:e|es|ed)\b|avoid|refus|allerg|intoleran|unable|stopp|quit|gave up"
            r"|given up|gives up|cancel|declin|free\b|lack|exclud|against|end(?:s|ed)\b|left\b|un\w{4,})"
        ),
        "contrast": r"\b(?:but|instead|rather|except|until|unless|any ?more|anymore|longer|yet)\b",
        "asks": (
            "^(?:(?:so|and|but|hey|ok|okay|well|please|by the way)[, ]+)*(?:(?:what|where|who|whose"
            r"|whom|which|why|how)(?:'s|s|'re)?\b|when(?:'s)?\s+(?:is|are|was|were|do|does|did|will"
            r"|should|can|shall)\b|(?:is|are|was|were|do|does|did|can|could|would|will|should|shall|have"
            r"|has|may)\s+(?:i|you|he|she|it|we|they|my|your|the|there|this|that|anyone|someone)\b"
            r"|(?:any idea|tell me|remind me (?:what|when|who|where|how)|show me|find|list|look up)\b)"
        ),
        "remember": (
            r"\b(?:remember|note|keep in mind|know|remind me|forget|save|store|write down"
            r"|mind)(?: it)? that\b|\bfyi\b|\bfor the record\b|\bplease (?:remember|note)\b"
        ),
        "hypothetical": (
            r"\bwhat if\b|\bsuppos(?:e|ing)\b|\bimagine\b|\bhypothetical\w*|\blet's say\b|\bpretend\b"
            r"|\bin theory\b|\bwould have\b|\bif (?:i|we|he|she|they|you|my|our|\w+) (?:were|was|had"
            r"|moved|could|did|won|got|went|bought|lost|lived|\w+ed)\b|\bif\b.*\b(?:would|could|might)\b"
            r"|\b(?:would|could|might)\b.*\bif\b"
        ),
        "joke": (
            r"\b(?:just|only|i'm|i am|am) (?:kidding|joking|messing)\b|\bkidding\b|\bjk\b"
            r"|\bjust a joke\b|\bit'?s a joke\b|\bsarcas\w+|(?:^|\s)/s\b|\bapril fool"
        ),
        "naming": (
            r"\b(?:calls?|called|calling|known as|goes by|go by|nicknamed?|aka|a\.k\.a|alias|short for"
            r"|also named|name is|named)\b"
        ),
        "introduces": (
            r"(?:\bmy (?:full )?name(?: is|'s)|\bi am called|\bi'm called|\bcall me|\bi am|\bi'm"
            r"|\bit's me,?|\bthis is)\s+"
        ),
        "refers": (
            r"\b(?:he|she|it|they|them|him|her|his|hers|its|it's|their|theirs|this|that|those|these"
            r"|there|then|both|same|one|mine)\b"
        ),
        "me": (
            "i|me|my|mine|myself|we|us|our|owner|user|the owner|the user|speaker|the speaker|self|person|you"
        ),
        "tag": (
            "right|correct|yes|no|yeah|ok|(?:is|does|did|do|was|has|are|will|can)n't (?:it|he|she"
            "|they|you|we)"
        ),
        "other": r"(?:and )?(?:he|she)\b",
        "unnamed": r"(?:he|she|they|her|his|their)\b",
        "article": "the ",
        "no_joke": r"\b(?:no|not (?:a )?) ?(?:joke|kidding|joking)",
        "phone": r"\b(?:phone|mobile|cell|number|call|whatsapp)\b",
        "birthday": r"\b(?:birthday|born)\b",
        "diet": (
            r"\b(?:allerg\w*|intoleran\w*|vegetarian\w*|vegan\w*|coeliac|celiac|gluten\w*|halal"
            r"|kosher|lactose\w*)\b"
        ),
        "lasting": r"\b(?:since|from|born|birthday|every|each|until|moved)\b",
        "refers_back": r"(?:it|he|she|they|that|this|these|those|then|and|but|so|or)\b",
    },
    people=People(
        common=words("""
a about am an and are at be been can could did do does for from had has have he her him his how if in is
it me my of on or our she should so that the their them they this to us was we were what when where
which who whose why will with would you
"""),
        first=words("i me my mine myself we us our ours i'm i've i'd i'll"),
        possessive=words("my our mine ours"),
        third=words("his her their its"),
        of=words("of to at"),
        copula=words("is was are were be been being became becomes remains called named as"),
        conjunction=words("and"),
        definite=words("the"),
        neutral=words("the a an dr mr mrs ms miss prof"),
        unions=unions(
            spouse="married to|married|got married|are married",
            partner="dating|engaged to|engaged|in a relationship with|going out with",
        ),
        roles=roles("""
spouse: husband|hubby / wife / spouse
partner: boyfriend|fiancé|fiance / girlfriend|fiancée|fiancee / partner|significant other|other half
|better half
ex: ex-husband|ex husband|ex-boyfriend|ex boyfriend / ex-wife|ex wife|ex-girlfriend|ex girlfriend / ex
|ex-partner|ex partner|former partner
child: son|sons|boy|boys|stepson|foster son / daughter|daughters|girl|girls|stepdaughter
|foster daughter / child|children|kid|kids|baby|toddler|eldest|youngest|little one|little ones|twins|twin
|foster child|teenager
parent: father|dad|daddy|stepfather|pop|papa / mother|mum|mom|mummy|mommy|stepmother|mam|mama / parent
|parents|folks
sibling: brother|brothers|half-brother|stepbrother / sister|sisters|half-sister|stepsister / sibling
|siblings|twin
grandparent: grandfather|grandpa|granddad|grandad|gramps / grandmother|grandma|granny|gran|nan
|nana / grandparent|grandparents
grandchild: grandson|grandsons / granddaughter|granddaughters / grandchild|grandchildren|grandkids|grandkid
uncle_aunt: uncle|uncles|great-uncle / aunt|auntie|aunts|aunty|great-aunt /
niece_nephew: nephew|nephews / niece|nieces /
cousin: / / cousin|cousins
parent_in_law: father-in-law|father in law / mother-in-law|mother in law / in-laws|parents-in-law
child_in_law: son-in-law|son in law / daughter-in-law|daughter in law /
sibling_in_law: brother-in-law|brother in law / sister-in-law|sister in law /
godchild: godson / goddaughter / godchild|godchildren
godparent: godfather / godmother / godparents
friend: / / friend|friends|best friend|mate|buddy|pal|bff
boss: / / boss|manager|line manager|supervisor|team lead|head of department
report: / / employee|employees|direct report|assistant|deputy|second in command|sous-chef|sous chef
colleague: / / colleague|colleagues|coworker|co-worker|coworkers|teammate
mentor: / / mentor|advisor|adviser|phd supervisor|thesis supervisor|tutor
mentee: / / mentee|apprentice|trainee|intern|protégé
pupil: / / pupil|pupils|student|students
neighbor: / / neighbor|neighbour|neighbors|neighbours|next door|next-door neighbor|next-door neighbour
roommate: / / roommate|roommates|flatmate|flatmates|housemate|housemates
landlord: landlord / landlady /
tenant: / / tenant|tenants|lodger|subtenant
doctor: / / doctor|gp|physician|family doctor|surgeon|pediatrician|paediatrician|gynecologist|cardiologist
|neurologist|dermatologist|allergist|specialist
patient: / / patient|patients
dentist: / / dentist|orthodontist|dental hygienist
vet: / / vet|veterinarian
therapist: / / therapist|psychologist|counselor|counsellor|physio|physiotherapist|physical therapist
|osteopath|chiropractor|shrink
midwife: / / midwife|doula
teacher: / / teacher|class teacher|homeroom teacher|instructor|professor|conductor|choir leader|choirmaster
|choirmistress
coach: / / coach|trainer|personal trainer
lawyer: / / lawyer|attorney|solicitor|notary
accountant: / / accountant|bookkeeper|tax adviser|tax advisor
tradesperson: / / plumber|electrician|carpenter|joiner|painter|gardener|mechanic|handyman|roofer|builder
|contractor|janitor|caretaker
hairdresser: / / hairdresser|barber|hairstylist
sitter: / / babysitter|nanny|childminder|au pair|dog walker|dog sitter|cat sitter|pet sitter
cleaner: / / cleaner|cleaning lady|housekeeper
client: / / client|clients|customer|customers
supplier: / / supplier|suppliers|vendor|vendors|fishmonger|greengrocer
dog: / / dog|dogs|puppy|hound|pooch|terrier|labrador|spaniel|poodle|dachshund|collie|mutt
cat: / / cat|cats|kitten|kitty|tomcat
pet: / / pet|pets|horse|pony|rabbit|hamster|parrot|guinea pig|tortoise|budgie
"""),
        needs_holder=words("""
boy boys girl girls mate pop pal partner patient patients student students twin eldest youngest
specialist ex vet
"""),
        needs_language=words("""
son mate pop pal gran mama nan mam nana patient patients client clients boy boys girl girls tutor coach
parents cousin cousins kids baby partner trainer student builder
"""),
        called=words("""
mum mom mummy mommy mam mama dad daddy papa grandma grandpa granny gran nan nana granddad grandad auntie
"""),
    ),
    changes={
        "change": phrases("""
now, from now on, nowadays, currently, moved, moves, switched, changed, changes, replaced, replaces,
instead, renamed, new, upgraded, updated, rises, rose, raised, lowered, reduced, increased, postponed,
brought forward, rescheduled, delayed, extended, since, renewed, has been on, took over, succeeds,
succeeded, corrected, has become, went live, passed, again, final, finally, still
"""),
        "end": phrases("""
no longer, not any more, not anymore, any longer, stopped, quit, gave up, given up, left, ended,
cancelled, canceled, returned, paid back, sold, broke up, called off, retired, closed, dropped,
withdrew, died, has not, have not, without
"""),
        "correction": phrases("""
sorry, scratch that, i meant, i mean, meant to say, correction, typo, mistyped, misspoke, my mistake, my
bad, my fault, oops, whoops, wait, no wait, hang on, hold on, actually, not quite, that was wrong, got
that wrong, got it wrong, wrong, i was wrong, misread, misheard, mixed up, mixing up, confused, turns
out, it s not, it is not, that s not, isn t, not a, rather, strike that, ignore that, forget that,
forget what i said, i stand corrected, should be, should have said, make that, to be precise,
apparently, double checked, just checked, checked again, looked it up, no it s, no that s, no she, no
he, no they, nope, fat fingers, autocorrect
"""),
        "cancellation": phrases("""
cancelled, canceled, cancel, cancels, called off, call off, is off, are off, off the table, not
happening, isn t happening, fell through, falls through, pulled out, backed out, backs out, dropped out,
won t happen, not going after all, not coming after all, not going, not coming, scrapped, shelved,
abandoned, no longer going, no longer coming, withdrew, withdrawn, bailed, postponed indefinitely
"""),
        "reschedule": phrases("""
moved to, moves to, is moved, been moved, was moved, got moved, postponed, pushed to, pushed back, put
back, brought forward, rescheduled, delayed, slipped, slips, bumped to, shifted to, shifted, extended to
"""),
        "addition": phrases("""
also, another, second, additional, as well, too, in addition, besides, other, both
"""),
        "exception": phrases("""
this week, this time, this once, just this, only this, just for, only for, just today, only today, for
now, for the week, for the time being, temporarily, temporary, until, except, exceptionally, for once,
one off, on holiday, while, during, over easter, over christmas, over the holidays, this month only, on
the day, next week only
"""),
        "many": phrases("""
wants to, want to, would like, likes, loves, enjoys, hates, dislikes, prefers not, read, reads, has
read, watched, visited, has been to, went to, bought, ordered, cooked, baked, made, met, knows, speaks,
collects, plays, owns, has a, has an, is allergic to, can t eat, avoids, mentioned, asked, told,
recommended, suggested, wrote, sent, gave, got, received, found, learned, saw
"""),
        "plan": phrases("""
plans, planned, wants, want, hopes, expected, is to, due, scheduled, going to, intends
"""),
        "hearsay": phrases("""
joked, jokes, joking, kidding, just kidding, rumour, rumor, rumours, supposedly, might, maybe, perhaps,
wondered, wonders, wishes, wish, dreams, would love, would like, considering, considers, thinking about,
thinking of, thought about, if, unless, suggested, proposed, offered, asked whether, not sure
"""),
        "past": phrases("""
used to, last year, last summer, last winter, last spring, last autumn, last fall, years ago, back then,
back in, previously, formerly, originally, as a child, as a kid, growing up, once, in the past, at the
time, before that, the old
"""),
    },
    attributes={
        "home": names("""
live lives living home house apartment flat condo address moved rents renting sublet based staying lodg
"""),
        "work": names("""
works working job employ teach taught engineer manager head company unemploy freelance joined joins
hired role position promoted freelanc intern
"""),
        "phone": names("phone mobile number"),
        "debt": names("owe owes debt lent borrow repaid"),
        "price": names("""
cost costs price rent rate charge charges pays salary earn retainer fee quote insured
"""),
        "name": names("called named renamed"),
        "doctor": names("doctor dentist surgeon physician vet physiotherap"),
        "vehicle": names("drives car drive"),
        "diet": names("vegan vegetarian eats meat alcohol drinks"),
        "deadline": names("deadline due live opening scheduled operation surgery replacement concert"),
        "schedule": names("rehearse lesson lessons class classes swim session meets training surf"),
        "school": names("school grade studies studying study degree"),
        "partner": names("dating girlfriend boyfriend partner engaged married"),
        "size": names("size shoe weighs"),
        "health": names("takes medication tablet dose"),
        "holder": names("responsible charge contact"),
        "tool": names("laptop server runs database uses version computer"),
        "email": names("email mail inbox"),
        "account": names("iban account berth locker pin code password membership policy"),
        "birthday": names("birthday born"),
        "age": names("turns turned aged"),
        "dose": names("mg ml units milligram drops twice"),
        "time": names("""
starts begins opens closes leaves arrives departs boards meet pickup appointment flight train
"""),
        "color": names("color colour painted paint"),
        "venue": names("venue held restaurant booked reservation hotel"),
        "pet": names("dog cat puppy kitten rabbit"),
    },
    fillers=words("""
about after all and any are been before being but can could did does each for from had has have her here
hers him his how into its may might must nor not our shall she should some than that the their them then
there these they this those was were what when where which who why will with would you your done every
onto
"""),
    topics={
        "food": Topic(
            task=words("""
dinner lunch breakfast brunch supper meal menu cook recipe restaurant snack cake bake barbecue bbq
picnic cater grocer food eat drinks tea party cookout treat feed
"""),
            fact=words("""
allerg intoleran vegetarian vegan diabet coeliac celiac gluten lactose dairy peanut nut nuts cashew
shellfish eats eat drink drunk alcohol food dish cook meat fish spicy mushroom aubergine diet kosher
halal grapefruit sugar salt fussy taste flavour milk cheese egg pork
"""),
        ),
        "reach": Topic(
            task=words("""
email e-mail mail write text message call ring phone invite reply respond tell let send ask letter
remind contact draft notify answer inform confirm visit post parcel package ship label reach chase
"""),
            fact=words("""
phone number mobile email e-mail address reachable rung ring called call calls text texts whatsapp
signal reply writes answers time-zone behind ahead hears hearing speaks language sleeps bed
"""),
        ),
        "travel": Topic(
            task=words("""
flight fly train trip travel hotel journey holiday vacation ticket airport ferry cottage visa passport
pack getaway cruise weekend tour hostel airbnb drive lift pick
"""),
            fact=words("""
seat aisle window flight red-eye passport expires aeroplan railcard bahncard miles loyalty visa hotel
luggage motion carsick elevator lift stairs ferry airport lands travels travel trip train drive driving
licence license steep
"""),
        ),
        "gift": Topic(
            task=words("""
gift present birthday flowers surprise card celebrate celebration anniversary wedding christmas thank
"""),
            fact=words("""
likes loves favourite favorite wants wishes wish size birthday born turns collects mad keen fan hates
dislikes already allerg gift present spends
"""),
        ),
        "wear": Topic(
            task=words("""
shoes sneakers boots trainers jacket coat clothes dress shirt trousers helmet gloves outfit pair
"""),
            fact=words("size wears wear shoe fitting feet"),
        ),
        "health": Topic(
            task=words("""
doctor clinic hospital medical intake health dentist physio prescription pharmacy first-aid
questionnaire pre-op medicine emergency carer gp vet insurance birth
"""),
            fact=words("""
allerg mg tablet pill blood medication medicine operation surgery disc mri diagnos doctor gp asthma
patient insurance takes ulcer diabet pressure arthritis eczema anaesthetic epipen pregnan inhaler injury
sick heart vaccin
"""),
        ),
        "time": Topic(
            task=words("""
schedule calendar slot appointment meeting book arrange week plan propose date block rota roster session
rehearsal
"""),
            fact=words("""
mondays tuesdays wednesdays thursdays fridays saturdays sundays every until appointment away busy
available weekdays mornings evenings shift rehears weekly noon
"""),
        ),
        "money": Topic(
            task=words("""
invoice budget pay quote bill bank tax price cost expense loan rent payment estimate
"""),
            fact=words("""
charges rate hour invoices invoice pays pay owes owe owed tax account price costs cost rent salary
budget deposit limit euro eur usd cad gbp £ € $
"""),
        ),
        "home": Topic(
            task=words("""
deliver repair fix plumber electrician landlord heating boiler leak tap installer carers key gouttière
"""),
            fact=words("""
lives address street apartment flat floor key code landlord elevator stairs parking delivery bell gate
avenue
"""),
        ),
        "animal": Topic(
            task=words("dog cat puppy kitten pet feed walker kennel sitter mind minding"),
            fact=words("dog cat pet kibble vet walks lunges leash feed litter"),
        ),
        "email": Topic(
            task=words("email e-mail emails"),
        ),
        "phone": Topic(
            task=words("text texts call ring phone sms whatsapp telephone"),
        ),
        "account": Topic(
            task=words("pay transfer rent invoice account payment"),
        ),
        "address": Topic(
            task=words("post parcel package ship label deliver visit card address"),
        ),
    },
    calendar=Calendar(
        months=names("""
january|jan february|feb march|mar april|apr may june|jun july|jul august|aug september|sept|sep
october|oct november|nov december|dec
"""),
        weekdays=names("mondays? tuesdays? wednesdays? thursdays? fridays? saturdays? sundays?"),
        units={
            "day": "days?",
            "week": "weeks?",
            "weekend": "weekends?",
            "month": "months?",
            "quarter": "quarters?",
            "year": "years?",
        },
        days=counts("""
the day before yesterday -2, yesterday -1, last night -1, today 0, tonight 0, this morning 0, this
afternoon 0, this evening 0, tomorrow 1, the day after tomorrow 2
"""),
        cardinals=names("""
one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen
seventeen eighteen nineteen twenty twenty-one twenty-two twenty-three twenty-four twenty-five twenty-six
twenty-seven twenty-eight twenty-nine thirty thirty-one
"""),
        ordinals=names("""
first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth thirteenth fourteenth
fifteenth sixteenth seventeenth eighteenth nineteenth twentieth twenty-first twenty-second twenty-third
twenty-fourth twenty-fifth twenty-sixth twenty-seventh twenty-eighth twenty-ninth thirtieth thirty-first
"""),
        numbers=counts("""
a 1, an 1, couple 2, twice 2, once 1, dozen 12, half 2, forty 40, fifty 50, sixty 60, seventy 70, eighty
80, ninety 90, hundred 100, thousand 1000, million 1000000
"""),
        halves=counts("half a 1, a half 1, half 1, one and a half 3, two and a half 5"),
        and_half="and a half",
        next="next",
        coming="coming",
        last="last|past|previous",
        ahead=("in {count} {unit}", "{count} {unit} from now"),
        ago=("{count} {unit} ago",),
        bare_day=r"\b(?:the|on|to) (?P<day>\d{1,2})(?:st|nd|rd|th)?\b|\b(?P<day2>\d{1,2})(?:st|nd|rd|th)\b",
        doubtful_months={"may": r"\b(?:in|of|this|next|last|until|by) (?P<month>may)\b"},
        past=(r"was|were|had|did|went|met|saw|came|got|took|gave|left|bought|told|said|\w{3,}ed"),
        habit="every|each|usually|always",
        periods=Periods(
            seasons=names("spring summer autumn|fall winter"),
            quarters=("q1|first quarter", "q2|second quarter", "q3|third quarter", "q4|fourth quarter"),
            rough=counts("zero 0, couple of 2, few 3"),
            this="this",
            # "31/12/2024" may be either, and a month alone is often another word.
            forms=(
                (
                    ("numeric", r"\b{year}-(?P<number>\d\d)-(?P<day>\d\d)\b"),
                    ("date", r"\b{day}\s+(?:of\s+)?{month}\.?\b(?:,?\s+{year})?"),
                    ("date", r"\b{month}\.?\s+{day}\b(?:,?\s+{year})?"),
                    ("month", r"\b{month}\.?,?\s+(?:of\s+)?{year}\b"),
                ),
                (
                    (
                        "season",
                        r"\b(?P<which>last|this|next|in|the"
                        r"|during)\s+(?:the\s+)?{season}\b(?:\s+(?:of\s+)?{year})?",
                    ),
                    ("quarter", r"\b(?:{quarter})\b(?:\s+(?:of\s+)?{year})?"),
                ),
                (
                    (
                        "month",
                        r"\b(?:(?:in|since|during)\s+|(?:of|by|until|early|late|mid|last|this|next|and|to"
                        r"|from|between)\s+"
                        r"(?!(?-i:may|march|mar|dec|jan)\b)){month}\.?\b",
                    ),
                ),
                (
                    (
                        "year",
                        r"\b(?:in|since|during|of|year|summer|winter|spring|fall|autumn|early"
                        r"|late)\s+{year}\b",
                    ),
                ),
                (
                    ("ago", r"\b(?:{ago})\b"),
                    ("unit", r"\b{which}\s+(?P<unit>week|weekend|month|year|quarter)\b"),
                    ("day", r"\b(?!last night){named_day}\b"),
                    ("weekday", r"\b(?:last|on|this|past)\s+{weekday}(?<!s)\b"),
                ),
            ),
        ),
    ),
    promises={
        # What people promise to do. Verbs of taste, state and belief are not among them.
        "act": (
            r"(?:send|mail|e-?mail|text|message|call|ring|phone|write|reply|respond|answer|forward|share|ship"
            r"|deliver|bring|drop|pick|collect|fetch|hand|give|get|pay|settle|transfer|wire|book|reserve"
            r"|order"
            r"|buy|fix|repair|sort|finish|complete|review|read|proof\w*|check|look (?:into|at|for|up|over"
            r"|after)"
            r"|find|ask|chase|follow up|remind|ping|nudge|prepare|draft|take care|handle|introduce|water|post"
            r"|submit|upload|set up|arrange|organi[sz]e|schedule|return|refund|lend|show|tell|inform|notify"
            r"|update|let [\w' .]{1,30}? know|report|confirm|cancel|talk (?:to|with)|speak (?:to|with)"
            r"|work on"
            r"|do (?:it|that|this|the|so|my)|make (?:sure|the|a|some|enquiries|inquiries)|keep an eye"
            r"|try again"
            r"|come (?:back|over|by|round)|swing by|stop by|help|clean|print|sign|test|deploy|publish"
            r"|translate"
            r"|cook|bake|install|invite|discuss|revert|put|move|add|create|build|plan|raise|pass \w+ (?:on"
            r"|to)"
            r"|have (?!to\b|a\b|an\b|fun\b)[\w' ]{1,60}? (?:ready|done|finished|for you|to you|with you|by\b)"
            r"|have a (?:word|look|chat)|investigate|see (?:to|what|if|whether)|ensure|copy|scan|attach|drive"
            r"|bell|buzz|be (?:there|round|over))"
        ),
        "acting": (
            r"(?:sending|mailing|e-?mailing|texting|calling|ringing|phoning|writing|replying|forwarding"
            r"|sharing|shipping|delivering|bringing|dropping|picking|popping|collecting|handing|giving|paying"
            r"|settling|transferring|booking|ordering|buying|fixing|finishing|reviewing|checking|posting"
            r"|submitting|uploading|returning|coming (?:back|over|by|round)|getting back|putting)"
        ),
        # The speaker's own promise.
        "self": (
            r"\b(?:i|we)(?:'ll| will| shall|ll|'m going to| am going to|'re going to| are going to|'m gonna"
            r"| am to|'m to)(?: (?:then|also|just|definitely|gladly|certainly|try to|try and|go and"
            r"|be sure to"
            r"|make sure to|happily|personally|quickly|still|now|be|have to|need to|go|run and))*"
            r" (?:{act}|{acting})\b"
            r"|(?:^|[,.;!] |\b(?:ok|and|i'm|we're|we|i) )(?:gonna|going to) {act}\b"
            r"|(?:^|[,.;!] |\b(?:ok|okay|hi|hey|hiya|and|sure|yes|yep) )(?:will"
            r"|shall) (?:then )?{act}\b(?!.*\?)"
            r"|^(?:\W*(?:ok|okay|sure|yes|yep|yeah|thanks|thank you|noted|fine|cool|great|alright)\W+)*"
            r"(?:will|can) do\b"
            r"|(?:^|[,.;!] )(?:i'm |i am |we're )?on it\b|\bconsider it done\b|\bleave (?:it|that) (?:with"
            r"|to) me\b"
            r"|\b(?:let|allow) me\b.{0,80}\b(?:(?:come|get|return|report)\s+(?:back|to you)|return to you"
            r"|and (?:i'll |then )?tell you|let you know|report back)\b"
            r"|\b(?:i|we)(?:'ve| have)? (?:promised?|swore|sworn|vowed?)(?! myself)\b"
            r"|^(?:have |i've |i have |i )?(?:promised|told|assured) [\w. ]{1,40}? (?:that )?"
            r"(?:i|we|they)(?:'d| would|'ll| will)\b"
            r"|\b(?:i|we) (?:said|told [\w. ]{1,40}?) (?:that )?(?:i|we)(?:'d| would|'ll| will) {act}\b"
            r"|\b(?:i|we) said (?:i|we) would\b"
            r"|\b(?:i|we) (?:still )?owe\b"
            r"|\b(?:i|we)(?:'ve| have)? (?:undertake|committed?|pledged?|guarantee|promise) (?:to"
            r"|you|that)\b"
            r"|\bcan (?:promise|assure|guarantee) you\b"
            r"|\b(?:i|we)(?: (?:still|really|also))?(?:'ve got| have| need|'ve)? ?(?:to|must) (?:get back"
            r"|reply|respond|write back"
            r"|answer|call [\w ]{1,20} back|return)\b"
            r"|\bcount on (?:me|us)\b"
            r"|\btell (?:her|him|them|\w+) (?:that )?i(?:'ll| will) {act}\b|, (?:i )?promise\W*$"
        ),
        # Promises if they name a day.
        "self_dated": (
            r"(?:^|[,.;!] |\b(?:i'm|i am|we're|we are|and) )(?:just )?{acting}\b"
            r"|\b(?:you|they|he|she)(?:'ll| will| shall) (?:have|get|receive|hear)\b"
            r"|\bexpect (?:it|the|my|our|an?)\b.{0,60}\bfrom (?:me|us)\b"
            r"|\b(?:my|our) (?:\w+ ){1,2}(?:will|is going to|are going to) {act}\b"
            r"|\b(?:i|we)(?:'ll| will| shall) be\b.{0,30}\b(?:with|to) (?:you|pick|help|bring|fix)\b"
            r"|\b(?:i|we)(?:'ll| will| shall) (?:have|be round|be over)\b"
        ),
        # Somebody else's promise, with their name.
        "reported": (
            r"{name},? (?:just |has |have |had )?(?:(?:said|says|say|told (?:me|us)|tells me|promised"
            r"|promises"
            r"|assured (?:me|us)|agreed|offered|confirmed|vowed|swore|undertook|volunteered)"
            r"(?: (?:me|us))?(?: (?:that|yesterday|today|again))*)"
            r" (?:(?:he|she|they|it)(?:'d|'ll| would| will| is going to| are going to"
            r"|'s going to)(?: \w+ly)? {act}"
            r"|to (?:get back|{act}))\b"
        ),
        # The same, of those who don't say that they promised: it is for the speaker, or on a day.
        "reported_ours": (
            r"{name} (?:(?:will|'ll|is going to|are going to|'s going to|is gonna) (?:{act})\b"
            r"(?=.{0,80}\b(?:me|us|my|our)\b)|wants to get back to (?:me|us)\b)"
        ),
        # Where somebody will be and what they will be given is no promise of theirs.
        "reported_dated": (
            r"{name} (?:will|'ll|is going to|are going to|'s going to|is gonna)"
            r" (?!be\b|get (?!back\b|in touch\b))(?:{act})\b"
        ),
        # What the owner asks the agent to do later.
        "asked": (
            r"{please}(?:follow up|chase|nudge|ping)\b"
            r"|{please}let me know (?:when|once|as soon as|if (?!you need|there(?:'s| is) anything|anything))"
            r"|{please}(?:keep an eye|keep me posted)\b"
            r"|^(?:if|once|when|unless) .{3,80}, {please_in}(?:follow up|chase|nudge|ping|remind (?!me)"
            r"|write|ask"
            r"|call|e?-?mail|text|message|tell|check|let me know)\b"
            r"|{please}(?:remind (?!me\b)|ask|tell|write|e?-?mail|check|text|message)\b.{0,80}\bif\b.{0,60}"
            r"\b(?:n't|not|hasn't|haven't|doesn't|didn't)\b"
            r"|{please}(?:look|check|find|ask|see|call|try|think|go|go through|research|compare"
            r"|read)\b.{0,80}"
            r"\b(?:come|get|report) back\b"
        ),
        # What can be done at once, such as writing a mail, is no promise, whatever day it is about.
        "asked_dated": (
            r"{please}(?:remind (?!me\b)|nudge|ask \w+ (?:about|for|if|whether)\b|check|find out"
            r"|try again)\b"
        ),
        "please": (
            r"^\W*(?:(?:please|pls|ok|okay|and|also|hey|then|nexus|(?:can|could|would"
            r"|will) you(?: please)?)[, ]+)*"
        ),
        "please_in": r"(?:please )?",
        "name": (
            r"(?P<name>(?-i:(?:(?:Dr|Mr|Mrs|Ms|Prof)\.? )?[A-Z][\w'-]+(?: [A-Z][\w'-]+){0,2})"
            r"|(?:my|our|the) (?:\w+ )?(?:mom|mum|mother|dad|father|brother|sister|wife|husband|partner|boss"
            r"|boy ?friend"
            r"|girl ?friend|friend|landlord|neighbou?r|lawyer|doctor|dentist|accountant|colleague|manager|son"
            r"|daughter|aunt|uncle|cousin|team|client|plumber|secretary|assistant))"
        ),
        # Looks like a promise and is none: wishes, guesses, refusals, habits, what is done already.
        "lookalike": (
            r"\b(?:i|we|he|she|they|you|it|\w+)(?:'d| would| should| could) (?:love|like|be (?:happy|glad"
            r"|delighted)"
            r"|prefer|suggest|hate|rather|have)\b"
            r"|\bif (?:i|we) (?:had|were|ever|win|won|could|was)\b|\b(?:maybe|perhaps|might|wish"
            r"|no promises)\b"
            r"|\b(?:will|shall|'ll|am|was|were) (?:probably )?never\b|\b(?:won't|wouldn't|couldn't|shan't"
            r"|not going to"
            r"|will not|shall not|don't think|not sure|didn't|never)\b"
            r"|\b(?:was|were) (?:going|supposed|meant) to\b|\bas (?:i )?promised\b|\b(?:kept|keep) (?:my"
            r"|his|her) "
            r"|\b(?:i|we)(?:'ll| will) (?:be honest|tell you what|give (?:you|it|him|her|them) that"
            r"|get (?:used|over|going)"
            r"|call it|say|bet|see\b(?! (?:to|what|if|whether))|let you go|keep (?:that|it|this) in mind"
            r"|be (?:happy|glad|here|fine|ok|okay|late|away|in))\b"
            r"|\b(?:shall|should|may|can|could) (?:i|we)\b|\b(?:will|would|could|can) (?:he|she|they"
            r"|(?!(?:br|r|w|s|sw|p|str|sp|fl)ing\b)\w+ing)\b"
            r"|\b(?:i|we) (?:can|could)\b(?! promise| assure| guarantee).{0,80}\bif you\b"
            r"|\bif you(?:'d)? (?:like|want|wish|need)\b|\bremind me\b"
            r"|\b(?:i|we|you) (?:could|might) (?:say|write|reply|answer|respond|tell)\b"
            r"|\b(?:draft|letter|form|script|template|text|wording) (?:goes|reads|says)\b"
        ),
        # Introduces words for somebody to use: what follows promises nothing yet.
        "draft": (
            r"\b(?:draft|example|how about|something like|suggestion|template|version|wording"
            r"|(?:can|could|may|might|should) (?:\w+ )?(?:answer|reply|respond|say|send|text|try|write)"
            r"|(?:an?|my|possible|short\w*|suggested) (?:\w+ )?"
            r"(?:answer|e-?mail|message|note|reply|response|text))\b[^:.?!\n]{0,60}:(?=\s|$|[\"“„«])"
            # "Thanks for your message: I'll …" answers; only what follows on lines of its own is the message.
            r"|\b(?:her|his|the|their|your) (?:\w+ )?"
            r"(?:answer|e-?mail|message|note|reply|response|text)\b[^:.?!\n]{0,60}:[ \t\r]*\n"
        ),
        # What says that a promise was kept: verbs of the past that have forms of their own, as base:past.
        "past": (
            "send:sent pay:paid bring:brought write:wrote,written tell:told get:got,gotten give:gave,given"
            " buy:bought find:found do:did,done make:made take:took,taken speak:spoke,spoken ring:rang,rung"
            " come:came lend:lent show:shown read:read put:put hand:handed see:saw,seen have:had meet:met"
            " set:set ship:shipped drop:dropped set:set go:went,gone"
        ),
        "arrived": (
            r"\b(?:got|received|arrived|came through|is here|are here|has come|have come|here (?:is|are|'s)"
            r"|here's|attached|enclosed|is done|are done|is finished|is ready|went off|all set|sorted)\b"
        ),
        "done": (
            r"^\W*(?:(?:ok|okay|yes|yep|yeah|thanks|thank you|all|it's|that's|it is|that is|already|just|i"
            r"|i've"
            r"|i have|has been|this is|now)\W+)*(?:done|did (?:it|that|this)|sent(?: it)?|finished"
            r"|taken care of"
            r"|sorted)(?:\W+(?:it|that|this|now|already|today|yesterday|this morning|thanks|just now))*\W*$"
        ),
        # An agent's words that speak of later even without a day.
        "later": (
            r"\b(?:get|come|report|return|circle) back\b|\breport (?:back|to you)\b|\blet you know\b"
            r"|\bfollow up\b"
            r"|\bremind (?!you)|\bkeep (?:an eye|you posted|you updated|watching)\b|\btry again\b"
            r"|\bupdate you\b"
            r"|\btell you (?:when|once|as soon as|if)\b|\b(?:once|as soon as|when) (?:i|it|they|we|she|he"
            r"|the)\b"
        ),
    },
)
