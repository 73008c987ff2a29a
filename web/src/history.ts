// How a figure moved from run to run, with the runs at which it changed.

import * as Plot from "@observablehq/plot";
import type { Metric } from "./data";
import { described, STYLE } from "./charts/view";
import { METRICS } from "./data";
import { value } from "./format";

interface Point {
  run: string;
  started_unix_s: number;
  value: number;
  low: number;
  high: number;
  rounds: number;
  state: string | null;
  change_p: number | null;
}

interface Series {
  arm: string;
  metric: Metric;
  condition: string;
  points: Point[];
}

const ELEMENT = "whyslow-history";

/** Draws every series; does nothing on a page that has none. */
export function drawHistory(): void {
  const text = document.getElementById(ELEMENT)?.textContent;
  if (!text) return;
  const series = JSON.parse(text) as Series[];
  for (const place of document.querySelectorAll<HTMLElement>("[data-history]")) {
    const one = series[Number(place.dataset.history)];
    // One point is no course.
    if (one && one.points.length > 1) place.replaceChildren(chart(one, place.clientWidth));
  }
}

/** The page of the run that is pointed at. */
function open(point: Point | null): void {
  if (point) location.assign(`/run/${encodeURIComponent(point.run)}`);
}

function chart(series: Series, width: number): HTMLElement {
  const { points, metric } = series;
  const date = (point: Point) => new Date(point.started_unix_s * 1000);
  const changes = points.filter((point) => point.change_p !== null);
  const tip = (point: Point) => `${point.run}${point.state ? `, ${point.state}` : ""}\n${date(point).toISOString().slice(0, 16).replace("T", " ")} UTC\n${value(metric, point.value)}, rounds from ${value(metric, point.low)} to ${value(metric, point.high)}\nn = ${point.rounds} rounds${point.change_p === null ? "" : `\na change begins here, p = ${point.change_p.toFixed(3)}`}\nclick: its report`;
  const title = `${series.arm}: ${METRICS[metric]} at ${series.condition}`;
  const drawing = Plot.plot({
    width,
    height: 220,
    marginLeft: 70,
    marginRight: 20,
    style: STYLE,
    x: { type: "utc", label: null },
    y: { tickFormat: (figure: number) => value(metric, figure), ticks: 4, label: null, grid: true, nice: true },
    marks: [
      Plot.ruleX(changes, { x: date, stroke: "var(--bad)", strokeDasharray: "5 4", strokeWidth: 1.5 }),
      Plot.ruleX(points, { x: date, y1: "low", y2: "high", stroke: "currentColor", strokeOpacity: 0.4 }),
      Plot.lineY(points, { x: date, y: "value", stroke: "var(--link)", strokeWidth: 1.5 }),
      Plot.dot(points, { x: date, y: "value", fill: (point: Point) => (point.change_p === null ? "var(--link)" : "var(--bad)"), r: 4 }),
      Plot.tip(points, Plot.pointer({ x: date, y: "value", title: tip })),
    ],
    color: { type: "identity" },
  });
  // The table has the same links for whoever has no pointer.
  drawing.addEventListener("click", () => open(drawing.value as Point | null));
  const found = changes.length === 0 ? "no change" : `changes at ${changes.map((point) => point.run).join(", ")}`;
  return described(title, `${points.length} runs, ${found}`, drawing);
}
