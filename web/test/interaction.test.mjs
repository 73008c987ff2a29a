// What a reader can do, and that it stays done.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { after, before, test } from "node:test";
import { sampleSmall } from "./profiles.mjs";
import { axe, dataOf, on, report, run, start, stop } from "./support.mjs";

let file, data, own;
before(async () => {
  await start();
  file = report("interaction.html", run("interaction"));
  data = dataOf(file);
  own = data.runs[0].findings[0];
});
after(stop);

const choose = (page, label, value) => page.locator(`#controls label:has-text("${label}") select`).selectOption(value);
const rows = (page, part) => page.$$eval(`#${part} .view:not([hidden]) table:first-of-type tbody tr:not([hidden])`, (all) => all.map((row) => [...row.cells].map((cell) => cell.textContent)));
/** What was written to the clipboard. */
const copied = async (page) => page.evaluate(() => window.copied);
const watchClipboard = (page) => page.evaluate(() => Object.defineProperty(navigator, "clipboard", { value: { writeText: async (text) => void (window.copied = text) } }));

test("another baseline turns every figure, and the address keeps it", async () => {
  await on(file, {}, async (page) => {
    await choose(page, "baseline", "coroutines");
    const turned = data.runs[0].findings.find((one) => one.baseline === "coroutines");
    const row = turned.comparisons.find((one) => one.arm === "threads" && one.metric === "cpu_per_request");
    assert.match(await page.innerText("#verdict"), new RegExp(`threads is ${row.ratio.toFixed(3)}x`));
    assert.ok((await page.getAttribute("#verdict .view:not([hidden]) [role=img]", "aria-label")).includes(`threads: ${row.verdict}, ${row.ratio.toFixed(3)}`));
    assert.match(page.url(), /baseline=coroutines/);
    await page.reload();
    assert.match(await page.innerText("#verdict"), new RegExp(`threads is ${row.ratio.toFixed(3)}x`));
  });
});

test("a metric and a filter change charts and tables alike", async () => {
  await on(file, {}, async (page) => {
    await choose(page, "metric", "rate");
    await page.locator('#controls label:has-text("futures") input').uncheck();
    assert.deepEqual((await rows(page, "verdict")).map((row) => [row[0], row[1]]), [["coroutines", "rate"]]);
    const says = await page.$$eval("#verdict .view:not([hidden]) [role=img]", (all) => all.map((one) => one.getAttribute("aria-label")));
    assert.equal(says.length, 1);
    assert.ok(says[0].startsWith("rate") && !says[0].includes("futures"));
    assert.match(page.url(), /metric=rate/);
    assert.match(page.url(), /off=futures/);
    await page.reload();
    assert.equal((await rows(page, "verdict")).length, 1);
  });
});

test("columns sort by what their figures mean, both ways", async () => {
  await on(file, {}, async (page) => {
    const header = page.locator('#verdict .view:not([hidden]) th:has-text("ratio") button');
    const ratios = async () => (await rows(page, "verdict")).map((row) => parseFloat(row[3])).filter(Number.isFinite);
    await header.click();
    const up = await ratios();
    assert.deepEqual(up, [...up].sort((a, b) => a - b));
    await header.press("Enter");
    assert.deepEqual(await ratios(), [...up].reverse());
    // 870 ns is less than 1.42 ms.
    await page.locator('#latency th:has-text("response") button').click();
    const size = (text) => parseFloat(text) * { ns: 1, "µs": 1e3, ms: 1e6, s: 1e9 }[text.split(" ")[1]];
    const responses = (await rows(page, "latency")).map((row) => size(row[4]));
    assert.deepEqual(responses, [...responses].sort((a, b) => a - b));
  });
});

test("a mark tells its figure, its interval and n", async () => {
  await on(file, {}, async (page) => {
    const row = own.comparisons.find((one) => one.arm === "futures" && one.metric === "cpu_per_request");
    const dot = page.locator("#verdict .view:not([hidden]) figure:nth-of-type(1) [aria-label=dot] path").first();
    await dot.scrollIntoViewIfNeeded();
    await dot.hover();
    const tip = await page.locator("#verdict .view:not([hidden]) figure:nth-of-type(1) [aria-label=tip]").textContent();
    for (const words of [row.ratio.toFixed(3), row.ci_low.toFixed(3), row.ci_high.toFixed(3), `n = ${row.blocks} blocks`]) assert.ok(tip.includes(words), `${words} in ${tip}`);
  });
});

/** What the tip of a chart says once its mark is pointed at. */
const told = async (page, chart, mark) => {
  const one = page.locator(`${chart} ${mark}`).first();
  await one.scrollIntoViewIfNeeded();
  await one.hover({ force: true });
  // Where its lines are broken stands a character without width.
  return (await page.locator(`${chart} [aria-label=tip]`).textContent()).replaceAll(/ ?\u200b/g, " ");
};

