// What each cause can carry, by how well it is supported; ruled-out ones too.

import * as Plot from "@observablehq/plot";
import { GRADES } from "../colours";
import type { Cause } from "../data";
import { percent, signedNs } from "../format";
import { figure, isShown, nameMargin, type Chart } from "./view";

const WORDS = { accounts_for: "accounts for", bounded_by: "bounded by", consistent_with: "consistent with", confirmed_by: "confirmed by", ruled_out: "ruled out" };

export const ledger: Chart = (view) => {
  const arms = [...new Set(view.findings.causes.map((cause) => cause.arm))].filter((arm) => isShown(view, arm));
  return arms.map((arm) => {
    const causes = view.findings.causes.filter((cause) => cause.arm === arm);
    const says = causes.map((cause) => `${cause.id} ${WORDS[cause.grade]} ${signedNs(cause.ns_per_request)}`).join("; ");
    const tip = (cause: Cause) => `${WORDS[cause.grade]}${cause.share === null ? "" : ` ${percent(cause.share)}`}: ${signedNs(cause.ns_per_request)} a request\n${cause.text}`;
    const place = (_: Cause, index: number) => index;
    return figure(view, `${arm} against ${view.findings.baseline}: what each cause carries, per request`, says, {
      height: causes.length * 28 + 76,
      marginLeft: nameMargin(view, causes.map((cause) => cause.id)),
      marginRight: 20,
      x: { tickFormat: (value: number) => signedNs(value), ticks: Math.max(2, view.width / 130), label: null, grid: true, nice: true },
      y: { type: "band", domain: causes.map(place), tickFormat: (index: number) => causes[index]!.id.replaceAll("_", " "), label: null, tickSize: 0 },
      color: { domain: Object.values(WORDS), range: Object.keys(WORDS).map((grade) => GRADES[grade as Cause["grade"]]), legend: true },
      marks: [
        Plot.barX(causes, { y: place, x: "ns_per_request", fill: (cause: Cause) => WORDS[cause.grade], insetTop: 4, insetBottom: 4 }),
        Plot.ruleX([0]),
        Plot.tip(causes, Plot.pointerY({ y: place, x: "ns_per_request", title: tip, lineWidth: 40 })),
      ],
    });
  });
};
