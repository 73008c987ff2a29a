// How long the threads of each arm waited for a request, by what ended the waits.

import * as Plot from "@observablehq/plot";
import { waitColours } from "../colours";
import type { Wait } from "../data";
import { ns } from "../format";
import { figure, isShown, nameMargin, type View } from "./view";

interface Sum {
  arm: string;
  by: string;
  ns: number;
}

/** What ended a wait, in words. */
const ENDED: Record<string, string> = {
  client: "a client's bytes", connection: "a new connection", network: "bytes from the network", service: "a reply",
  thread: "another thread", lock: "a lock", timer: "a timer", disk: "the disk", child: "a process or thread that ended",
  cpu: "a CPU that became free", unfinished: "nothing before watching ended", unknown: "something unseen",
};

/** Nothing where nobody's waits were watched. */
export function waits(view: View): HTMLElement[] {
  const sums = summed((view.findings.waits ?? []).filter((wait) => isShown(view, wait.arm)));
  if (sums.length === 0) return [];
  const arms = view.findings.arms.map((arm) => arm.name).filter((arm) => sums.some((sum) => sum.arm === arm));
  const known = [...new Set(sums.map((sum) => sum.by))];
  const says = sums.map((sum) => `${sum.arm}, ended by ${sum.by}: ${ns(sum.ns)}`).join("; ");
  return [
    figure(view, "How long threads waited for each request, by what ended the wait", says, {
      height: arms.length * 34 + 52,
      marginLeft: nameMargin(view, arms),
      marginRight: 20,
      x: { tickFormat: (value: number) => ns(value), ticks: Math.max(2, view.width / 130), label: null, grid: true },
      y: { type: "band", domain: arms, label: null, tickSize: 0 },
      color: { ...waitColours(known), legend: true },
      marks: [
        Plot.barX(sums, { y: "arm", x: "ns", fill: "by", order: known, insetTop: 4, insetBottom: 4, stroke: "var(--paper)" }),
        Plot.ruleX([0]),
        Plot.tip(sums, Plot.pointer(Plot.stackX({ y: "arm", x: "ns", fill: "by", order: known, title: (sum: Sum) => `${sum.arm}: ${ns(sum.ns)} a request\nended by ${sum.by}` }))),
      ],
    }),
  ];
}

/** One sum for each arm and end, longest first. */
function summed(all: Wait[]): Sum[] {
  const sums: Sum[] = [];
  for (const wait of all) {
    const by = ENDED[wait.ended_by] ?? wait.ended_by;
    const known = sums.find((sum) => sum.arm === wait.arm && sum.by === by);
    if (known) known.ns += wait.ns_per_request;
    else sums.push({ arm: wait.arm, by, ns: wait.ns_per_request });
  }
  return sums.sort((a, b) => b.ns - a.ns);
}
