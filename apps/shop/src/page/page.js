"use strict";
// Keeps the numbers fresh, and buys without leaving the page. Without it, the form and reloading do the same.

const PACE_MS = 1000;
const OUTCOME_PACE_MS = 300;
const OUTCOME_TRIES = 100;

const at = (id) => document.getElementById(id);
const sale = "/seckill/" + encodeURIComponent(document.body.dataset.sku);
const said = at("said");
let asking = 0;

function say(kind, text, ticket) {
  said.dataset.kind = kind;
  said.textContent = text;
  if (ticket) {
    const code = document.createElement("code");
    code.textContent = ticket;
    said.append(" Ticket ", code);
  }
}

function row(name, count, isGood) {
  const row = document.createElement("tr");
  row.className = isGood ? "good" : "";
  const [cell, number] = [document.createElement("td"), document.createElement("td")];
  cell.textContent = name;
  number.textContent = count;
  number.className = "number";
  row.append(cell, number);
  return row;
}

async function refresh() {
  try {
    const answer = await fetch("/live");
    if (answer.ok) show(await answer.json());
  } catch {
    // The server is away; the next round asks again.
  }
}

function show({ stock, accepted, repeated, refusals }) {
  const left = Math.max(0, stock.remaining);
  for (const id of ["sold", "written", "queued", "initial"]) at(id).textContent = stock[id];
  at("left").textContent = left;
  at("gauge").max = Math.max(1, stock.initial);
  at("gauge").value = left;
  const good = [row("Bought", accepted, true), row("Had one already, shown again", repeated, true)];
  const bad = Object.values(refusals).map((refused) => row(refused.title, refused.count, false));
  at("answers").replaceChildren(...good, ...bad);
}

async function outcome(account, mine, ours) {
  for (let tried = 0; tried < OUTCOME_TRIES && mine === asking; tried++) {
    const answer = await fetch(sale + "/outcome", { headers: { "X-Account": account } });
    const { state, ticket, reason, title } = await answer.json();
    if (mine !== asking) return;
    if (!answer.ok && answer.status !== 503) return say("refused", title + ".");
    if (state === "ordered") return say("ordered", "Yours, and ordered.", ticket);
    if (state === "refused") return say("refused", reason);
    if (state === "none") return say("refused", "The shop has lost this ticket. Click again: nobody gets two.");
    if (!answer.ok) say("pending", title + ".", ours);
    await new Promise((done) => setTimeout(done, OUTCOME_PACE_MS));
  }
  if (mine === asking) say("refused", "The order is not written yet. Look again later.", ours);
}

async function buy(event) {
  event.preventDefault();
  const account = at("account").value.trim();
  const mine = ++asking;
  say("pending", "Asking…");
  try {
    const answer = await fetch(sale, { method: "POST", headers: { "X-Account": account } });
    const body = await answer.json();
    if (mine !== asking) return;
    if (!answer.ok) {
      const wait = answer.headers.get("Retry-After");
      say("refused", body.title + "." + (wait ? " Try again in " + wait + " s." : ""));
    } else {
      say("pending", answer.status === 202 ? "Yours. Your order is being written." : "You have one already.", body.ticket);
      await outcome(account, mine, body.ticket);
    }
  } catch {
    if (mine === asking) say("refused", "No answer came. Click again: nobody gets two.");
  }
  refresh();
}

at("buy").addEventListener("submit", buy);
setInterval(() => document.hidden || refresh(), PACE_MS);
