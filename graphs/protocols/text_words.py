"""What the text protocol says to a model, in each of its languages.

Written for models of a billion parameters: short sentences, one thing in each, nothing that does not change what
the model does. ``{…}`` in small letters is filled in; all other braces are meant as they stand.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from taograph.graphs.protocols.step import StepError
from taograph.graphs.protocols.text_labels import Language


@dataclass(frozen=True, slots=True)
class Words:
    """The texts of one language.

    Attributes:
        template: The whole system text; a user's own template has the same placeholders.
        format: The two forms of a reply.
        rules: The rules.
        arguments: Above the arguments of a tool.
        no_arguments: In their place where there are none.
        required: Of an argument that must be given.
        optional: Of one that need not be.
        call_example: Above a call with real arguments.
        call_form: Above a call whose arguments are placeholders.
        example: Above a worked example.
        example_form: Above one that is made of placeholders.
        you_write: Above what the model writes in an example.
        you_get: Above what it is given.
        before: The thought before an example's action.
        after: The thought before an example's answer.
        some_question: Placeholder of a question.
        some_result: Placeholder of an observation.
        some_answer: Placeholder of an answer.
        must_act: This reply must be an action.
        must_call: This reply must call one tool.
        must_answer: This reply must be the answer.
        unreadable: What begins the hint after a reply that could not be read.
        faults: Code of a fault → what was wrong, and what to do instead (may be empty).
        again: What ends a hint: the form of a reply.
        only_act: The first rule, where replies have no thoughts.
        write_one: What to do about a reply without a step, then.
    """

    template: str
    format: str
    rules: str
    arguments: str
    no_arguments: str
    required: str
    optional: str
    call_example: str
    call_form: str
    example: str
    example_form: str
    you_write: str
    you_get: str
    before: str
    after: str
    some_question: str
    some_result: str
    some_answer: str
    must_act: str
    must_call: str
    must_answer: str
    unreadable: str
    faults: Mapping[StepError, tuple[str, str]]
    again: str
    only_act: str
    write_one: str


ENGLISH = Words(
    template="""\
Answer the user's question. You can use these tools.

# Tools

{tools}

# Format

{format}

# Rules

{rules}

# Examples

{examples}""",
    format="""\
Every reply has one of these two forms and nothing else.

To use a tool:
Thought: why you need it
Action: one of: {tool_names}
Action Input: its arguments as a JSON object

To give the answer:
Thought: how you know it
Final Answer: the answer to the question""",
    rules="""\
- Begin every reply with Thought:
- Write one Action, then stop after its Action Input.
- Never write an Observation yourself. You get one after each Action. Wait for it.
- Do not guess. What you are not sure of, look up with a tool.
- If an Observation reports an error, change the call. Do not send the same call again.
- As soon as the Observations give you the answer, write the Final Answer.""",
    arguments="Arguments:",
    no_arguments="Arguments: none",
    required="required",
    optional="optional",
    call_example="Example of a call:",
    call_form="Form of a call:",
    example="Example. Copy its form, not its contents.",
    example_form="Form of an exchange. Put real values in place of the words in <>.",
    you_write="[You write]",
    you_get="[You get]",
    before="{tool} will tell me this.",
    after="The Observation gives the answer.",
    some_question="<a question for {tool}>",
    some_result="<what {tool} returns>",
    some_answer="<the answer to the question>",
    must_act="Your next reply must be an Action. Do not write a Final Answer yet.",
    must_call="Your next reply must be an Action that calls {tool}. Do not write a Final Answer yet.",
    must_answer="Do not write any more Actions. Your next reply must be the Final Answer, from what you know now.",
    unreadable="Your last reply could not be read.",
    faults={
        "empty": ("It was empty.", ""),
        "missing_action": ("It has neither an Action nor a Final Answer.", "Write one of them below the Thought."),
        "missing_action_input": ("It has an Action without Action Input.", "Write {} if the tool takes no arguments."),
        "empty_tool": ("Its Action names no tool.", ""),
        "no_action": ("Its Action is not a tool.", "If you need no tool, write the Final Answer."),
        "action_and_answer": (
            "It has both an Action and a Final Answer.",
            "If you need a tool, write only the Action.",
        ),
        "bad_arguments": ("Its Action Input cannot be used.", "Put double quotes around names and texts."),
        "incomplete": ("It breaks off before the end.", "Write it again, shorter."),
    },
    again="""\
