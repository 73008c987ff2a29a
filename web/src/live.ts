// A run in progress: the page follows the events of `whyslow view`.

import { element } from "./dom";

interface Progress {
  status: string;
  blocks: number;
  planned: number;
  lines: string[];
}

/** Follows a run and says so on top; when it ends the page is loaded anew, with all its figures. */
export function follow(address: string, rounds: number): void {
  const text = element("p", {}, "This run goes on.");
  const list = element("ul", {});
  const bar = element("progress", { max: "1", value: "0", "aria-label": "blocks done" });
  const box = element("aside", { class: "banner live", "aria-live": "polite" }, text, bar, list);
  document.querySelector("main")?.prepend(box);
  const events = new EventSource(address);
  let seen = rounds;
  events.addEventListener("progress", (event) => {
    const now = JSON.parse((event as MessageEvent<string>).data) as Progress & { rounds: number };
    bar.max = Math.max(now.planned, 1);
    bar.value = now.blocks;
    text.textContent = `This run goes on: ${now.blocks} of ${now.planned} blocks are done. What is below is of ${seen} rounds; load the page again for more.`;
    list.replaceChildren(...now.lines.map((line) => element("li", {}, line)));
    if (now.status !== "running") {
      events.close();
      location.reload();
    }
  });
}
