"""Words that say how others belong together, and little of what a text is about: Russian and English."""

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
FUNCTION_WORDS = frozenset((_ENGLISH + _RUSSIAN).replace("ё", "е").split())
"""Lower case, ё as е; articles, prepositions, conjunctions, pronouns, auxiliaries, question words, negations."""
