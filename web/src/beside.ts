// Runs beside each other: those of this page and those of files that were dropped on it.

import * as Plot from "@observablehq/plot";
import { METRICS, type Comparison, type Host, type Run } from "./data";
import { element } from "./dom";
import { described, interval, landmark, LANDMARK_PX, ratioDomain, ratioTick, ratioTicks, STYLE } from "./charts/view";
import { ns, ratio } from "./format";
import { VERDICTS } from "./colours";
import { enhance, written } from "./table";

export interface Named {
  name: string;
  run: Run;
}

type Row = Comparison & { from: string; what: string };

const SECTION = "beside";
const ROW_PX = 26;
/** Wider charts of a few rows are mostly air. */
const MAX_PX = 1400;

/** Charts of the page's own runs above the table that has their figures, and all runs together once one was dropped. */
export function draw(own: Named[], dropped: Named[], width: number): void {
  document.querySelector(".chart[data-chart=runs]")?.replaceChildren(...charts(own.flatMap(rowsOf), width));
  // What was there before stays until all of the new is made: a run that cannot be drawn takes nothing away.
  const section = dropped.length > 0 ? made([...own, ...dropped], width) : undefined;
  document.getElementById(SECTION)?.remove();
  if (section) document.querySelector("main")?.prepend(section);
}

function made(runs: Named[], width: number): HTMLElement {
  const rows = runs.flatMap(rowsOf);
  const section = element("section", { id: SECTION }, element("h2", {}, "Beside the reports that were opened here"));
  section.append(...hosts(runs), ...charts(rows, width), tableOf(rows), costs(runs));
  section.querySelectorAll("table").forEach(enhance);
  return section;
}

function rowsOf({ name, run }: Named): Row[] {
  const own = run.findings[0];
  const primary = own?.comparisons.filter((row) => row.primary) ?? [];
  return primary.map((row) => ({ ...row, from: name, what: `${row.arm} over ${row.baseline}` }));
}

/** Figures from unlike machines are not comparable: it is said before them. */
function hosts(runs: Named[]): HTMLElement[] {
  const first = runs[0]!.run.findings[0]?.host;
  const facts: (keyof Host)[] = ["cpu_model", "cpus", "kernel", "memory_bytes"];
  return runs.slice(1).flatMap(({ name, run }) => {
    const host = run.findings[0]?.host;
    // Of a host whose file was lost there are no CPUs.
    if (!first?.cpus || !host?.cpus) return [banner(`Whether the hosts of ${runs[0]!.name} and ${name} are alike is not known.`)];
    const unlike = facts.filter((fact) => host[fact] !== first[fact]).map((fact) => `${fact.replace("_", " ")} ${first[fact]} against ${host[fact]}`);
    if (unlike.length === 0) return [];
    const text = `${runs[0]!.name} and ${name} were made on unlike hosts: their times and rates are not comparable (${unlike.join("; ")}).`;
    return [banner(text)];
  });
}

function banner(text: string): HTMLElement {
  return element("p", { class: "banner", role: "note" }, text);
}

function charts(rows: Row[], width: number): HTMLElement[] {
  const groups = new Map<string, Row[]>();
  for (const row of rows.filter((one) => one.ratio !== null)) {
    const key = `${row.what}: ${METRICS[row.metric]}`;
    groups.set(key, [...(groups.get(key) ?? []), row]);
  }
  return [...groups].filter(([, group]) => group.length > 1).map(([title, group]) => chart(title, group, Math.min(width, MAX_PX)));
}

function chart(title: string, rows: Row[], width: number): HTMLElement {
  const domain = ratioDomain([1, ...rows.flatMap((row) => [row.ci_low!, row.ci_high!])]);
  const drawing = Plot.plot({
    width,
    height: rows.length * ROW_PX + LANDMARK_PX + 30,
    marginTop: LANDMARK_PX,
    marginLeft: Math.min(220, width / 3),
    marginRight: 20,
    style: STYLE,
    x: { type: "log", domain, tickFormat: ratioTick, ticks: ratioTicks(domain, width / 110), label: null, grid: true },
    y: { type: "band", domain: rows.map((row) => row.from), label: null, tickSize: 0 },
    color: { type: "identity" },
    marks: [
      Plot.ruleX([1]),
      landmark(rows[0]!.baseline, rows[0]!.metric, domain),
      Plot.ruleY(rows, { y: "from", x1: "ci_low", x2: "ci_high", strokeWidth: 3, stroke: (row: Row) => VERDICTS[row.verdict] }),
      Plot.dot(rows, { y: "from", x: "ratio", r: 5, fill: (row: Row) => VERDICTS[row.verdict] }),
      Plot.tip(rows, Plot.pointerY({ y: "from", x: "ratio", title: (row: Row) => `${row.from}: ${row.verdict}\n${interval(row)}\nn = ${row.blocks} blocks` })),
    ],
  });
  return described(title, rows.map((row) => `${row.from}: ${interval(row)}`).join("; "), drawing);
}

function tableOf(rows: Row[]): HTMLElement {
  const cells = rows.map((row) => [row.from, row.arm, row.baseline, METRICS[row.metric], row.verdict, row.ratio === null ? "-" : ratio(row.ratio), interval(row), String(row.blocks), row.condition]);
  return written("Ratios of each run", ["run", "arm", "baseline", "metric", "verdict", "ratio", "interval", "blocks", "condition"], cells);
}

function costs(runs: Named[]): HTMLElement {
  const cells = runs.flatMap(({ name, run }) =>
    (run.findings[0]?.arms ?? []).map((arm) => [name, arm.name, arm.cpu_ns_per_request ? ns(arm.cpu_ns_per_request.total) : "-", arm.rate_per_s?.toFixed(0) ?? "-", String(arm.rounds)]),
  );
  return written("Figures of each run", ["run", "arm", "CPU/request", "requests/s", "rounds"], cells);
}
