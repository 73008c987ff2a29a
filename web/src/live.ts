// A run in progress: the page follows the events of `whyslow view`.

import { element } from "./dom";

interface Progress {
  status: string;
  blocks: number;
  planned: number;
  rounds: number;
  lines?: string[];
}

/** Follows a run and says how far it is; `renew` is called with the page as it is now whenever there is news. */
export function follow(address: string, renew: (page: Document) => void): void {
  const text = element("p", {}, "This run goes on.");
  const list = element("ul", {});
  const bar = element("progress", { max: "1", value: "0", "aria-label": "blocks done" });
  const box = element("aside", { class: "banner live", "aria-label": "progress" }, text, bar, list);
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
    const ended = now.status !== "running";
    if (ended) events.close();
    if (ended || (rounds >= 0 && now.rounds !== rounds)) void fetchPage().then(renew).then(() => (ended ? box.remove() : show()));
    rounds = now.rounds;
  });
}

async function fetchPage(): Promise<Document> {
  const answer = await fetch(location.pathname);
  return new DOMParser().parseFromString(await answer.text(), "text/html");
}
