// The differential flame graph: figures, search, zoom, grouping, and what other viewers are given.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { after, before, test } from "node:test";
import { sampleSmall } from "./profiles.mjs";
import { axe, dataOf, on, report, run, start, stop } from "./support.mjs";

let file, data, own;
before(async () => {
  await start();
  const sampled = run("sampled");
  sampleSmall(sampled);
  file = report("flame.html", sampled);
  data = dataOf(file).runs[0];
  own = data.findings[0];
});
after(stop);

const cost = (arm) => own.arms.find((one) => one.name === arm).cpu_ns_per_request.total;
const us = (ns) => `${(ns / 1000).toFixed(ns >= 99_950 ? 0 : ns >= 9_995 ? 1 : 2)} µs`;
const pick = (page, label, value) => page.locator(`#profile .view:not([hidden]) label:has-text("${label}") select`).selectOption(value);
const boxes = (page) => page.locator("#profile .view:not([hidden]) .boxes rect");
const said = (page) => page.locator("#profile .view:not([hidden]) .flame .about").textContent();

/** What the box that is pointed at, or that the keyboard stands on, tells. */
const told = (page) => page.locator("#profile .view:not([hidden]) .flame .tip").innerText();
const stage = (page) => page.locator("#profile .view:not([hidden]) .stage");

test("every function is a box whose width is its cost", async () => {
  await on(file, {}, async (page) => {
    assert.deepEqual(data.profiles.arms.map((one) => one.arm), ["threads", "futures", "coroutines"]);
    // all, main, serve, parse, write, sys_write, lock, poll
    assert.equal(await boxes(page).count(), 8);
    await pick(page, "show", "a");
    const widths = await boxes(page).evaluateAll((all) => all.map((one) => one.getBoundingClientRect().width));
    const [whole] = widths;
    const share = (width) => Math.round((width / whole) * 10) / 10;
    assert.deepEqual(widths.map(share).sort(), [0.1, 0.3, 0.3, 0.6, 1, 1, 1], "lock, write and its call, parse, and three that hold all");
    await pick(page, "show", "only b");
    assert.match(await page.locator("#profile .view:not([hidden]) .flame figcaption").textContent(), /only in futures/);
    assert.equal(await boxes(page).count(), 3, "all, main and poll");
  });
});

test("a box tells both costs, their errors, and the samples behind them", async () => {
  await on(file, { hash: "#profile" }, async (page) => {
    await page.locator("#profile .view:not([hidden]) .flame svg text:text-is('http1::parse')").first().scrollIntoViewIfNeeded();
    const box = await page.locator("#profile .view:not([hidden]) .flame svg text:text-is('http1::parse')").first().boundingBox();
    await page.mouse.move(box.x + box.width / 2, box.y + box.height / 2);
    const tip = await told(page);
    assert.ok(tip.includes(`threads: ${us(cost("threads") * 0.6)}`) && tip.includes("n = 600 samples of 1000"), tip);
    assert.ok(tip.includes(`futures: ${us((cost("futures") * 200) / 600)}`) && tip.includes("n = 200 samples of 600"), tip);
  });
});

test("search sums what it finds, a click zooms, and modules gather functions", async () => {
  await on(file, {}, async (page) => {
    await pick(page, "show", "a");
    await page.locator("#profile .view:not([hidden]) input[type=search]").fill("PARSE");
    assert.equal(await said(page), `“PARSE”: ${us(cost("threads") * 0.6)} of ${us(cost("threads"))} a request`);
    await page.locator("#profile .view:not([hidden]) input[type=search]").fill("");
    await boxes(page).nth(2).click();
    assert.match(await said(page), /^all → main → serve/);
    await page.locator("#profile .view:not([hidden]) button:text-is('whole')").click();
    await pick(page, "group by", "module");
    assert.equal(await boxes(page).count(), 3, "all, server and [kernel]");
    await page.waitForURL(/flame=a\.module/);
    await pick(page, "group by", "package");
    await page.waitForURL(/flame=a\.package/);
    assert.equal(await boxes(page).count(), 4, "all, server, the crate of parse, and [kernel]");
  });
});

