"""Small records in the form of the published ones, made up for tests."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

FEVER: list[dict[str, Any]] = [
    {
        "idx": 7,
        "claim": "Ur is a city.",
        "gold": "SUPPORTS",
        "answer": "SUPPORTS",
        "em": 1,
        "badcalls": 0,
        "steps": [
            {"n": 1, "thought": "I look for Ur.", "action": "Search[Ur]", "observation": "Ur was a city in Sumer."},
            {"n": 2, "thought": "It was.", "action": "Finish[SUPPORTS]", "observation": "Episode finished, reward = 1"},
        ],
    },
    {
        "idx": 8,  # the published defect: an extra blank, three times, until the claim is given up
        "claim": "Ur is in Spain.",
        "gold": "REFUTES",
        "answer": "",
        "em": 0,
        "badcalls": 0,
        "steps": [
            {"n": 1, "thought": "I look for Ur.", "action": "Search[Ur]", "observation": "Ur was a city in Sumer."},
            *(
                {
                    "n": number,
                    "thought": "It was not.",
                    "action": "Finish[REFUTES]",
                    "observation": "Invalid action: Finish[REFUTES]",
                }
                for number in range(2, 8)
            ),
        ],
    },
    {
        "idx": 3991,  # its first reply at the last step is known to have been broken
        "claim": "Ur is old.",
        "gold": "SUPPORTS",
        "answer": "NOT ENOUGH INFO",
        "em": 0,
        "badcalls": 1,
        "steps": [
            {"n": 1, "thought": "I go in.", "action": "Login", "observation": "Invalid action: login"},
            {
                "n": 2,
                "thought": "I cannot tell.",
                "action": "Finish[NOT ENOUGH INFO]",
                "observation": "Episode finished, reward = 0",
            },
        ],
    },
]
WEBSHOP: list[dict[str, Any]] = [
    {
        "idx": 0,
        "score": 1.0,
        "steps": [
            {"action": "reset", "observation": "Shop \nInstruction: \na red mug \n[Search]"},
            {"action": "search[red mug]", "observation": "[M1] \nMug [red] \n[M2] \nMug"},
            {"action": "think[M1 has the options 'red', 'blue',", "observation": "OK."},
            {"action": "click[M1]", "observation": ""},
            {"action": "click[Mug [red]]", "observation": "Invalid action!"},
            {"action": "exit[now]", "observation": "Invalid action!"},
            {"action": "click[Buy Now]", "observation": "Your score (min 0.0, max 1.0): 1.0"},
        ],
    },
    {
        "idx": 1,
        "score": 0.0,
        "steps": [
            {"action": "reset", "observation": "Shop \nInstruction: \na blue mug \n[Search]"},
            {"action": "click[Buy Now]", "observation": "Invalid action!"},
            *({"action": "search[blue mug]", "observation": "x" * 900} for _ in range(13)),
        ],
    },
]


def write(path: Path, entries: Any) -> Path:
    path.write_bytes(gzip.compress(json.dumps(entries).encode()))
    return path