test("every chart tells exact values, with n and how sure they are", async () => {
  const row = own.comparisons.find((one) => one.metric === "cpu_per_request");
  const [base] = own.arms;
  const share = (value) => `${(value * 100).toFixed(1)} %`;
  const interval = `[${row.ci_low.toFixed(3)}, ${row.ci_high.toFixed(3)}]`;
  const places = [
    ["limits", "[aria-label=bar] rect", [share(base.server_set_busy), ...base.server_set_busy_range.map(share), `n = ${base.rounds} rounds`]],
    ["pairs", "[aria-label=dot] path", ["block 1", "against", interval, `n = ${row.blocks} pairs`]],
  ];
  await on(file, {}, async (page) => {
    for (const [part, mark, wanted] of places) {
      const tip = await told(page, `#${part} .view:not([hidden]) .chart > figure:nth-of-type(1)`, mark);
      for (const words of wanted) assert.ok(tip.includes(words), `${part}: ${words} in ${tip}`);
    }
    const timeline = own.comparisons.filter((one) => one.metric === "cpu_per_request").length + 1;
    const tip = await told(page, `#pairs .view:not([hidden]) .chart > figure:nth-of-type(${timeline})`, "[aria-label=dot] circle");
    assert.match(tip, /n = [\d\u202f]+ requests in this second/);
    assert.match(tip, /its seconds from/);
  });
});

test("an arm that is not shown is in no chart and no table of its own", async () => {
  const sampled = run("filtered");
  sampleSmall(sampled);
  await on(report("filtered.html", sampled), {}, async (page) => {
    const shown = (part) => page.$$eval(`#${part} .view:not([hidden]) [data-arm]`, (all) => all.filter((one) => one.checkVisibility()).map((one) => one.dataset.arm));
    assert.deepEqual(await shown("use"), ["threads", "futures", "coroutines"]);
    // Each arm has a chart and, where causes are told by it, a table.
    const profiled = async () => [...new Set(await shown("profile"))];
    assert.deepEqual(await profiled(), ["futures", "coroutines"]);
    await page.locator('#controls label:has-text("futures") input').uncheck();
    assert.deepEqual(await shown("use"), ["threads", "coroutines"]);
    assert.deepEqual(await profiled(), ["coroutines"]);
    assert.match(await page.locator("#profile .view:not([hidden]) .flame figcaption").textContent(), /coroutines against threads/);
    await page.locator('#controls label:has-text("threads") input').uncheck();
    assert.match(await page.locator("#profile .view:not([hidden]) .flame figcaption").textContent(), /function, coroutines$/);
    await page.locator('#controls label:has-text("coroutines") input').uncheck();
    assert.equal(await page.locator("#profile .view:not([hidden]) .flame").count(), 0);
    assert.deepEqual(await shown("use"), []);
    await page.reload();
    assert.deepEqual(await shown("use"), []);
    await page.locator('#controls label:has-text("futures") input').check();
    assert.deepEqual(await shown("use"), ["futures"]);
  });
});

test("how a table is sorted stands in the address", async () => {
  await on(file, {}, async (page) => {
    const header = page.locator('#ledger .view:not([hidden]) th:has-text("carries") button');
    const causes = async () => (await rows(page, "ledger")).map((row) => row.slice(0, 3).join());
    const asWritten = await causes();
    await header.click();
    await header.click();
    const down = await causes();
    assert.notDeepEqual(down, asWritten);
    // A slow browser writes the order of the first click as well.
    await page.waitForFunction(() => /sort=[^;]*down/.test(location.hash));
    await page.reload();
    assert.deepEqual(await causes(), down);
    assert.equal(await page.locator('#ledger .view:not([hidden]) th[aria-sort="descending"]').count(), 1);
    await choose(page, "metric", "rate");
    assert.deepEqual(await causes(), down);
  });
});

test("two reports that are dropped together stand beside this one, and a table of theirs is copied", async () => {
  const named = (id) => report(`${id}.html`, run(id, (name, value) => name === "manifest.json" && (value.run_id = id)));
  const both = ["second", "third"].map((id) => [`${id}.html`, readFileSync(named(id), "utf8")]);
  await on(file, {}, async (page) => {
    await page.evaluate((files) => {
      const transfer = new DataTransfer();
      for (const [name, text] of files) transfer.items.add(new File([text], name));
      window.dispatchEvent(new DragEvent("drop", { dataTransfer: transfer, bubbles: true, cancelable: true }));
    }, both);
    await page.waitForSelector('#beside:has-text("third (third.html)")');
    const says = await page.$$eval("#beside [role=img]", (all) => all.map((one) => one.getAttribute("aria-label")));
    assert.equal(says.length, own.comparisons.filter((row) => row.primary).length);
    for (const words of says) for (const name of [own.run_id, "second (second.html)", "third (third.html)"]) assert.ok(words.includes(name), words);
    await watchClipboard(page);
    await page.locator('#beside button:has-text("copy as CSV")').last().click();
    assert.match(await copied(page), /^run,arm,CPU\/request/);
    assert.deepEqual(await axe(page), []);
  });
});

