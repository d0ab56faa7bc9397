"""Made-up personal data, by kind: checksums are computed, nobody's number is copied.

`MAKE[kind](random)` gives a value as a person or a system writes it, with or without separators; `VALIDATED` names the
kinds whose values carry something to check.
"""

from __future__ import annotations

import hashlib
import string
from collections.abc import Callable
from datetime import date, timedelta
from random import Random

from stdnum import luhn
from stdnum.at import vnr
from stdnum.ch import ssn as ahv
from stdnum.cn import ric
from stdnum.es import dni, nie
from stdnum.fr import nir
from stdnum.it import codicefiscale
from stdnum.no import fodselsnummer
from stdnum.pl import pesel

WIDE = {ord("!") + i: chr(ord("！") + i) for i in range(94)}  # as in Chinese text

Make = Callable[[Random], str]


def digits(random: Random, count: int) -> str:
    return "".join(random.choices(string.digits, k=count))


def born(random: Random) -> date:
    return date(1930, 1, 1) + timedelta(days=random.randrange(365 * 75))


def grouped(number: str, *sizes: int, by: str = " ") -> str:
    parts, at = [], 0
    for size in sizes:
        parts.append(number[at : at + size])
        at += size
    assert at == len(number), (number, sizes)
    return by.join(parts)


def tried(random: Random, draw: Make, valid: Callable[[str], bool]) -> str:
    """The first drawn number that is valid: for checksums that a library checks and does not compute."""
    while True:
        number = draw(random)
        if valid(number):
            return number


# prefix, length
CARDS = [
    ("4", 16),
    ("51", 16),
    ("2221", 16),
    ("34", 15),
    ("37", 15),
    ("6011", 16),
    ("3528", 16),
    ("36", 14),
    ("62", 16),
]


def card(random: Random) -> str:
    prefix, length = random.choice(CARDS)
    number = prefix + digits(random, length - len(prefix) - 1)
    number += luhn.calc_check_digit(number)
    sizes = {16: (4, 4, 4, 4), 15: (4, 6, 5), 14: (4, 6, 4)}[length]
    return random.choice([number, grouped(number, *sizes), grouped(number, *sizes, by="-")])


IBANS = {"DE": 18, "PL": 24, "NL": "4L10", "GB": "4L14", "FR": 23, "ES": 20, "AT": 16, "CH": 17, "IT": "1L22", "BE": 12}


def iban(random: Random) -> str:
    country = random.choice(list(IBANS))
    shape = str(IBANS[country])
    letters, _, rest = shape.partition("L") if "L" in shape else ("0", "", shape)
    account = "".join(random.choices(string.ascii_uppercase, k=int(letters))) + digits(random, int(rest))
    check = 98 - int("".join(str(int(c, 36)) for c in account + country + "00")) % 97
    number = f"{country}{check:02d}{account}"
    four = " ".join(number[i : i + 4] for i in range(0, len(number), 4))
    return random.choice([number, four, number.lower()])


def de_tax_id(random: Random) -> str:
    kinds = random.sample(string.digits, 9)
    ten = [*kinds, random.choice(kinds)]
    random.shuffle(ten)
    if ten[0] == "0":
        ten.reverse()
    if ten[0] == "0":
        return de_tax_id(random)
    # ISO 7064, mod 11,10, by hand: the library that finds the numbers has not made them.
    product = 10
    for digit in ten:
        total = (int(digit) + product) % 10 or 10
        product = total * 2 % 11
    number = "".join(ten) + str((11 - product) % 10)
    return random.choice([number, grouped(number, 2, 3, 3, 3)])


def pl_pesel(random: Random) -> str:
    day = born(random)
    start = f"{day.year % 100:02d}{day.month + (20 if day.year >= 2000 else 0):02d}{day.day:02d}" + digits(random, 4)
    return start + pesel.calc_check_digit(start)


def cn_id(random: Random) -> str:
    start = random.choice(["110101", "310104", "440305", "510107", "330106", "420111"])
    start += f"{born(random):%Y%m%d}" + digits(random, 3)
    return start + ric.calc_check_digit(start + "0")


def us_ssn(random: Random) -> str:
    area = random.choice([n for n in range(1, 900) if n != 666])
    return f"{area:03d}-{random.randint(1, 99):02d}-{random.randint(1, 9999):04d}"


def uk_nino(random: Random) -> str:
    prefix = random.choice(["AB", "CE", "HK", "JT", "PX", "SY", "WM"])
    number = prefix + digits(random, 6) + random.choice("ABCD")
    return random.choice([number, grouped(number, 2, 2, 2, 2, 1)])


