// The controls of the page: what is compared with what, in which figure, in which light.

import { METRICS, type Findings, type Metric, type Run } from "./data";
import { element } from "./dom";
import { conditions } from "./charts/latency";
import { ofFile } from "./source";
import type { Store } from "./state";

type Option = [value: string, text: string];

function select(label: string, options: Option[], chosen: string, change: (value: string) => void): HTMLElement {
  const made = element(
    "select",
    { change: () => change(made.value) },
    ...options.map(([value, text]) => element("option", { value, selected: value === chosen }, text)),
  );
  return element("label", {}, `${label} `, made);
}

/** Everything that the reader may choose; made anew when the state changes elsewhere. */
export function controls(runs: Run[], store: Store, compare: (runs: Run[], name: string) => void): HTMLElement[] {
  const themes: Option[] = [["", "system"], ["light", "light"], ["dark", "dark"]];
  const theme = select("colours", themes, store.state.theme, (value) => store.set({ theme: value as "" | "light" | "dark" }));
  const general = [theme, element("button", { type: "button", click: () => print() }, "print"), opener(compare)];
  const shown = runs.filter((run) => run.findings.length > 0);
  return shown.length > 0 ? [...choices(shown, store), ...general] : general;
}

/** What a narrow screen shows of them: one line, until they are asked for. */
export function folded(made: HTMLElement[], open: boolean): HTMLElement {
  return element("details", { class: "choices", open }, element("summary", {}, "choose baseline, metric, arms, colours"), element("div", {}, ...made));
}

/** Each choice holds for all runs of the page; a run that does not know what was chosen keeps its own. */
function choices(runs: Run[], store: Store): HTMLElement[] {
  const { state } = store;
  const named = (names: string[]) => [...new Set(names)].map((name): Option => [name, name]);
  const all = runs.flatMap((run) => run.findings);
  const known = new Set(all.flatMap((one) => one.comparisons.map((row) => row.metric)));
  const metrics = (Object.keys(METRICS) as Metric[]).filter((metric) => known.has(metric)).map((metric): Option => [metric, METRICS[metric]]);
  const rates = named(runs.flatMap((run) => conditions({ run, findings: run.findings[0]!, state, width: 0 })));
  return [
    baselines(runs, named(all.map((one) => one.baseline)), store),
    select("metric", [["", "primary"], ...metrics], state.metric, (metric) => store.set({ metric: metric as Metric | "" })),
    ...(rates.length > 1 ? [select("response at", rates, state.condition || rates[0]![0], (condition) => store.set({ condition }))] : []),
    arms(all, store),
  ];
}

function baselines(runs: Run[], known: Option[], store: Store): HTMLElement {
  const own = new Set(runs.map((run) => run.findings[0]!.baseline));
  const home = own.size === 1 ? [...own][0]! : "";
  const options: Option[] = home ? known : [["", "that of each run"], ...known];
  return select("baseline", options, store.state.baseline || home, (baseline) => store.set({ baseline: baseline === home ? "" : baseline }));
}

function arms(all: Findings[], store: Store): HTMLElement {
  const names = [...new Set(all.flatMap((one) => one.arms.map((arm) => arm.name)))];
  const boxes = names.map((name) => {
    const { off } = store.state;
    const change = () => store.set({ off: off.includes(name) ? off.filter((one) => one !== name) : [...off, name] });
    return element("label", {}, element("input", { type: "checkbox", checked: !off.includes(name), change }), ` ${name}`);
  });
  return element("fieldset", {}, element("legend", {}, "arms"), ...boxes);
}

/** Another report may be chosen, or dropped anywhere on the page. */
function opener(compare: (runs: Run[], name: string) => void): HTMLElement {
  const input = element("input", { type: "file", accept: ".html,.json", multiple: true, "aria-label": "report files to compare with", change: () => void openAll(input.files, compare) });
  return element("label", { class: "opener" }, "compare with a report ", input);
}

export async function openAll(files: FileList | null, compare: (runs: Run[], name: string) => void): Promise<void> {
  for (const file of files ?? []) {
    try {
      compare(ofFile(await file.text()).runs, file.name);
    } catch (error) {
      failed(`${file.name} cannot be compared: ${error instanceof Error ? error.message : error}.`);
    }
  }
}

function failed(text: string): void {
  document.querySelector("main")?.prepend(element("p", { class: "banner", role: "alert" }, text));
}
