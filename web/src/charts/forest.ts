// Ratios of all arms with their intervals, the band of differences that do not matter, and the noise floor.

import * as Plot from "@observablehq/plot";
import { BAND, VERDICTS } from "../colours";
import { METRICS, type Comparison } from "../data";
import { percent } from "../format";
import { figure, interval, isShown, landmark, LANDMARK_PX, nameMargin, ratioDomain, ratioTick, ratioTicks, type Chart, type View } from "./view";

type Drawn = Comparison & { ratio: number; ci_low: number; ci_high: number };

const ROW_PX = 34;

function rows(view: View): Drawn[] {
  const { metric } = view.state;
  const wanted = (row: Comparison) => (metric ? row.metric === metric : row.primary);
  return view.findings.comparisons.filter(
    (row): row is Drawn => wanted(row) && isShown(view, row.arm) && row.ratio !== null && row.ci_low !== null && row.ci_high !== null,
  );
}

function tip(row: Drawn): string {
  const floor = row.noise_floor === null ? "" : `\nnoise floor ${percent(row.noise_floor)}`;
  const matters = `matters from ±${percent(row.delta)}`;
  return `${row.arm} against ${row.baseline}: ${row.verdict}\n${METRICS[row.metric]} at ${row.condition}\n${interval(row)}\nn = ${row.blocks} blocks, ${matters}${floor}`;
}

export const forest: Chart = (view) => {
  const all = rows(view);
  return [...new Set(all.map((row) => row.metric))].map((metric) => one(view, all.filter((row) => row.metric === metric)));
};

function one(view: View, drawn: Drawn[]): HTMLElement {
  const { metric, delta, condition, baseline } = drawn[0]!;
  const floor = Math.max(...drawn.map((row) => row.noise_floor ?? 0));
  const [low, high] = ratioDomain([1, 1 - delta, 1 + delta, ...drawn.flatMap((row) => [row.ci_low, row.ci_high])]);
  const says = drawn.map((row) => `${row.arm}: ${row.verdict}, ${interval(row)}`).join("; ");
  const names = drawn.map((row) => row.arm);
  const better = metric === "rate" ? "more is better" : "less is better";
  return figure(view, `${METRICS[metric]} at ${condition}, arm over baseline (${better})`, says, {
    height: drawn.length * ROW_PX + LANDMARK_PX + 30,
    marginTop: LANDMARK_PX,
    marginLeft: nameMargin(view, names),
    marginRight: 20,
    x: { type: "log", domain: [low, high], tickFormat: ratioTick, ticks: ratioTicks([low, high], view.width / 110), label: null, grid: true },
    y: { type: "band", domain: names, label: null, tickSize: 0, padding: 0 },
    marks: [
      Plot.rectX([0], { x1: 1 - delta, x2: 1 + delta, fill: BAND }),
      Plot.ruleX(floor > 0 ? [1 - floor, 1 + floor].filter((x) => x > low && x < high) : [], { strokeDasharray: "2 4", stroke: "currentColor" }),
      Plot.ruleX([1], { stroke: "currentColor" }),
      landmark(baseline, metric, [low, high]),
      Plot.ruleY(drawn, { y: "arm", x1: "ci_low", x2: "ci_high", stroke: (row: Drawn) => VERDICTS[row.verdict], strokeWidth: 3 }),
      Plot.dot(drawn, { y: "arm", x: "ratio", r: 6, fill: (row: Drawn) => VERDICTS[row.verdict], symbol: (row: Drawn) => (row.verdict === "inconclusive" ? "diamond" : row.verdict === "invalid" ? "times" : "circle"), stroke: (row: Drawn) => VERDICTS[row.verdict] }),
      Plot.tip(drawn, Plot.pointerY({ y: "arm", x: "ratio", title: tip })),
    ],
    color: { type: "identity" },
  });
}
