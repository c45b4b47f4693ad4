"use strict";
// The page that compares runs.
{
  const runs = Object.keys(data.curves);
  const paints = ["#1d4ed8", "#f59e0b", "#059669", "#db2777", "#7c3aed", "#0891b2", "#b45309", "#64748b"];
  const few = runs.length <= paints.length;
  // Of many runs the best and the worst are coloured, the others are thin and grey.
  const last = (run) => data.curves[run].y.at(-1);
  const order = [...runs].sort((a, b) => last(b) - last(a));
  const style = (run, number) => {
    if (few) return { color: paints[number], width: 1.8 };
    if (run === order[0]) return { color: colour("gain"), width: 2.4 };
    if (run === order.at(-1)) return { color: colour("loss"), width: 2.4 };
    return { color: colour("quiet"), width: 0.8 };
  };
  const lines = (curves, digits) => Object.entries(curves).map(([run, curve], number) => ({
    type: "scatter", mode: "lines", name: escaped(run), x: curve.x, y: curve.y, line: style(run, number),
    showlegend: few || run === order[0] || run === order.at(-1), hovertemplate: `%{y:${digits}}`,
  }));
  const hover = few ? "x unified" : "closest";
  draw("chart-compared", () => [[...lines(data.curves, "+.2%"), ...(data.benchmark ? [{
    type: "scatter", mode: "lines", name: words.benchmark, x: data.benchmark.x, y: data.benchmark.y, line: { color: colour("ink"), dash: "dot", width: 1.4 }, hovertemplate: "%{y:+.2%}",
  }] : [])], { yaxis: { tickformat: "+.0%" }, hovermode: hover }]);
  later("chart-falls", () => [lines(data.falls, ".2%").map((line) => ({ ...line, showlegend: false })), { yaxis: { tickformat: ".0%" }, hovermode: hover, margin: { l: 52, r: 12, t: 8, b: 28 } }]);
  byId("mapped")?.addEventListener("change", (event) => {
    const map = data.grid.maps[event.target.value];
    document.querySelectorAll("#grid tbody tr").forEach((row, at) => row.querySelectorAll("td").forEach((cell, column) => {
      cell.textContent = map.texts[at][column];
      cell.dataset.value = map.cells[at][column] ?? "";
      const is = (place) => place && place[0] === at && place[1] === column;
      cell.className = "heat" + (is(map.best) ? " best" : is(map.worst) ? " worst" : "");
    }));
    heat();
  });
  sortable();
  root.dataset.ready = "yes";
}
