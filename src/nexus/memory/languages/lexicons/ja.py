"""What Nexus knows about Japanese."""

from typing import Final

from nexus.memory.languages.lexicon import Calendar, Lexicon, counts, names

LEXICON: Final = Lexicon(
    code="ja",
    cues={
        "yes": (
            "はい|ええ|うん|そうです(?:ね)?|そう|その通り(?:です)?"
            "|もちろん(?:です)?|お願いします|いいです(?:よ)?|了解(?:です)?|わかりました"
        ),
        "no": "いいえ|いや|ううん|違います|違う|ちがいます",
        "negation": "ない(?:です|で|$|。|、|よ|ん)|ません|なかった|無い|ではなく|じゃない|なし",
        "harmless": "忘れないで|問題ない",
        "negative": "嫌い|アレルギー|苦手|やめた|辞めた|中止|キャンセル",
        "contrast": "ではなく|じゃなく|けど|でも|しかし|が、|もう",
        "asks": "(?:か|かな|の)[？?]?$|^(?:何|なに|いつ|どこ|誰|だれ|なぜ|どうして|どう|どの|いくつ)",
        "remember": "覚えて|メモして|忘れないで",
        "hypothetical": "もし|仮に|だったら|としたら|たとえば",
        "joke": "冗談|ジョーク|(?:^|[^a-z])w{2,}(?:$|[^a-z])|なんちゃって",
        "naming": "と呼ん|と呼ば|って呼|あだ名|ニックネーム|通称|という名前",
        "introduces": "(?:私は|わたしは|僕は|ぼくは|俺は|名前は)",
        "refers": "彼|彼女|それ|あれ|これ|その|あの|この|そこ|あそこ",
        "me": "私|わたし|僕|ぼく|俺|自分|オーナー|所有者|ユーザー",
        "unnamed": "彼",
        "phone": "電話",
        "birthday": "誕生日",
        "diet": "アレルギー|ベジタリアン|菜食",
    },
    calendar=Calendar(
        months=names("1月 2月 3月 4月 5月 6月 7月 8月 9月 10月 11月 12月"),
        weekdays=names("月曜日? 火曜日? 水曜日? 木曜日? 金曜日? 土曜日? 日曜日?"),
        units={"day": "日", "week": "週間?", "weekend": "週末", "month": "(?:ヶ月|か月|月)", "year": "年"},
        days=counts("一昨日 -2, 昨日 -1, 今日 0, 今夜 0, 明日 1, 明後日 2"),
        cardinals=names("""
一 二 三 四 五 六 七 八 九 十 十一 十二 十三 十四 十五 十六 十七 十八 十九 二十 二十一 二十二
二十三 二十四 二十五 二十六 二十七 二十八 二十九 三十 三十一
"""),
        halves=counts("半 1"),
        and_half="半",
        next="来|次の",
        last="先|前の",
        ahead=("{count}{unit}後",),
        ago=("{count}{unit}前",),
        bare_day=r"(?P<day>\d{1,2})日",
        is_spaced=False,
    ),
)
