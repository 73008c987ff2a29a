// What every chart is given, and what they share.

import * as Plot from "@observablehq/plot";
import { armColours } from "../colours";
import type { Comparison, Findings, Metric, Range, Run } from "../data";
import { element } from "../dom";
import { percent, ratio } from "../format";
import type { State } from "../state";

export interface View {
  run: Run;
  /** With the chosen baseline. */
  findings: Findings;
  state: State;
  /** Pixels. */
  width: number;
}

/** Nothing where there is nothing to draw. */
export type Chart = (view: View) => HTMLElement[];

export function isShown(view: View, arm: string): boolean {
  return !view.state.off.includes(arm);
}

export function colours(view: View): { domain: string[]; range: string[] } {
  return armColours(view.run.findings[0]!.arms.map((arm) => arm.name));
}

/** The metric that a chart of one metric shows. */
export function oneMetric(view: View): Metric {
  return view.state.metric || "cpu_per_request";
}

/** Room for names on the left, at most a third of the chart. */
export function nameMargin(view: View, names: string[]): number {
  const longest = Math.max(4, ...names.map((name) => name.length));
  return Math.min(longest * 7.5 + 16, view.width / 3);
}

/** How every drawing looks. */
export const STYLE = { fontSize: "13px", fontFamily: "inherit", background: "transparent", overflow: "visible" };

/** A drawing with its title and what it is to someone who does not see it. */
export function figure(view: View, title: string, says: string, options: Plot.PlotOptions): HTMLElement {
  const drawing = Plot.plot({
    width: view.width,
    style: STYLE,
    ...options,
  });
  return described(title, says, drawing);
}

/** A picture with its description: what it is made of says nothing to someone who does not see it. */
export function described(title: string, says: string, drawing: Element): HTMLElement {
  drawing.setAttribute("aria-hidden", "true");
  const picture = element("div", { role: "img", "aria-label": `${title}. ${says}` }, drawing);
  return element("figure", { class: "drawing" }, element("figcaption", {}, title), picture);
}

/** Room above a drawing for what `landmark` says. */
export const LANDMARK_PX = 26;

/** Says on an axis of ratios what 1x means, and which side of it is the better one. */
export function landmark(baseline: string, metric: Metric, [low, high]: [number, number]): Plot.Markish {
  const place = Math.log(1 / low) / Math.log(high / low);
  const textAnchor = place < 0.25 ? "start" : place > 0.75 ? "end" : "middle";
  const same = `same as ${baseline}`;
  const text = metric === "rate" ? `${same} · better →` : `← better · ${same}`;
  return Plot.text([1], { x: (one: number) => one, frameAnchor: "top", dy: -LANDMARK_PX + 6, text: [text], textAnchor, fill: "var(--soft)" });
}

let patterns = 0;

/**
 * How what is left over is filled, and the pattern that a drawing needs for it. Each drawing has its own: of two with one
 * name browsers take the first, which may be hidden together with its drawing.
 */
export function hatching(): { fill: string; into: (drawing: HTMLElement) => HTMLElement } {
  const id = `hatch-${(patterns += 1)}`;
  const into = (drawing: HTMLElement) => {
    // The drawing itself comes after the small ones of its legend.
    [...drawing.querySelectorAll("svg")].at(-1)?.prepend(pattern(id));
    return drawing;
  };
  return { fill: `url(#${id})`, into };
}

function pattern(id: string): SVGElement {
  const space = "http://www.w3.org/2000/svg";
  const make = (name: string, attributes: Record<string, string>, ...children: SVGElement[]) => {
    const made = document.createElementNS(space, name) as SVGElement;
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    made.append(...children);
    return made;
  };
  const line = make("path", { d: "M0,6 L6,0", stroke: "currentColor", "stroke-width": "1.2" });
  return make("defs", {}, make("pattern", { id, width: "6", height: "6", patternUnits: "userSpaceOnUse" }, line));
}

export function interval(row: Comparison): string {
  if (row.ratio === null || row.ci_low === null || row.ci_high === null) return "no pairs";
  const level = row.level === null ? "" : ` at ${percent(row.level)}`;
  return `${ratio(row.ratio)} [${ratio(row.ci_low)}, ${ratio(row.ci_high)}]${level}`;
}

/** A further line of what a mark tells: how far the rounds lay apart. */
export function rounds(range: Range | null | undefined, words: (figure: number) => string): string {
  return range ? `\nrounds from ${words(range[0])} to ${words(range[1])}` : "";
}

/** Ticks of a ratio axis that people read: `0.5`, `0.98`, `1.02`, `2`. */
export function ratioTick(value: number): string {
  return `${Number(value.toFixed(3))}×`;
}

/** Ends of an axis of ratios with some air. */
export function ratioDomain(values: number[]): [number, number] {
  const logs = values.filter((value) => value > 0).map(Math.log);
  const [low, high] = [Math.min(...logs), Math.max(...logs)];
  const air = Math.max((high - low) * 0.08, 0.005);
  return [Math.exp(low - air), Math.exp(high + air)];
}

/** Round figures within a logarithmic axis, about `wanted` of them: a library's own are too few between two decades. */
export function logTicks(low: number, high: number, wanted: number): number[] {
  const decades = Array.from({ length: Math.ceil(Math.log10(high)) - Math.floor(Math.log10(low)) + 1 }, (_, index) => 10 ** (Math.floor(Math.log10(low)) + index));
  const steps = [[1], [1, 3], [1, 2, 5], [1, 1.5, 2, 3, 5, 7]];
  const choices = steps.map((step) => decades.flatMap((decade) => step.map((one) => one * decade)).filter((tick) => tick >= low && tick <= high));
  return choices.findLast((ticks) => ticks.length <= Math.max(3, wanted)) ?? choices[0]!;
}

/** Ticks of an axis of ratios: even steps where it spans little, round figures where it spans much. */
export function ratioTicks([low, high]: [number, number], wanted: number): number[] {
  if (high / low > 3) return logTicks(low, high, wanted);
  const raw = (high - low) / Math.max(2, wanted);
  const step = [1, 2, 5, 10].map((one) => one * 10 ** Math.floor(Math.log10(raw))).find((one) => one >= raw)!;
  const first = Math.ceil(low / step);
  return Array.from({ length: Math.floor(high / step) - first + 1 }, (_, index) => (first + index) * step);
}
