"""How often two texts of one skeleton are merged that differ in a name, an identifier, a unit or one other word.

    python tests/benchmarks/bench_one_word.py [FOLDER]

The pairs are made: each template below is filled with two words of one class, in both languages. Templates that begin
with ``~`` were not looked at while the rules were made. Each pair has a user of its own, so that no third text decides.
Printed is the share of pairs that `Deduplicator` merges, by class, with an encoder and by words alone; then the share
of pairs that it should merge: the same sentence in other case, marks and blanks, in another order, with another form
of a word or a synonym. A FOLDER has `sick` and `xnli_ru`, of which the merged share of each label is printed.
"""

from __future__ import annotations

import argparse
import itertools
from pathlib import Path

import numpy as np
import pandas as pd

import memkit as mk

# class: templates | fillers
MADE = {
    "name, ru": (
        """
за биллинг отвечает {}
Дизайн макетов ведёт {}, вопросы по шрифтам к нему же.
Ревью бэкенда всегда делает {} до обеда
Контакт в бухгалтерии: {}
~Ключи от серверной хранит {}
~Пользователя по утрам подвозит коллега {} из соседнего отдела.
~Первое письмо заказчику пишет {}, копию кладёт в архив.
""",
        "Павел Савел Иван Илья Антон Артём Кирилл Карим Данила Денис Роман Рамиль Олег Олжас Марк Макар Тимур Тимофей",
    ),
    "name, en": (
        """
billing is owned by {}
Design mockups are reviewed by {} before the sprint starts.
The contact in accounting is {}
Ask {} about access to the warehouse
~The keys to the server room are kept by {}
~{} drives the user to the office when it rains.
~Invoices are signed by {} and then filed in the archive.
""",
        "Paul Saul Ivan Evan Jon John Karen Karin Eric Erik Marta Martha Dan Dana Brian Ryan Alice Alicia",
    ),
    "place, ru": (
        """
Офис команды находится в городе {}
Следующая встреча пройдёт в городе {}, зал уже заказан.
~Родители пользователя переехали в город {}
~Склад запчастей работает в городе {} без выходных.
""",
        "Казань Рязань Самара Сызрань Томск Омск Пермь Псков Тверь Тула Уфа Сочи",
    ),
    "place, en": (
        """
The team office is in {}
The next offsite takes place in {}, the room is booked.
~The user's parents moved to {}
~The spare parts are shipped from {} on request.
""",
        "Lisbon Lyon Berlin Bern Vienna Verona Oslo Osaka Austin Boston Dublin Lublin",
    ),
    "product, en": (
        """
Metrics of the shop are shown in {}
We store sessions in {} and nothing else
The new service is written in {}
~Secrets of the pipeline are read from {} at startup.
~The user takes notes in {}
""",
        "Grafana Kibana Redis Postgres MySQL Mongo Rust Go Kotlin Scala Vault Consul Notion Obsidian Kafka RabbitMQ",
    ),
    "product, ru": (
        """
Метрики магазина смотрим в {}
Сессии храним в {} и больше нигде
Новый сервис пишем на {}
~Секреты сборки читаются из {} при запуске.
~Заметки пользователь ведёт в {}
""",
        "Grafana Kibana Redis Postgres MySQL Mongo Rust Go Kotlin Scala Vault Consul Notion Obsidian Kafka RabbitMQ",
    ),
    "identifier": (
        """
the primary database runs on {}
основная база работает на {}
Бэкапы складываем на {} каждую ночь.
Deploys of the shop go to {} first
~алерты по памяти приходят с {}
~The broken disk was found on {} by the night shift.
~Логи нужно смотреть на {}, там же лежит скрипт.
""",
        "db-east-1 db-west-1 node-a node-b web-blue web-green cache.prod.local cache.stage.local srv_main srv_spare"
        " eu-central us-central host-alpha host-beta api-gateway api-gateways",
    ),
    "path": (
        """
settings of the service live in {}
Настройки сервиса лежат в {}
~The report is written to {} at midnight
~Скрипт очистки запускается из {} по расписанию
""",
        "/etc/app/main.yaml /etc/app/test.yaml ~/notes/work ~/notes/home src/core/api.py src/core/cli.py"
        " /var/log/nginx /var/log/apache config/dev.toml config/prod.toml C:\\\\data\\\\raw C:\\\\data\\\\clean",
    ),
    "unit, en": (
        """
The session expires after 30 {}
Retry the upload every 15 {}
~The alarm waits 20 {} before it calls anyone.
""",
        "seconds minutes hours days weeks months milliseconds",
    ),
    "unit, ru": (
        """
Сессия истекает через 30 {}
Повторять загрузку каждые 15 {}
~Тревога ждёт 20 {}, прежде чем звонить.
""",
        "секунд минут часов дней недель месяцев миллисекунд",
    ),
    "size, en": (
        """
The disk of the build server has 500 {}
~The upload limit for users is 20 {} per file
""",
        "GB MB TB KB",
    ),
    "size, ru": (
        """
На диске сервера сборки 500 {}
~Предел загрузки для пользователей 20 {} на файл
""",
        "ГБ МБ ТБ КБ",
    ),
    "version, en": (
        """
The cluster was upgraded to the {} release
~Support ends with the {} version of the driver
""",
        "stable beta alpha nightly legacy jammy noble focal bookworm bullseye",
    ),
    "version, ru": (
        """
Кластер обновили до релиза {}
~Поддержка драйвера кончается на выпуске {}
""",
        "Ёлка Ольха Осина Сосна Берёза Клён Липа Ясень",
    ),
    "word, en: drink": (
        "The user drinks {} in the morning\n~For breakfast the user always orders {}\n",
        "tea coffee juice milk water cocoa kefir kombucha",
    ),
    "word, en: colour": (
        "The user likes {} headings in reports\n~Urgent tickets get a {} label on the board\n",
        "red blue green yellow orange purple black white grey pink",
    ),
    "word, en: animal": (
        "The user has a {} at home\n~The photo on the badge shows a {}\n",
        "cat dog parrot hamster turtle rabbit horse snake",
    ),
    "word, en: thing": (
        "The spare key lies under the {}\n~A new {} was ordered for the meeting room\n",
        "lamp chair table carpet mirror printer fridge sofa shelf projector",
    ),
    "word, en: choice": (
        "Answers to the user must be in {} form\n~The user wants {} examples in the documentation\n",
        "short long formal casual simple detailed polite blunt",
    ),
    "word, en: job": (
        "The user's sister works as a {}\n~The neighbour used to be a {}\n",
        "doctor lawyer teacher nurse pilot baker painter plumber welder dentist",
    ),
    "word, en: kin": (
        "The user's {} is allergic to nuts\n~The flat belongs to the user's {}\n",
        "mother father brother sister aunt uncle son daughter grandmother wife husband",
    ),
    "word, en: sport": (
        "After work the user plays {}\n~The company pays for {} lessons\n",
        "tennis chess football hockey golf volleyball piano guitar squash",
    ),
    "word, en: verb": (
        "The script {} old snapshots at night\n~After the release the bot {} the branch\n",
        "deletes copies encrypts uploads renames compresses verifies restores",
    ),
    "word, en: side": (
        "The office entrance is on the {} side of the building\n~The cable runs along the {} wall\n",
        "left right north south east west front back upper lower",
    ),
    "word, ru: drink": (
        "По утрам пользователь пьёт {}\n~На завтрак пользователь всегда берёт {}\n",
        "чай кофе сок молоко воду какао кефир квас",
    ),
    "word, ru: colour": (
        "Пользователю нравится {} цвет заголовков\n~Срочные задачи на доске помечает {} ярлык\n",
        "красный синий зелёный жёлтый чёрный белый серый розовый",
    ),
    "word, ru: animal": (
        "Дома у пользователя живёт {}\n~На значке команды нарисована {}\n",
        "кошка собака черепаха лошадь змея белка сова ящерица",
    ),
    "word, ru: thing": (
        "Запасной ключ лежит там, где {}\n~В переговорную заказали новый {}\n",
        "стол стул ковёр принтер проектор шкаф диван монитор",
    ),
    "word, ru: choice": (
        "Ответы пользователю нужны в таком виде: {}\n~Документация для клиентов должна быть такой: {}\n",
        "короткие длинные строгие простые подробные вежливые сухие",
    ),
    "word, ru: job": (
        "Сестра пользователя работает там, где нужен {}\n~Сосед раньше был {}\n",
        "врач юрист учитель пилот пекарь маляр сварщик стоматолог повар",
    ),
    "word, ru: kin": (
        "Аллергия на орехи есть у пользователя и не только: {}\n~Квартирой владеет {} пользователя\n",
        "мать отец брат сестра тётя дядя сын дочь бабушка жена муж",
    ),
    "word, ru: verb": (
        "Скрипт ночью {} старые снимки\n~После выпуска бот {} ветку\n",
        "удаляет копирует шифрует выгружает сжимает проверяет переносит",
    ),
    "word, ru: side": (
        "Вход в офис с такой стороны: {}\n~Кабель идёт вдоль стены: {}\n",
        "левая правая северная южная восточная западная передняя задняя",
    ),
    "near, en: food": (
        "Buy {} at the market before noon\n~The user eats {} for lunch\n",
        "pears plums apples cherries",
    ),
    "near, en: tool": (
        "The {} lies in the lower drawer\n~Lend the {} to a neighbour\n",
        "pliers spanner spade rake saw drill",
    ),
    "near, en: clothes": (
        "She bought a new {}\n~The lost thing is a {}\n",
        "shirt blouse jacket coat boots shoes hat cap",
    ),
    "near, en: home": (
        "The user sold the old {}\n~Move the {} upstairs\n",
        "table desk shelf drawer cupboard wardrobe bed cot",
    ),
    "near, en: body": (
        "The user hurt his {}\n~The doctor treats the {}\n",
        "elbow wrist hip knee ankle shoulder neck back",
    ),
    "near, en: tree": (
        "A {} grows under the window\n~Plant a {} by the gate\n",
        "fir spruce larch willow maple poplar oak birch",
    ),
    "near, ru: animal": (
        "На логотипе команды {}\n~В книге главный герой {}\n",
        "корова овца коза лошадь волк лиса ворона голубь кошка собака",
    ),
    "near, ru: colour": (
        "Для тревог взят {} цвет\n~Машина {}, как и ворота\n",
        "малиновый бордовый алый лиловый бежевый",
    ),
    "near, ru: job": (
        "Пользователь по профессии {}\n~Утром придёт {}\n",
        "врач хирург учитель преподаватель плотник маляр",
    ),
    "near, ru: sort": (
        "Нравится вещь, если она {}\n~Во дворе стоит {} лавка\n",
        "узкая широкая дешёвая дорогая сильная слабая",
    ),
}
SAME = """
Пользователь живёт в Казани с 2019 года. | пользователь   живёт в КАЗАНИ с 2019 года
Предпочитает зелёный чай! | — предпочитает «зелёный чай»
Отчёт лежит в reports/final.md | отчет лежит в `reports/final.md`.
Деплой идёт через GitHub Actions, по пятницам не катаем. | Деплой идет через github actions; по пятницам не катаем
Пользователь любит короткие ответы. | Пользователь любит короткий ответ.
Встречи команды проходят в большом зале. | Встреча команды проходит в большом зале.
Анна отвечает за отчёты и за биллинг. | За биллинг и за отчёты отвечает Анна.
Пользователь работает врачом в больнице. | Пользователь работает доктором в больнице.
Машина пользователя стоит во дворе. | Автомобиль пользователя стоит во дворе.
The user lives in Lisbon since 2019. | the user lives in LISBON   since 2019
Prefers green tea! | - prefers "green tea"
Logs are in /var/log/app.log | Logs are in `/var/log/app.log`.
Deploys go through GitHub Actions, never on Fridays. | Deploys go through github actions; never on Fridays
The user likes short answers. | The user likes a short answer.
Team meetings are in the big room. | The team meeting is in the big room.
Anna owns reports and billing. | Billing and reports are owned by Anna.
The user's car is parked in the yard. | The user's automobile is parked in the yard.
The user bought a new couch for the office. | The user bought a new sofa for the office.
The timeout is 30 seconds. | The timeout is 30 sec.
Таймаут 30 секунд. | Таймаут 30 сек
Пользователь предпочитает темную тему в редакторе. | Пользователь предпочитает тёмную тему в редакторе
The user prefers the dark theme in the editor. | The user preferes the dark theme in the editor.
Пользователь предпочитает тёмную тему в редакторе. | Пользователь предпочитет тёмную тему в редакторе.
"""
LABELS = {"-1": "CONTRADICTION", "0": "NEUTRAL", "1": "ENTAILMENT"}