Reply again in this form:
Thought: why you need the tool
Action: the name of a tool
Action Input: its arguments as a JSON object
Or, if you know the answer:
Thought: how you know it
Final Answer: the answer to the question""",
    only_act='- Begin every reply with "Action:" or "Final Answer:" and write nothing before it.',
    write_one="Write one of them.",
)

CHINESE = Words(
    template="""\
回答用户的问题。你可以使用下面的工具。

# 工具

{tools}

# 格式

{format}

# 规则

{rules}

# 示例

{examples}""",
    format="""\
每次回复只用以下两种形式之一，不写别的内容。

使用工具时：
思考：为什么要用这个工具
行动：以下工具之一：{tool_names}
行动输入：JSON 对象形式的参数

给出答案时：
思考：答案的依据是什么
最终答案：问题的答案""",
    rules="""\
- 每次回复都以“思考：”开头。
- 每次只写一个行动，写完行动输入就停下。
- 不要自己写观察。每个行动之后你会收到观察，请等待。
- 不要猜。没有把握的内容，用工具查。
- 如果观察报错，就修改调用，不要原样重发。
- 观察里一有答案，就写最终答案。""",
    arguments="参数：",
    no_arguments="参数：无",
    required="必填",
    optional="可选",
    call_example="调用示例：",
    call_form="调用形式：",
    example="示例。只学形式，不要照抄内容。",
    example_form="对话形式。<> 中的文字要换成真实内容。",
    you_write="[你写]",
    you_get="[你收到]",
    before="用 {tool} 可以得到结果。",
    after="观察给出了答案。",
    some_question="<适合用 {tool} 解决的问题>",
    some_result="<{tool} 返回的结果>",
    some_answer="<问题的答案>",
    must_act="下一次回复必须是行动，先不要写最终答案。",
    must_call="下一次回复必须是调用 {tool} 的行动，先不要写最终答案。",
    must_answer="不要再写行动。下一次回复必须是最终答案，根据目前已知的内容作答。",
    unreadable="你上一次的回复无法解析。",
    faults={
        "empty": ("回复是空的。", ""),
        "missing_action": ("里面既没有行动，也没有最终答案。", "请在思考之后写其中一个。"),
        "missing_action_input": ("有行动，但没有行动输入。", "工具不需要参数时写 {}。"),
        "empty_tool": ("行动后面没有工具名。", "请写一个工具名。"),
        "no_action": ("行动后面写的不是工具。", "不需要工具时，请写最终答案。"),
        "action_and_answer": ("同时写了行动和最终答案。", "需要工具时，只写行动。"),
        "bad_arguments": ("行动输入无法使用。", "请写一个 JSON 对象，用英文双引号。"),
        "incomplete": ("回复没有写完就断了。", "请重写，写短一些。"),
    },
    again="""\
请按这种形式重新回复：
思考：为什么要用这个工具
行动：一个工具名
行动输入：JSON 对象形式的参数
如果已经知道答案：
思考：答案的依据是什么
最终答案：问题的答案""",
    only_act="- 每次回复都以“行动：”或“最终答案：”开头，前面不写任何内容。",
    write_one="请写其中一个。",
)

GERMAN = Words(
    template="""\
Beantworte die gestellte Frage. Du kannst diese Werkzeuge verwenden.

# Werkzeuge

{tools}

# Format

{format}

# Regeln

{rules}

# Beispiele

{examples}""",
    format="""\
