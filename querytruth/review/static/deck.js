// The deck of cards behind all views: moving, filters, verdicts one after the other, undo, progress and rate.
// A view gives what is on a card (draw) and its verdicts, rows of [keys, what they do, act, whether without a card, too].
// images: the path of its images; doneLabel: the bar's word for what is done; around: the keys of the cards that are
// seen with the present one; concerns: whether a verdict on a card changes another; beside: what an empty deck shows.
import { withBoxes } from "./boxes.js";
import { BASE, KEY_NAMES, ask, element, t, visible } from "./elements.js";

const AHEAD = 4;
const AT_ONCE = 40; // cards of one request
const byId = (id) => document.getElementById(id);
export const settings = JSON.parse(byId("queue-data").textContent);

// The cards that show one of the queries that a card has.
const ofSameQuery = (card, key) => (card.queries?.map((text) => text.query_id) || [card.query_id]).some((id) => key.startsWith(id));

export class Deck {
  constructor(view, draw, verdicts, { images = "/image", doneLabel = "decided", around = (deck) => [deck.order[deck.at]], concerns = ofSameQuery, beside = [] } = {}) {
    Object.assign(this, { view, draw, images, doneLabel, around, concerns, beside, home: `/api/${view}`, order: [], done: [], at: 0, shown: 0, cards: new Map(), times: [], chain: Promise.resolve(), waiting: 0 });
    this.form = byId("filters");
    this.verdicts = [
      [["j"], "next", () => this.go(this.at + 1), true], [["k"], "back", () => this.go(this.at - 1), true], ...verdicts,
      [["u"], "undo the last decision", () => this.undo(), true],
      ...(this.form.elements.search ? [[["/"], "search", () => this.form.elements.search.focus(), true]] : []),
      [["?"], "this list; Esc closes it", () => byId("help").showModal(), true],
    ];
    byId("keys").replaceChildren(...this.verdicts.filter(([, what]) => what).map(([keys, what]) => element("div", {}, element("dt", {}, ...keys.map((key) => element("kbd", {}, KEY_NAMES[key] || key))), element("dd", {}, what))));
    const given = new URLSearchParams(location.search);
    for (const field of this.form.elements) {
      if (given.has(field.name)) field.value = given.get(field.name);
      const choice = field.selectedOptions && [...field.options].find((option) => !option.disabled);
      if (choice && (field.selectedOptions[0]?.disabled ?? true)) field.value = choice.value;
    }
    this.form.addEventListener("submit", (event) => event.preventDefault());
    this.form.addEventListener("change", () => this.load());
    this.form.elements.search?.addEventListener("input", () => { clearTimeout(this.typing); this.typing = setTimeout(() => this.load(), 250); });
    this.form.elements.search?.addEventListener("keydown", (event) => { if (event.key === "Enter") event.target.blur(); });
    document.addEventListener("keydown", (event) => this.#pressed(event));
    document.addEventListener("visibilitychange", () => document.hidden || this.refresh());
    for (const button of document.querySelectorAll("[data-key]")) button.addEventListener("click", () => this.press(button.dataset.key));
    for (const id of ["large", "help"]) byId(id).addEventListener("click", () => byId(id).close());
    this.load(decodeURIComponent(location.hash.slice(1)));
  }

  // Of an image by its id, or by the path that has it.
  imagePath(side, image) {
    const { path, id } = image.path ? image : { path: this.images, id: image };
    return `${BASE}${path}/${side}/${encodeURIComponent(id)}`;
  }

  get card() { return this.cards.get(this.order[this.at]); }

  async load(wanted = null) {
    const filters = new URLSearchParams([...new FormData(this.form)].filter(([, value]) => value !== ""));
    if (this.loaded === String(filters)) return;  // a field that loses the focus reports its change again
    this.loaded = String(filters);
    try {
      const response = await ask(`${this.home}/queue?${filters}`);
      if (this.loaded !== String(filters)) return;
      Object.assign(this, { response, order: response.keys, done: response.done });
    } catch (error) { this.loaded = null; return this.showError(error); }
    history.replaceState(null, "", `?${filters}`);
    this.cards = new Map((this.response.cards || []).map((card) => [card.key, card]));
    const first = this.order.indexOf(wanted);
    const open = this.done.indexOf(0);
    this.go(first >= 0 ? first : Math.max(open, 0));
  }

  async go(to) {
    if (!this.order.length) return this.#empty();
    const at = this.at = Math.min(Math.max(to, 0), this.order.length - 1);
    if (this.around(this).some((key) => !this.cards.has(key))) await this.fetchCards(this.around(this));
    if (at !== this.at || !this.card) return;
    this.show();
    scrollTo(0, 0);
    this.#fetchAhead();
  }

  // A card that no filter asked for, beside the present one.
  insert(key) {
    let place = this.order.indexOf(key);
    if (place < 0) {
      place = this.order.length ? this.at + 1 : 0;
      this.order.splice(place, 0, key);
      this.done.splice(place, 0, 0);
    }
    return this.go(place);
  }

  show() {
    this.shown = this.at;
    byId("card").replaceChildren(...this.draw(this.card, this).filter(Boolean));
    history.replaceState(null, "", `${location.search}#${encodeURIComponent(this.order[this.at])}`);
    this.#progress();
  }

  #fetchAhead() { return this.fetchCards(this.order.slice(Math.max(this.at - 1, 0), this.at + AHEAD + 1)); }

  fetchCards(keys) { return this.#ask(keys.filter((key) => !this.cards.has(key))); }

  async #ask(keys) {
    try {
      for (let start = 0; start < keys.length; start += AT_ONCE) {
        const { cards } = await ask(`${this.home}/cards?${new URLSearchParams(keys.slice(start, start + AT_ONCE).map((key) => ["key", key]))}`);
        for (const card of cards) {
          this.#take(card);
          for (const one of (card.images || []).slice(0, 24)) new Image().src = this.imagePath(card.images.length > 3 ? 320 : 1280, one.image_id);
          if (card.image) new Image().src = this.imagePath(1280, card.image.image_id);
        }
      }
    } catch (error) { this.showError(error); }
  }

  #take(card) {
    this.cards.set(card.key, card);
    const place = this.order.indexOf(card.key);
    if (place >= 0) this.done[place] = Number(card.done);
    return place;
  }

