"use strict";
// The page of a run.
{
  const NAMES = ["account", "benchmark", "index"];
  const DASHES = { account: "solid", benchmark: "solid", index: "dot" };
  const shade = (name) => ({ account: colour("accent"), benchmark: colour("other"), index: colour("quiet") })[name];
  const lines = (curves, more = {}) => NAMES.filter((name) => curves[name]).map((name) => ({
    type: "scatter", mode: "lines", name: words[name], x: curves[name].x, y: curves[name].y,
    line: { color: shade(name), dash: DASHES[name], width: name === "account" ? 2.2 : 1.4 }, ...more,
  }));
  const curves = data.curves;
  const months = [...document.querySelectorAll("#months tbody tr:not(.quiet)")];
  const fromStart = (curve) => curve.y.map((value) => value / curve.y[0] - 1);
  // The deepest falls are shaded, with their depth at the trough.
  const falls = () => ({
    shapes: data.episodes.map(([, peak, , end]) => ({ type: "rect", x0: peak, x1: end, yref: "paper", y0: 0, y1: 1, line: { width: 0 }, fillcolor: colour("loss"), opacity: 0.07, layer: "below" })),
    annotations: data.episodes.map(([depth, , trough]) => ({ x: trough, yref: "paper", y: 0, yanchor: "bottom", text: `${percent(depth, depth > -0.01 ? 2 : 1)} ${escaped(words.from_peak)}`, showarrow: false, font: { size: 11, color: colour("loss") } })),
  });
  // So many decimals that neighbouring ticks differ.
  const shares = (traces) => { const all = traces.flatMap((trace) => trace.y); return Math.max(...all) - Math.min(...all) < 0.03 ? ".2%" : ".0%"; };
  if (curves.equity) {
    const log = byId("log");
    const equity = () => {
      const traces = lines(curves.equity);
      for (const trace of traces) {
        trace.customdata = trace.y;
        trace.y = log.checked ? fromStart(trace).map((value) => 1 + value) : fromStart(trace);
        trace.hovertemplate = log.checked ? "%{y:.4f} (%{customdata:,.0f})" : "%{y:+.2%} (%{customdata:,.0f})";
      }
      if (log.checked) return [traces, { ...falls(), yaxis: { type: "log", tickformat: ".2f", title: { text: words.growth } } }];
      return [traces, { ...falls(), yaxis: { tickformat: "+" + shares(traces) } }];
    };
    draw("chart-equity", equity);
    log.addEventListener("change", () => draw("chart-equity", equity));
    later("chart-drawdown", () => [lines(curves.drawdown, { hovertemplate: "%{y:.2%}" }).map((line, number) => (number ? line : { ...line, fill: "tozeroy" })),
      { yaxis: { tickformat: shares(lines(curves.drawdown)) } }]);
    const years = months.map((row) => ({
      year: row.querySelector("th").textContent,
      account: Number(row.cells[13].dataset.value), benchmark: row.cells[14].dataset.value,
    }));
    later("chart-years", () => [[
      { type: "bar", name: words.account, x: years.map((row) => row.year), y: years.map((row) => row.account), marker: { color: colour("accent") } },
      { type: "bar", name: words.benchmark, x: years.map((row) => row.year), y: years.map((row) => (row.benchmark === "" ? null : Number(row.benchmark))),
        marker: { color: colour("other") } },
    ], { yaxis: { tickformat: ".0%" }, xaxis: { type: "category" }, bargap: 0.5 }]);
    const rolling = curves.rolling;
    const under = { sharpe: ["y", words.sharpe, 1, ".1f"], volatility: ["y2", words.volatility, 0.64, ".0%"], beta: ["y3", words.beta, 0.3, ".1f"] };
    if (!rolling.sharpe?.y.some((value) => value !== null)) byId("rolling").remove();
    else {
      const there = Object.entries(under).filter(([name]) => rolling[name]);
      later("chart-rolling", () => [there.map(([name, [axis, label, , format]]) => ({
        type: "scatter", mode: "lines", name: label, x: rolling[name].x, y: rolling[name].y, yaxis: axis, line: { color: colour("accent"), width: 1.6 }, hovertemplate: `%{y:${format}}`,
      })), { showlegend: false, annotations: there.map(([, [, label, y]]) => panel(label, y)), xaxis: { anchor: there.at(-1)[1][0] },
        yaxis: { domain: [0.72, 1] }, yaxis2: { domain: [0.36, 0.64], tickformat: ".0%" }, yaxis3: { domain: [0, 0.3] } }]);
    }
    const order = curves.returns.y.map((value, place) => [value, curves.returns.x[place]]).sort((a, b) => a[0] - b[0]);
    const fifth = data.var ?? 0;
    later("chart-returns", () => [[{ type: "histogram", x: curves.returns.y, marker: { color: colour("accent") }, nbinsx: 60, hovertemplate: "%{x}: %{y}<extra></extra>" }],
      { xaxis: { tickformat: order.length && order.at(-1)[0] - order[0][0] < 0.01 ? ".2%" : ".1%", tickformatstops: [] }, hovermode: "closest", bargap: 0.04, showlegend: false,
        shapes: [{ type: "line", x0: fifth, x1: fifth, yref: "paper", y0: 0, y1: 1, line: { dash: "dash", color: colour("loss") } }],
        annotations: [{ x: fifth, yref: "paper", y: 1, yanchor: "bottom", text: `${escaped(words.var)} ${signed(fifth)}`, showarrow: false, font: { color: colour("loss") } }] }]);
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
      { type: "scatter", mode: "lines", name: words.exposure, x: data.sessions, y: data.days.exposure, fill: "tozeroy", line: { color: colour("accent"), width: 1 }, hovertemplate: "%{y:.0%}" },
      { type: "scatter", mode: "lines", name: words.positions, x: data.sessions, y: data.days.positions, yaxis: "y2", line: { color: colour("accent"), shape: "hv", width: 1.4 } },
      { type: "bar", name: words.turnover, x: data.sessions, y: data.days.traded, yaxis: "y3", marker: { color: colour("accent") }, hovertemplate: "%{y:,.0f}" },
    ], { showlegend: false, annotations: [panel(words.exposure, 1), panel(words.positions, 0.64), panel(words.turnover, 0.3)], xaxis: { anchor: "y3" },
      yaxis: { domain: [0.72, 1], tickformat: ".0%" }, yaxis2: { domain: [0.36, 0.64] }, yaxis3: { domain: [0, 0.3] } }]);
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

  // ---- tables of many rows ---------------------------------------------------------------------------------
  const PAGE = 25;
  const nameOf = (symbol) => [symbol, data.names[symbol]].filter(Boolean).join(" ");
  const fixed = (value) => (value === null || value === undefined || Number.isNaN(value) ? "–" : value.toLocaleString("en-US", { minimumFractionDigits: 2, maximumFractionDigits: 4 }));
  const coloured = (value) => (value > 0 ? "gain" : value < 0 ? "loss" : "");
  function rowsOf(columns, offset) {
    const names = Object.keys(columns);
    return Array.from({ length: columns.symbol.length }, (_, row) => {
      const found = { number: offset + row };
      for (const name of names) found[name] = columns[name][row];
      return found;
    });
  }
  // A table with pages: columns are [name, label, text, kind]; kind is "text", "number" or "signed".
  function paged(id, prefix, columns, pick) {
    const view = { rows: [], shown: [], sorted: ["number", 1], page: 0 };
    const table = byId(id);
    const sortKey = (row, name) => { const value = columns.find((each) => each[0] === name)?.[3] === "text" ? columns.find((each) => each[0] === name)[2](row) : row[name]; return Number.isNaN(value) ? null : value; };
    view.select = (keep = () => true) => {
      const [name, way] = view.sorted;
      view.shown = view.rows.filter(keep).sort((a, b) => {
        const [left, right] = [sortKey(a, name), sortKey(b, name)];
        if (left === null || right === null) return (left === null) - (right === null) || a.number - b.number;
        return (left < right ? -1 : left > right ? 1 : a.number - b.number) * way;
      });
      view.page = 0;
      view.show();
    };
    view.line = (each) => {
      const row = make("tr", null, { id: prefix + (each.number + 1), tabindex: 0, "data-number": each.number });
      for (const [name, , text, kind] of columns) {
        const cell = make("td", text(each));
        if (kind !== "text") cell.dataset.value = each[name] ?? "";
        if (kind === "signed") cell.className = coloured(each[name]);
        row.append(cell);
      }
      return row;
    };
    view.show = (all = false) => {
      const head = make("thead");
      const titles = make("tr");
      for (const [name, label, , kind] of columns) {
        const mark = view.sorted[0] === name ? (view.sorted[1] > 0 ? " ↑" : " ↓") : "";
        titles.append(make("th", label + mark, { scope: "col", tabindex: 0, "data-column": name, class: kind === "text" ? "" : "number" }));
      }
      head.append(titles);
      const body = make("tbody");
      const rows = all ? view.shown : view.shown.slice(view.page * PAGE, view.page * PAGE + PAGE);
      rows.forEach((each) => body.append(view.line(each)));
      if (!rows.length) { const none = make("tr"); none.append(make("td", words.no_match, { colspan: columns.length })); body.append(none); }
      table.replaceChildren(head, body);
      const pages = Math.max(1, Math.ceil(view.shown.length / PAGE));
      const [back, place, on] = prefix === "trade-" ? ["page-back", "page", "page-on"] : ["fills-back", "fills-page", "fills-on"];
      const counts = [view.page + 1, pages, view.shown.length];
      byId(place).textContent = words.page_of.replace(/#/g, () => counts.shift().toLocaleString("en-US"));
      byId(back).disabled = view.page === 0;
      byId(on).disabled = view.page + 1 >= pages;
      byId(back).onclick = () => { view.page -= 1; view.show(); };
      byId(on).onclick = () => { view.page += 1; view.show(); };
    };
    const press = (event) => {
      if (event.type === "keydown" && event.key !== "Enter") return;
      const title = event.target.closest("th[data-column]");
      const row = event.target.closest("tr[data-number]");
      if (title) {
        const name = title.dataset.column;
        view.sorted = [name, view.sorted[0] === name ? -view.sorted[1] : 1];
        view.select(view.keep);
      } else if (row && !event.target.closest("button")) pick(Number(row.dataset.number));
    };
    table.addEventListener("click", press);
    table.addEventListener("keydown", press);
    return view;
  }
  function loadRest(button, kind, view) {
    let files = data[kind + "_files"];
    button.hidden = !files.length;
    const label = button.textContent;
    button.addEventListener("click", async () => {
      button.disabled = true;
      button.textContent = words.loading;
      try {
        while (files.length) { view.rows.push(...rowsOf(await load(kind, files[0]), view.rows.length)); files = files.slice(1); }
        button.hidden = true;
      } catch (error) { button.textContent = `${label} (${error.message})`; button.disabled = false; }
      view.select(view.keep);
    });
  }

  // ---- round trips and fills -------------------------------------------------------------------------------
  const OPEN = 2;
  const priced = (trip) => (trip.kind === OPEN ? words.held : data.sessions[trip.closed]);
  const valuesOf = (row, name, day) => {
    const values = data.value_labels.map((label, at) => [label, row[name + at]]).filter(([, value]) => value !== null && value !== undefined);
    const before = data.bar_days?.[data.bar_days.indexOf(day) - 1]?.slice(5);
    return values.length ? ` · ${words.known_before} (${before}): ${values.map(([label, value]) => `${label} ${fixed(value)}`).join(", ")}` : "";
  };
  const reasonOf = (fill) => data.reasons[fill.reason] + valuesOf(fill, "value_", data.sessions[fill.day]);
  const tripColumns = [
    ["symbol", words.symbol, (trip) => nameOf(data.symbols[trip.symbol]), "text"],
    ["opened", words.entry, (trip) => data.sessions[trip.opened], "text"],
    ["closed", words.exit, priced, "text"],
    ["holding", words.holding, (trip) => plain(trip.holding), "number"],
    ["quantity", words.quantity, (trip) => plain(trip.quantity), "number"],
    ["entry_price", words.entry_price, (trip) => fixed(trip.entry_price), "number"],
    ["exit_price", words.exit_price, (trip) => fixed(trip.exit_price), "number"],
    ["profit", words.profit, (trip) => money(trip.profit), "signed"],
    ["gain", words.gain, (trip) => signed(trip.gain), "signed"],
    ["mae", words.mae, (trip) => percent(trip.mae), "number"],
    ["mfe", words.mfe, (trip) => percent(trip.mfe), "number"],
    ["reason_out", words.exit_reason, (trip) => data.trip_reasons[trip.reason_out], "text"],
  ];
  const fillColumns = [
    ["day", words.session, (fill) => data.sessions[fill.day], "text"],
    ["symbol", words.symbol, (fill) => data.symbols[fill.symbol], "text"],
    ["sell", words.side, (fill) => (fill.sell ? "▼ " + words.sell : "▲ " + words.buy), "text"],
    ["quantity", words.quantity, (fill) => plain(fill.quantity), "number"],
    ["price", words.price, (fill) => fixed(fill.price), "number"],
    ["notional", words.notional, (fill) => money(fill.notional), "number"],
    ["cost", words.cost, (fill) => money(fill.cost), "number"],
    ["profit", words.profit, (fill) => (fill.profit === null ? "" : money(fill.profit)), "signed"],
    ["reason", words.reason, reasonOf, "text"],
  ];
  const trips = byId("trips") ? paged("trips", "trade-", tripColumns, openTrip) : null;
  const fills = byId("fills") ? paged("fills", "fill-", fillColumns, (number) => openTrip(tripOf(fills.rows[number]))) : null;
  let opened = -1;
  const tripOf = (fill) => trips.rows.find((trip) => trip.symbol === fill.symbol && trip.opened <= fill.day && fill.day <= trip.closed && (fill.sell ? trip.exit === fill.number : true))?.number ?? -1;
  if (fills) {
    fills.rows.push(...rowsOf(data.fills, 0));
    loadRest(byId("more"), "fills", fills);
    fills.select();
  }
  if (trips) {
    trips.rows.push(...rowsOf(data.trips, 0));
    const filter = () => {
      const wanted = byId("filter").value.trim().toLowerCase().split(/\s+/).filter(Boolean);
      trips.keep = (trip) => {
        const text = [nameOf(data.symbols[trip.symbol]), data.sessions[trip.opened], priced(trip), data.trip_reasons[trip.reason_in], data.trip_reasons[trip.reason_out]].join(" ").toLowerCase();
        return wanted.every((word) => text.includes(word));
      };
      trips.select(trips.keep);
    };
    byId("filter").addEventListener("input", filter);
    loadRest(byId("more-trips"), "trips", trips);
    filter();
    window.addEventListener("beforeprint", () => trips.show(true));
    window.addEventListener("afterprint", () => trips.show());
  }
  byId("by-symbol")?.addEventListener("click", (event) => {
    const row = event.target.closest("tr[data-symbol]");
    const first = row && trips?.rows.find((trip) => data.symbols[trip.symbol] === row.dataset.symbol);
    if (first) openTrip(first.number);
  });
  document.addEventListener("keydown", (event) => { if (event.key === "Escape") closeTrip(); });
  function closeTrip() {
    byId("trip")?.remove();
    document.querySelector("#trips tr.chosen")?.classList.remove("chosen");
    opened = -1;
  }
  function openTrip(number) {
    const trip = trips?.rows[number];
    if (!trip) return;
    const again = opened === number;
    closeTrip();
    if (again) return;
    opened = number;
    let at = trips.shown.indexOf(trip);
    if (at < 0) { byId("filter").value = ""; trips.keep = undefined; trips.select(); at = trips.shown.indexOf(trip); }
    if (Math.floor(at / PAGE) !== trips.page) { trips.page = Math.floor(at / PAGE); trips.show(); }
    const row = byId("trade-" + (number + 1));
    row.classList.add("chosen");
    history.replaceState(null, "", "#" + row.id);
    row.after(tripDetails(trip, at));
    drawTrip(trip);
    row.scrollIntoView({ block: "nearest" });
  }
  const reasonLine = (label, reason, trip, when) => {
    const line = make("p");
    line.append(make("b", label + " "), make("span", data.trip_reasons[reason]));
    if (when === "opened" || trip.kind !== OPEN) line.append(make("span", valuesOf(trip, `value_${when}_`, data.sessions[trip[when]]), { class: "quiet" }));
    return line;
  };
  function tripDetails(trip, at) {
    const row = make("tr", null, { id: "trip" });
    const cell = make("td", null, { colspan: tripColumns.length });
    const tools = make("div", null, { class: "tools" });
    tools.append(make("b", nameOf(data.symbols[trip.symbol])), make("span", `${data.sessions[trip.opened]} – ${priced(trip)}`), make("span", `${money(trip.profit)} · ${signed(trip.gain)}`, { class: coloured(trip.profit) }), make("span", null, { class: "fill" }));
    const step = (label, place) => {
      const button = make("button", label, { type: "button" });
      button.disabled = !trips.shown[place];
      button.addEventListener("click", () => openTrip(trips.shown[place].number));
      tools.append(button);
    };
    step("← " + words.previous, at - 1);
    step(words.next + " →", at + 1);
    const close = make("button", "✕ " + words.close_it, { type: "button" });
    close.addEventListener("click", closeTrip);
    tools.append(close);
    const split = (data.splits[data.symbols[trip.symbol]] || []).some((day) => day > data.sessions[trip.opened] && day <= data.sessions[trip.closed]);
    const shares = `${plain(trip.quantity)} · ${fixed(trip.entry_price)} → ${fixed(trip.exit_price)} · ${words.holding}: ${plain(trip.holding)} · ${words.mae} ${percent(trip.mae)} · ${words.mfe} ${percent(trip.mfe)}`;
    cell.append(tools, make("p", shares + (split ? " · " + words.split_note : ""), { class: "quiet" }), reasonLine(words.entry_reason, trip.reason_in, trip, "opened"), reasonLine(words.exit_reason, trip.reason_out, trip, "closed"),
      make("p", null, { id: "symbol-text", class: "quiet" }), make("figure", null, { id: "chart-symbol", class: "chart tall" }), make("div", null, { id: "fill-story" }));
    row.append(cell);
    return row;
  }

  // ---- the chart of a round trip ---------------------------------------------------------------------------
  async function barsOf(symbol) {
    if (data.candles[symbol]) return data.candles[symbol];
    const name = data.candle_files[symbol];
    if (!name) return null;
    const got = await load("bars", name);
    data.candles[symbol] = got.bars;
    return got.bars;
  }
  async function drawTrip(trip) {
    const symbol = data.symbols[trip.symbol];
    const about = byId("symbol-text");
    for (const number of [trip.entry, trip.exit]) if (fills?.rows[number]) showOrigin(fills.rows[number]);
    let bars = null;
    try { bars = await barsOf(symbol); } catch (error) { about.textContent = `${words.no_candles} (${error.message})`; return; }
    if (opened !== trip.number || !byId("chart-symbol")) return;
    if (!bars) { about.textContent = words.no_candles; byId("chart-symbol").remove(); return; }
    const first = data.bar_days.indexOf(data.sessions[trip.opened]);
    const last = data.bar_days.indexOf(data.sessions[trip.closed]);
    const room = Math.max(20, Math.round((last - first) / 2));
    const [from, to] = [Math.max(0, first - room), Math.min(data.bar_days.length - 1, last + room)];
    const cut = (values) => values.slice(from, to + 1);
    const days = cut(data.bar_days);
    draw("chart-symbol", () => {
      const traces = [];
      const close = cut(bars.close);
      const low = bars.low ? cut(bars.low) : close;
      const high = bars.high ? cut(bars.high) : close;
      if (bars.open && bars.high && bars.low) {
        traces.push({ type: "candlestick", name: words.candles, x: days, open: cut(bars.open), high, low, close, showlegend: false,
          increasing: { line: { color: colour("gain"), width: 1 } }, decreasing: { line: { color: colour("loss"), width: 1 }, fillcolor: colour("loss") } });
      } else traces.push({ type: "scatter", mode: "lines", name: words.price, x: days, y: close, line: { color: colour("ink"), width: 1 } });
      if (bars.vol) traces.push({ type: "bar", name: words.volume, x: days, y: cut(bars.vol), yaxis: "y2", marker: { color: colour("quiet") }, opacity: 0.5, showlegend: false });
      const known = close.filter((value) => value !== null);
      const [least, most] = [Math.min(...low.filter((value) => value !== null)), Math.max(...high.filter((value) => value !== null))];
      const dashes = ["solid", "dash", "dot", "dashdot"];
      const paints = ["accent", "other", "bad", "quiet"];
      let below = false;
      Object.entries(bars.lines || {}).forEach(([label, values], number) => {
        const part = cut(values);
        const middle = part.filter((value) => value !== null).at(0);
        const inside = middle === undefined || !known.length || (middle >= least / 3 && middle <= most * 3);
        below ||= !inside;
        traces.push({ type: "scatter", mode: "lines", name: escaped(label), x: days, y: part, yaxis: inside ? "y" : "y3", line: { width: 1.4, dash: dashes[number % 4], color: colour(paints[number % 4]) } });
      });
      const own = fills.rows.filter((fill) => fill.symbol === trip.symbol && fill.day >= trip.opened && fill.day <= trip.closed);
      const marks = (rows, name, shape, paint) => rows.length && traces.push({ type: "scatter", mode: "markers", name, x: rows.map((fill) => data.sessions[fill.day]), y: rows.map((fill) => fill.price),
        text: rows.map((fill) => escaped(`${plain(fill.quantity)} @ ${fixed(fill.price)} ${reasonOf(fill)}`)), hovertemplate: "%{x}<br>%{text}<extra></extra>",
        marker: { symbol: shape, size: 13, color: paint, line: { color: colour("paper"), width: 1.5 } } });
      marks(own.filter((fill) => !fill.sell), words.buy, "triangle-up", colour("accent"));
      marks(own.filter((fill) => fill.sell), words.sell, "triangle-down", colour("bad"));
      levelsOf(trip, days, close).forEach(([label, values], number) => traces.push({ type: "scatter", mode: "lines", name: label, x: days, y: values, line: { dash: "dot", width: 1.6, color: colour(number ? "other" : "bad"), shape: "hv" } }));
      const refused = data.refused.filter((each) => each[1] === trip.symbol && each[0] >= trip.opened && each[0] <= trip.closed);
      if (refused.length) traces.push({ type: "scatter", mode: "markers", name: words.refused, x: refused.map((each) => data.sessions[each[0]]), y: refused.map((each) => bars.close[data.bar_days.indexOf(data.sessions[each[0]])]),
        text: refused.map((each) => escaped(`${words["code_" + each[4]] || each[4]}: ${each[5]}`)), hovertemplate: "%{x}<br>%{text}<extra></extra>", marker: { symbol: "x", size: 10, color: colour("ink") } });
      const fit = known.length ? { range: [least - (most - least) * 0.06, most + (most - least) * 0.06] } : {};
      const shapes = [{ type: "rect", x0: data.sessions[trip.opened], x1: data.sessions[trip.closed], yref: "paper", y0: 0, y1: 1, line: { width: 0 }, fillcolor: colour(trip.profit < 0 ? "loss" : "gain"), opacity: 0.06, layer: "below" }];
      const bottom = below ? [0.36, 0.2] : [0.26, 0];
      return [traces, { hovermode: "closest", shapes, xaxis: { rangeslider: { visible: false }, type: "date", rangebreaks: [{ bounds: ["sat", "mon"] }], anchor: below ? "y3" : bars.vol ? "y2" : "y" },
        yaxis: { domain: bars.vol || below ? [bottom[0] + 0.04, 1] : [0, 1], ...fit }, ...(bars.vol ? { yaxis2: { domain: [below ? 0.26 : 0, bottom[0]], showticklabels: false, showgrid: false } } : {}),
        ...(below ? { yaxis3: { domain: [0, bottom[1]] } } : {}) }];
    });
  }
  // The levels of the plan while it was held, from the mean fill and the closes before; none over a split.
  function levelsOf(trip, days, close) {
    const [opened, closed] = [data.sessions[trip.opened], data.sessions[trip.closed]];
    if ((data.splits[data.symbols[trip.symbol]] || []).some((day) => day > opened && day <= closed)) return [];
    let peak = trip.entry_price;
    const trailing = days.map((day, at) => {
      const level = day > opened && day <= closed ? peak * (1 - data.levels.trailing_stop) : null;
      if (day >= opened) peak = Math.max(peak, close[at] ?? peak);
      return level;
    });
    const fixedAt = (price) => days.map((day) => (day >= opened && day <= closed ? price : null));
    const made = { stop_loss: (share) => fixedAt(trip.entry_price * (1 - share)), take_profit: (share) => fixedAt(trip.entry_price * (1 + share)), trailing_stop: () => trailing };
    return Object.entries(data.levels).map(([name, share]) => [words["level_" + name], made[name](share)]);
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
    if (note !== undefined) byId("fill-story").append(shownValue(note));
    const call = story && story.calls.findLast((each) => each.kind === "model" && (each.reply.includes(symbol) || each.path.endsWith(symbol) || each.tools.some(([, text]) => text.includes(symbol))));
    if (call) byId("fill-story").append(callTalk({ ...call, asked: [] }));
  }
  // What the notes have of a symbol, wherever they have it.
  function about(value, symbol) {
    if (!isObject(value)) return undefined;
    if (Object.hasOwn(value, symbol)) return value[symbol];
    for (const each of Object.values(value)) { const found = about(each, symbol); if (found !== undefined) return found; }
    return undefined;
  }

  // ---- sessions of a decider that thinks ---------------------------------------------------------------
  async function told(session) {
    if (data.told[session]) return data.told[session];
    const file = data.story_files.find((each) => each.includes(session, 1));
    if (!file) return null;
    for (const story of await load("sessions", file[0])) data.told[story.session] = story;
    return data.told[session];
  }
  async function showStory(session) {
    const place = byId("story");
    byId("session").value = session;
    history.replaceState(null, "", "#session-" + session);
    place.replaceChildren(make("p", words.loading));
    const story = await told(session);
    if (byId("session").value !== session) return;
    const date = `${session.slice(0, 4)}-${session.slice(4, 6)}-${session.slice(6)}`;
    place.replaceChildren(make("h3", date, { id: "session-" + session }));
    if (!story) return;
    const day = data.sessions.indexOf(date);
    place.append(make("p", words.decided_at_open, { class: "quiet" }));
    if (story.held.length) place.append(make("h4", words.positions), rowTable([words.symbol, words.before, words.after], story.held.map(([symbol, ...shares]) => [nameOf(symbol), ...shares.map(plain)])));
    const orders = (fills?.rows ?? []).filter((fill) => fill.day === day).map((fill) => [fillColumns[2][2](fill), nameOf(data.symbols[fill.symbol]), plain(fill.quantity), plain(fill.price), reasonOf(fill)]);
    for (const each of data.refused.filter((row) => row[0] === day)) orders.push(["✕ " + (each[2] === "sell" ? words.sell : words.buy), nameOf(data.symbols[each[1]]), plain(each[3]), words["code_" + each[4]] || each[4], each[5]]);
    if (orders.length) place.append(make("h4", words.orders), rowTable([words.side, words.symbol, words.quantity, words.price, words.reason], orders));
    if (!isEmpty(story.notes)) place.append(make("h4", words.decision), shownValue(Object.keys(story.notes).length === 1 ? Object.values(story.notes)[0] : story.notes));
    place.append(conversation(story));
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
  const csvRows = (columns, rows) => [columns.map(([name]) => name), ...rows.map((row) => columns.map(([name, , text, kind]) =>
    (name === "sell" ? (row.sell ? "sell" : "buy") : kind === "text" ? text(row) : row[name])))];
  const csvs = {
    equity: () => [["date", ...NAMES.filter((name) => curves.equity[name])],
      ...curves.equity.account.x.map((day, row) => [day, ...NAMES.filter((name) => curves.equity[name]).map((name) => {
        const at = curves.equity[name].x.indexOf(day);
        return at < 0 ? "" : curves.equity[name].y[at];
      })])],
    trades: () => csvRows(tripColumns, trips.shown),
    fills: () => csvRows(fillColumns, fills.shown),
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
  if (trade) openTrip(Number(trade[1]) - 1);
  root.dataset.ready = "yes";
}
