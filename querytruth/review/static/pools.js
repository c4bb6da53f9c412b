// Topics, or the objects of a topic, as a list: keep, drop, another text, a note. The file they lie in is the truth.
import { ask, chip, element, named, t } from "./elements.js";
import { CardQueue } from "./card_queue.js";

class Pools extends CardQueue {
  // A row that is not at hand was taken off the page because the table is not what was shown.
  async go(to) {
    const key = this.order[Math.min(Math.max(to, 0), this.order.length - 1)];
    if (key && !this.cards.has(key)) return this.refresh(key);
    await super.go(to);
    document.querySelector(".marked")?.scrollIntoView({ block: "center" });
  }

  refresh(key = null) {
    if (this.waiting > 1 || document.querySelector("dialog[open]")) return null;
    return this.inTurn(() => this.reload(key ?? this.order[this.at]));
  }

  reload(key) {
    this.loaded = null;
    return this.load(key);
  }

  // What is read between two acts is never older than what the page shows already.
  inTurn(act) {
    this.chain = this.chain.then(act);
    return this.chain;
  }

  async answer(rows, action) {
    const keys = rows.map((row) => row.key);
    await this.submit({ epoch: this.epoch, rows: keys, decision: "keep", new_text: "", note: "", ...action }, keys[0]);
    this.drawAgain(rows.length > 1 || rows[0].kind === "topic");
  }

  async undo() {
    await super.undo();
    this.drawAgain(true);
  }

  // An action on many rows, or on a topic, shows on rows that the answer does not hold. The list stays as it is filtered.
  drawAgain(whole) {
    if (whole) this.inTurn(() => this.refreshRows()); else if (this.card) this.show();
  }

  async refreshRows() {
    let answer;
    try { answer = await ask("/api/pools/queue"); } catch (error) { return this.showError(error); }
    if (answer.epoch !== this.epoch) return this.reload(this.order[this.at]);
    for (const card of answer.cards) if (this.cards.has(card.key)) this.cards.set(card.key, card);
    this.done = this.order.map((key) => Number(Boolean(this.cards.get(key)?.own)));
    if (this.card) this.show();
  }

  get rows() { return this.order.map((key) => this.cards.get(key)).filter((row) => row?.topic === this.card.topic); }

  topic(step) {
    const here = this.card.topic;
    let at = this.at;
    while (this.cards.get(this.order[at])?.topic === here) at += step;
    if (!this.order[at]) return;
    const there = this.cards.get(this.order[at])?.topic;
    while (step < 0 && this.cards.get(this.order[at - 1])?.topic === there) at -= 1;
    this.go(at);
  }
}

function draw(card, queue) {
  const rows = queue.rows;
  const decided = rows.filter((row) => row.own).length;
  const head = rows.find((row) => row.kind === "topic");
  return [
    element("div", { class: "head" },
      element("h1", {}, element("bdi", {}, head?.own?.new_text || card.topic)),
      element("p", { class: "chips" }, chip(t("%(decided)s of %(total)s decided", { decided, total: rows.length })), head?.also && chip(t("also called: %(names)s", { names: head.also })))),
    element("p", { class: "row acts" },
      act("a", "Keep the rest", "main", queue), act("ArrowLeft", "‹ Topic", "", queue), act("ArrowRight", "Topic ›", "", queue)),
    element("ul", { class: "pool" }, ...rows.map((row) => line(row, row === card, queue))),
  ];
}

function act(key, name, kind, queue) {
  return element("button", { type: "button", class: kind, on: { click: () => queue.press(key) } }, name, key.length === 1 && element("kbd", {}, key));
}

function line(row, marked, queue) {
  const own = row.own || {};
  const mark = () => queue.go(queue.order.indexOf(row.key));
  const button = (key, name, pressed) => element("button", {
    type: "button", "aria-pressed": String(pressed), class: `to-${name.toLowerCase()}`, title: `${t(name)} (${key})`,
    on: { click: () => { mark(); queue.press(key); } },
  }, name);
  return element("li", { class: ["line", marked && "marked", own.decision, row.kind === "topic" && "of-topic", row.dropped_with_topic && "gone"].filter(Boolean).join(" ") },
    element("button", { type: "button", class: "text-of", on: { click: mark } }, element("bdi", { class: "says" }, own.new_text || row.text)),
    element("p", { class: "chips" },
      row.kind === "topic" && chip("topic"), chip(row.origin === "model" ? t("model, round %(round)s", { round: row.round }) : row.origin),
      row.flag && chip(row.nearest ? `${t(row.flag)}: ${row.nearest} (${Number(row.score).toFixed(2)})` : row.flag, "warm"),
      own.new_text && chip(named(`${t("was:")} ${row.text}`), "good"), row.dropped_with_topic && chip("goes with its topic", "warm")),
    element("div", { class: "choose", role: "group", "aria-label": row.text },
      button("1", "Keep", own.decision === "keep"), button("0", "Drop", own.decision === "drop"),
      button("e", "Edit", own.decision === "edit"), button("n", "Note", Boolean(own.note))),
    own.note && element("p", { class: "note" }, element("bdi", {}, own.note)));
}

function decide(decision) {
  return (row, queue) => {
    queue.answer([row], { decision, note: row.own?.note || "" });
    queue.go(queue.at + 1);
  };
}

function edit(row, queue) {
  queue.write("Another text", "Enter saves. The row goes on with this text.", row.own?.new_text || row.text, false,
    (text) => queue.answer([row], { decision: "edit", new_text: text, note: row.own?.note || "" }));
}

function note(row, queue) {
  const own = row.own || { decision: "keep", new_text: "" };
  queue.write("Note", "It is kept with the decision; a row without one is kept.", own.note || "", true,
    (text) => queue.answer([row], { decision: own.decision, new_text: own.new_text, note: text }));
}

function rest(_row, queue) {
  const open = queue.rows.filter((row) => !row.own);
  if (open.length) queue.answer(open, {});
  queue.topic(1);
}

const keys = { 1: decide("keep"), 0: decide("drop"), x: decide("drop"), e: edit, n: note, a: rest,
  ArrowLeft: (_row, queue) => queue.topic(-1), ArrowRight: (_row, queue) => queue.topic(1) };
new Pools("pools", draw, keys);