test("tables are copied as Markdown and as CSV, as they are shown", async () => {
  await on(file, { hash: "#verdict;metric=rate" }, async (page) => {
    await watchClipboard(page);
    await page.locator('#verdict .view:not([hidden]) button:has-text("copy as Markdown")').click();
    const lines = (await copied(page)).trim().split("\n");
    assert.match(lines[0], /^\| arm \| metric \| verdict \|/);
    assert.equal(lines.length, 2 + own.comparisons.filter((row) => row.metric === "rate").length);
    await page.locator('#verdict .view:not([hidden]) button:has-text("copy as CSV")').click();
    const csv = await copied(page);
    const row = own.comparisons.find((one) => one.metric === "rate");
    assert.ok(csv.includes(`"[${row.ci_low.toFixed(3)}, ${row.ci_high.toFixed(3)}]"`), "a cell with a comma is quoted");
    await page.locator('#environment button:has-text("copy the command")').click();
    assert.match(await copied(page), /^whyslow compare --blocks 6/);
  });
});

test("the data comes out as it went in", async () => {
  await on(file, {}, async (page) => {
    const [download] = await Promise.all([page.waitForEvent("download"), page.locator('button:has-text("save the data")').click()]);
    const saved = JSON.parse(readFileSync(await download.path(), "utf8"));
    assert.deepEqual(saved.runs[0].findings, data.runs[0].findings);
  });
});

test("another report that is dropped on the page stands beside this one", async () => {
  const other = report("other.html", run("other", (name, value) => {
    if (name === "manifest.json") value.run_id = "another-run";
    if (name === "host.json") value.kernel = "1.2.3";
  }));
  await on(file, {}, async (page) => {
    const drop = (name, text) => page.evaluate(([name, text]) => {
      const transfer = new DataTransfer();
      transfer.items.add(new File([text], name));
      window.dispatchEvent(new DragEvent("drop", { dataTransfer: transfer, bubbles: true, cancelable: true }));
    }, [name, text]);
    await drop("other.html", readFileSync(other, "utf8"));
    await page.waitForSelector("#beside");
    const text = await page.innerText("#beside");
    assert.match(text, /unlike hosts/);
    assert.match(text, /another-run \(other\.html\)/);
    const primary = own.comparisons.filter((row) => row.primary).length;
    assert.equal((await page.$$("#beside table:first-of-type tbody tr")).length >= 2 * primary, true);
    const carried = JSON.parse(/id="whyslow-data">(.*?)<\/script>/s.exec(readFileSync(other, "utf8"))[1]);
    const spoilt = (spoil) => {
      const copy = structuredClone(carried);
      spoil(copy.runs[0].findings[0]);
      return JSON.stringify(copy);
    };
    const files = {
      "verdict.json": spoilt((findings) => (findings.comparisons[0].verdict = "better")),
      "figures.json": spoilt((findings) => (findings.comparisons[0].ci_low = "0.4")),
      "arms.json": spoilt((findings) => delete findings.arms),
      "host.json": spoilt((findings) => (findings.host = null)),
      "empty.json": JSON.stringify({ schema: 2, runs: [{ findings: [] }] }),
      "broken.json": "{",
      "findings.json": JSON.stringify({ ...carried.runs[0].findings[0], schema: 99 }),
    };
    for (const [name, text] of Object.entries(files)) {
      await drop(name, text);
      await page.waitForSelector(`[role=alert]:has-text("${name} cannot be compared")`);
    }
    // The page goes on as if they had not been dropped.
    await choose(page, "metric", "rate");
    assert.equal(await page.innerText("#beside"), text);
    assert.equal((await page.$$("#verdict .view:not([hidden]) [role=img]")).length, 1);
    await drop("nonsense.json", '{"schema": 1}');
    await page.waitForSelector('[role=alert]:has-text("nonsense.json cannot be compared")');
    await drop("newer.json", JSON.stringify({ schema: 99, runs: [] }));
    await page.waitForSelector('[role=alert]:has-text("schema 99")');
  });
});