Jede deiner Nachrichten hat eine dieser beiden Formen und enthält sonst nichts.
Die Wörter vor dem Doppelpunkt bleiben englisch.

Um ein Werkzeug zu verwenden:
Thought: wozu du es brauchst
Action: eines von: {tool_names}
Action Input: seine Argumente als JSON-Objekt

Um die Frage zu beantworten:
Thought: woher du die Antwort weißt
Final Answer: die Antwort auf die Frage""",
    rules="""\
- Beginne jede Nachricht mit Thought:
- Schreibe genau eine Action und höre nach dem Action Input auf.
- Schreibe nie selbst eine Observation. Du bekommst sie nach jeder Action. Warte darauf.
- Rate nicht. Was du nicht sicher weißt, schlägst du mit einem Werkzeug nach.
- Meldet eine Observation einen Fehler, dann ändere den Aufruf. Wiederhole ihn nicht unverändert.
- Sobald sich die Antwort aus den Observations ergibt, schreibe die Final Answer.""",
    arguments="Argumente:",
    no_arguments="Argumente: keine",
    required="erforderlich",
    optional="optional",
    call_example="Beispiel für einen Aufruf:",
    call_form="Schema eines Aufrufs:",
    example="Beispiel. Übernimm die Form, nicht den Inhalt.",
    example_form="Schema eines Ablaufs. Setze statt der Wörter in <> echte Angaben ein.",
    you_write="[Du schreibst]",
    you_get="[Du bekommst]",
    before="Das finde ich mit {tool} heraus.",
    after="Die Antwort steht in der Observation.",
    some_question="<eine Frage für {tool}>",
    some_result="<was {tool} liefert>",
    some_answer="<die Antwort auf die Frage>",
    must_act="Deine nächste Nachricht muss eine Action sein. Schreibe noch keine Final Answer.",
    must_call="Deine nächste Nachricht muss eine Action sein, die {tool} aufruft. Schreibe noch keine Final Answer.",
    must_answer="Schreibe keine Action mehr, sondern als Nächstes die Final Answer, mit dem, was du bis jetzt weißt.",
    unreadable="Deine letzte Nachricht war nicht lesbar.",
    faults={
        "empty": ("Sie war leer.", ""),
        "missing_action": ("Sie enthält weder Action noch Final Answer.", "Schreibe eines davon unter den Thought."),
        "missing_action_input": (
            "Zur Action fehlt der Action Input.",
            "Schreibe {}, wenn das Werkzeug nichts braucht.",
        ),
        "empty_tool": ("Die Action nennt kein Werkzeug.", "Schreibe den Namen eines Werkzeugs."),
        "no_action": ("Die Action ist kein Werkzeug.", "Brauchst du keines, dann schreibe die Final Answer."),
        "action_and_answer": (
            "Sie enthält eine Action und eine Final Answer.",
            "Brauchst du ein Werkzeug, dann schreibe nur die Action.",
        ),
        "bad_arguments": (
            "Der Action Input ist nicht brauchbar.",
            "Schreibe ein JSON-Objekt mit doppelten Anführungszeichen.",
        ),
        "incomplete": ("Sie bricht vor dem Ende ab.", "Schreibe sie noch einmal, kürzer."),
    },
    again="""\
Schreibe die Nachricht noch einmal, in dieser Form:
Thought: wozu du das Werkzeug brauchst
Action: der Name eines Werkzeugs
Action Input: seine Argumente als JSON-Objekt
Oder, wenn du die Antwort weißt:
Thought: woher du sie weißt
Final Answer: die Antwort auf die Frage""",
    only_act='- Beginne jede Nachricht mit "Action:" oder "Final Answer:" und schreibe nichts davor.',
    write_one="Schreibe eines davon.",
)

POLISH = Words(
    template="""\
Odpowiedz na zadane pytanie. Możesz korzystać z tych narzędzi.

# Narzędzia

{tools}

# Format

{format}

