// The controls of the page: what is compared with what, in which figure, in which light.

import { ofFile, METRICS, type Findings, type Metric, type Run } from "./data";
import { element } from "./dom";
import { conditions } from "./charts/latency";
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
export function controls(run: Run | undefined, store: Store, compare: (runs: Run[], name: string) => void): HTMLElement[] {
  const themes: Option[] = [["", "system"], ["light", "light"], ["dark", "dark"]];
  const theme = select("colours", themes, store.state.theme, (value) => store.set({ theme: value as "" | "light" | "dark" }));
  const general = [theme, element("button", { type: "button", click: () => print() }, "print"), opener(compare)];
  return run?.findings[0] ? [...choices(run, run.findings[0], store), ...general] : general;
}

function choices(run: Run, own: Findings, store: Store): HTMLElement[] {
  const { state } = store;
  const baselines = run.findings.map((one): Option => [one.baseline, one.baseline]);
  const known = new Set(own.comparisons.map((row) => row.metric));
  const metrics = (Object.keys(METRICS) as Metric[]).filter((metric) => known.has(metric)).map((metric): Option => [metric, METRICS[metric]]);
  const rates = conditions({ run, findings: own, state, width: 0 }).map((condition): Option => [condition, condition]);
  return [
    select("baseline", baselines, state.baseline || own.baseline, (baseline) => store.set({ baseline: baseline === own.baseline ? "" : baseline })),
    select("metric", [["", "primary"], ...metrics], state.metric, (metric) => store.set({ metric: metric as Metric | "" })),
    ...(rates.length > 1 ? [select("response at", rates, state.condition || rates[0]![0], (condition) => store.set({ condition }))] : []),
    arms(own, store),
  ];
}

function arms(own: Findings, store: Store): HTMLElement {
  const boxes = own.arms.map(({ name }) => {
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
