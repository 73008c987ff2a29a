// Pairs in the order in which they ran, told apart by which came first; and every round second by second.

import * as Plot from "@observablehq/plot";
import { BAND } from "../colours";
import { METRICS, type Comparison, type Range, type Round } from "../data";
import { count, ns, ratio, value } from "../format";
import { colours, figure, interval, isShown, oneMetric, ratioDomain, ratioTick, ratioTicks, type Chart, type View } from "./view";

interface Pair {
  block: number;
  ratio: number;
  order: "baseline first" | "arm first";
  row: Comparison;
  was: string;
}

export const pairs: Chart = (view) => {
  const metric = oneMetric(view);
  const rows = view.findings.comparisons.filter((row) => row.metric === metric && row.pairs.length > 0 && isShown(view, row.arm));
  return [...rows.map((row) => one(view, row)), ...timelines(view)];
};

/** The round that counts of an arm in a block. */
function counted(view: View, arm: string, block: number): Round | undefined {
  return view.run.detail.rounds.findLast((round) => round.arm === arm && round.block === block && round.void === null);
}

function pair(view: View, row: Comparison, block: number, ln: number): Pair {
  const [base, arm] = [counted(view, row.baseline, block), counted(view, row.arm, block)];
  const armFirst = base && arm && arm.started_unix_ms < base.started_unix_ms;
  const was = (round: Round | undefined) => {
    const window = round?.windows.find((one) => one.condition === row.condition);
    const figure = window?.values[row.metric];
    return figure === undefined ? "?" : value(row.metric, figure);
  };
  return { block: block + 1, ratio: Math.exp(ln), order: armFirst ? "arm first" : "baseline first", row, was: `${was(arm)} against ${was(base)}` };
}

function one(view: View, row: Comparison): HTMLElement {
  const drawn = row.pairs.map(([block, ln]) => pair(view, row, block, ln));
  const says = drawn.map((one) => `block ${one.block}, ${one.order}: ${ratio(one.ratio)}`).join("; ");
  const tip = (one: Pair) => `block ${one.block}, ${one.order}\nratio ${ratio(one.ratio)}: ${one.was}\nall pairs: ${interval(row)}\nn = ${row.blocks} pairs`;
  const domain = ratioDomain([...drawn.map((one) => one.ratio), row.ci_low ?? 1, row.ci_high ?? 1]);
  const isSeen = (value: number) => value > domain[0] && value < domain[1];
  return figure(view, `${row.arm} over ${row.baseline}, block by block: ${METRICS[row.metric]} at ${row.condition}`, says, {
    height: 240,
    marginLeft: 60,
    marginRight: 20,
    x: { type: "point", domain: drawn.map((one) => one.block), label: null, padding: 0.5 },
    y: { type: "log", domain, tickFormat: ratioTick, ticks: ratioTicks(domain, 5), label: null, grid: true },
    symbol: { domain: ["baseline first", "arm first"], range: ["circle", "triangle"], legend: true },
    marks: [
      isSeen(1 - row.delta) || isSeen(1 + row.delta) ? Plot.rectY([0], { y1: 1 - row.delta, y2: 1 + row.delta, fill: BAND, clip: true }) : null,
      Plot.ruleY([1].filter(isSeen)),
      Plot.text([1].filter(isSeen), { y: (one: number) => one, frameAnchor: "right", dy: -8, text: [`same as ${row.baseline}`], fill: "var(--soft)" }),
      row.ci_low === null ? null : Plot.rectY([0], { y1: row.ci_low, y2: row.ci_high!, fill: "var(--link)", fillOpacity: 0.15 }),
      row.ratio === null ? null : Plot.ruleY([row.ratio], { stroke: "var(--link)", strokeDasharray: "5 4" }),
      Plot.lineY(drawn, { x: "block", y: "ratio", stroke: "currentColor", strokeOpacity: 0.35 }),
      Plot.dot(drawn, { x: "block", y: "ratio", symbol: "order", fill: "var(--ink)", r: 5 }),
      Plot.tip(drawn, Plot.pointer({ x: "block", y: "ratio", title: tip })),
    ],
  });
}

interface Second {
  arm: string;
  round: string;
  /** The middle of the second after the window began; below 0 is warm-up. */
  at: number;
  rate: number;
  /** 99 % of the answers in it; unknown of a warm-up. */
  p99_ns: number | undefined;
  /** Lowest and highest second of the same warm-up or window. */
  range: Range;
  isVoid: boolean;
}

function seconds(view: View): Second[] {
  return view.run.detail.rounds
    .filter((round) => isShown(view, round.arm))
    .flatMap((round) => {
      const of = { arm: round.arm, round: `block ${round.block + 1}.${round.position + 1}${round.attempt ? ` again ${round.attempt}` : ""}`, isVoid: round.void !== null };
      const row = (begin: number, p99_ns: (number | null)[]) => (rate: number, index: number, all: number[]): Second => ({
        ...of, at: begin + index + 0.5, rate, p99_ns: p99_ns[index] ?? undefined, range: [Math.min(...all), Math.max(...all)],
      });
      const window = round.windows[0];
      return [...round.warmup_per_turn.map(row(-round.warmup_per_turn.length, [])), ...(window?.per_s ?? []).map(row(0, window?.p99_ns ?? []))];
    });
}

function second(one: Second): string {
  const [part, p99] = [one.at < 0 ? "warm-up" : "window", one.p99_ns === undefined ? "" : `\n99 % within ${ns(one.p99_ns)}`];
  return `${one.arm}, ${one.round}${one.isVoid ? " (void)" : ""}\n${part}: n = ${count(one.rate)} requests in this second\nits seconds from ${count(one.range[0])} to ${count(one.range[1])}${p99}`;
}

function timelines(view: View): HTMLElement[] {
  const all = seconds(view);
  const arms = view.findings.arms.map((arm) => arm.name).filter((name) => all.some((second) => second.arm === name));
  return arms.map((arm) => {
    const drawn = all.filter((second) => second.arm === arm);
    const first = Math.min(0, ...drawn.map((second) => second.at - 0.5));
    const last = Math.max(...drawn.map((second) => second.at + 0.5));
    const says = `${new Set(drawn.map((second) => second.round)).size} rounds; the table Rounds below has their figures`;
    return figure(view, `${arm}: requests in each second, every round; warm-up shaded, the window begins at 0`, says, {
      height: 190,
      marginLeft: 75,
      marginRight: 20,
      x: { domain: [first, last], tickFormat: (at: number) => `${at} s`, ticks: Math.max(2, view.width / 100), label: null },
      y: { zero: true, nice: true, tickFormat: (rate: number) => count(rate), ticks: 4, label: null, grid: true },
      color: colours(view),
      marks: [
        Plot.rectX([0], { x1: first, x2: 0, fill: BAND }),
        Plot.lineY(drawn.filter((second) => !second.isVoid), { x: "at", y: "rate", z: "round", stroke: "arm", strokeOpacity: 0.55 }),
        Plot.lineY(drawn.filter((second) => second.isVoid), { x: "at", y: "rate", z: "round", stroke: "arm", strokeOpacity: 0.55, strokeDasharray: "2 3" }),
        Plot.dot(drawn, { x: "at", y: "rate", fill: "arm", r: 2.5 }),
        Plot.tip(drawn, Plot.pointer({ x: "at", y: "rate", title: second })),
      ],
    });
  });
}