# Zasady

{rules}

# Przykłady

{examples}""",
    format="""\
Każda twoja wiadomość ma jedną z tych dwóch postaci i nie zawiera nic więcej.
Słów przed dwukropkiem nie tłumacz.

Aby użyć narzędzia:
Thought: po co jest ci potrzebne
Action: jedno z: {tool_names}
Action Input: jego argumenty jako obiekt JSON

Aby odpowiedzieć na pytanie:
Thought: skąd znasz odpowiedź
Final Answer: odpowiedź na pytanie""",
    rules="""\
- Każdą wiadomość zacznij od Thought:
- Napisz jedną Action, a po Action Input przestań pisać.
- Nigdy nie pisz Observation samodzielnie. Dostaniesz ją po każdej Action. Zaczekaj na nią.
- Nie zgaduj. Czego nie wiesz na pewno, sprawdź za pomocą narzędzia.
- Jeśli Observation zgłasza błąd, zmień wywołanie. Nie powtarzaj go bez zmian.
- Gdy tylko z Observation wynika odpowiedź, napisz Final Answer.""",
    arguments="Argumenty:",
    no_arguments="Argumenty: brak",
    required="wymagany",
    optional="opcjonalny",
    call_example="Przykład wywołania:",
    call_form="Schemat wywołania:",
    example="Przykład. Naśladuj formę, nie treść.",
    example_form="Schemat rozmowy. Zamiast słów w <> wstaw prawdziwe dane.",
    you_write="[Ty piszesz]",
    you_get="[Ty dostajesz]",
    before="Sprawdzę to narzędziem {tool}.",
    after="Odpowiedź jest w Observation.",
    some_question="<pytanie, do którego przyda się {tool}>",
    some_result="<to, co zwraca {tool}>",
    some_answer="<odpowiedź na pytanie>",
    must_act="Następna wiadomość musi być Action. Nie pisz jeszcze Final Answer.",
    must_call="Następna wiadomość musi być Action, która wywołuje {tool}. Nie pisz jeszcze Final Answer.",
    must_answer="Nie pisz już żadnej Action. Następna wiadomość musi być Final Answer na podstawie tego, co już wiesz.",
    unreadable="Nie udało się odczytać twojej ostatniej wiadomości.",
    faults={
        "empty": ("Była pusta.", ""),
        "missing_action": ("Nie ma w niej ani Action, ani Final Answer.", "Napisz jedno z nich pod Thought."),
        "missing_action_input": ("Do Action brakuje Action Input.", "Napisz {}, jeśli narzędzie nie ma argumentów."),
        "empty_tool": ("Action nie podaje narzędzia.", "Napisz nazwę jednego narzędzia."),
        "no_action": ("Action nie jest narzędziem.", "Jeśli żadnego nie potrzebujesz, napisz Final Answer."),
        "action_and_answer": (
            "Jest w niej i Action, i Final Answer.",
            "Jeśli potrzebujesz narzędzia, napisz tylko Action.",
        ),
        "bad_arguments": (
            "Nie da się użyć tego Action Input.",
            "Napisz jeden obiekt JSON z podwójnymi cudzysłowami.",
        ),
        "incomplete": ("Urywa się przed końcem.", "Napisz ją jeszcze raz, krócej."),
    },
    again="""\
Napisz wiadomość jeszcze raz, w tej postaci:
Thought: po co jest ci potrzebne narzędzie
Action: nazwa narzędzia
Action Input: jego argumenty jako obiekt JSON
Albo, jeśli znasz odpowiedź:
Thought: skąd ją znasz
Final Answer: odpowiedź na pytanie""",
    only_act='- Każdą wiadomość zacznij od "Action:" albo "Final Answer:" i nie pisz niczego przed tym.',
    write_one="Napisz jedno z nich.",
)

WORDS: dict[Language, Words] = {"en": ENGLISH, "zh": CHINESE, "de": GERMAN, "pl": POLISH}
