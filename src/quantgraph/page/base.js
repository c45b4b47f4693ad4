"use strict";
// What every page has: its JSON, its colours, its charts. Texts reach the page as text only: textContent, or
// escaped for plotly.
const data = JSON.parse(document.getElementById("data").textContent);
const words = data.words;
const byId = (id) => document.getElementById(id);
const root = document.documentElement;
const drawn = new Map();

const make = (tag, text, attributes = {}) => {
  const element = document.createElement(tag);
  if (text !== undefined && text !== null) element.textContent = text;
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  return element;
};
const escaped = (text) => String(text).replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");
const colour = (name) => getComputedStyle(root).getPropertyValue("--" + name).trim();
const signed = (value) => (value === null || value === undefined ? "–" : (value < 0 ? "−" : "+") + Math.abs(value * 100).toFixed(2) + "%");
const percent = (value, digits = 1) => (value === null || value === undefined ? "–" : (value < 0 ? "−" : "") + Math.abs(value * 100).toFixed(digits) + "%");
const money = (value) => (value === null || value === undefined ? "–"
  : value.toLocaleString("en-US", { minimumFractionDigits: 2, maximumFractionDigits: 2 }));
const plain = (value) => (value === null || value === undefined ? "–" : value.toLocaleString("en-US", { maximumFractionDigits: 6 }));

// ---- colours -----------------------------------------------------------------------------------------
const prefers = window.matchMedia("(prefers-color-scheme: dark)");
const dark = (on) => { root.classList.toggle("dark", on); redraw(); };
const redUp = (on) => {
  root.classList.toggle("red-up", on);
  byId("switch-colours").textContent = on ? words.green_up : words.red_up;
  heat();
  redraw();
};
byId("switch-theme").addEventListener("click", () => dark(!root.classList.contains("dark")));
byId("switch-colours").addEventListener("click", () => redUp(!root.classList.contains("red-up")));
prefers.addEventListener("change", (event) => dark(event.matches));
root.classList.toggle("dark", prefers.matches);
root.classList.toggle("red-up", data.red_rises);

function heat() {
  const cells = [...document.querySelectorAll("td.heat")];
  const most = Math.max(0.02, ...cells.map((cell) => Math.abs(Number(cell.dataset.value) || 0)));
  for (const cell of cells) {
    const value = Number(cell.dataset.value);
    if (cell.dataset.value === "" || !value) continue;
    const strength = Math.round(12 + 48 * Math.min(1, Math.abs(value) / most));
    cell.style.background = `color-mix(in srgb, var(--${value > 0 ? "gain" : "loss"}) ${strength}%, transparent)`;
  }
}

// ---- charts ------------------------------------------------------------------------------------------
const layout = (more) => {
  const axis = { gridcolor: colour("line"), zerolinecolor: colour("line"), linecolor: colour("line"), automargin: true };
  const base = {
    paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", font: { color: colour("ink"), size: 12, family: getComputedStyle(document.body).fontFamily },
    margin: { l: 52, r: 12, t: 30, b: 28 }, legend: { orientation: "h", x: 0, y: 1, yanchor: "bottom" }, hovermode: "x unified",
    hoverlabel: { bgcolor: colour("soft"), font: { color: colour("ink") } }, dragmode: innerWidth < 640 ? false : "zoom",
  };
  const axes = {};
  for (const name of ["xaxis", "yaxis", "yaxis2", "yaxis3"]) axes[name] = { ...axis, ...(more[name] || {}) };
  axes.xaxis.tickformatstops ||= dates;
  if (!more.xaxis?.tickformat) axes.xaxis.hoverformat = "%Y-%m-%d";
  if (!more.yaxis2) delete axes.yaxis2;
  if (!more.yaxis3) delete axes.yaxis3;
  return { ...base, ...more, ...axes };
};
const DAY = 86400000;
const dates = [
  { dtickrange: [null, 28 * DAY], value: "%m-%d" },
  { dtickrange: [28 * DAY, "M12"], value: "%Y-%m" },
  { dtickrange: ["M12", null], value: "%Y" },
];
// The title of a panel of a stacked chart, at the top left of its part of the height.
const panel = (text, y) => ({ text: escaped(text), xref: "paper", yref: "paper", x: 0, y, xanchor: "left", yanchor: "bottom", showarrow: false, font: { color: colour("quiet") } });
const options = { responsive: true, displayModeBar: false, showSendToCloud: false, plotlyServerURL: "" };
function draw(id, build) {
  const figure = byId(id);
  if (!figure) return;
  if (!window.Plotly) { byId("no-script").hidden = false; return; }
  drawn.set(id, build);
  const [traces, more] = build();
  const days = traces[0]?.x;
  if (days?.length < 15 && /^\d{4}-\d\d-\d\d$/.test(days[0])) more.xaxis = { dtick: DAY, ...more.xaxis };
  window.Plotly.react(figure, traces, layout(more), options);
}
function redraw() { for (const [id, build] of drawn) draw(id, build); }
const waiting = new Map();
const seen = new IntersectionObserver((entries) => {
  for (const entry of entries) {
    if (!entry.isIntersecting || !waiting.has(entry.target.id)) continue;
    const build = waiting.get(entry.target.id);
    waiting.delete(entry.target.id);
    seen.unobserve(entry.target);
    draw(entry.target.id, build);
  }
}, { rootMargin: "300px" });
function later(id, build) {
  const figure = byId(id);
  if (!figure) return;
  waiting.set(id, build);
  seen.observe(figure);
}
function drawAll() { for (const [id, build] of [...waiting]) { waiting.delete(id); draw(id, build); } }
window.addEventListener("beforeprint", drawAll);

// A click on a heading sorts the rows of a table.
function sortable() {
  document.querySelectorAll("table.sortable").forEach((table) => {
    const sort = (event) => {
      if (event.type === "keydown" && event.key !== "Enter") return;
      const title = event.target.closest("th");
      if (!title || !table.tHead.contains(title)) return;
      const column = title.cellIndex;
      const way = title.dataset.way === "down" ? 1 : -1;
      table.querySelectorAll("thead th").forEach((each) => { delete each.dataset.way; });
      title.dataset.way = way < 0 ? "down" : "up";
      const key = (row) => { const cell = row.cells[column]; return cell.dataset.value === undefined ? cell.textContent : cell.dataset.value === "" ? -Infinity : Number(cell.dataset.value); };
      table.tBodies[0].append(...[...table.tBodies[0].rows].sort((a, b) => (key(a) < key(b) ? -way : key(a) > key(b) ? way : 0)));
    };
    table.addEventListener("click", sort);
    table.addEventListener("keydown", sort);
  });
}

heat();
byId("switch-colours").textContent = root.classList.contains("red-up") ? words.green_up : words.red_up;
