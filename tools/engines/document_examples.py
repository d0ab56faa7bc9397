"""Worked uses of the document tools. A test runs the tools and holds each observation to what they return."""

from __future__ import annotations

from taograph.tools.policy import ToolExample

CORPUS_SEARCH = (
    ToolExample(
        question="How long is the coastline of Palau?",
        args={"query": "Palau coastline"},
        observation=('1. Palau — Coastline: 1,519 km\n[document "palau", page 1]'),
        answer="The coastline of Palau is 1,519 km long.",
    ),
    ToolExample(
        question="Which day is the national holiday of Comoros?",
        args={"query": "Comoros national holiday"},
        observation=(
            "1. Comoros — National holiday: Independence Day, 6 July (1975)\n"
            '[document "comoros", page 5]\n\n'
            "2. Comoros — Nationality: noun: Comoran(s)\nadjective: Comoran\n"
            '[document "comoros", page 2]'
        ),
        answer="The national holiday of Comoros is Independence Day, 6 July.",
    ),
)
CORPUS_OPEN = (
    ToolExample(
        question="Look into the document on Tuvalu: what is its internet country code?",
        args={"document": "tuvalu", "find": "internet country code"},
        observation=('Tuvalu (document "tuvalu"), what fits best first\n\nPage 6, Internet country code: .tv'),
        answer="The internet country code of Tuvalu is .tv.",
    ),
)
FOLDER_SEARCH = (
    ToolExample(
        question="For how many days is a parcel kept at the depot if nobody collects it?",
        args={"query": "parcel nobody collects kept days"},
        observation=(
            "1. Depot handbook — Storing parcels: A parcel that nobody collects is kept for 21 days, then it goes "
            "back to the sender.\nParcels above 40 kg are kept in hall C.\n"
            '[document "depot/handbook.md", page 1]'
        ),
        answer="A parcel that nobody collects is kept for 21 days.",
    ),
    ToolExample(
        question="What is paid per kilometre for a private car?",
        args={"query": "mileage private car"},
        observation=(
            "1. Travel expenses — Mileage: A private car is paid at 0.34 per kilometre, a private bicycle at 0.12.\n"
            '[document "staff/travel-expenses.md", page 1]'
        ),
        answer="A private car is paid at 0.34 per kilometre.",
    ),
)
FOLDER_OPEN = (
    ToolExample(
        question="What does staff/travel-expenses.md say about receipts?",
        args={"document": "staff/travel-expenses.md"},
        observation=(
            'Travel expenses (document "staff/travel-expenses.md"), page 1 of 1\n\n'
            "Hand in receipts within six weeks of the journey.\n\n"
            "## Mileage\nA private car is paid at 0.34 per kilometre, a private bicycle at 0.12."
        ),
        answer="It says to hand in receipts within six weeks of the journey.",
    ),
)