def uk_nhs(random: Random) -> str:
    def valid(number: str) -> bool:
        rest = sum(int(digit) * weight for digit, weight in zip(number[:9], range(10, 1, -1), strict=True)) % 11
        return (11 - rest) % 11 == int(number[9])

    number = tried(random, lambda r: r.choice("467") + digits(r, 9), valid)
    return random.choice([number, grouped(number, 3, 3, 4)])


def fr_nir(random: Random) -> str:
    day = born(random)
    start = f"{random.randint(1, 2)}{day.year % 100:02d}{day.month:02d}{random.randint(1, 95):02d}" + digits(random, 6)
    number = start + nir.calc_check_digits(start)
    return random.choice([number, grouped(number, 1, 2, 2, 2, 3, 3, 2)])


def es_dni(random: Random) -> str:
    number = digits(random, 8)
    return number + random.choice(["", "-"]) + dni.calc_check_digit(number)


def es_nie(random: Random) -> str:
    number = random.choice("XYZ") + digits(random, 7)
    check = nie.calc_check_digit(number)
    return random.choice([number + check, f"{number[0]}-{number[1:]}-{check}"])


def it_cf(random: Random) -> str:
    day, letters = born(random), "BCDFGLMNPRSTVZ"
    number = "".join(random.choices(letters, k=6)) + f"{day.year % 100:02d}" + "ABCDEHLMPRST"[day.month - 1]
    number += f"{day.day + random.choice([0, 40]):02d}" + random.choice("ADFHL") + digits(random, 3)
    number += codicefiscale.calc_check_digit(number)
    return random.choice([number, grouped(number, 3, 3, 5, 5)])


def nl_bsn(random: Random) -> str:
    def valid(number: str) -> bool:
        weights = [9, 8, 7, 6, 5, 4, 3, 2, -1]
        return sum(int(digit) * weight for digit, weight in zip(number, weights, strict=True)) % 11 == 0

    return tried(random, lambda r: r.choice("123") + digits(r, 8), valid)


def at_svnr(random: Random) -> str:
    while True:
        number = random.choice("123456789") + digits(random, 2) + "0" + f"{born(random):%d%m%y}"
        check = vnr.calc_check_digit(number)
        if check != "10":
            number = number[:3] + check + number[4:]
            return random.choice([number, grouped(number, 4, 6)])


def be_nn(random: Random) -> str:
    day = date(1930, 1, 1) + timedelta(days=random.randrange(365 * 65))
    start = f"{day:%y%m%d}" + f"{random.randint(1, 997):03d}"
    number = f"{start}{97 - int(start) % 97:02d}"
    return random.choice([number, f"{number[:2]}.{number[2:4]}.{number[4:6]}-{number[6:9]}.{number[9:]}"])


def br_cpf(random: Random) -> str:
    number = digits(random, 9)
    for _ in range(2):
        total = sum(int(digit) * weight for digit, weight in zip(reversed(number), range(2, 12), strict=False))
        number += str((11 - total % 11) % 11 % 10)
    return random.choice([number, f"{number[:3]}.{number[3:6]}.{number[6:9]}-{number[9:]}"])


def ch_ahv(random: Random) -> str:
    number = tried(random, lambda r: "756" + digits(r, 10), ahv.is_valid)
    return random.choice([number, f"{number[:3]}.{number[3:7]}.{number[7:11]}.{number[11:]}"])


def cz_rc(random: Random) -> str:
    def draw(random: Random) -> str:
        day = date(1955, 1, 1) + timedelta(days=random.randrange(365 * 48))
        return f"{day.year % 100:02d}{day.month + random.choice([0, 50]):02d}{day.day:02d}" + digits(random, 4)

    number = tried(random, draw, lambda number: int(number) % 11 == 0)
    return random.choice([number, f"{number[:6]}/{number[6:]}"])


def fi_hetu(random: Random) -> str:
    day = born(random)
    start, serial = f"{day:%d%m%y}", f"{random.randint(2, 899):03d}"
    check = "0123456789ABCDEFHJKLMNPRSTUVWXY"[int(start + serial) % 31]
    return f"{start}{'A' if day.year >= 2000 else '-'}{serial}{check}"


def no_fnr(random: Random) -> str:
    while True:
        day = date(1940, 1, 1) + timedelta(days=random.randrange(365 * 59))
        number = f"{day:%d%m%y}{random.randint(0, 499):03d}"
        for compute in (fodselsnummer.calc_check_digit1, fodselsnummer.calc_check_digit2):
            number += compute(number)
        if len(number) == 11:
            return random.choice([number, grouped(number, 6, 5)])


