// A filled-in CSV: looked at first, taken as a whole or not at all.
import { ask, element, t } from "./elements.js";

const [field, take, message] = ["csv", "take", "csv-message"].map((id) => document.getElementById(id));

// What a file may have, by the name that the server offers it under.
const OVERLOOKED = {
  allow_missing: "Rows may have been deleted",
  allow_doubled: "Rows may be there twice, if they agree",
  allow_unknown: "Rows may have been added; they are passed over",
  allow_changed: "Cells may differ that nobody was to change",
  allow_other_export: "It may be an older version's file",
};
const ENCODINGS = { "": "unknown", "utf-8": "UTF-8", gb18030: "GB 18030, GBK (中文)", big5: "Big5 (繁體)", "latin-1": "Latin 1" };

let file = null;
let options = {}; // what is overlooked of this file, and its encoding
let turn = 0; // a slower answer to an earlier question is not shown

async function send(dry) {
  if (!file) return;
  const mine = ++turn;
  take.hidden = true;
  if (!dry) message.replaceChildren(element("p", { class: "quiet" }, "Saving…"));
  try {
    const reading = await ask(`/api/csv?${new URLSearchParams({ file: file.name.slice(0, 200), dry_run: dry, ...options })}`, new Blob([await file.arrayBuffer()]));
    if (mine !== turn) return;
    const choices = renderOverlook([...reading.offers, ...Object.keys(options)]);
    message.replaceChildren(...(reading.problems.length ? refused(reading) : accepted(reading)), ...(reading.taken ? [] : choices));
    take.hidden = !(dry && reading.decisions.length && !reading.problems.length);
  } catch (error) {
    if (mine === turn) message.replaceChildren(element("p", { class: "bad" }, error.message));
  }
}

// Shown with the problems that they would overlook, and what was chosen as long as the file is not taken.
function renderOverlook(names) {
  if (!names.length) return [];
  const box = (name) => element("label", {}, element("input", { type: "checkbox", name, checked: Boolean(options[name]), on: { change: (event) => choose(name, event.target.checked) } }), OVERLOOKED[name]);
  const encodings = Object.entries(ENCODINGS).map(([value, text]) => element("option", { value, selected: value === (options.encoding || "") }, text));
  const encoding = element("label", {}, "Its encoding", element("select", { name: "encoding", on: { change: (event) => choose("encoding", event.target.value) } }, ...encodings));
  return [element("fieldset", { class: "overlook" }, element("legend", {}, "Overlook in this file"),
    ...Object.keys(OVERLOOKED).filter((name) => names.includes(name)).map(box), names.includes("encoding") && encoding)];
}

function choose(name, value) {
  if (value) options[name] = value; else delete options[name];
  send(true).then(() => document.querySelector(`.overlook [name=${name}]`)?.focus());
}

function refused(reading) {
  return [
    element("p", { class: "bad" }, t("Refused as a whole: %(number)s problems, no decision was stored.", { number: reading.problems.length })),
    element("ul", { class: "problems" }, ...reading.problems.slice(0, 200).map((one) => element("li", {}, one))),
  ];
}

function accepted(reading) {
  const rows = reading.decisions.slice(0, 500).map((one) => element("tr", {}, ...["decision", "text", "image_id", "new", "note"].map((name) => element("td", {}, element("bdi", {}, one[name])))));
  const state = reading.taken ? "Taken and on disk" : "This is what the file decides; nothing is taken yet";
  return [
    element("p", {}, `${t(state)}: ${reading.tally || t("no decisions")}.`),
    rows.length ? element("table", {}, element("thead", {}, element("tr", {}, ...["Decision", "Query", "Image", "New", "Note"].map((name) => element("th", {}, name)))), element("tbody", {}, ...rows)) : null,
  ].filter(Boolean);
}

field.addEventListener("change", () => {
  [file, options] = [field.files[0], {}];
  send(true).finally(() => { field.value = ""; });  // so that the same file can be chosen again when it was fixed
});
take.addEventListener("click", () => send(false));
