// The boxes of a query's labels, drawn over an image. Key b hides and shows them; the browser remembers it.
import { visible } from "./elements.js";

const REMEMBERED = "querytruth-boxes";
const SVG = "http://www.w3.org/2000/svg";

function remember(value) {
  try { localStorage.setItem(REMEMBERED, value); } catch { /* a private window: they are shown again next time */ }
}

function areHidden() {
  try { return localStorage.getItem(REMEMBERED) === "hidden"; } catch { return false; }
}

document.body.classList.toggle("without-boxes", areHidden());

export function toggleBoxes() {
  remember(document.body.classList.toggle("without-boxes") ? "hidden" : "shown");
}

function shape(tag, fields, text = "") {
  const made = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(fields)) made.setAttribute(name, value);
  made.textContent = visible(text);
  return made;
}

// Lies over an image that its frame shows whole: the drawing has the image's own size, once it is loaded.
function drawBoxes(image, boxes) {
  const [width, height] = [image.naturalWidth, image.naturalHeight];
  const unit = Math.max(width, height) / 100;
  const drawing = shape("svg", { class: "boxes", viewBox: `0 0 ${width} ${height}`, role: "img" });
  drawing.setAttribute("aria-label", visible(boxes.map(nameOf).join(", ")));
  const named = new Set(); // an annotated label is named once: its names would cover the image
  for (const box of boxes) {
    const [left, top, right, bottom] = box.sides.map((side, n) => side * (n % 2 ? height : width));
    const kind = `box place-${box.place % 3} ${box.score === null ? "" : "detected"}`;
    drawing.append(shape("rect", { class: kind, x: left, y: top, width: right - left, height: bottom - top }));
    if (box.score === null && named.has(box.label)) continue;
    named.add(box.label);
    drawing.append(shape("text", { class: kind, x: left + unit / 2, y: Math.max(top - unit, 5 * unit), "font-size": 4.5 * unit, "stroke-width": unit }, nameOf(box)));
  }
  return drawing;
}

const nameOf = (box) => box.score === null ? box.label : `${box.label} ${box.score.toFixed(2)}`;

// The image in a frame, with its boxes over it.
export function withBoxes(image, boxes = []) {
  const frame = document.createElement("span");
  frame.className = "boxed";
  frame.append(image);
  const draw = () => image.naturalWidth && boxes.length && frame.append(drawBoxes(image, boxes));
  if (image.complete) draw(); else image.addEventListener("load", draw, { once: true });
  return frame;
}
