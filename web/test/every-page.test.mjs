// What holds of every page: access, width, speed, size, and names that are text.

import assert from "node:assert/strict";
import { mkdirSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { large } from "./profiles.mjs";
import { axe, dataOf, on, PICTURES, report, reportInPart, run, start, stop } from "./support.mjs";

/** Largest file of 4 arms and 30 blocks with profiles. */
const MAX_BYTES = 2 * 1024 * 1024;
/** Longest wait for the verdict of that file. */
const MAX_MS = 1000;
/** How often it is opened: other tests run beside this one, and the shortest wait has least of theirs in it. */
const OPENED = 3;

let file;
before(async () => {
  await start();
  file = report("every.html", run("every"));
});
after(stop);

for (const [name, options] of [["wide", { width: 1280 }], ["dark", { width: 1280, scheme: "dark" }], ["phone", { width: 360, height: 740 }], ["4k", { width: 3840, height: 2160 }]]) {
  test(`${name}: nothing serious for axe, nothing wider than the screen`, async () => {
    await on(file, options, async (page) => {
      assert.deepEqual(await axe(page), []);
      assert.ok((await page.evaluate(() => document.documentElement.scrollWidth)) <= options.width);
      const drawn = await page.$$eval(".view:not([hidden]) .chart [role=img]", (all) => all.map((one) => one.getBoundingClientRect()).filter((box) => box.right > innerWidth + 1).length);
      assert.equal(drawn, 0, "charts fit");
      if (PICTURES && name !== "4k") {
        mkdirSync(PICTURES, { recursive: true });
        await page.screenshot({ path: join(PICTURES, `${name}.png`) });
      }
    });
  });
}

/** Has the browser note when the first verdict was on the screen: the paragraph itself, and not whatever came first. */
function watchVerdict() {
  new MutationObserver((_, observer) => {
    const verdict = document.querySelector("#verdict .lead p");
    if (!verdict) return;
    verdict.setAttribute("elementtiming", "verdict");
    observer.disconnect();
  }).observe(document, { childList: true, subtree: true });
  new PerformanceObserver((list) => {
    const [{ renderTime, element }] = list.getEntries();
    window.verdict = { at: renderTime, text: element.textContent };
  }).observe({ type: "element", buffered: true });
}

test("a run of 4 arms and 30 blocks with profiles stays small and is soon read", async () => {
  const page = report("large.html", large("large"));
  const { size } = statSync(page);
  assert.equal(dataOf(page).runs[0].profiles.arms.length, 4, "every arm has its profile");
  assert.ok(size <= MAX_BYTES, `${size} bytes`);
  const waits = [];
  for (let opened = 0; opened < OPENED; opened++) {
    await on(page, { init: watchVerdict }, async (page) => {
      await page.waitForFunction(() => window.verdict);
      const { at, text } = await page.evaluate(() => window.verdict);
      assert.match(text, /threads/);
      waits.push(Math.round(at));
      assert.ok((await page.$$("#profile .view:not([hidden]) .boxes rect")).length > 100, "and its flame graph is drawn");
    });
  }
  console.log(`large: ${size} bytes, first verdict ${waits.join(", ")} ms after the beginning`);
  assert.ok(Math.min(...waits) <= MAX_MS, `${waits} ms`);
});

test("a name with markup in it is text, in tables and in charts", async () => {
  const evil = "<img src=x onerror=alert(1)>";
  const named = report("evil.html", run("evil", (name, value) => {
    if (name === "manifest.json") value.plan.arms[1].name = evil;
    if (value.arm === "futures") value.arm = evil;
  }));
  await on(named, {}, async (page) => {
    let alerted = false;
    page.on("dialog", (dialog) => { alerted = true; void dialog.dismiss(); });
    assert.equal((await page.$$("main img")).length, 0);
    assert.ok((await page.innerText("#verdict")).includes(evil));
    assert.ok((await page.getAttribute("#verdict .view:not([hidden]) [role=img]", "aria-label")).includes(evil));
    assert.equal(alerted, false);
  });
});

test("several runs stand beside each other, and one that cannot be read says why", async () => {
  const newer = run("newer", (name, value) => name === "manifest.json" && (value.schema = 99));
  const host = run("host", (name, value) => name === "host.json" && (value.kernel = "9.9"));
  const { file, stderr } = reportInPart("several.html", run("first"), host, newer);
  assert.match(stderr, /1 of 3 runs could not be read: .*newer.manifest.json has schema 99/);
  await on(file, {}, async (page) => {
    const text = await page.innerText("main");
    for (const words of ["unlike hosts", "Made on another host", "kernel", "has schema 99", "none is judged", "Runs beside each other"]) assert.ok(text.includes(words), words);
    assert.equal((await page.$$("article.run")).length, 2);
    assert.equal(text.split("Runs beside each other").length - 1, 1, "once");
    const drawn = await page.$$eval("#runs .chart [role=img]", (all) => all.map((one) => one.getAttribute("aria-label")));
    assert.ok(drawn.length >= 4, "a chart of each pair and primary metric");
    assert.ok(drawn.every((words) => words.split(";").length === 2), "in which both runs stand");
    assert.deepEqual(await axe(page), []);
  });
});

test("of a run in which files are damaged the rest is shown, under a banner", async () => {
  const hurt = run("hurt", (name, value) => name === "manifest.json" && (value.status = "running"));
  writeFileSync(join(hurt, "host.json"), "{");
  writeFileSync(join(hurt, "rounds/b000-p0.json"), "");
  await on(report("hurt.html", hurt), {}, async (page) => {
    const banners = await page.$$eval("article .banner", (all) => all.map((one) => one.textContent));
    for (const words of ["Partial run", "host.json is damaged", "b000-p0.json is damaged"]) assert.ok(banners.some((one) => one.includes(words)), `${words} in ${banners}`);
    assert.ok((await page.$$("#verdict .view:not([hidden]) [role=img]")).length > 0, "and it is drawn");
    assert.deepEqual(await axe(page), []);
  });
});

test("choices are those of all runs on the page, and a run keeps its own where it does not know one", async () => {
  const other = run("renamed", (name, value) => {
    if (name === "manifest.json") value.plan.arms[1].name = "fibers";
    if (value.arm === "futures") value.arm = "fibers";
  });
  await on(report("choices.html", run("one"), other), {}, async (page) => {
    const texts = (selector) => page.$$eval(`#controls ${selector}`, (all) => all.map((one) => one.textContent.trim()));
    assert.deepEqual(await texts("fieldset label"), ["threads", "futures", "coroutines", "fibers"]);
    assert.deepEqual(await texts('label:has-text("baseline") option'), ["threads", "futures", "coroutines", "fibers"]);
    await page.locator('#controls label:has-text("baseline") select').selectOption("fibers");
    const shown = await page.$$eval("section[data-part=verdict] .view:not([hidden])", (all) => all.map((one) => one.dataset.baseline));
    assert.deepEqual(shown, ["threads", "fibers"]);
    await page.locator('#controls label:has-text("fibers") input').uncheck();
    assert.equal(await page.locator('section[data-part=verdict] .view:not([hidden]) tbody tr:not([hidden]) th:text-is("fibers")').count(), 0);
  });
});

test("an address that says nonsense shows the whole report", async () => {
  for (const hash of ["#;;=;baseline=nobody;metric=nothing;off=%%%;condition=x;theme=purple", "#latency", "#%E0%A4%A"]) {
    await on(file, { hash }, async (page) => {
      assert.ok((await page.$$("#waterfall .view:not([hidden]) [role=img]")).length > 0, hash);
    });
  }
});
