// `whyslow view`: the list, the history, a run in progress, and what it refuses.

import assert from "node:assert/strict";
import { mkdirSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { request } from "node:http";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { axe, folder, on, PICTURES, run, start, stop, view } from "./support.mjs";

const RUNS = 12;
/** The run from which on the first arm needs less. */
const CHANGED = 7;

let server;
before(async () => {
  await start();
  mkdirSync(join(folder, "runs"));
  for (let index = 0; index < RUNS; index++) {
    run(`runs/run-${String(index).padStart(2, "0")}`, (name, value) => {
      if (name === "manifest.json") Object.assign(value, { run_id: `run-${index}`, started_unix_s: 1_800_000_000 + index * 86_400 });
      for (const window of value.windows ?? []) window.target.cpu.total_ns *= (value.arm === "threads" && index >= CHANGED ? 0.7 : 1) * (1 + ((index * 37) % 10) / 1000);
      for (const window of value.windows ?? []) window.target.cpu.total_ns = Math.round(window.target.cpu.total_ns);
    });
  }
  server = await view(join(folder, "runs"));
});
after(async () => {
  await server.stop();
  await stop();
});

/** One request as it is, without a browser's care for it. */
const ask = (path, { method = "GET", host } = {}) =>
  new Promise((resolve, reject) => {
    const { hostname, port, host: own } = new URL(server.address);
    const sent = request({ hostname, port, path, method, headers: { host: host ?? own } }, (answer) => {
      let body = "";
      answer.on("data", (bytes) => (body += bytes));
      answer.on("end", () => resolve({ status: answer.statusCode, headers: answer.headers, body }));
    });
    sent.on("error", reject);
    sent.end();
  });

test("the list leads to each run", async () => {
  await on(`${server.address}/`, {}, async (page) => {
    assert.equal((await page.$$("tbody tr")).length, RUNS);
    assert.deepEqual(await axe(page), []);
    await page.click("text=run-03");
    await page.waitForSelector("#verdict [role=img]");
    assert.ok((await page.$$("#verdict [role=img]")).length > 0);
  });
});

test("runs sort by the minute at which they began", async () => {
  await on(`${server.address}/`, {}, async (page) => {
    const header = page.locator('th:has-text("begun") button');
    const dates = () => page.$$eval("tbody tr", (all) => all.map((row) => row.cells[0].textContent));
    await header.click();
    const up = await dates();
    assert.equal(new Set(up).size, RUNS, "no two began at once");
    assert.deepEqual(up, [...up].sort());
    await header.click();
    assert.deepEqual(await dates(), [...up].reverse());
  });
});

test("a change in the history is where it was put", async () => {
  await on(`${server.address}/history`, {}, async (page) => {
    await page.waitForSelector(".drawing");
    const section = page.locator('section:has(h2:text-is("threads: CPU per request at capacity"))');
    const changed = await section.locator('tr:has-text("p = ")').allTextContents();
    assert.equal(changed.length, 1);
    assert.match(changed[0], /run-07/);
    assert.ok((await section.locator("[role=img]").count()) > 0, "it is drawn");
    assert.equal(await page.locator('section:has(h2:text-is("futures: CPU per request at capacity")) tr:has-text("p = ")').count(), 0);
    assert.deepEqual(await axe(page), []);
  });
});

test("a figure leads to the page of its run, by pointer and by keyboard", async () => {
  const place = 'section:has(h2:text-is("threads: CPU per request at capacity"))';
  await on(`${server.address}/history`, {}, async (page) => {
    const dot = page.locator(`${place} [aria-label=dot] circle`).nth(CHANGED);
    await dot.scrollIntoViewIfNeeded();
    await dot.hover();
    await dot.click();
    await page.waitForURL(/\/run\/run-07$/);
    await page.goBack();
    await page.locator(`${place} td a:text-is("run-03")`).focus();
    await page.keyboard.press("Enter");
    await page.waitForURL(/\/run\/run-03$/);
  });
});

for (const [name, options] of [["phone", { width: 360, height: 740 }], ["4k", { width: 3840, height: 2160 }], ["dark", { width: 1280, scheme: "dark" }]]) {
  test(`${name}: list and history fit, and nothing is serious for axe`, async () => {
    for (const path of ["/", "/history"]) {
      await on(server.address + path, options, async (page) => {
        assert.ok((await page.evaluate(() => document.documentElement.scrollWidth)) <= options.width, path);
        assert.deepEqual(await axe(page), [], path);
      });
    }
  });
}

test("only its own runs are served, to its own name, to be read", async () => {
  for (const path of ["/run/..", "/run/../runs", "/run/%2e%2e", "/run/%2e%2e%2fother", "/run/run-00/manifest.json", "/run/nobody", "/etc/passwd", "/run//etc/passwd", "/index.sqlite"]) {
    assert.equal((await ask(path)).status, 404, path);
  }
  assert.equal((await ask("/", { host: "attacker.example" })).status, 421);
  assert.equal((await ask("/", { method: "POST" })).status, 405);
  const { headers } = await ask("/run/run-00");
  const policy = headers["content-security-policy"];
  for (const words of ["default-src 'none'", "script-src 'sha256-", "frame-ancestors 'none'", "base-uri 'none'"]) assert.ok(policy.includes(words), policy);
  assert.ok(!policy.includes("script-src 'unsafe"));
  assert.equal(headers["x-content-type-options"], "nosniff");
});

test("a run in progress is followed to its end", async () => {
  const live = run("runs-live", (name, value) => name === "manifest.json" && (value.status = "running"));
  const rest = join(folder, "rest");
  mkdirSync(rest);
  for (const block of [3, 4, 5]) for (const place of [0, 1, 2]) renameSync(join(live, `rounds/b00${block}-p${place}.json`), join(rest, `b00${block}-p${place}.json`));
  renameSync(live, join(folder, "runs/live"));
  await on(`${server.address}/run/live`, {}, async (page) => {
    await page.waitForSelector('.live:has-text("3 of 6 blocks")');
    assert.match(await page.innerText(".live"), /after 3 pairs/);
    assert.match(await page.innerText("main"), /Partial run: not ended/);
    const courses = () => page.$$eval(".live [role=img]", (all) => all.map((one) => one.getAttribute("aria-label")));
    assert.equal((await courses()).length, 4, "two arms and two primary metrics");
    assert.ok((await courses()).every((words) => /after each pair\. 3 pairs: [\d.]+ \[[\d.]+, [\d.]+\] at 95\.0 %, approximate$/.test(words)), await courses());
    assert.deepEqual(await axe(page), []);
    for (const place of [0, 1, 2]) renameSync(join(rest, `b003-p${place}.json`), join(folder, `runs/live/rounds/b003-p${place}.json`));
    await page.waitForSelector('.live:has-text("4 of 6 blocks")');
    await page.waitForSelector('#verdict:has-text("4 blocks of")');
    assert.ok((await courses()).every((words) => words.includes("; 4 pairs: ")), "and the interval with it");
    await page.locator(".live summary").click();
    assert.equal(await page.locator(".live table").first().locator("tbody tr").count(), 2, "after three pairs and four");
    const width = (row) => row[2].match(/[\d.]+/g).map(Number).reduce((low, high) => Math.log(high / low));
    const tables = await page.$$eval(".live table", (all) => all.map((table) => [...table.tBodies[0].rows].map((row) => [...row.cells].map((cell) => cell.textContent))));
    assert.ok(tables.some(([three, four]) => width(four) < width(three)), "it narrows");
    for (const block of [4, 5]) for (const place of [0, 1, 2]) renameSync(join(rest, `b00${block}-p${place}.json`), join(folder, `runs/live/rounds/b00${block}-p${place}.json`));
    await page.waitForSelector('.live:has-text("6 of 6 blocks")');
    assert.ok((await courses()).every((words) => /; 6 pairs: [^;]*%$/.test(words)), "six pairs have an exact one");
    await page.locator(".live summary").click();
    if (PICTURES) {
      await page.evaluate(() => { document.querySelector(".bar").style.position = "static"; });
      await page.locator(".live").screenshot({ path: join(PICTURES, "live.png") });
    }
    const manifest = join(folder, "runs/live/manifest.json");
    writeFileSync(manifest, JSON.stringify({ ...JSON.parse(readFileSync(manifest, "utf8")), status: "complete" }));
    await page.waitForSelector(".live", { state: "detached" });
    assert.doesNotMatch(await page.innerText("main"), /Partial run/);
  });
});