  // What was decided elsewhere meanwhile is seen when the tab is looked at again.
  async refresh() {
    if (!this.card || this.waiting || document.querySelector("dialog[open], main textarea:focus")) return;
    await this.renew(() => true);
  }

  // Cards that are no longer true. Those seen stay in hand until they are here anew: what is pressed meanwhile is for them.
  async renew(isStale) {
    const stale = [...this.cards.keys()].filter(isStale);
    if (!stale.length) return;
    const present = this.order[this.at];
    const seen = this.around(this).filter((key) => stale.includes(key));
    for (const key of stale) if (!seen.includes(key)) this.cards.delete(key);
    if (seen.length) {
      await this.#ask(seen);
      if (present === this.order[this.at]) this.#showUnlessWritten();
    }
    this.#fetchAhead();
  }

  // A field that a person is writing in stays as it is.
  #showUnlessWritten() { if (document.activeElement?.matches("main textarea")) this.#progress(); else this.show(); }

  // Acts are sent one after the other; the page goes on meanwhile, and says which of them are on disk.
  submit(action, key = this.order[this.at]) {
    return this.#send(async () => {
      const { card } = await ask(`${this.home}/decide`, { view: this.view, ...action });
      this.times.push(Date.now());
      await this.#applyResult(key, card);
    }, key);
  }

  undo() {
    return this.#send(async () => {
      const { card } = await ask(`${this.home}/undo`, {});
      const key = await this.#applyResult(card.key, card);
      if (key !== this.order[this.at] && this.order.includes(key)) this.go(this.order.indexOf(key));
      byId("saved").textContent = t(card.undone === 1 ? "taken back: 1 decision" : "taken back: %(number)s decisions", { number: card.undone });
      return card;
    });
  }

  #applyResult(key, card) {
    this.renew((other) => other !== card.key && this.concerns(card, other, this));
    if (card.key !== key && this.view === "pairs") return key;
    const shown = this.cards.get(card.key);
    const listed = new Set(card.images?.map((one) => one.image_id));
    if (shown?.images && card.images) {
      const further = shown.images.filter((one) => !listed.has(one.image_id));
      card.images.push(...further.slice(0, card.image_total - card.images.length));
    }
    if (this.#take(card) === this.at) this.#showUnlessWritten(); else this.#progress();
    return card.key;
  }

  #send(act, key) {
    this.waiting += 1;
    byId("saved").textContent = t("saving…");
    this.chain = this.chain.then(act).then(
      (result) => { if (byId("saved").textContent === t("saving…") && this.waiting === 1) byId("saved").textContent = t("saved"); return result; },
      (error) => {
        byId("saved").textContent = t("not saved");
        this.showError(error);
        if (key) { this.cards.delete(key); this.go(Math.max(this.order.indexOf(key), 0)); }
      },
    ).finally(() => { this.waiting -= 1; });
    return this.chain;
  }

  press(key) {
    const [, , act, isFree] = this.verdicts.find(([keys]) => keys.includes(key)) || [];
    if (!act || !isFree && (!this.card || this.shown !== this.at)) return false;
    act(this.card, this, key);
    return true;
  }

  #pressed(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing || event.repeat && !"jk".includes(event.key)) return;
    const open = document.querySelector("dialog[open]");
    if (open) {
      if (["help", "large"].includes(open.id) && ["o", "?", " "].includes(event.key)) { event.preventDefault(); open.close(); }
      return;
    }
    // A dialog that has just closed may keep its field focused until the next frame.
    if (event.target.matches("input, select, textarea") && event.target.checkVisibility()) { if (event.key === "Escape") event.target.blur(); return; }
    if (event.target.matches("button, a") && (event.key === " " || event.key === "Enter")) return;
    if (this.press(event.key)) event.preventDefault();
  }

  // Asks for a text; Enter saves, Shift and Enter begin a new line where `lines` are allowed.
  // `choice`: what a box beside the text says; `save` gets whether it is ticked.
  write(title, message, text, lines, save, choice = null) {
    const [dialog, field] = [byId("writing"), byId("writing-text")];
    byId("writing-title").textContent = t(title);
    byId("writing-message").textContent = t(message);
    field.value = text;
    byId("writing-choice").checked = false;
    byId("writing-choice").parentElement.hidden = !choice;
    byId("writing-choice-text").textContent = choice && t(choice);
    const done = () => { dialog.close(); save(field.value, Boolean(choice) && byId("writing-choice").checked); };
    byId("writing-save").onclick = done;
    byId("writing-cancel").onclick = () => dialog.close();
    field.onkeydown = (event) => {
      if (event.key !== "Enter" || event.isComposing || event.shiftKey && lines) return;
      event.preventDefault();
      done();
    };
    dialog.showModal();
    field.focus();
    field.select();
  }

  large(image, name, boxes = []) {
    byId("large-frame").replaceChildren(withBoxes(element("img", { id: "large-image", src: this.imagePath(1280, image), alt: "" }), boxes));
    byId("large-name").textContent = visible(name);
    byId("large").showModal();
  }

  showError(error) {
    const notice = byId("notice");
    notice.textContent = t(error.message);
    notice.hidden = false;
    clearTimeout(this.fading);
    this.fading = setTimeout(() => { notice.hidden = true; }, 9000);
  }

  #empty() {
    byId("card").replaceChildren(element("p", { class: "quiet empty" }, "Nothing here: choose other filters, or another view."), ...this.beside);
    this.#progress();
  }

  #progress() {
    const [total, done] = [this.order.length, this.done.reduce((sum, one) => sum + one, 0)];
    byId("progress-bar").style.width = `${total ? 100 * done / total : 0}%`;
    byId("progress").setAttribute("aria-valuemax", total);
    byId("progress").setAttribute("aria-valuenow", done);
    // The card that is seen: the next one may still be on its way.
    byId("place").textContent = total ? t("%(place)s of %(total)s · %(done)s %(what)s", { place: (this.shown + 1).toLocaleString("en"), total: total.toLocaleString("en"), done: done.toLocaleString("en"), what: t(this.doneLabel) }) : "";
    this.times = this.times.filter((time) => Date.now() - time < 300_000);
    const minutes = this.times.length > 4 ? (Date.now() - this.times[0]) / 60_000 : 0;
    const pace = minutes ? this.times.length / minutes : 0;
    byId("rate").textContent = pace ? t("%(pace)s decisions a minute, about %(left)s minutes left", { pace: pace.toFixed(0), left: Math.ceil((total - done) / pace).toLocaleString("en") }) : "";
  }
}
