// Topics, or the objects of a topic, as a list: keep, drop, another text, a note. The file they lie in is the truth.
import { Deck } from "./deck.js";
import { ask, chip, element, keyButton, named, t } from "./elements.js";

class Pools extends Deck {
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
    await this.submit({ epoch: this.response.epoch, rows: keys, decision: "keep", new_text: "", note: "", ...action }, keys[0]);
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
    try { answer = await ask(`${this.home}/queue`); } catch (error) { return this.showError(error); }
    if (answer.epoch !== this.response.epoch) return this.reload(this.order[this.at]);
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

function draw(card, deck) {
  const rows = deck.rows;
  const decided = rows.filter((row) => row.own).length;
  const head = rows.find((row) => row.kind === "topic");
  return [
    element("div", { class: "head" },
      element("h1", {}, element("bdi", {}, head?.own?.new_text || card.topic)),
      element("p", { class: "chips" }, chip(t("%(decided)s of %(total)s decided", { decided, total: rows.length })), head?.also && chip(t("also called: %(names)s", { names: head.also })))),
    element("p", { class: "row acts" },
      keyButton("a", "Keep the rest", "main", deck), keyButton("ArrowLeft", "‹ Topic", "", deck), keyButton("ArrowRight", "Topic ›", "", deck)),
    element("ul", { class: "pool" }, ...rows.map((row) => line(row, row === card, deck))),
  ];
}

function line(row, marked, deck) {
  const own = row.own || {};
  const mark = () => deck.go(deck.order.indexOf(row.key));
  const button = (key, name, pressed) => element("button", {
    type: "button", "aria-pressed": String(pressed), class: `to-${name.toLowerCase()}`, title: `${t(name)} (${key})`,
    on: { click: () => { mark(); deck.press(key); } },
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
  return (row, deck) => {
    deck.answer([row], { decision, note: row.own?.note || "" });
    deck.go(deck.at + 1);
  };
}

function edit(row, deck) {
  deck.write("Another text", "Enter saves. The row goes on with this text.", row.own?.new_text || row.text, false,
    (text) => deck.answer([row], { decision: "edit", new_text: text, note: row.own?.note || "" }));
}

function note(row, deck) {
  const own = row.own || { decision: "keep", new_text: "" };
  deck.write("Note", "It is kept with the decision; a row without one is kept.", own.note || "", true,
    (text) => deck.answer([row], { decision: own.decision, new_text: own.new_text, note: text }));
}

function rest(_row, deck) {
  const open = deck.rows.filter((row) => !row.own);
  if (open.length) deck.answer(open, {});
  deck.topic(1);
}

new Pools("pools", draw, [
  [["1"], "keep, then go on", decide("keep")],
  [["0", "x"], "drop, then go on; a dropped topic takes its objects along", decide("drop")],
  [["e"], "edit the text", edit],
  [["n"], "write a note", note],
  [["a"], "keep what is undecided of this topic, then go on to the next", rest],
  [["ArrowLeft"], "the topic before", (_row, deck) => deck.topic(-1)],
  [["ArrowRight"], "the next topic", (_row, deck) => deck.topic(1)],
]);
