// How busy the server's CPUs were, with what limits each arm in words.

import * as Plot from "@observablehq/plot";
import type { Arm } from "../data";
import { percent } from "../format";
import { colours, figure, isShown, nameMargin, rounds, type Chart } from "./view";

/** Share from which CPUs count as fully used: the same as of the limiters in `analyse`. */
const FULL = 0.95;

export const limits: Chart = (view) => {
  const arms = view.findings.arms.filter((arm) => arm.server_set_busy !== null && isShown(view, arm.name));
  if (arms.length === 0) return [];
  const says = arms.map((arm) => `${arm.name}: ${percent(arm.server_set_busy!)}, limited by ${arm.limiter}`).join("; ");
  const tip = (arm: Arm) => `${arm.name}: ${percent(arm.server_set_busy!)} of the server's CPUs busy\n${arm.busy_cores?.toFixed(2)} cores by this server\nlimited by ${arm.limiter}${rounds(arm.server_set_busy_range, percent)}\nn = ${arm.rounds} rounds, ${arm.requests} requests`;
  return [
    figure(view, `Busy share of the server's CPUs at ${view.findings.condition}; from the dotted line on, at 95 %, they are what limits`, says, {
      height: arms.length * 30 + 46,
      marginLeft: nameMargin(view, arms.map((arm) => arm.name)),
      marginRight: 20,
      x: { domain: [0, 1], tickFormat: (share: number) => `${Math.round(share * 100)} %`, ticks: 5, label: null, grid: true },
      y: { type: "band", domain: arms.map((arm) => arm.name), label: null, tickSize: 0 },
      color: colours(view),
      marks: [
        Plot.barX(arms, { y: "name", x: "server_set_busy", fill: "name", insetTop: 4, insetBottom: 4 }),
        Plot.ruleX([FULL], { stroke: "currentColor", strokeDasharray: "2 4" }),
        Plot.tip(arms, Plot.pointerY({ y: "name", x: "server_set_busy", title: tip })),
      ],
    }),
  ];
};
