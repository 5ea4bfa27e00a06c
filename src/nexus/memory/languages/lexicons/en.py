"""What Nexus knows about English."""

from typing import Final

from nexus.memory.languages.lexicon import Calendar, Lexicon, Periods, counts, names, words

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
            r"|\bbefore\b|\bbeforehand\b|\bpreviously\b|\bprevious\b|\bformer(ly)?\b|\bearlier\b"
            r"|\bused? to\b|\b(was|were) (\w+ ){0,3}(supposed|meant|due|going) to\b|\b(the|my|our|his"
            r"|her|their|its|\w+\x27s) (very )?first\b(?! (thing|aid|name|class))|\b(did|was|were"
            r"|had)\b.*\bfirst\b|\bstart(ed)? (out|off)\b|\bbegin with\b|\b(my|our|his|her|their|the"
            r"|\w+\x27s) old\b|\b(did|was|were|had)\b.*\b(back in|back then|until|till)\b"
            r"|\bbetween\b.*\band\b|\bonce (was|were|had|did)\b|\boriginal(ly)?\b|\binitial(ly)?\b"
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
        "before": r"\bbefore\b",
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
        "reported": (
            r"\b(?:says?|said|told|tells|claims?|claimed|writes?|wrote|texted|quotes?|quoted|announced"
            r"|according to)\b"
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
        next="next|coming",
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
                        r"\b(?P<which>last|this|next|in|the|during)\s+(?:the\s+)?{season}\b(?:\s+(?:of\s+)?{year})?",
                    ),
                    ("quarter", r"\b(?:{quarter})\b(?:\s+(?:of\s+)?{year})?"),
                ),
                (
                    (
                        "month",
                        r"\b(?:(?:in|since|during)\s+|(?:of|by|until|early|late|mid|last|this|next|and|to|from|between)\s+"
                        r"(?!(?-i:may|march|mar|dec|jan)\b)){month}\.?\b",
                    ),
                ),
                (
                    (
                        "year",
                        r"\b(?:in|since|during|of|year|summer|winter|spring|fall|autumn|early|late)\s+{year}\b",
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
)
