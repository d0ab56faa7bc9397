"""Words that say what the number beside them is, in four languages and in a number's own.

A word of up to four Latin letters counts only as a word of its own, a longer one as a part of a word, too
(``phone_number``, ``Rufnummernliste``).
"""

from __future__ import annotations

from collections.abc import Iterator

OTHER = "OTHER"

LABELS: dict[str, tuple[str, ...]] = {
    "PHONE": (
        *("phone", "mobile", "cell", "tel", "fax", "sms", "whatsapp", "hotline", "voicemail", "landline", "msisdn"),
        *(
            "call me",
            "call us",
            "call him",
            "call her",
            "reach me",
            "reach us",
            "text me",
            "ring me",
            "contact number",
            "my number",
            "wa.me",
        ),
        *(
            "telefon",
            "handy",
            "mobil",
            "rufnummer",
            "rückruf",
            "anruf",
            "ruf mich",
            "ruft",
            "erreich",
            "durchwahl",
            "meine nummer",
        ),
        *("komór", "zadzwo", "dzwoni", "faks", "kom", "numer kontaktowy", "mój numer", "mój nr", "infolini"),
        *("电话", "手机", "拨打", "致电", "打给", "来电", "传真", "座机", "热线", "短信", "联系方式", "有事打", "微信"),
    ),
    "CARD": (
        *("card", "visa", "mastercard", "amex", "pan", "karte", "kart", "kreditkarte", "卡号", "银行卡", "信用卡"),
        *("借记卡", "储蓄卡"),
    ),
    "IBAN": ("iban", "account", "konto", "rachun", "账户", "账号", "帐号"),
    "BIRTH_DATE": (
        *("birth", "born", "dob", "bday", "geboren", "geburt", "geb", "urodz", "ur", "出生", "生日", "生于"),
        *("né le", "née le", "nacimiento", "nascita"),
    ),
    "DE_TAX_ID": ("steuer", "idnr", "tin", "tax id", "tax_id", "taxid", "identifikationsnummer", "税号"),
    "PL_PESEL": ("pesel",),
    "CN_ID": ("身份证", "身份号码", "id_card", "id card", "idcard", "resident id", "chinese id"),
    "US_SSN": ("ssn", "social security", "social_security", "socialsecurity", "社会安全", "社会保障"),
    "UK_NINO": ("nino", "national insurance", "national_insurance", "ni number", "ni no"),
    "UK_NHS": ("nhs", "patient", "chi number", "health service"),
    "FR_NIR": ("nir", "sécurité sociale", "securite sociale", "insee", "numéro de sécu", "社保"),
    "ES_DNI": ("dni", "nif", "documento nacional"),
    "ES_NIE": ("nie", "extranjero"),
    "IT_CF": ("codice fiscale", "codice_fiscale", "codicefiscale", "cf"),
    "NL_BSN": ("bsn", "burgerservice", "sofinummer", "sofi-nummer"),
    "AT_SVNR": ("svnr", "sv-nummer", "sv-nr", "sozialversicherung", "versicherungsnummer", "ubezpieczeni"),
    "BE_NN": ("rijksregister", "registre national", "nationalnummer", "national number", "niss", "insz", "krajowy"),
    "BR_CPF": ("cpf", "pessoas físicas"),
    "CH_AHV": ("ahv", "avs", "oasi"),
    "CZ_RC": ("rodné", "rodne", "rodného", "rč"),
    "FI_HETU": ("hetu", "henkilötunnus", "henkilo", "personbeteckning"),
    "NO_FNR": ("fødselsnummer", "fodselsnummer", "fnr", "personnummer", "osobisty"),
    "SE_PNR": ("personnummer", "personnr", "pnr", "samordningsnummer"),
    # What such a number also is: the nearest word counts.
    OTHER: (
        *("order", "invoice", "ticket", "tracking", "customer", "article", "batch", "job", "seed", "bytes", "isbn"),
        *("issn", "ean", "gtin", "sku", "serial", "commit", "build", "version", "timestamp", "price", "amount", "size"),
        *("bestell", "auftrag", "rechnung", "kundennummer", "sendung", "artikel", "vorgang", "betrag", "zähler"),
        *("zamówieni", "zamowieni", "faktur", "przesyłk", "przesylk", "partia", "zadanie", "kwota", "regon", "krs"),
        *("订单", "发票", "快递", "批次", "任务", "书号", "编号", "金额", "版本", "tool_call", "call_id", "call id"),
    ),
}


def _short(word: str) -> bool:
    return len(word) <= 4 and word.isalpha() and ord(word[0]) < 0x250


_WORDS = {kind: [(word, _short(word)) for word in words] for kind, words in LABELS.items()}


def _alone(text: str, at: int, word: str) -> bool:
    after = text[at + len(word) : at + len(word) + 1]
    return not (at and _latin(text[at - 1])) and not (after and _latin(after))


def _latin(letter: str) -> bool:
    return letter.isalpha() and ord(letter) < 0x250


def last(text: str, kind: str) -> int:
    """Where the last word for a kind stands in a text in lower case, or -1."""
    found = -1
    for word, short in _WORDS.get(kind, ()):
        at = text.rfind(word)
        while short and at >= 0 and not _alone(text, at, word):
            at = text.rfind(word, 0, at + len(word) - 1)
        found = max(found, at)
    return found


def near(text: str, kind: str) -> bool:
    """Whether a text in lower case may have a word for a kind; only :func:`last` is sure."""
    return any(word in text for word in LABELS.get(kind, ()))


def around(text: str, kind: str, distance: int) -> Iterator[tuple[int, int]]:
    """The parts of a text that are no farther than so many characters from a word for a kind."""
    low = text.lower()
    if len(low) != len(text):  # a capital I with a dot is two in lower case
        low = "".join(letter.lower()[0] for letter in text)
    places = []
    for word, short in _WORDS[kind]:
        at = low.find(word)
        while at >= 0:
            if not short or _alone(low, at, word):
                places.append((max(0, at - distance), at + len(word) + distance))
            at = low.find(word, at + len(word))
    begin = end = 0
    for start, stop in sorted(places):
        if start > end:
            if end:
                yield begin, min(end, len(text))
            begin = start
        end = max(end, stop)
    if end:
        yield begin, min(end, len(text))
