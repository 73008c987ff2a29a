// Draws the charts of a report above its tables, and lets the reader choose.

import "./style.css";
import { draw as drawBeside, type Named } from "./beside";
import { CHARTS } from "./charts";
import { controls, folded, openAll } from "./controls";
import type { PageData, Run } from "./data";
import { copy, download, element } from "./dom";
import { drawHistory } from "./history";
import { follow } from "./live";
import { ofPage } from "./source";
import { Store } from "./state";
import { enhance, filter, filterArms, sortAs } from "./table";

/** As `page.css` and `style.css` have it: below, the bar does not stick and its controls are folded. */
const NARROW = "(max-width: 700px)";

class Page {
  private readonly store = new Store();
  private readonly narrow = matchMedia(NARROW);
  /** Runs of files that were dropped on the page. */
  private dropped: Named[] = [];

  constructor(private data: PageData) {}

  start(): void {
    this.dropping();
    this.ready();
    this.store.onChange(() => this.update());
    document.addEventListener("choose", (event) => this.store.set((event as CustomEvent).detail));
    document.addEventListener("keep", (event) => this.store.keep((event as CustomEvent).detail));
    this.narrow.addEventListener("change", () => this.controls());
    new ResizeObserver(() => this.measureBar()).observe(document.querySelector(".bar")!);
    this.followWidth(document.querySelector("main")!);
    matchMedia("print").addEventListener("change", () => this.charts());
    this.update();
    document.getElementById(this.store.state.part)?.scrollIntoView();
  }

  /** Draws again when the page gets wider or narrower; its height changes with every chart, and a drawing knows its zoom. */
  private followWidth(main: HTMLElement): void {
    let width = main.clientWidth;
    new ResizeObserver(() => {
      if (main.clientWidth === width) return;
      width = main.clientWidth;
      this.charts();
    }).observe(main);
  }

  /** What is jumped to stops below the bar, however many lines its controls need. */
  private measureBar(): void {
    const bar = document.querySelector<HTMLElement>(".bar")!;
    document.documentElement.style.setProperty("--bar", `${bar.offsetHeight}px`);
  }

  /** Puts the page as it is now in place of this one; what was chosen stays. */
  renew(page: Document): void {
    this.data = ofPage(page);
    document.querySelector("main")!.replaceChildren(...page.querySelector("main")!.children);
    this.ready();
    this.update();
  }

  /** Makes what Rust wrote sortable, and adds what only scripts can do. */
  private ready(): void {
    document.querySelectorAll("table").forEach(enhance);
    this.extras();
  }

  private update(): void {
    const { theme } = this.store.state;
    document.documentElement.toggleAttribute("data-theme", theme !== "");
    if (theme) document.documentElement.dataset.theme = theme;
    this.controls();
    this.views();
    filterArms(this.store.state);
    for (const table of document.querySelectorAll("table")) {
      filter(table, this.store.state);
      sortAs(table, this.store.state);
    }
    this.charts();
  }

  /** The control that was in use keeps the focus. */
  private controls(): void {
    const place = document.getElementById("controls");
    if (!place) return;
    const inputs = () => [...place.querySelectorAll<HTMLElement>("select, input, button")];
    const focused = inputs().indexOf(document.activeElement as HTMLElement);
    const made = controls(this.data.runs, this.store, (runs, name) => this.add(runs, name));
    const open = place.querySelector("details")?.open ?? false;
    place.replaceChildren(...(this.narrow.matches ? [folded(made, open)] : made));
    inputs()[focused]?.focus();
    this.measureBar();
  }

  /** The text for the chosen baseline; each run falls back on its own. */
  private views(): void {
    for (const article of document.querySelectorAll<HTMLElement>("article.run")) {
      const run = this.data.runs[Number(article.dataset.run)];
      if (!run) continue;
      const baseline = this.findings(run).baseline;
      for (const view of article.querySelectorAll<HTMLElement>(".view[data-baseline]")) {
        view.hidden = view.dataset.baseline !== baseline;
      }
    }
  }

  private findings(run: Run) {
    return run.findings.find((one) => one.baseline === this.store.state.baseline) ?? run.findings[0]!;
  }

  private charts(): void {
    for (const article of document.querySelectorAll<HTMLElement>("article.run")) {
      const run = this.data.runs[Number(article.dataset.run)];
      if (run) article.querySelectorAll<HTMLElement>(".view:not([hidden]) .chart").forEach((place) => this.chart(place, run));
    }
    this.beside(this.dropped);
  }

  private beside(dropped: Named[]): void {
    const own = this.data.runs.map((run) => ({ name: run.findings[0]?.run_id ?? "", run }));
    const main = document.querySelector("main")!;
    const air = ["paddingLeft", "paddingRight"] as const;
    drawBeside(own, dropped, main.clientWidth - air.reduce((sum, side) => sum + parseFloat(getComputedStyle(main)[side]), 0));
  }

  private chart(place: HTMLElement, run: Run): void {
    const chart = CHARTS[place.dataset.chart ?? ""];
    const width = place.clientWidth;
    if (!chart || width === 0) return;
    place.replaceChildren(...chart({ run, findings: this.findings(run), state: this.store.state, width }));
  }

  private add(runs: Run[], name: string): void {
    const all = [...this.dropped, ...runs.map((run) => ({ name: `${run.findings[0]?.run_id ?? "run"} (${name})`, run }))];
    // What cannot be drawn is not kept: it would fail again each time that the page is drawn.
    this.beside(all);
    this.dropped = all;
    document.getElementById("beside")?.scrollIntoView();
  }

  private dropping(): void {
    addEventListener("dragover", (event) => event.preventDefault());
    addEventListener("drop", (event) => {
      event.preventDefault();
      void openAll(event.dataTransfer?.files ?? null, (runs, name) => this.add(runs, name));
    });
  }

  /** The data of each run as a file, and the command that repeats it. */
  private extras(): void {
    document.querySelectorAll<HTMLElement>("[data-part=environment] .lead").forEach((lead, index) => {
      const own = this.data.runs[index]?.findings[0];
      if (!own) return;
      const repeat = [...lead.querySelectorAll("li")].map((line) => line.textContent ?? "").find((text) => text.startsWith("repeat with: "));
      const json = () => download(`${own.run_id}.json`, JSON.stringify({ schema: this.data.schema, runs: [this.data.runs[index]] }));
      lead.append(
        element(
          "div",
          { class: "tools" },
          element("button", { type: "button", click: () => void copy(repeat?.replace("repeat with: ", "") ?? "") }, "copy the command"),
          element("button", { type: "button", click: json }, "save the data as JSON"),
        ),
      );
    });
  }
}

function start(): void {
  if (document.getElementById("whyslow-data")) return report();
  document.querySelectorAll("table").forEach(enhance);
  drawHistory();
  addEventListener("resize", drawHistory);
}

function report(): void {
  const page = new Page(ofPage(document));
  page.start();
  document.documentElement.dataset.drawn = "";
  const { events } = document.body.dataset;
  if (events) follow(events, (fresh) => page.renew(fresh));
}

// The text is on the screen before the first chart is drawn: a task after a frame comes after its painting.
requestAnimationFrame(() => setTimeout(start));