def se_pnr(random: Random) -> str:
    day = born(random)
    start = f"{day:%y%m%d}" + digits(random, 3)
    number = start + luhn.calc_check_digit(start)
    return random.choice([f"{number[:6]}-{number[6:]}", f"{day.year // 100}{number[:6]}-{number[6:]}"])


VALIDATED: dict[str, Make] = {
    "IBAN": iban,
    "CARD": card,
    "DE_TAX_ID": de_tax_id,
    "PL_PESEL": pl_pesel,
    "CN_ID": cn_id,
    "US_SSN": us_ssn,
    "UK_NINO": uk_nino,
    "UK_NHS": uk_nhs,
    "FR_NIR": fr_nir,
    "ES_DNI": es_dni,
    "ES_NIE": es_nie,
    "IT_CF": it_cf,
    "NL_BSN": nl_bsn,
    "AT_SVNR": at_svnr,
    "BE_NN": be_nn,
    "BR_CPF": br_cpf,
    "CH_AHV": ch_ahv,
    "CZ_RC": cz_rc,
    "FI_HETU": fi_hetu,
    "NO_FNR": no_fnr,
    "SE_PNR": se_pnr,
}

NAMES = ["anna.nowak", "j.weber", "li.na88", "tom+news", "maria_k", "office", "k-lang", "wang.fang", "p.obrien"]
HOSTS = ["example.com", "example.org", "mail.example.net", "firma.example.de", "poczta.example.pl", "corp.example.cn"]


def email(random: Random) -> str:
    return f"{random.choice(NAMES)}@{random.choice(HOSTS)}"


def ipv4(random: Random) -> str:
    return random.choice(["192.0.2.", "198.51.100.", "203.0.113."]) + str(random.randint(1, 254))


def ipv6(random: Random) -> str:
    return f"2001:db8:{random.randrange(1, 0xFFFF):x}::{random.randrange(1, 0xFFFF):x}"


def mac(random: Random) -> str:
    parts = [f"{random.randrange(256):02x}" for _ in range(6)]
    return random.choice([":".join(parts), "-".join(parts).upper()])


def phone_us(random: Random) -> str:
    area, last = random.choice(["202", "312", "415", "646"]), f"01{random.randint(0, 99):02d}"
    return random.choice([f"+1 {area} 555 {last}", f"({area}) 555-{last}", f"{area}-555-{last}", f"+1{area}555{last}"])


def phone_uk(random: Random) -> str:
    last = f"{random.randint(0, 999):03d}"
    return random.choice([f"+44 20 7946 0{last}", f"020 7946 0{last}", f"+44 7700 900{last}"])


def phone_de(random: Random) -> str:
    last = f"{random.randint(10, 99)}"
    shapes = ["+49 30 23125 1{0}", "030 / 23125 1{0}", "0171 39200{0}", "(089) 9998 20{0}", "0221-4710 9{0}"]
    return random.choice([*shapes, "+491713920{0}9"]).format(last)


def phone_pl(random: Random) -> str:
    a, b = f"{random.randint(100, 999)}", f"{random.randint(100, 999)}"
    return random.choice([f"+48 512 {a} {b}", f"601 {a} {b}", f"22 {a} {b[:2]} 47", f"+48601{a}{b}", f"512-{a}-{b}"])


def phone_cn(random: Random) -> str:
    a, b = digits(random, 4), digits(random, 4)
    return random.choice([f"138{a}{b}", f"+86 139 {a} {b}", f"010-6{a[1:]}{b}", f"159 {a} {b}", f"021-5{a[1:]} {b}"])


PHONES: dict[str, Make] = {"en": phone_us, "de": phone_de, "pl": phone_pl, "zh": phone_cn, "uk": phone_uk}


def wallet(random: Random) -> str:
    if random.random() < 0.5:
        return "0x" + random.randbytes(20).hex()
    payload = b"\x00" + random.randbytes(20)
    payload += hashlib.sha256(hashlib.sha256(payload).digest()).digest()[:4]
    letters, number, text = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz", int.from_bytes(payload), ""
    while number:
        number, rest = divmod(number, 58)
        text = letters[rest] + text
    return "1" + text


def secret(random: Random) -> str:
    return "sk-" + "".join(random.choices(string.ascii_letters, k=24)) + digits(random, 4)


OTHERS: dict[str, Make] = {"EMAIL": email, "IP": ipv4, "IP6": ipv6, "MAC": mac, "WALLET": wallet, "SECRET": secret}
