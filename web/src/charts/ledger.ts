// What each cause can carry, by how well it is supported; ruled-out ones too, and what is left over.

import * as Plot from "@observablehq/plot";
import { GRADES } from "../colours";
import type { Grade } from "../data";
import { count, percent, signedNs } from "../format";
import { figure, hatching, isShown, nameMargin, type Chart, type View } from "./view";
import { certainty } from "./waterfall";

const WORDS: Record<Grade, string> = { accounts_for: "accounts for", bounded_by: "bounded by", consistent_with: "consistent with", confirmed_by: "confirmed by", ruled_out: "ruled out" };
const LEFT = "unattributed";
/** A share that is left over below this is rounding. */
const ROUNDING = 0.0005;

interface Bar {
  name: string;
  kind: string;
  ns: number;
  share: number | null;
  text: string;
  /** How sure it is, and how much is behind it. */
  basis: string;
}

export const ledger: Chart = (view) => {
  const all = [...new Set(view.findings.causes.map((cause) => cause.arm))];
  return all.filter((arm) => isShown(view, arm)).map((arm) => one(view, arm, [...causes(view, arm), ...left(view, arm)]));
};

function causes(view: View, arm: string): Bar[] {
  return view.findings.causes
    .filter((cause) => cause.arm === arm)
    .map((cause) => ({ name: cause.id.replaceAll("_", " "), kind: WORDS[cause.grade], ns: cause.ns_per_request, share: cause.share, text: cause.text, basis: basis(view, arm, cause.id) }));
}

/** Times are of the split and have its intervals; of the others there is only what they were counted in. */
function basis(view: View, arm: string, id: string): string {
  const split = view.findings.splits.find((one) => one.arm === arm);
  const range = { user_time: split?.intervals?.user_ns, system_time: split?.intervals?.system_ns }[id];
  const own = view.findings.arms.find((one) => one.name === arm);
  return split && range ? certainty(split, range) : `\nn = ${own?.rounds} rounds, ${count(own?.requests ?? 0)} requests of ${arm}`;
}

/** What no cause can carry, drawn for the arm whose gap it is a part of. */
function left(view: View, arm: string): Bar[] {
  const share = view.findings.unattributed_share;
  const gap = view.findings.splits.find((split) => split.arm === arm)?.total_ns;
  if (share === null || share < ROUNDING || gap === undefined || view.findings.unattributed_arm !== arm) return [];
  return [{ name: LEFT, kind: LEFT, ns: share * gap, share, text: "what no suspect can carry", basis: basis(view, arm, LEFT) }];
}

function one(view: View, arm: string, bars: Bar[]): HTMLElement {
  const says = bars.map((bar) => `${bar.name}, ${bar.kind}: ${signedNs(bar.ns)}`).join("; ");
  const tip = (bar: Bar) => `${bar.kind}${bar.share === null ? "" : ` ${percent(bar.share)}`}: ${signedNs(bar.ns)} a request\n${bar.text}${bar.basis}`;
  const place = (_: Bar, index: number) => index;
  const hatch = hatching();
  const fills = Object.entries(WORDS).map(([grade, word]): [string, string] => [word, GRADES[grade as Grade]]);
  const known = bars.some((bar) => bar.kind === LEFT) ? [...fills, [LEFT, hatch.fill] as const] : fills;
  const drawing = figure(view, `${arm} against ${view.findings.baseline}: what each cause carries, per request`, says, {
    height: bars.length * 28 + 76,
    marginLeft: nameMargin(view, bars.map((bar) => bar.name)),
    marginRight: 20,
    x: { tickFormat: (value: number) => signedNs(value), ticks: Math.max(2, view.width / 130), label: null, grid: true, nice: true },
    y: { type: "band", domain: bars.map(place), tickFormat: (index: number) => bars[index]!.name, label: null, tickSize: 0 },
    color: { domain: known.map(([word]) => word), range: known.map(([, fill]) => fill), legend: true },
    marks: [
      Plot.barX(bars, { y: place, x: "ns", fill: "kind", insetTop: 4, insetBottom: 4 }),
      Plot.ruleX([0]),
      Plot.tip(bars, Plot.pointerY({ y: place, x: "ns", title: tip, lineWidth: 40 })),
    ],
  });
  return hatch.into(drawing);
}