test("light and dark are chosen, kept, and follow the system unless chosen", async () => {
  await on(file, { scheme: "dark" }, async (page) => {
    const paper = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
    const dark = await paper();
    await choose(page, "colours", "light");
    assert.equal(await paper(), "rgb(255, 255, 255)");
    await page.reload();
    assert.equal(await paper(), "rgb(255, 255, 255)");
    await choose(page, "colours", "");
    assert.equal(await paper(), dark);
    assert.notEqual(dark, "rgb(255, 255, 255)");
  });
});

test("what is jumped to is not hidden by the bar", async () => {
  for (const width of [1280, 900, 360]) {
    await on(file, { width }, async (page) => {
      for (const part of ["limits", "latency", "use", "environment"]) {
        await page.locator(`.bar nav a[href="#${part}"]`).click();
        const hidden = await page.$eval(`#${part} h2`, (heading) => {
          const { left, top, height } = heading.getBoundingClientRect();
          return document.elementFromPoint(left + 5, top + height / 2) !== heading;
        });
        assert.equal(hidden, false, `${part} at ${width}`);
      }
    });
  }
});

test("on a phone the choices are one line until they are asked for, and stay open while they are used", async () => {
  await on(file, { width: 360, height: 740 }, async (page) => {
    const select = page.locator('#controls label:has-text("metric") select');
    assert.equal(await select.isVisible(), false);
    assert.ok((await page.locator("#verdict .lead > p").first().boundingBox()).y < 740, "the verdict is on the first screen");
    await page.locator("#controls summary").click();
    await select.selectOption("rate");
    assert.equal(await select.isVisible(), true);
  });
});

test("a newcomer finds the words, and the way to the reason", async () => {
  await on(file, {}, async (page) => {
    const words = page.locator("#verdict .view:not([hidden]) .words");
    assert.equal(await words.locator("dd").first().isVisible(), false, "folded");
    await words.locator("summary").click();
    for (const word of ["arm", "baseline", "block", "noise floor", "interval"]) assert.ok(await words.locator(`dt:text-is("${word}")`).isVisible(), word);
    const links = await page.$$eval("#verdict .view:not([hidden]) .onward a", (all) => all.map((one) => [one.getAttribute("href"), one.textContent]));
    assert.deepEqual(links.map(([to]) => to), ["#limits", "#ledger"]);
    assert.ok(links[0][1].includes(own.arms[0].limiter), JSON.stringify(links));
    assert.equal(links[1][1], "Every cause, and what was ruled out");
    assert.match(await page.innerText("#verdict .view:not([hidden])"), /^Why/m, "the reasons stand above the links");
    const says = await page.$$eval("#verdict .view:not([hidden]) svg", (all) => all.map((one) => one.textContent));
    assert.match(says[0], /← better · same as threads/);
    assert.match(says[1], /same as threads · better →/);
  });
});

test("paper is white, whatever was chosen for the screen", async () => {
  await on(file, { hash: "#verdict;theme=dark" }, async (page) => {
    const colours = () => page.evaluate(() => [getComputedStyle(document.body).color, getComputedStyle(document.body).backgroundColor]);
    const [ink] = await colours();
    await page.emulateMedia({ media: "print" });
    assert.deepEqual(await colours(), ["rgb(27, 31, 36)", "rgb(255, 255, 255)"]);
    await page.emulateMedia({ media: "screen" });
    assert.deepEqual((await colours())[0], ink);
    assert.notEqual(ink, "rgb(27, 31, 36)");
  });
});

test("on paper there are charts and tables, and no controls", async () => {
  await on(file, {}, async (page) => {
    await page.emulateMedia({ media: "print" });
    assert.equal(await page.locator("#controls").isVisible(), false);
    const folded = page.locator("#pairs .view:not([hidden]) details, #latency details").first();
    if (await folded.count()) assert.equal(await folded.locator("tbody td").first().isVisible(), true, "what is folded is open on paper");
    assert.equal(await page.locator("#verdict .view:not([hidden]) [role=img]").first().isVisible(), true);
    assert.ok((await page.pdf()).length > 10_000);
  });
});

test("everything can be reached by keyboard", async () => {
  await on(file, {}, async (page) => {
    await page.keyboard.press("Tab");
    assert.equal(await page.evaluate(() => document.activeElement.className), "skip");
    const names = new Set();
    for (let press = 0; press < 30; press++) {
      await page.keyboard.press("Tab");
      names.add(await page.evaluate(() => document.activeElement.closest("label")?.textContent.trim().split(" ")[0] ?? document.activeElement.textContent.trim()));
    }
    for (const name of ["baseline", "metric", "threads", "futures", "print", "compare"]) assert.ok(names.has(name), `${name} in ${[...names]}`);
    await page.locator("#controls select").first().focus();
    await page.keyboard.press("ArrowDown");
    assert.equal(await page.evaluate(() => document.activeElement.value), "futures", "the control keeps the focus when the page is drawn anew");
  });
});
