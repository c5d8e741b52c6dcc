"""Stop words (function words) of Russian, English and Chinese."""

_ENGLISH = """
a an the this that these those
of in on at by for with about against between into through during before after above below to from up down out off
over under without within upon near than as since until
and but or nor so yet if because while though although whether
i me my mine myself you your yours he him his she her hers it its we us our ours they them their theirs
am is are was were be been being have has had having do does did doing will would shall should can could may might must
what which who whom whose when where why how
not no never there here also too very just s t d ll m re ve don
"""
_RUSSIAN = """
и а но или либо да же ли бы б то ведь вот ни не нет
в во на с со к ко о об обо от ото до из изо за под по при про для без через над между перед у около из-за
что чтобы как так если когда пока хотя потому поэтому чем
кто кого кому кем ком чего чему чём где куда откуда почему зачем сколько чей
какой какая какое какие какого какую каких каким какой-то который которая которое которые которого которой которых
это этот эта эти этого этой этом этих этим эту тот та те того той том тех тем ту
я меня мне мной мой моя моё мои моего моей моих ты тебя тебе тобой твой твоя он она оно они его её ему ей им ими их
него неё нему ней ним ними них нём мы нас нам нами наш наша наше наши нашего вы вас вам вами ваш ваша
свой своя своё свои своего своей себя себе собой
есть быть был была было были буду будет будут бы бывает является
уже еще ещё тоже также только там тут здесь очень
"""
_CHINESE = """
的 了 着 过 是 在 有 没 不 也 都 就 还 又 很 和 与 或 但 而 因为 所以 如果 把 被 给 从 到 对 向 为 以 于
我 你 您 他 她 它 我们 你们 他们 这 那 这个 那个 这些 那些 自己 个 一个
什么 怎么 怎样 怎么样 为什么 如何 谁 哪 哪里 哪个 哪些 几 多少 何时 什么时候 吗 呢 吧 啊 会 能 要 可以 应该
"""
"""Search looks at pairs of neighbours and at single characters, so a word of one character counts within others too."""
FUNCTION_WORDS = frozenset((_ENGLISH + _RUSSIAN + _CHINESE).replace("ё", "е").split())
"""Lower case, ё as е; articles, prepositions, conjunctions, pronouns, auxiliaries, question words, negations."""
