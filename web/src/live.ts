// A run in progress: the page follows the events of `whyslow view`.

import * as Plot from "@observablehq/plot";
import { described, ratioDomain, ratioTick, ratioTicks, STYLE } from "./charts/view";
import { BAND } from "./colours";
import { METRICS, type Metric } from "./data";
import { element } from "./dom";
import { percent, ratio } from "./format";
import { written } from "./table";

interface Progress {
  status: string;
  blocks: number;
  planned: number;
  rounds: number;
  lines?: string[];
  courses?: Course[];
}

/** How the interval of a comparison narrowed. */
interface Course {
  arm: string;
  baseline: string;
  metric: Metric;
  delta: number;
  points: Point[];
}

/** What so many pairs say. */
interface Point {
  pairs: number;
  ratio: number;
  ci_low: number;
  ci_high: number;
  level: number;
  /** Whether the interval is exact, as that of a verdict. */
  exact: boolean;
}

/** Wider drawings of a few pairs are mostly air. */
const MAX_PX = 560;

const HOW = "How the interval narrows: the ratio with its 95 % interval after three pairs, four, and so on. Pale lines are approximate: so few pairs have no exact one. Believe a verdict once the planned blocks are done: who looks often sees something by chance.";

/** Follows a run and says how far it is; `renew` is called with the page as it is now whenever there is news. */
export function follow(address: string, renew: (page: Document) => void): void {
  const text = element("p", {}, "This run goes on.");
  const list = element("ul", {});
  const bar = element("progress", { max: "1", value: "0", "aria-label": "blocks done" });
  const how = element("p", { class: "about" }, HOW);
  const drawings = element("div", { class: "courses" });
  const tables = element("details", {}, element("summary", {}, "Tables of the intervals"));
  const box = element("aside", { class: "banner live", "aria-label": "progress" }, text, bar, list, how, drawings, tables);
  const events = new EventSource(address);
  let rounds = -1;
  const show = () => document.querySelector("main")?.prepend(box);
  show();
  events.addEventListener("progress", (event) => {
    const now = JSON.parse((event as MessageEvent<string>).data) as Progress;
    bar.max = Math.max(now.planned || 1, 1);
    bar.value = now.blocks || 0;
    text.textContent = `This run goes on: ${now.blocks} of ${now.planned} blocks are done.`;
    list.replaceChildren(...(now.lines ?? []).map((line) => element("li", {}, line)));
    const courses = (now.courses ?? []).filter((course) => course.points.length > 0);
    drawings.replaceChildren(...courses.map((course) => chart(course, Math.min(MAX_PX, drawings.clientWidth))));
    tables.replaceChildren(tables.firstElementChild!, ...courses.flatMap(table));
    tables.hidden = how.hidden = courses.length === 0;
    const ended = now.status !== "running";
    if (ended) events.close();
    if (ended || (rounds >= 0 && now.rounds !== rounds)) void fetchPage().then(renew).then(() => (ended ? box.remove() : show()));
    rounds = now.rounds;
  });
}

function title({ arm, baseline, metric }: Course): string {
  return `${arm} over ${baseline}, ${METRICS[metric]}, after each pair`;
}

function words(point: Point): string {
  return `${ratio(point.ratio)} [${ratio(point.ci_low)}, ${ratio(point.ci_high)}] at ${percent(point.level)}${point.exact ? "" : ", approximate"}`;
}

function chart(course: Course, width: number): HTMLElement {
  const { points, delta, baseline } = course;
  const domain = ratioDomain(points.flatMap((point) => [point.ci_low, point.ci_high]));
  const isSeen = (value: number) => value > domain[0] && value < domain[1];
  const end = (point: Point) => (point.exact ? 1 : 0.45);
  const drawing = Plot.plot({
    width,
    height: 200,
    marginLeft: 60,
    marginRight: 20,
    style: STYLE,
    x: { type: "point", domain: points.map((point) => point.pairs), label: null, padding: 0.5, ticks: points.length > 15 ? points.map((point) => point.pairs).filter((pairs) => pairs % 5 === 0) : undefined },
    opacity: { type: "identity" },
    y: { type: "log", domain, tickFormat: ratioTick, ticks: ratioTicks(domain, 5), label: null, grid: true },
    marks: [
      isSeen(1 - delta) || isSeen(1 + delta) ? Plot.rectY([0], { y1: 1 - delta, y2: 1 + delta, fill: BAND, clip: true }) : null,
      Plot.ruleY([1].filter(isSeen)),
      Plot.text([1].filter(isSeen), { y: (one: number) => one, frameAnchor: "right", dy: -8, text: [`same as ${baseline}`], fill: "var(--soft)" }),
      Plot.areaY(points, { x: "pairs", y1: "ci_low", y2: "ci_high", fill: "var(--link)", fillOpacity: 0.2 }),
      Plot.ruleX(points, { x: "pairs", y1: "ci_low", y2: "ci_high", stroke: "var(--link)", strokeWidth: 2.5, strokeOpacity: end }),
      Plot.lineY(points, { x: "pairs", y: "ratio", stroke: "var(--link)" }),
      Plot.dot(points, { x: "pairs", y: "ratio", fill: "var(--link)", r: 4 }),
      Plot.tip(points, Plot.pointerX({ x: "pairs", y: "ratio", title: (point: Point) => `${words(point)}\nn = ${point.pairs} pairs` })),
    ],
  });
  return described(title(course), points.map((point) => `${point.pairs} pairs: ${words(point)}`).join("; "), drawing);
}

function table(course: Course): HTMLElement[] {
  const cells = course.points.map((point) => [String(point.pairs), ratio(point.ratio), `[${ratio(point.ci_low)}, ${ratio(point.ci_high)}]`, percent(point.level), point.exact ? "exact" : "approximate"]);
  return [element("p", {}, title(course)), written(title(course), ["pairs", "ratio", "interval", "level", "kind"], cells)];
}

async function fetchPage(): Promise<Document> {
  const answer = await fetch(location.pathname);
  return new DOMParser().parseFromString(await answer.text(), "text/html");
}
