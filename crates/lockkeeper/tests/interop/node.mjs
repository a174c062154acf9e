// The lock of redlock on ioredis, driven by the tests of interoperability.
//
//     node.mjs probe
//     node.mjs serve PORT KEY LEASE_MS
//     node.mjs contend PORT KEY FOLDER SEAT SEATS SHARE LEAD MEET
//
// The same parts as those of redis_py.py.

import { openSync, readSync, writeFileSync, writeSync } from "node:fs";
import { createRequire } from "node:module";
import { createInterface } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";

// Through `require`, because only that looks in NODE_PATH.
const require = createRequire(import.meta.url);
const Redis = require("ioredis");
const Redlock = require("redlock");

const PAUSE_MS = 1;
const PATIENCE_MS = 60_000;
const CONTENDER_LEASE_MS = 10_000;
const [ENTERED, WAITING, FINISHED, FIELDS] = [0, 1, 2, 3];

const say = (line) => process.stdout.write(`${line}\n`);
const fail = (error) => {
  console.error(error);
  process.exit(1);
};

class Lock {
  constructor(port, key, leaseMs) {
    this.client = new Redis(port, "127.0.0.1", { retryStrategy: null }).on("error", fail);
    const redlock = (retryCount) =>
      new Redlock([this.client], { retryCount, retryDelay: PAUSE_MS, retryJitter: 0 }).on("clientError", fail);
    [this.once, this.often] = [redlock(0), redlock(PATIENCE_MS / PAUSE_MS)];
    [this.key, this.leaseMs] = [key, leaseMs];
  }

  // Takes the lock; answers whether another had it first.
  async take(whenBusy) {
    try {
      this.held = await this.once.lock(this.key, this.leaseMs);
      return false;
    } catch (error) {
      if (error.name !== "LockError") throw error;
    }
    whenBusy();
    this.held = await this.often.lock(this.key, this.leaseMs);
    return true;
  }

  release() {
    return this.held.unlock();
  }
}

async function serve(lock) {
  for await (const line of createInterface({ input: process.stdin })) {
    if (line.trim() === "take") {
      await lock.take(() => say("busy"));
      say(`held ${lock.held.value}`);
    } else {
      await lock.release().then(() => say("released"), (error) => say(`failed ${error.name}`));
    }
  }
}

class Board {
  constructor(folder, seat, seats, lead) {
    [this.counter, this.board] = ["counter", "board"].map((name) => openSync(`${folder}/${name}`, "r+"));
    this.seats = Array.from({ length: seats }, (_, index) => index);
    [this.seat, this.lead, this.cell] = [seat, lead, Buffer.alloc(8)];
  }

  read(file, at) {
    readSync(file, this.cell, 0, 8, at);
    return Number(this.cell.readBigUInt64LE());
  }

  write(file, at, value) {
    this.cell.writeBigUInt64LE(BigInt(value));
    writeSync(file, this.cell, 0, 8, at);
  }

  get(seat, field) {
    return this.read(this.board, 8 * (seat * FIELDS + field));
  }

  put(field, value) {
    this.write(this.board, 8 * (this.seat * FIELDS + field), value);
  }

  isAhead(seat) {
    const others = this.seats.filter((s) => s !== seat && !this.get(s, FINISHED));
    return others.some((s) => this.get(seat, ENTERED) >= this.get(s, ENTERED) + this.lead);
  }

  othersWait() {
    const others = this.seats.filter((s) => s !== this.seat);
    return others.every((s) => this.get(s, WAITING) || this.get(s, FINISHED) || this.isAhead(s));
  }
}

async function until(what, condition) {
  const ends = performance.now() + PATIENCE_MS;
  while (!condition()) {
    if (performance.now() > ends) fail(`not in time: ${what}`);
    await sleep(PAUSE_MS);
  }
}

async function section(board, number, meet) {
  const entered = process.hrtime.bigint();
  const seen = board.read(board.counter, 0);
  board.put(ENTERED, number + 1);
  if (number % meet === 0) await until("the others wait", () => board.othersWait());
  board.write(board.counter, 0, seen + 1);
  return `${seen} ${entered} ${process.hrtime.bigint()}\n`;
}

async function contend(lock, folder, seat, seats, share, lead, meet) {
  const [board, notes] = [new Board(folder, seat, seats, lead), []];
  let waited = 0;
  for (let number = 0; number < share; number++) {
    await until("the others catch up", () => !board.isAhead(seat));
    waited += await lock.take(() => board.put(WAITING, 1));
    board.put(WAITING, 0);
    notes.push(await section(board, number, meet));
    await lock.release();
  }
  board.put(FINISHED, 1);
  writeFileSync(`${folder}/notes-${seat}`, notes.join(""));
  say(`waited ${waited}`);
}

async function main(task, port, key, ...rest) {
  if (task === "probe") return;
  const lock = new Lock(Number(port), key, task === "serve" ? Number(rest[0]) : CONTENDER_LEASE_MS);
  if (task === "serve") await serve(lock);
  else await contend(lock, rest[0], ...rest.slice(1).map(Number));
  await lock.client.quit();
}

main(...process.argv.slice(2)).catch(fail);
