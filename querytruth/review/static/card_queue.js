// A queue of cards: moving, filters, decisions one after the other, undo, progress and rate.
// A view with actions or images of its own gives their paths (home, images); doneLabel: the bar's word for what is done;
// always: keys that need no card; beside: what an empty queue shows below its notice.
import { withBoxes } from "./boxes.js";
import { ask, element, t, visible } from "./elements.js";

const AHEAD = 4;
const byId = (id) => document.getElementById(id);
export const settings = JSON.parse(byId("queue-data").textContent);

export class CardQueue {
  constructor(view, draw, keys, { home = "/api", images = "/image", doneLabel = "decided", always = {}, beside = [] } = {}) {
    Object.assign(this, { view, draw, keys, home, images, doneLabel, always, beside, order: [], done: [], at: 0, shown: 0, cards: new Map(), times: [], chain: Promise.resolve(), waiting: 0 });
    this.form = byId("filters");
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

  imagePath(side, id) { return `${this.images}/${side}/${encodeURIComponent(id)}`; }

  get card() { return this.cards.get(this.order[this.at]); }

  async load(wanted = null) {
    const filters = new URLSearchParams([...new FormData(this.form)].filter(([, value]) => value !== ""));
    if (this.loaded === String(filters)) return;  // a field that loses the focus reports its change again
    this.loaded = String(filters);
    try {
      const response = await ask(`/api/${this.view}/queue?${filters}`);
      if (this.loaded !== String(filters)) return;
      Object.assign(this, { response, order: response.keys, done: response.done, epoch: response.epoch, preloaded: response.cards || [] });
    } catch (error) { this.loaded = null; return this.showError(error); }
    history.replaceState(null, "", `?${filters}`);
    this.cards = new Map(this.preloaded.map((card) => [card.key, card]));
    const first = this.order.indexOf(wanted);
    const open = this.done.indexOf(0);
    this.go(first >= 0 ? first : Math.max(open, 0));
  }

  async go(to) {
    if (!this.order.length) return this.#empty();
    this.at = Math.min(Math.max(to, 0), this.order.length - 1);
    const at = this.at;
    if (!this.card) await this.#fetch(at, at);
    if (at !== this.at || !this.card) return;
    this.show();
    scrollTo(0, 0);
    this.#fetch(at - 1, at + AHEAD);
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

  #fetch(from, to) {
    return this.fetchCards(this.order.slice(Math.max(from, 0), to + 1).filter((key) => !this.cards.has(key)));
  }

  async fetchCards(keys) {
    if (!keys.length) return;
    try {
      const answer = await ask(`/api/${this.view}/cards?${new URLSearchParams(keys.map((key) => ["key", key]))}`);
      for (const card of answer.cards) {
        this.cards.set(card.key, card);
        for (const one of (card.images || []).slice(0, 24)) new Image().src = this.imagePath(card.images.length > 3 ? 320 : 1280, one.image_id);
        if (card.image) new Image().src = this.imagePath(1280, card.image.image_id);
      }
    } catch (error) { this.showError(error); }
  }

  // What was decided elsewhere meanwhile is seen when the tab is looked at again.
  async refresh() {
    if (!this.card || this.waiting || document.querySelector("dialog[open], main textarea:focus")) return;
    await this.#renew(() => true);
  }

  // Cards that are no longer true. The present one stays in hand until it is here anew: what is pressed meanwhile is for it.
  async #renew(isStale) {
    const present = this.order[this.at];
    const stale = [...this.cards.keys()].filter(isStale);
    if (!stale.length) return;
    for (const key of stale) if (key !== present) this.cards.delete(key);
    if (stale.includes(present)) {
      await this.fetchCards([present]);
      if (present === this.order[this.at] && !document.activeElement?.matches("main textarea")) this.show();
    }
    this.#fetch(this.at - 1, this.at + AHEAD);
  }

  // Acts are sent one after the other; the page goes on meanwhile, and says which of them are on disk.
  submit(action, key = this.order[this.at]) {
    return this.#send(async () => {
      const { card } = await ask(`${this.home}/decide`, { view: this.view, ...action });
      this.times.push(Date.now());
      this.#applyResult(key, card);
    }, key);
  }

  undo() {
    return this.#send(async () => {
      const { card } = await ask(`${this.home}/undo`, { view: this.view });
      const key = this.#applyResult(card.key, card);
      if (key !== this.order[this.at] && this.order.includes(key)) this.go(this.order.indexOf(key));
      byId("saved").textContent = t(card.undone === 1 ? "taken back: 1 decision" : "taken back: %(number)s decisions", { number: card.undone });
    });
  }

  #applyResult(key, card) {
    // A decision on a query concerns every card that shows it.
    const queries = card.queries?.map((text) => text.query_id) || [card.query_id];
    this.#renew((other) => other !== card.key && queries.some((id) => other.startsWith(id)));
    if (card.key !== key && this.view === "pairs") return key;
    const shown = this.cards.get(card.key);
    const listed = new Set(card.images?.map((one) => one.image_id));
    if (shown?.images && card.images) {
      const further = shown.images.filter((one) => !listed.has(one.image_id));
      card.images.push(...further.slice(0, card.image_total - card.images.length));
    }
    this.cards.set(card.key, card);
    const place = this.order.indexOf(card.key);
    if (place >= 0) this.done[place] = Number((card.image || card).own !== null);
    // A field that a person is writing in stays as it is.
    if (place === this.at && !document.activeElement?.matches("main textarea")) this.show(); else this.#progress();
    return card.key;
  }

  #send(act, key) {
    this.waiting += 1;
    byId("saved").textContent = t("saving…");
    this.chain = this.chain.then(act).then(
      () => { if (byId("saved").textContent === t("saving…") && this.waiting === 1) byId("saved").textContent = t("saved"); },
      (error) => {
        byId("saved").textContent = t("not saved");
        this.showError(error);
        if (key) { this.cards.delete(key); this.go(Math.max(this.order.indexOf(key), 0)); }
      },
    ).finally(() => { this.waiting -= 1; });
    return this.chain;
  }

  press(key) {
    if (this.#everywhere(key)) return true;
    if (!this.card || !this.keys[key]) return false;
    this.keys[key](this.card, this, key);
    return true;
  }

  #everywhere(key) {
    const acts = {
      j: () => this.go(this.at + 1), k: () => this.go(this.at - 1), u: () => this.undo(),
      "?": () => byId("help").showModal(), "/": () => this.form.elements.search?.focus(),
    };
    const act = acts[key] || this.always[key];
    act?.();
    return Boolean(act);
  }

  #pressed(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing || event.repeat && !"jk".includes(event.key)) return;
    if (document.querySelector("dialog[open]")) {
      if (["o", "?", " "].includes(event.key) && !event.target.matches("input, textarea, button")) { event.preventDefault(); document.querySelector("dialog[open]").close(); }
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

  large(id, name, boxes = []) {
    const image = element("img", { id: "large-image", src: this.imagePath(1280, id), alt: "" });
    byId("large-frame").replaceChildren(withBoxes(image, boxes));
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
    byId("rate").textContent = pace ? t("%(pace)s decisions a minute", { pace: pace.toFixed(0) }) : "";
  }
}
