// A filled-in CSV: looked at first, taken as a whole or not at all.
import { ask, element } from "./elements.js";

const [field, take, says] = ["csv", "take", "csv-says"].map((id) => document.getElementById(id));

let file = null;

async function send(dry) {
  if (!file) return;
  take.hidden = true;
  says.replaceChildren(element("p", { class: "quiet" }, dry ? "Reading…" : "Saving…"));
  try {
    const found = await ask(`/api/csv?${new URLSearchParams({ file: file.name, dry_run: dry })}`, new Blob([await file.arrayBuffer()]));
    says.replaceChildren(...(found.problems.length ? refused(found) : accepted(found)));
    take.hidden = !(dry && found.decisions.length && !found.problems.length);
  } catch (error) {
    says.replaceChildren(element("p", { class: "bad" }, error.message));
  }
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
  file = field.files[0];
  send(true).finally(() => { field.value = ""; });  // so that the same file can be chosen again when it was mended
});
take.addEventListener("click", () => send(false));
