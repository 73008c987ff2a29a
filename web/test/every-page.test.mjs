// What holds of every page: access, width, speed, size, and names that are text.

import assert from "node:assert/strict";
import { mkdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { axe, on, PICTURES, report, run, start, stop } from "./support.mjs";

/** Largest file of 4 arms and 30 blocks. */
const MAX_BYTES = 2 * 1024 * 1024;
/** Longest wait for the verdict of that file. */
const MAX_MS = 1000;

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
      if (PICTURES) {
        mkdirSync(PICTURES, { recursive: true });
        await page.screenshot({ path: join(PICTURES, `${name}.png`), fullPage: name !== "phone" });
      }
    });
  });
}

test("a run of 4 arms and 30 blocks stays small and is soon read", async () => {
  const large = run("large", (name, value) => {
    if (name !== "manifest.json") return;
    value.plan.arms.push({ ...value.plan.arms[2], name: "fourth" });
    value.builds.push({ ...value.builds[2], arm: "fourth" });
    value.pilot_per_s.push(90_000);
    value.plan.design.blocks.blocks = 30;
  });
  const kept = [0, 1, 2].map((place) => JSON.parse(readFileSync(join(large, `rounds/b000-p${place}.json`), "utf8")));
  kept.push({ ...kept[2], arm: "fourth", round: { ...kept[2].round, arm: 3 } });
  for (let block = 0; block < 30; block++) {
    for (const [position, record] of kept.entries()) {
      const round = structuredClone(record);
      Object.assign(round.round, { block, position });
      round.started_unix_ms += 1000 * (block * 4 + position);
      for (const window of round.windows) {
        // Ten seconds, as a whole run has them.
        window.load.seconds = Array.from({ length: 10 }, () => window.load.seconds[0]);
        window.target.cpu.total_ns += ((block * 7919 + position * 104729) % 1000) * 1000;
      }
      writeFileSync(join(large, `rounds/b${String(block).padStart(3, "0")}-p${position}.json`), JSON.stringify(round));
    }
  }
  const page = report("large.html", large);
  const { size } = statSync(page);
  assert.ok(size <= MAX_BYTES, `${size} bytes`);
  await on(page, {}, async (page) => {
    const painted = await page.evaluate(() => new Promise((resolve) => requestAnimationFrame(() => resolve(performance.now()))));
    assert.match(await page.innerText("#verdict"), /threads/);
    console.log(`large: ${size} bytes, first picture with charts ${Math.round(painted)} ms after the beginning`);
    assert.ok(painted <= MAX_MS, `${painted} ms`);
  });
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
  await on(report("several.html", run("first"), host, newer), {}, async (page) => {
    const text = await page.innerText("main");
    for (const words of ["unlike hosts", "kernel", "has schema 99", "Runs beside each other"]) assert.ok(text.includes(words), words);
    assert.equal((await page.$$("article.run")).length, 2);
    assert.deepEqual(await axe(page), []);
  });
});

test("an address that says nonsense shows the whole report", async () => {
  for (const hash of ["#;;=;baseline=nobody;metric=nothing;off=%%%;condition=x;theme=purple", "#latency", "#%E0%A4%A"]) {
    await on(file, { hash }, async (page) => {
      assert.ok((await page.$$("#waterfall .view:not([hidden]) [role=img]")).length > 0, hash);
    });
  }
});
