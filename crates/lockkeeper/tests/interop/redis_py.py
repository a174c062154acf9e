"""The lock of redis-py, driven by the tests of interoperability.

    redis_py.py probe
    redis_py.py serve PORT KEY LEASE_MS (0: no expiry)
    redis_py.py contend PORT KEY FOLDER SEAT SEATS SHARE LEAD MEET

`serve` obeys the lines `take` and `release` until its input ends. `contend` runs SHARE critical sections; what it
reads and writes in FOLDER is explained in board.rs.
"""

import os
import sys
import time

import redis
from redis.exceptions import LockError
from redis.lock import Lock

PAUSE_S = 0.001
PATIENCE_S = 60
CONTENDER_LEASE_S = 10
ENTERED, WAITING, FINISHED, FIELDS = 0, 1, 2, 3


def say(line):
    print(line, flush=True)


def take(lock, when_busy):
    """Takes the lock; says whether another had it first."""
    if lock.acquire(blocking=False):
        return False
    when_busy()
    if not lock.acquire(blocking_timeout=PATIENCE_S):
        sys.exit("never got the lock")
    return True


def serve(lock):
    for line in sys.stdin:
        if line.strip() == "take":
            take(lock, lambda: say("busy"))
            say(f"held {lock.local.token.decode()}")
        else:
            try:
                lock.release()
                say("released")
            except LockError as error:
                say(f"failed {type(error).__name__}")


class Board:
    def __init__(self, folder, seat, seats, lead):
        self.counter = os.open(os.path.join(folder, "counter"), os.O_RDWR)
        self.board = os.open(os.path.join(folder, "board"), os.O_RDWR)
        self.seat, self.seats, self.lead = seat, range(seats), lead

    def get(self, seat, field):
        return int.from_bytes(os.pread(self.board, 8, 8 * (seat * FIELDS + field)), "little")

    def put(self, field, value):
        os.pwrite(self.board, value.to_bytes(8, "little"), 8 * (self.seat * FIELDS + field))

    def is_ahead(self, seat):
        others = [s for s in self.seats if s != seat and not self.get(s, FINISHED)]
        return any(self.get(seat, ENTERED) >= self.get(s, ENTERED) + self.lead for s in others)

    def others_wait(self):
        others = [s for s in self.seats if s != self.seat]
        return all(self.get(s, WAITING) or self.get(s, FINISHED) or self.is_ahead(s) for s in others)

    def count(self):
        return int.from_bytes(os.pread(self.counter, 8, 0), "little")

    def set_count(self, value):
        os.pwrite(self.counter, value.to_bytes(8, "little"), 0)


def until(what, condition):
    ends = time.monotonic() + PATIENCE_S
    while not condition():
        if time.monotonic() > ends:
            sys.exit(f"not in time: {what}")
        time.sleep(PAUSE_S)


def section(board, number, meet):
    entered = time.monotonic_ns()
    seen = board.count()
    board.put(ENTERED, number + 1)
    if number % meet == 0:
        until("the others wait", board.others_wait)
    board.set_count(seen + 1)
    return f"{seen} {entered} {time.monotonic_ns()}\n"


def contend(lock, folder, seat, seats, share, lead, meet):
    board, notes, waited = Board(folder, seat, seats, lead), [], 0
    for number in range(share):
        until("the others catch up", lambda: not board.is_ahead(seat))
        waited += take(lock, lambda: board.put(WAITING, 1))
        board.put(WAITING, 0)
        notes.append(section(board, number, meet))
        lock.release()
    board.put(FINISHED, 1)
    with open(os.path.join(folder, f"notes-{seat}"), "w", encoding="ascii") as file:
        file.writelines(notes)
    say(f"waited {waited}")


def main(task, *args):
    if task == "probe":
        return
    port, key, *rest = args
    client = redis.Redis(host="127.0.0.1", port=int(port))
    if task == "serve":
        lease = int(rest[0]) / 1000 or None
        serve(Lock(client, key, timeout=lease, sleep=PAUSE_S))
    else:
        lock = Lock(client, key, timeout=CONTENDER_LEASE_S, sleep=PAUSE_S)
        contend(lock, rest[0], *map(int, rest[1:]))


main(*sys.argv[1:])
