"use strict";
// The page that compares runs.
{
  const dashes = ["solid", "dash", "dot", "dashdot", "longdash"];
  later("chart-compared", () => [Object.entries(data.curves).map(([run, curve], number) => ({
    type: "scatter", mode: "lines", name: escaped(run), x: curve.x, y: curve.y, line: { dash: dashes[number % dashes.length], width: 1.6 },
  })), { yaxis: { tickformat: ".2f" } }]);
  root.dataset.ready = "yes";
}