test("profiles go to other viewers whole", async () => {
  await on(file, {}, async (page) => {
    const save = async (name) => {
      const [download] = await Promise.all([page.waitForEvent("download"), page.locator(`#profile .view:not([hidden]) button:text-is("${name}")`).click()]);
      return readFileSync(await download.path(), "utf8");
    };
    const scope = JSON.parse(await save("save threads for speedscope"));
    const [sampled] = scope.profiles;
    const sum = sampled.weights.reduce((a, b) => a + b);
    assert.ok(Math.abs(sum / cost("threads") - 1) < 1e-9 && Math.abs(sampled.endValue - sum) < 1e-6);
    assert.equal(sampled.samples.length, sampled.weights.length);
    assert.ok(sampled.samples.flat().every((index) => scope.shared.frames[index] !== undefined));
    const perf = await save("save threads for Firefox Profiler");
    // How Firefox Profiler recognises what `perf script` prints.
    assert.match(perf.split("\n")[0], /^\S.*?\s+(?:\d+\/)?\d+\s+(?:\[\d+\]\s+)?[\d.]+:/);
    assert.equal(perf.split("cpu-clock:").length - 1, 1000, "one for each sample");
    assert.ok(perf.includes("\t1 sys_write_k ([kernel.kallsyms])\n\t1 write (server)\n"), "innermost first");
  });
});

test("the flame graph has its tables and nothing serious for axe", async () => {
  await on(file, {}, async (page) => {
    const text = await page.innerText("#profile .view:not([hidden])");
    for (const words of ["parse", "sys_write_k", "function", "±"]) assert.ok(text.includes(words), words);
    assert.deepEqual(await axe(page), []);
  });
});

test("at its very edge a box tells of itself, and not of the neighbour whose middle is nearer", async () => {
  await on(file, { hash: "#profile;flame=a.function" }, async (page) => {
    await stage(page).scrollIntoViewIfNeeded();
    // Below serve: parse is 600 wide, lock 100 and write 300.
    for (const [index, rect] of (await boxes(page).all()).entries()) {
      for (const inward of [(box) => box.x + 1, (box) => box.x + box.width - 1]) {
        const box = await rect.boundingBox();
        await page.mouse.click(inward(box), box.y + box.height / 2);
        const [name] = (await said(page)).split(" → ").slice(-1);
        await page.locator("#profile .view:not([hidden]) button:text-is('whole')").click();
        const again = await rect.boundingBox();
        await page.mouse.move(inward(again), again.y + again.height / 2);
        const [first] = (await told(page)).split("\n");
        assert.equal(first, index === 0 ? "all" : name, "what is shown is what a click opens");
      }
    }
  });
});

test("a flame graph is walked through by keyboard", async () => {
  await on(file, { hash: "#profile;flame=a.function" }, async (page) => {
    await page.locator("#profile .view:not([hidden]) .flame .tools button").last().focus();
    await page.keyboard.press("Tab");
    const press = async (...keys) => {
      for (const key of keys) await page.keyboard.press(key);
      return (await told(page)).split("\n")[0];
    };
    assert.equal(await press(), "all");
    assert.equal(await press("ArrowDown", "ArrowDown"), "serve");
    assert.equal(await press("ArrowDown"), "http1::parse", "the widest of what it calls");
    assert.equal(await press("ArrowRight"), "lock");
    assert.equal(await press("ArrowRight"), "write");
    assert.equal(await press("ArrowRight"), "write", "there is nothing beyond");
    assert.equal(await press("Enter"), "write", "it is the widest now, and stands under the keyboard");
    assert.equal(await said(page), "all → main → serve → write");
    assert.equal(await press("ArrowDown", "ArrowUp", "ArrowUp"), "write", "no caller is drawn above it");
    assert.equal(await press("Escape"), "all");
    assert.match(await said(page), /^Click a box/);
    assert.deepEqual(await axe(page), []);
  });
});

test("zoom and search stay when the page is drawn anew, and stand in the address", async () => {
  await on(file, {}, async (page) => {
    await pick(page, "show", "a");
    await boxes(page).nth(2).click();
    await page.waitForFunction(() => location.hash.includes("zoom="));
    await page.locator('#controls label:has-text("metric") select').selectOption("rate");
    assert.equal(await said(page), "all → main → serve");
    const search = page.locator("#profile .view:not([hidden]) input[type=search]");
    await search.pressSequentially("PARSE");
    await page.waitForFunction(() => location.hash.includes("search=PARSE"));
    await page.reload();
    assert.equal(await search.inputValue(), "PARSE");
    assert.equal(await said(page), `“PARSE”: ${us(cost("threads") * 0.6)} of ${us(cost("threads"))} a request`);
    await search.fill("");
    assert.equal(await said(page), "all → main → serve");
  });
});
