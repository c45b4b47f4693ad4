"use strict";
// What a decider was told, called and answered, as people read it: JSON becomes tables and pairs.
const ROWS = 6, LONG = 1500, DEPTH = 6, ALL = "*";
const labelled = (name) => words["field_" + name] || data.names[name] && `${name} ${data.names[name]}` || name.replaceAll("_", " ");
const scalar = (value) => (value === null || value === "" ? "–" : typeof value === "number" ? plain(value) : typeof value === "boolean" ? (value ? "✓" : "✗")
  : words["told_" + value] || (data.names[value] ? `${value} ${data.names[value]}` : String(value)));
const isObject = (value) => typeof value === "object" && value !== null;
const alike = (rows) => { const keys = new Set(rows.flatMap((row) => Object.keys(row))).size; return rows.every((row) => 2 * Object.keys(row).length >= keys); };
const isEmpty = (value) => value === null || value === "" || (isObject(value) && !Object.keys(value).length);

function rowTable(names, rows) {
  const table = make("table"), head = make("tr"), body = make("tbody");
  for (const name of names) head.append(make("th", name, { scope: "col" }));
  table.append(make("thead"), body);
  table.tHead.append(head);
  for (const row of rows) {
    const line = make("tr");
    for (const cell of row) { const box = make("td"); box.append(cell instanceof Node ? cell : String(cell)); line.append(box); }
    body.append(line);
  }
  const wide = make("div", null, { class: "wide" });
  wide.append(table);
  return wide;
}

// Rows of equal form: a list of objects, or objects by symbol. Long ones show their end, the others folded.
function rowsShown(rows, depth, first) {
  const keys = [...new Set(rows.flatMap(([, row]) => Object.keys(row)))].filter((key, _, all) => rows.some(([, row]) => !isEmpty(row[key] ?? null)) && !(key === "time" && all.includes("date")));
  const heads = [...(first ? [words.symbol] : []), ...keys.map(labelled)];
  const table = (part) => rowTable(heads, part.map(([name, row]) => [...(first ? [labelled(name)] : []), ...keys.map((key) => shownValue(row[key] ?? null, depth + 1))]));
  if (rows.length <= ROWS + 2) return table(rows);
  const all = make("details"), part = make("div");
  all.append(make("summary", `${words.all_rows}: ${rows.length}`));
  all.addEventListener("toggle", () => { if (all.open && all.children.length === 1) all.append(table(rows)); });
  part.append(make("span", "…"), table(rows.slice(-ROWS)), all);
  return part;
}

function shownValue(value, depth = 0) {
  if (!isObject(value)) return make("span", scalar(value));
  if (depth > DEPTH) return make("span", JSON.stringify(value));
  if (Array.isArray(value.columns) && Array.isArray(value.rows)) return rowsShown(value.rows.filter(Array.isArray).map((row, at) => [at, Object.fromEntries(value.columns.map((name, place) => [name, row[place] ?? null]))]), depth, false);
  const full = Object.entries(value).filter(([, each]) => !isEmpty(each)), entries = full.length ? full : Object.entries(value);
  if (!entries.length) return make("span", "–");
  if (Array.isArray(value)) {
    if (value.every((each) => isObject(each) && !Array.isArray(each))) return rowsShown(entries, depth, false);
    if (!value.some(isObject)) return make("span", value.map(scalar).join(", "));
  } else if (entries.length > 1 && entries.every(([, each]) => isObject(each) && !Array.isArray(each) && !Object.values(each).flat().some(isObject)) && alike(Object.values(value))) return rowsShown(entries, depth, true);
  const pairs = make("dl", null, { class: "fields" });
  for (const [name, each] of entries) {
    const box = make("dd");
    box.append(shownValue(each, depth + 1));
    pairs.append(make("dt", Array.isArray(value) ? Number(name) + 1 : labelled(name)), box);
  }
  return pairs;
}

function parsed(text) {
  if (!/^\s*[[{]/.test(text)) return undefined;
  try { return JSON.parse(text); } catch { return undefined; }
}

// A text as paragraphs; what is JSON in it, in fences, in tags or in a line, as values.
function shownText(text) {
  const place = make("div"), parts = /```(?:json)?\s*\n([\s\S]*?)```|<([a-z_]+)>([\s\S]*?)<\/\2>/g;
  const add = (part, tag) => {
    if (tag) place.append(make("p", labelled(tag), { class: "who" }));
    const whole = parsed(part);
    if (whole !== undefined) return place.append(shownValue(whole));
    let said = [];
    const say = () => { const words = said.join("\n").trim(); said = []; if (words) place.append(make("p", words)); };
    for (const line of part.split("\n")) {
      const value = parsed(line);
      if (value === undefined) said.push(line);
      else { say(); place.append(shownValue(value)); }
    }
    return say();
  };
  let end = 0;
  for (const found of text.matchAll(parts)) {
    add(text.slice(end, found.index));
    add(found[1] ?? found[3], found[2]);
    end = found.index + found[0].length;
  }
  add(text.slice(end));
  return place;
}

function bubble(kind, who, content, folded) {
  const box = make(folded ? "details" : "div", null, { class: "talk " + kind });
  box.append(make(folded ? "summary" : "p", who, { class: "who" }), content);
  return box;
}

function callTalk(call, before) {
  const place = document.createDocumentFragment();
  if (call.kind === "model") {
    for (const [who, text] of call.asked) {
      if (who === "ai" && before) continue;  // the reply that stands above
      place.append(bubble("asked", words["who_" + who] || who, shownText(text), who === "system" || text.length > LONG));
    }
  } else for (const [, text] of call.asked) place.append(bubble("asked", words["kind_" + call.kind] || call.kind, shownText(text)));
  const tokens = call.tokens ? ` · ${plain(call.tokens)} ${words.tokens}` : "";
  const who = [words["role_" + call.role] || call.role || words["kind_" + call.kind] || call.kind, words["model_" + call.model] || call.model].filter(Boolean).join(" · ") + tokens + (call.failed ? " · ✕" : "");
  if (call.reply || !call.tools.length) place.append(bubble("reply", who, shownText(call.reply || "–")));
  for (const [name, text] of call.tools) place.append(bubble("tool", `${call.reply ? "" : who + " · "}${words.call_tool} ${name}`, shownText(text)));
  return place;
}

// One conversation a path: an agent that decides symbol by symbol has one for each.
function conversation(story) {
  const place = make("div"), paths = [...new Set([...story.calls.map((call) => call.path), ...story.drawings.map(([symbol]) => symbol).filter((symbol) => symbol !== ALL && !story.calls.some((call) => call.path.endsWith(symbol)))])];
  for (const path of paths) {
    const calls = story.calls.filter((call) => call.path === path), last = path.split("/").at(-1);
    const drawing = story.drawings.find(([symbol]) => symbol === last || symbol === ALL);
    const named = last === story.session ? words.conversation : `${words.conversation}: ${labelled(last)}`;
    const talk = make(paths.length > 1 ? "details" : "div", null, { class: "call" });
    talk.append(make(paths.length > 1 ? "summary" : "h4", named));
    if (drawing) {
      const figure = make("figure", null, { class: "drawing" });
      figure.append(make("img", null, { alt: named, src: "data:image/svg+xml;charset=utf-8," + encodeURIComponent(drawing[1]) }));
      talk.append(figure);
    }
    calls.forEach((call, number) => talk.append(callTalk(call, number > 0)));
    place.append(talk);
  }
  return place;
}
