"""One run at a time on a thread.

Two runs on one thread would each go on from the same checkpoint, and the one that ends last would be the thread's
state: what the other was told and answered is gone, without an error anywhere. So a run has its thread to itself
from before its first step until it ends, waits for a person, fails, is drained or is abandoned. What a second one
does meanwhile is said by LangGraph's names for double texting::

    graph.invoke(input, {"configurable": {"thread_id": "t1", "multitask_strategy": "enqueue"}})

- ``"reject"`` (the default): it is refused at once with :class:`ThreadBusyError`, which names the first run; nothing
  of it is stored, and no model is asked.
- ``"enqueue"``: it waits its turn, at most as many seconds as the run itself may take (``Limits.seconds``), which
  begin to count when it runs. A ``Cancellation`` ends the wait.
- ``"interrupt"``: the first run ends cleanly with what it has, for the reason ``cancelled``; then this one runs, on
  the conversation with what the first one left in it. So do those that waited before this one came: each begins,
  stores its message, and ends without asking a model.
- ``"rollback"``: the same, but this run goes on from before the first one: its message, its answer and all between
  are not in the conversation any more. They stay in the history of checkpoints (``graph.get_state_history``), as a
  branch that nothing follows; what its tools did is not undone. A run that had come to its own end before it
  could be stopped is not undone: its caller was given an answer that counts.

A run that waits comes into the state once its turn has come, or raises :class:`ThreadBusyError`.

**How far it holds** depends on where the threads are kept, see :mod:`taograph.writers.places`: in memory, within the
process; in a SQLite file, for all processes that use it (:mod:`taograph.writers.files`); on a PostgreSQL server, for
all that are connected to it (:mod:`taograph.writers.postgres`). A holder that dies frees its thread.

**Who takes part.** The outermost graph of a run, if it is one of ours and brings the checkpointer itself: a nested
one writes as part of its parent, and a LangGraph server (``langgraph dev``) sees to it that the runs of a thread
follow one another. So the namespace within a thread does not matter: that of an outermost graph is always empty.
"""

from taograph.writers.claims import Wanted
from taograph.writers.holders import STRATEGY, Holder, Strategy, ThreadBusyError, ThreadLostError, read_strategy
from taograph.writers.running import Ready, ahold, astream, hold, stream
from taograph.writers.undoing import RUN

__all__ = [
    "RUN",
    "STRATEGY",
    "Holder",
    "Ready",
    "Strategy",
    "ThreadBusyError",
    "ThreadLostError",
    "Wanted",
    "ahold",
    "astream",
    "hold",
    "read_strategy",
    "stream",
]
