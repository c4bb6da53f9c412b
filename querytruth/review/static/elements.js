// Elements are made of texts, never of HTML: what a caption holds is shown, and nothing of it runs.

// A control, bidirectional or zero-width character is shown as its number, as builders/visible_text.py does.
const INVISIBLE = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]/g;

export function visible(text) {
  return text.replace(INVISIBLE, (one) => `⟨U+${one.charCodeAt(0).toString(16).toUpperCase().padStart(4, "0")}⟩`);
}

// The page's texts in its language, by the English ones; what a set holds stays as it is.
const TEXTS = JSON.parse(document.getElementById("texts")?.textContent || "{}");

export function t(text, values) {
  const [, before, core, after] = /^(\s*)([^]*?)(\s*)$/.exec(text);
  const found = before + (Object.hasOwn(TEXTS, core) ? TEXTS[core] : core) + after;
  return values ? found.replace(/%\((\w+)\)s/g, (_all, name) => values[name]) : found;
}

const SHOWN = ["title", "aria-label", "placeholder"];
const OF_THE_SET = ["bdi", "kbd"];

export function element(tag, fields = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(fields)) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "on") for (const [event, act] of Object.entries(value)) made.addEventListener(event, act);
    else made.setAttribute(name, value === true ? "" : SHOWN.includes(name) ? t(value) : value);
  }
  const present = children.filter((child) => child !== null && child !== undefined && child !== false);
  made.append(...present.map((child) => typeof child === "string" ? visible(OF_THE_SET.includes(tag) ? child : t(child)) : child));
  return made;
}

// An image, or in its place why there is none.
export function photo(address, name, fields = {}, gone = name) {
  const image = element("img", { src: address, alt: name, ...fields });
  image.addEventListener("error", () => image.replaceWith(element("span", { class: "absent" }, gone)));
  return image;
}

export const named = (text) => element("bdi", {}, text);

export function chip(text, kind = "") {
  return element("span", { class: `chip ${kind}` }, text instanceof Node ? text : String(text));
}

export const KEY_NAMES = { " ": "space", ArrowLeft: "←", ArrowRight: "→" };

// A button that does what its key does.
export function keyButton(key, label, kind, deck) {
  return element("button", { type: "button", class: kind, on: { click: () => deck.press(key) } }, label, " ", element("kbd", {}, KEY_NAMES[key] || key));
}

// Where the pages of a set lie: "" alone, /review/KEY within the page of a folder.
export const BASE = document.body.dataset.base || "";

export async function ask(address, body) {
  const options = body === undefined ? {} : {
    method: "POST",
    headers: { "content-type": body instanceof Blob ? "application/octet-stream" : "application/json" },
    body: body instanceof Blob ? body : JSON.stringify(body),
  };
  let answer;
  try {
    answer = await fetch(BASE + address, { ...options, credentials: "same-origin" });
  } catch {
    throw new Error("Not saved: the page's server does not answer. Start querytruth review again and open its address.");
  }
  if (answer.ok) return answer.json();
  const text = await answer.text();
  let why = text;
  try { why = JSON.parse(text).error || JSON.parse(text).detail || text; } catch { /* a plain line */ }
  throw new Error(why);
}
