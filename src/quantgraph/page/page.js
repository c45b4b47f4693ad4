"use strict";
// The page of a run.
{
  const NAMES = ["account", "benchmark", "index"];
  const DASHES = { account: "solid", benchmark: "dash", index: "dot" };
  const shade = (name) => ({ account: colour("accent"), benchmark: colour("bad"), index: colour("quiet") })[name];
  const lines = (curves, more = {}) => NAMES.filter((name) => curves[name]).map((name) => ({
    type: "scatter", mode: "lines", name: words[name], x: curves[name].x, y: curves[name].y,
    line: { color: shade(name), dash: DASHES[name], width: name === "account" ? 2 : 1.4 }, ...more,
  }));
  const curves = data.curves;
  if (curves.equity) {
    const log = byId("log");
    const equity = () => [lines(curves.equity), { yaxis: { type: log.checked ? "log" : "linear", tickformat: ",.0f" } }];
    later("chart-equity", equity);
    log.addEventListener("change", () => draw("chart-equity", equity));
    later("chart-drawdown", () => [lines(curves.drawdown).map((line, number) => (number ? line : { ...line, fill: "tozeroy" })),
      { yaxis: { tickformat: ".1%" } }]);
    const years = [...document.querySelectorAll("#months tbody tr")].map((row) => ({
      year: row.querySelector("th").textContent,
      account: Number(row.cells[13].dataset.value), benchmark: row.cells[14].dataset.value,
    }));
    later("chart-years", () => [[
      { type: "bar", name: words.account, x: years.map((row) => row.year), y: years.map((row) => row.account), marker: { color: colour("accent") } },
      { type: "bar", name: words.benchmark, x: years.map((row) => row.year), y: years.map((row) => (row.benchmark === "" ? null : Number(row.benchmark))),
        marker: { color: colour("bad"), pattern: { shape: "/" } } },
    ], { yaxis: { tickformat: ".1%" }, xaxis: { type: "category" } }]);
    const rolling = curves.rolling;
    const under = { sharpe: ["y", words.sharpe, "solid"], volatility: ["y2", words.volatility, "dash"], beta: ["y3", words.beta, "dot"] };
    if (!rolling.sharpe?.y.some((value) => value !== null)) byId("rolling").remove();
    else later("chart-rolling", () => [Object.entries(under).filter(([name]) => rolling[name]).map(([name, [axis, label, dash]]) => ({
      type: "scatter", mode: "lines", name: label, x: rolling[name].x, y: rolling[name].y, yaxis: axis, line: { dash, width: 1.6 },
    })), { yaxis: { domain: [0.7, 1] }, yaxis2: { domain: [0.36, 0.64], tickformat: ".0%" }, yaxis3: { domain: [0, 0.3] }, hovermode: "x" }]);
    later("chart-returns", () => [[{ type: "histogram", x: curves.returns.y, marker: { color: colour("accent") }, nbinsx: 60 }],
      { xaxis: { tickformat: ".1%" }, hovermode: "closest", bargap: 0.04 }]);
    const order = curves.returns.y.map((value, place) => [value, curves.returns.x[place]]).sort((a, b) => a[0] - b[0]);
    const extremes = byId("extremes");
    for (const [label, rows] of [[words.best, order.slice(-5).reverse()], [words.worst, order.slice(0, 5)]]) {
      const table = make("table");
      table.append(make("caption", label));
      const body = make("tbody");
      for (const [value, day] of rows) {
        const row = make("tr");
        row.append(make("td", day), make("td", signed(value), { "data-value": value, class: value < 0 ? "loss" : "gain" }));
        body.append(row);
      }
      table.append(body);
      extremes.append(table);
    }
  }
  if (data.days.positions) {
    later("chart-days", () => [[
      { type: "scatter", mode: "lines", name: words.exposure, x: data.sessions, y: data.days.exposure, fill: "tozeroy", line: { color: colour("accent"), width: 1 } },
      { type: "scatter", mode: "lines", name: words.positions, x: data.sessions, y: data.days.positions, yaxis: "y2", line: { color: colour("bad"), shape: "hv", width: 1.4 } },
      { type: "bar", name: words.turnover, x: data.sessions, y: data.days.traded, yaxis: "y3", marker: { color: colour("quiet") } },
    ], { yaxis: { domain: [0.7, 1], tickformat: ".0%" }, yaxis2: { domain: [0.36, 0.64] }, yaxis3: { domain: [0, 0.3] }, hovermode: "x" }]);
  }

  // ---- files on demand: a page from a folder may fetch nothing, so they are scripts ---------------------
  const arriving = new Map();
  window.quantgraph = (kind, value) => arriving.get(kind)?.(value);
  const loads = new Map();
  function load(kind, name) {
    const before = loads.get(kind) || Promise.resolve();
    const next = before.then(() => new Promise((done, failed) => {
      let got;
      arriving.set(kind, (value) => { got = value; });
      const script = make("script");
      script.src = "report_files/" + name;
      script.nonce = document.querySelector("script[nonce]").nonce;
      script.onload = () => done(got);
      script.onerror = () => failed(new Error(name));
      document.head.append(script);
    }));
    loads.set(kind, next.catch(() => {}));
    return next;
  }

  // ---- fills -------------------------------------------------------------------------------------------
  const PAGE = 100;
  const columns = [
    ["day", words.session, (fill) => data.sessions[fill.day]],
    ["symbol", words.symbol, (fill) => data.symbols[fill.symbol]],
    ["sell", words.side, (fill) => (fill.sell ? "▼ " + words.sell : "▲ " + words.buy)],
    ["quantity", words.quantity, (fill) => plain(fill.quantity)],
    ["price", words.price, (fill) => plain(fill.price)],
    ["notional", words.notional, (fill) => money(fill.notional)],
    ["cost", words.cost, (fill) => money(fill.cost)],
    ["profit", words.profit, (fill) => (fill.profit === null ? "" : money(fill.profit))],
    ["holding", words.holding, (fill) => (fill.holding === null ? "" : plain(fill.holding))],
    ["mae", words.mae, (fill) => (fill.mae === null ? "" : signed(fill.mae))],
    ["mfe", words.mfe, (fill) => (fill.mfe === null ? "" : signed(fill.mfe))],
    ["reason", words.reason, (fill) => data.reasons[fill.reason]],
  ];
  const fills = [];
  function addFills(part) {
    const names = columns.map(([name]) => name);
    const first = fills.length;
    for (let row = 0; row < part.day.length; row += 1) {
      const fill = { number: first + row };
      for (const name of names) fill[name] = part[name][row];
      fills.push(fill);
    }
  }
  let shown = [];
  let sorted = ["number", 1];
  let page = 0;
  let chosen = -1;
  function select() {
    const wanted = byId("filter").value.trim().toLowerCase().split(/\s+/).filter(Boolean);
    const side = byId("side").value;
    shown = fills.filter((fill) => {
      if (side !== "" && String(fill.sell) !== side) return false;
      if (!wanted.length) return true;
      const text = `${data.symbols[fill.symbol]} ${data.sessions[fill.day]} ${data.reasons[fill.reason]}`.toLowerCase();
      return wanted.every((word) => text.includes(word));
    });
    const [name, way] = sorted;
    const key = { symbol: (fill) => data.symbols[fill.symbol], reason: (fill) => data.reasons[fill.reason] }[name] || ((fill) => fill[name]);
    shown.sort((a, b) => {
      const [left, right] = [key(a), key(b)];
      if (left === null || right === null) return (left === null) - (right === null) || a.number - b.number;
      return (left < right ? -1 : left > right ? 1 : a.number - b.number) * way;
    });
    page = 0;
    showPage();
  }
  function showPage() {
    const table = byId("fills");
    const head = make("thead");
    const titles = make("tr");
    for (const [name, label] of columns) {
      const mark = sorted[0] === name ? (sorted[1] > 0 ? " ↑" : " ↓") : "";
      const title = make("th", label + mark, { scope: "col", tabindex: 0, "data-column": name });
      titles.append(title);
    }
    head.append(titles);
    const body = make("tbody");
    for (const fill of shown.slice(page * PAGE, page * PAGE + PAGE)) {
      const row = make("tr", null, { id: "trade-" + (fill.number + 1), tabindex: 0, "data-fill": fill.number });
      if (fill.number === chosen) row.className = "chosen";
      for (const [name, , text] of columns) {
        const cell = make("td", text(fill));
        if (typeof fill[name] === "number" && !["day", "symbol", "sell", "reason"].includes(name)) cell.dataset.value = fill[name];
        if (["profit", "mae", "mfe"].includes(name) && fill[name] !== null) cell.classList.add(fill[name] < 0 ? "loss" : "gain");
        row.append(cell);
      }
      body.append(row);
    }
    table.replaceChildren(head, body);
    const pages = Math.max(1, Math.ceil(shown.length / PAGE));
    byId("page").textContent = `${page + 1} / ${pages} · ${shown.length.toLocaleString("en-US")}`;
    byId("page-back").disabled = page === 0;
    byId("page-on").disabled = page + 1 >= pages;
  }
  if (byId("fills")) {
    addFills(data.fills);
    byId("filter").addEventListener("input", select);
    byId("side").addEventListener("change", select);
    byId("page-back").addEventListener("click", () => { page -= 1; showPage(); });
    byId("page-on").addEventListener("click", () => { page += 1; showPage(); });
    const press = (event) => {
      if (event.type === "keydown" && event.key !== "Enter") return;
      const title = event.target.closest("th[data-column]");
      const row = event.target.closest("tr[data-fill]");
      if (title) {
        const name = title.dataset.column;
        sorted = [name, sorted[0] === name ? -sorted[1] : 1];
        select();
      } else if (row) {
        choose(Number(row.dataset.fill));
      }
    };
    byId("fills").addEventListener("click", press);
    byId("fills").addEventListener("keydown", press);
    const more = byId("more");
    let files = data.fill_files;
    more.hidden = !files.length;
    more.addEventListener("click", async () => {
      more.disabled = true;
      more.textContent = words.loading;
      try {
        while (files.length) { addFills(await load("fills", files[0])); files = files.slice(1); }
        more.hidden = true;
      } catch (error) { more.textContent = `${words.more} (${error.message})`; more.disabled = false; }
      select();
    });
    select();
    byId("by-symbol").addEventListener("click", (event) => {
      const row = event.target.closest("tr[data-symbol]");
      if (row) showSymbol(row.dataset.symbol);
    });
  }

  // ---- one symbol --------------------------------------------------------------------------------------
  async function barsOf(symbol) {
    if (data.candles[symbol]) return data.candles[symbol];
    const name = data.candle_files[symbol];
    if (!name) return null;
    const got = await load("bars", name);
    data.candles[symbol] = got.bars;
    return got.bars;
  }
  async function choose(number) {
    chosen = number;
    const fill = fills[number];
    if (!fill) return;
    document.querySelectorAll("#fills tr.chosen").forEach((row) => row.classList.remove("chosen"));
    byId("trade-" + (number + 1))?.classList.add("chosen");
    history.replaceState(null, "", "#trade-" + (number + 1));
    await showSymbol(data.symbols[fill.symbol], fill);
  }
  async function showSymbol(symbol, fill) {
    byId("symbol").hidden = false;
    byId("symbol-name").textContent = symbol;
    byId("symbol-text").textContent = words.loading;
    byId("fill-story").replaceChildren();
    let bars = null;
    try { bars = await barsOf(symbol); } catch { bars = null; }
    if (byId("symbol-name").textContent !== symbol) return;
    byId("symbol-text").textContent = fill
      ? columns.map(([, label, text]) => [label, text(fill)]).filter(([, text]) => text !== "").map(([label, text]) => `${label}: ${text}`).join(" · ")
      : bars ? "" : words.no_candles;
    if (fill) showOrigin(fill);
    if (!bars) { if (fill) byId("symbol-text").textContent += " · " + words.no_candles; byId("chart-symbol").replaceChildren(); drawn.delete("chart-symbol"); return; }
    const place = data.symbols.indexOf(symbol);
    const own = fills.filter((each) => each.symbol === place);
    const refused = data.refused.filter((each) => each[1] === place);
    const centre = fill ? data.bar_days.indexOf(data.sessions[fill.day]) : -1;
    const range = centre >= 0 && data.bar_days.length > 130
      ? [data.bar_days[Math.max(0, centre - 60)], data.bar_days[Math.min(data.bar_days.length - 1, centre + 40)]] : undefined;
    draw("chart-symbol", () => {
      const traces = [];
      if (bars.open && bars.high && bars.low) {
        traces.push({ type: "candlestick", name: words.candles, x: data.bar_days, open: bars.open, high: bars.high, low: bars.low, close: bars.close,
          increasing: { line: { color: colour("gain") } }, decreasing: { line: { color: colour("loss") }, fillcolor: colour("loss") } });
      } else traces.push({ type: "scatter", mode: "lines", name: words.price, x: data.bar_days, y: bars.close, line: { color: colour("ink"), width: 1 } });
      const near = (values) => {
        const known = values.filter((value) => value !== null);
        const price = bars.close.filter((value) => value !== null);
        if (!known.length || !price.length) return true;
        const [low, high] = [Math.min(...price), Math.max(...price)];
        const middle = known[Math.floor(known.length / 2)];
        return middle >= low / 3 && middle <= high * 3;
      };
      const dashes = ["solid", "dash", "dot", "dashdot"];
      let below = false;
      Object.entries(bars.lines || {}).forEach(([label, values], number) => {
        const inside = near(values);
        below ||= !inside;
        traces.push({ type: "scatter", mode: "lines", name: escaped(label), x: data.bar_days, y: values, yaxis: inside ? "y" : "y2", line: { width: 1.3, dash: dashes[number % 4] } });
      });
      const marks = (rows, name, symbolName, paint, y) => rows.length && traces.push({ type: "scatter", mode: "markers", name, x: rows.map((each) => data.sessions[each.day]), y: rows.map(y),
        text: rows.map((each) => escaped(`${plain(each.quantity)} @ ${plain(each.price)} ${data.reasons[each.reason]}`)),
        marker: { symbol: symbolName, size: 11, color: paint, line: { color: colour("ink"), width: 1 } } });
      marks(own.filter((each) => !each.sell), words.buy, "triangle-up", colour("accent"), (each) => each.price);
      marks(own.filter((each) => each.sell), words.sell, "triangle-down", colour("bad"), (each) => each.price);
      if (refused.length) {
        traces.push({ type: "scatter", mode: "markers", name: words.refused, x: refused.map((each) => data.sessions[each[0]]),
          y: refused.map((each) => bars.close[data.bar_days.indexOf(data.sessions[each[0]])]), text: refused.map((each) => escaped(`${each[4]}: ${each[5]}`)),
          marker: { symbol: "x", size: 10, color: colour("ink") } });
      }
      for (const [value, label, mark, way] of [[1, words.signal + " 1", "line-ns-open", 0.985], [-1, words.signal + " −1", "line-ns-open", 1.015]]) {
        const rows = (bars.signal || []).filter((each) => each[1] === value);
        if (rows.length) traces.push({ type: "scatter", mode: "markers", name: label, visible: rows.length > 200 ? "legendonly" : true,
          x: rows.map((each) => data.bar_days[each[0]]), y: rows.map((each) => bars.close[each[0]] * way),
          marker: { symbol: mark, size: 8, color: colour(value > 0 ? "gain" : "loss") }, hoverinfo: "x+name" });
      }
      const inView = data.bar_days.map((day, at) => (!range || (day >= range[0] && day <= range[1]) ? at : -1)).filter((at) => at >= 0);
      const prices = inView.flatMap((at) => [(bars.low || bars.close)[at], (bars.high || bars.close)[at]]).filter((value) => value !== null);
      const room = (Math.max(...prices) - Math.min(...prices)) * 0.06;
      const fit = prices.length ? { range: [Math.min(...prices) - room, Math.max(...prices) + room] } : {};
      return [traces, { hovermode: "closest", xaxis: { rangeslider: { visible: false }, range, type: "date", rangebreaks: [{ bounds: ["sat", "mon"] }] },
        yaxis: { domain: below ? [0.34, 1] : [0, 1], ...fit }, ...(below ? { yaxis2: { domain: [0, 0.28] } } : {}) }];
    });
    byId("symbol").scrollIntoView({ block: "nearest" });
  }
  async function showOrigin(fill) {
    const session = data.sessions[fill.day].replaceAll("-", "");
    if (!data.stories.includes(session)) return;
    const link = make("button", `${words.session} ${session}: ${words.shown}, ${words.reply}`, { type: "button", class: "link" });
    link.addEventListener("click", () => { showStory(session); byId("sessions").scrollIntoView(); });
    byId("fill-story").append(link);
    const story = await told(session);
    const symbol = data.symbols[fill.symbol];
    const note = story && about(story.notes, symbol);
    if (note) byId("fill-story").append(make("pre", note));
    const call = story && story.calls.findLast((each) => each.kind === "model" && (each.reply.includes(symbol) || each.path.endsWith(symbol) || each.tools.some(([, text]) => text.includes(symbol))));
    if (call) byId("fill-story").append(make("h4", `${call.role} · ${call.model} · ${words.reply}`), make("pre", call.reply || call.tools.map((each) => each.join(" ")).join("\n")));
  }
  function about(notes, symbol) {
    if (!notes) return "";
    const search = (value) => {
      if (!value || typeof value !== "object") return undefined;
      if (Object.hasOwn(value, symbol)) return value[symbol];
      for (const each of Object.values(value)) { const found = search(each); if (found !== undefined) return found; }
      return undefined;
    };
    let read;
    try { read = JSON.parse(notes); } catch { return ""; }  // characters that were made visible are no JSON
    const found = search(read);
    return found === undefined ? "" : JSON.stringify(found, null, 1);
  }

  // ---- sessions of a decider that thinks ---------------------------------------------------------------
  async function told(session) {
    if (data.told[session]) return data.told[session];
    const file = data.story_files.find((each) => each.includes(session, 1));
    if (!file) return null;
    for (const story of await load("sessions", file[0])) data.told[story.session] = story;
    return data.told[session];
  }
  const table = (names, rows) => {
    const made = make("table");
    const head = make("tr");
    names.forEach((name) => head.append(make("th", name, { scope: "col" })));
    made.append(make("thead"));
    made.tHead.append(head);
    const body = make("tbody");
    for (const row of rows) {
      const line = make("tr");
      row.forEach((cell) => line.append(make("td", cell)));
      body.append(line);
    }
    made.append(body);
    return made;
  };
  async function showStory(session) {
    const place = byId("story");
    byId("session").value = session;
    history.replaceState(null, "", "#session-" + session);
    place.replaceChildren(make("p", words.loading));
    const story = await told(session);
    if (byId("session").value !== session) return;
    place.replaceChildren(make("h3", session, { id: "session-" + session }));
    if (!story) return;
    const day = data.sessions.indexOf(`${session.slice(0, 4)}-${session.slice(4, 6)}-${session.slice(6)}`);
    if (story.held.length) place.append(make("h4", words.positions), table([words.symbol, words.before, words.after], story.held.map(([symbol, ...shares]) => [symbol, ...shares.map(plain)])));
    const orders = fills.filter((fill) => fill.day === day).map((fill) => [columns[2][2](fill), data.symbols[fill.symbol], plain(fill.quantity), plain(fill.price), data.reasons[fill.reason]]);
    for (const each of data.refused.filter((row) => row[0] === day)) orders.push(["✕ " + each[2], data.symbols[each[1]], plain(each[3]), each[4], each[5]]);
    if (orders.length) place.append(make("h4", words.orders), table([words.side, words.symbol, words.quantity, words.price, words.reason], orders));
    for (const call of story.calls) {
      const details = make("details", null, { class: "call" });
      const tokens = call.tokens === null ? "" : ` · ${call.tokens} ${words.tokens}`;
      details.append(make("summary", `${call.role || call.kind}${call.model ? " · " + call.model : ""}${tokens}${call.failed ? " · ✕" : ""} · ${call.path}`));
      for (const [who, text] of call.asked) details.append(make("h4", `${words.shown}: ${who}`), make("pre", text));
      if (call.reply) details.append(make("h4", words.reply), make("pre", call.reply));
      for (const [name, text] of call.tools) details.append(make("h4", name), make("pre", text));
      place.append(details);
    }
    if (story.notes) place.append(make("h4", words.notes), make("pre", story.notes));
  }
  if (data.stories.length) {
    const step = (way) => {
      const at = data.stories.indexOf(byId("session").value) + way;
      if (data.stories[at]) showStory(data.stories[at]);
    };
    byId("session").addEventListener("change", (event) => showStory(event.target.value));
    byId("session-back").addEventListener("click", () => step(-1));
    byId("session-on").addEventListener("click", () => step(1));
    document.addEventListener("keydown", (event) => {
      if (event.target.closest("input, select, textarea") || event.ctrlKey || event.metaKey || event.altKey) return;
      if (event.key === "j") step(-1);
      if (event.key === "k") step(1);
    });
    const asked = location.hash.match(/^#session-(\d{8})$/);
    if (asked && data.stories.includes(asked[1])) showStory(asked[1]);
    else { const keep = location.hash; showStory(data.stories[0]).then(() => history.replaceState(null, "", keep || " ")); }
  }

  // ---- CSV ---------------------------------------------------------------------------------------------
  const quoted = (value) => {
    let text = value === null || value === undefined ? "" : String(value);
    if (/^[=+\-@\t\r]/.test(text) && Number.isNaN(Number(text))) text = "'" + text;  // a sheet would run it
    return /[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  };
  const csvs = {
    equity: () => [["date", ...NAMES.filter((name) => curves.equity[name])],
      ...curves.equity.account.x.map((day, row) => [day, ...NAMES.filter((name) => curves.equity[name]).map((name) => {
        const at = curves.equity[name].x.indexOf(day);
        return at < 0 ? "" : curves.equity[name].y[at];
      })])],
    fills: () => [columns.map(([name]) => name), ...shown.map((fill) => columns.map(([name, , text]) =>
      (["day", "symbol", "reason"].includes(name) ? text(fill) : name === "sell" ? (fill.sell ? "sell" : "buy") : fill[name])))],
  };
  document.querySelectorAll("button.csv").forEach((button) => button.addEventListener("click", () => {
    const text = csvs[button.dataset.csv]().map((row) => row.map(quoted).join(",")).join("\r\n");
    const link = make("a", null, { download: button.dataset.csv + ".csv" });
    link.href = URL.createObjectURL(new Blob(["\ufeff" + text], { type: "text/csv" }));
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  }));

  // ---- the counterexample ------------------------------------------------------------------------------
  if (data.counterexample) {
    const found = data.counterexample;
    draw("chart-counterexample", () => [[
      { type: "scatter", mode: "lines", name: words.price, x: found.days, y: found.close, line: { color: colour("ink"), width: 1.4 } },
      { type: "scatter", mode: "markers+text", name: words.signal, x: [found.day], y: [found.price], text: [escaped(`${found.known} → ${found.later}`)], textposition: "top center",
        marker: { symbol: "diamond", size: 12, color: colour("bad") } },
    ], { hovermode: "closest", shapes: [{ type: "line", x0: found.day, x1: found.day, yref: "paper", y0: 0, y1: 1, line: { dash: "dash", color: colour("bad") } }] }]);
  }

  const trade = location.hash.match(/^#trade-(\d+)$/);
  if (trade && fills.length) choose(Number(trade[1]) - 1);
  root.dataset.ready = "yes";
}
