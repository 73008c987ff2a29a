// From the baseline's CPU per request to the arm's, step by step; what no step accounts for is hatched.

import * as Plot from "@observablehq/plot";
import type { Arm, Range, Split } from "../data";
import { count, ns, percent, signedNs } from "../format";
import { figure, hatching, isShown, nameMargin, rounds, type Chart, type View } from "./view";

export interface Step {
  name: string;
  from: number;
  to: number;
  kind: "whole" | "more" | "less" | "rest";
  /** How sure it is, and how much is behind it. */
  basis: string;
}

const FILL = { whole: "var(--whole)", more: "var(--bad)", less: "var(--good)" };

/** A rest below this share of the gap is rounding. */
const ROUNDING = 0.0005;

/** The steps of one arm. */
export function steps(view: View, split: Split): Step[] {
  const { findings } = view;
  const of = (name: string) => findings.arms.find((arm) => arm.name === name);
  const [base, arm] = [of(findings.baseline), of(split.arm)];
  if (!base?.cpu_ns_per_request || !arm?.cpu_ns_per_request) return [];
  const [start, end] = [base.cpu_ns_per_request.total, arm.cpu_ns_per_request.total];
  const made: Step[] = [{ name: base.name, from: 0, to: start, kind: "whole", basis: basisOf(base) }];
  let at = start;
  for (const [name, change, range] of [["user", split.user_ns, split.intervals?.user_ns], ["system", split.system_ns, split.intervals?.system_ns]] as const) {
    made.push({ name, from: at, to: at + change, kind: change >= 0 ? "more" : "less", basis: certainty(split, range) });
    at += change;
  }
  const rest = `the whole change ${signedNs(split.total_ns)}${certainty(split, split.intervals?.total_ns)}`;
  if (Math.abs(end - at) > Math.abs(split.total_ns) * ROUNDING) made.push({ name: "unexplained", from: at, to: end, kind: "rest", basis: `\nof ${rest}` });
  made.push({ name: arm.name, from: 0, to: end, kind: "whole", basis: `${basisOf(arm)}\n${rest}` });
  return made;
}

function basisOf(arm: Arm): string {
  return `${rounds(arm.cpu_ns_per_request_range, ns)}\nn = ${arm.rounds} rounds, ${count(arm.requests)} requests`;
}

/** The interval of a change; of too few pairs, and in pages of before, there is none. */
export function certainty({ intervals }: Split, range: Range | undefined): string {
  if (!intervals || !range) return "\ntoo few pairs for an interval";
  return `\n[${signedNs(range[0])}, ${signedNs(range[1])}] at ${percent(intervals.level)}\nn = ${intervals.blocks} blocks`;
}

export const waterfall: Chart = (view) =>
  view.findings.splits
    .filter((split) => isShown(view, split.arm))
    .map((split) => ({ split, drawn: steps(view, split) }))
    .filter(({ drawn }) => drawn.length > 0)
    .map(({ split, drawn }) => one(view, split, drawn));

function one(view: View, split: Split, drawn: Step[]): HTMLElement {
  const { baseline, condition } = view.findings;
  const says = drawn.map((step) => `${step.name}: ${step.kind === "whole" ? ns(step.to) : signedNs(step.to - step.from)}`).join("; ");
  const label = (step: Step) => (step.kind === "whole" ? ns(step.to) : signedNs(step.to - step.from));
  const tip = (step: Step) => `${step.name}: ${label(step)} CPU a request${step.basis}`;
  const most = Math.max(...drawn.flatMap((step) => [step.from, step.to]));
  const hatch = hatching();
  const drawing = figure(view, `CPU per request from ${baseline} to ${split.arm} at ${condition}`, says, {
    height: drawn.length * 32 + 46,
    marginLeft: nameMargin(view, drawn.map((step) => step.name)),
    marginRight: 75,
    x: { domain: [0, most], tickFormat: (value: number) => ns(value), ticks: Math.max(2, view.width / 130), label: null, grid: true },
    y: { type: "band", domain: drawn.map((_, index) => index), tickFormat: (index: number) => drawn[index]!.name, label: null, tickSize: 0 },
    color: { type: "identity" },
    marks: [
      Plot.barX(drawn, { y: (_: Step, index: number) => index, x1: "from", x2: "to", fill: (step: Step) => (step.kind === "rest" ? hatch.fill : FILL[step.kind]), stroke: "currentColor", strokeWidth: 0.5, insetTop: 3, insetBottom: 3 }),
      Plot.text(drawn, { y: (_: Step, index: number) => index, x: (step: Step) => Math.max(step.from, step.to), text: label, textAnchor: "start", dx: 5 }),
      Plot.ruleX([0]),
      Plot.tip(drawn, Plot.pointerY({ y: (_: Step, index: number) => index, x: (step: Step) => (step.from + step.to) / 2, title: tip })),
    ],
  });
  return hatch.into(drawing);
}
