// Each step of a ladder against the one before it, and the whole.

import * as Plot from "@observablehq/plot";
import { VERDICTS } from "../colours";
import { METRICS, type Rung } from "../data";
import { ratio } from "../format";
import { figure, landmark, LANDMARK_PX, nameMargin, ratioDomain, ratioTick, ratioTicks, type Chart } from "./view";

type Drawn = Rung & { name: string; ratio: number; ci_low: number; ci_high: number };

export const ladder: Chart = (view) =>
  (view.run.ladder?.metrics ?? []).map(({ metric, rungs, whole }) => {
    const named = [...rungs.map((rung) => ({ ...rung, name: rung.to })), { ...whole, name: `all, over ${whole.from}` }];
    const drawn = named.filter((rung): rung is Drawn => rung.ratio !== null && rung.ci_low !== null && rung.ci_high !== null);
    const domain = ratioDomain([1, ...drawn.flatMap((rung) => [rung.ci_low, rung.ci_high])]);
    const words = (rung: Drawn) => `${rung.to} over ${rung.from}: ${ratio(rung.ratio)} [${ratio(rung.ci_low)}, ${ratio(rung.ci_high)}], ${rung.verdict}`;
    return figure(view, `${METRICS[metric]}: each step over the one before it`, drawn.map(words).join("; "), {
      height: drawn.length * 34 + LANDMARK_PX + 30,
      marginTop: LANDMARK_PX,
      marginLeft: nameMargin(view, drawn.map((rung) => rung.name)),
      marginRight: 20,
      x: { type: "log", domain, tickFormat: ratioTick, ticks: ratioTicks(domain, view.width / 110), label: null, grid: true },
      y: { type: "band", domain: drawn.map((rung) => rung.name), label: null, tickSize: 0 },
      color: { type: "identity" },
      marks: [
        Plot.ruleX([1]),
        landmark("the step before", metric, domain),
        Plot.ruleY(drawn, { y: "name", x1: "ci_low", x2: "ci_high", strokeWidth: 3, stroke: (rung: Drawn) => VERDICTS[rung.verdict] }),
        Plot.dot(drawn, { y: "name", x: "ratio", r: 6, fill: (rung: Drawn) => VERDICTS[rung.verdict] }),
        Plot.tip(drawn, Plot.pointerY({ y: "name", x: "ratio", title: (rung: Drawn) => `${words(rung)}\nn = ${rung.blocks} blocks` })),
      ],
    });
  });