def made(per_template: int = 8, seed: int = 0) -> pd.DataFrame:
    """The pairs: class, held_out, text_a, text_b."""
    rng = np.random.default_rng(seed)
    rows = []
    for name, (templates, words) in MADE.items():
        both = list(itertools.combinations(words.split(), 2))
        near = list(zip(words.split()[::2], words.split()[1::2], strict=False))
        for template in templates.strip().splitlines():
            chosen = [*near, *(both[place] for place in rng.permutation(len(both)))]
            for a, b in list(dict.fromkeys(chosen))[:per_template]:
                plain = template.removeprefix("~")
                rows.append((name, template != plain, plain.format(a), plain.format(b)))
    return pd.DataFrame(rows, columns=["class", "held_out", "text_a", "text_b"])


def same() -> pd.DataFrame:
    """Pairs that say the same."""
    return pd.DataFrame([line.split(" | ") for line in SAME.strip().splitlines()], columns=["text_a", "text_b"])


def merged(pairs: pd.DataFrame, **params: object) -> np.ndarray:
    """Which pairs `Deduplicator` merges."""
    ids = [f"{place:06}{side}" for place in range(len(pairs)) for side in "ab"]
    texts = [text for both in zip(pairs["text_a"], pairs["text_b"], strict=True) for text in both]
    table = mk.from_table({"memory_id": ids, "user_id": [one[:-1] for one in ids], "text": texts})
    rows = mk.Deduplicator(**params).fit(table).transform(table.memories)
    kept = zip(rows["memory_id"].to_pylist(), rows["keep"].to_pylist(), strict=True)
    gone = {one[:-1] for one, keep in kept if not keep}
    return np.array([f"{place:06}" in gone for place in range(len(pairs))])


