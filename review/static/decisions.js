// A filled-in CSV: looked at first, taken as a whole or not at all.
import { ask, element } from "./elements.js";

const [field, take, says] = ["csv", "take", "csv-says"].map((id) => document.getElementById(id));

// What a file may have, by the name that the server offers it under.
const OVERLOOKED = {
  allow_missing: "Rows may have been deleted",
  allow_doubled: "Rows may be there twice, if they agree",
  allow_unknown: "Rows may have been added; they are passed over",
  allow_changed: "Cells may differ that nobody was to change",
  allow_other_export: "It may be an older version's file",
};
const ENCODINGS = { "": "not known", "utf-8": "UTF-8", gb18030: "GB 18030, GBK (中文)", big5: "Big5 (繁體)", "latin-1": "Latin 1" };

let file = null;
let how = {}; // what is overlooked of this file, and its encoding
let turn = 0; // a slower answer to an earlier question is not shown

async function send(dry) {
  if (!file) return;
  const mine = ++turn;
  take.hidden = true;
  if (!dry) says.replaceChildren(element("p", { class: "quiet" }, "Saving…"));
  try {
    const found = await ask(`/api/csv?${new URLSearchParams({ file: file.name.slice(0, 200), dry_run: dry, ...how })}`, new Blob([await file.arrayBuffer()]));
    if (mine !== turn) return;
    const choices = overlook([...found.offers, ...Object.keys(how)]);
    says.replaceChildren(...(found.problems.length ? refused(found) : accepted(found)), ...(found.taken ? [] : choices));
    take.hidden = !(dry && found.decisions.length && !found.problems.length);
  } catch (error) {
    if (mine === turn) says.replaceChildren(element("p", { class: "bad" }, error.message));
  }
}

// Shown with the problems that they would overlook, and what was chosen as long as the file is not taken.
function overlook(names) {
  if (!names.length) return [];
  const box = (name) => element("label", {}, element("input", { type: "checkbox", name, checked: Boolean(how[name]), on: { change: (event) => choose(name, event.target.checked) } }), OVERLOOKED[name]);
  const options = Object.entries(ENCODINGS).map(([value, text]) => element("option", { value, selected: value === (how.encoding || "") }, text));
  const encoding = element("label", {}, "Its encoding", element("select", { name: "encoding", on: { change: (event) => choose("encoding", event.target.value) } }, ...options));
  return [element("fieldset", { class: "overlook" }, element("legend", {}, "Overlook in this file"),
    ...Object.keys(OVERLOOKED).filter((name) => names.includes(name)).map(box), names.includes("encoding") && encoding)];
}

function choose(name, value) {
  if (value) how[name] = value; else delete how[name];
  send(true).then(() => document.querySelector(`.overlook [name=${name}]`)?.focus());
}

function refused(found) {
  return [
    element("p", { class: "bad" }, `Refused as a whole: ${found.problems.length} ${found.problems.length === 1 ? "problem" : "problems"}, no decision was taken.`),
    element("ul", { class: "problems" }, ...found.problems.slice(0, 200).map((one) => element("li", {}, one))),
  ];
}

function accepted(found) {
  const rows = found.decisions.slice(0, 500).map((one) => element("tr", {}, ...["decision", "text", "image_id", "new", "note"].map((name) => element("td", {}, element("bdi", {}, one[name])))));
  const state = found.taken ? "Taken and on disk" : "This is what the file decides; nothing is taken yet";
  return [
    element("p", {}, `${state}: ${found.tally || "no decisions"}.`),
    rows.length ? element("table", {}, element("thead", {}, element("tr", {}, ...["Decision", "Query", "Picture", "New", "Note"].map((name) => element("th", {}, name)))), element("tbody", {}, ...rows)) : null,
  ].filter(Boolean);
}

field.addEventListener("change", () => {
  [file, how] = [field.files[0], {}];
  send(true).finally(() => { field.value = ""; });  // so that the same file can be chosen again when it was mended
});
take.addEventListener("click", () => send(false));
