// Response times by percentile on a logarithmic scale, and against the rate.

import * as Plot from "@observablehq/plot";
import type { LatencyCurve, LatencyPoint } from "../data";
import { count, ns, quantile } from "../format";
import { colours, figure, isShown, logTicks, type Chart, type View } from "./view";

interface Drawn extends LatencyPoint {
  arm: string;
  rate: number;
  requests: number;
}

/** Equal steps for each further nine: 90 %, 99 %, 99.9 %. */
const nines = (share: number) => -Math.log10(1 - share);

/** Conditions that have a curve, those that may be compared first. */
export function conditions(view: View): string[] {
  const curves = view.run.detail.latency.filter((curve) => curve.points.length > 0);
  const open = curves.filter((curve) => !curve.closed_loop);
  return [...new Set([...open, ...curves].map((curve) => curve.condition))];
}

export const latency: Chart = (view) => {
  const known = conditions(view);
  const condition = known.includes(view.state.condition) ? view.state.condition : known[0];
  const curves = view.run.detail.latency.filter((curve) => isShown(view, curve.arm) && curve.points.length > 0);
  const chosen = curves.filter((curve) => curve.condition === condition);
  const drawings = chosen.length > 0 ? [byPercentile(view, chosen)] : [];
  const open = curves.filter((curve) => !curve.closed_loop);
  const rates = new Set(open.map((curve) => curve.condition));
  return rates.size > 1 ? [...drawings, byRate(view, open)] : drawings;
};

function points(curves: LatencyCurve[]): Drawn[] {
  return curves.flatMap((curve) => curve.points.map((point) => ({ ...point, arm: curve.arm, rate: curve.rate_per_s, requests: curve.requests })));
}

function tip(point: Drawn): string {
  return `${point.arm}: ${quantile(point.quantile)} within ${ns(point.ns)}\nrounds from ${ns(point.low_ns)} to ${ns(point.high_ns)}\nat ${count(point.rate)} requests/s\nn = ${point.rounds} rounds, ${count(point.requests)} requests`;
}

/** Round figures between the lowest and the highest of `values`. */
function ticks(values: number[], wanted: number): number[] {
  return logTicks(Math.min(...values), Math.max(...values), wanted);
}

function byPercentile(view: View, curves: LatencyCurve[]): HTMLElement {
  const drawn = points(curves);
  const x = (point: Drawn) => nines(point.quantile);
  const shares = [...new Set(drawn.map((point) => point.quantile))].sort();
  const closed = curves[0]!.closed_loop ? ": a closed loop, each arm at its own rate, not to be compared" : "";
  const says = drawn.map((point) => `${point.arm} ${quantile(point.quantile)}: ${ns(point.ns)}`).join("; ");
  return figure(view, `Response time by percentile at ${curves[0]!.condition}${closed}`, says, {
    height: 320,
    marginLeft: 65,
    marginRight: 30,
    x: { ticks: shares.map(nines), tickFormat: (value: number) => quantile(1 - 10 ** -value), label: null, grid: true },
    y: { type: "log", tickFormat: (value: number) => ns(value), ticks: ticks(drawn.flatMap((point) => [point.low_ns, point.high_ns]), 6), label: null, grid: true },
    color: { ...colours(view), legend: true },
    marks: [
      Plot.areaY(drawn, { x, y1: "low_ns", y2: "high_ns", z: "arm", fill: "arm", fillOpacity: 0.18 }),
      Plot.lineY(drawn, { x, y: "ns", stroke: "arm", strokeWidth: 2, marker: "dot" }),
      Plot.tip(drawn, Plot.pointer({ x, y: "ns", title: tip })),
    ],
  });
}

/** Full lines p50, dashed p99; where an arm gives all it can in a closed loop there is a vertical line: its knee lies before it. */
function byRate(view: View, curves: LatencyCurve[]): HTMLElement {
  const drawn = points(curves).filter((point) => point.quantile === 0.5 || point.quantile === 0.99);
  const of = (share: number) => drawn.filter((point) => point.quantile === share);
  const full = view.run.detail.latency.filter((curve) => curve.closed_loop && isShown(view, curve.arm));
  const says = drawn.map((point) => `${point.arm} at ${count(point.rate)}/s ${quantile(point.quantile)}: ${ns(point.ns)}`).join("; ");
  return figure(view, "Response time against rate: p50 full, p99 dashed; vertical dotted lines: all that an arm can answer", says, {
    height: 320,
    marginLeft: 65,
    marginRight: 30,
    x: { type: "log", tickFormat: (value: number) => `${count(value)}/s`, ticks: ticks([...drawn.map((point) => point.rate), ...full.map((curve) => curve.rate_per_s)], view.width / 160), label: null, grid: true },
    y: { type: "log", tickFormat: (value: number) => ns(value), ticks: ticks(drawn.flatMap((point) => [point.low_ns, point.high_ns]), 6), label: null, grid: true },
    color: { ...colours(view), legend: true },
    marks: [
      Plot.ruleX(full, { x: "rate_per_s", stroke: "arm", strokeWidth: 1.5, strokeDasharray: "1 3" }),
      Plot.lineY(of(0.5), { x: "rate", y: "ns", stroke: "arm", strokeWidth: 2, marker: "dot" }),
      Plot.lineY(of(0.99), { x: "rate", y: "ns", stroke: "arm", strokeWidth: 2, strokeDasharray: "5 4", marker: "dot" }),
      Plot.tip(drawn, Plot.pointer({ x: "rate", y: "ns", title: tip })),
    ],
  });
}