def labelled(folder: Path, name: str) -> pd.DataFrame:
    """Pairs of sentences with their label."""
    pairs = pd.read_parquet(folder / name / "pairs.parquet")
    label = pairs["entailment"] if name == "sick" else pairs["label"].astype(int).astype(str).map(LABELS)
    return pairs.assign(label=label)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", nargs="?", type=Path)
    folder = parser.parse_args().folder
    pairs, alike = made(), same()
    ways = {"use": {}, "words": {"encoder": None}}
    for way, params in ways.items():
        pairs[way], alike[way] = merged(pairs, **params), merged(alike, **params)
    by_class = pairs.groupby(["held_out", "class"])[list(ways)].agg(["sum", "size"])
    print(by_class[by_class[("use", "sum")] + by_class[("words", "sum")] > 0].to_string())
    print(pairs.groupby("held_out")[list(ways)].agg(["mean", "size"]).round(4).to_string())
    print(
        "say the same",
        alike[list(ways)].mean().round(2).to_string(),
        alike[~alike["use"]]["text_b"].to_string(),
        sep="\n",
    )
    for name in ("sick", "xnli_ru") if folder else ():
        some = labelled(folder, name)
        for way, params in ways.items():
            some[way] = merged(some, **params)
        print(name, some.groupby("label")[list(ways)].mean().round(3).to_string(), sep="\n")


BY_HAND = "it takes minutes, and has no smaller size"


if __name__ == "__main__":
    main()
