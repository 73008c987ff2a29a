// Each part is drawn with the figures of the JSON in the page.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { dataOf, on, report, run, start, stop } from "./support.mjs";

let file, data, own;
before(async () => {
  await start();
  file = report("parts.html", run("parts"));
  data = dataOf(file).runs[0];
  own = data.findings[0];
});
after(stop);

/** Marks of a part's charts as they lie on the screen. */
const marks = (page, part, selector) =>
  page.$$eval(`#${part} .view:not([hidden]) .chart ${selector}`, (all) =>
    all.map((one) => {
      const box = one.getBoundingClientRect();
      return { x: box.x + box.width / 2, left: box.x, right: box.right, width: box.width, y: box.y + box.height / 2, text: one.textContent };
    }),
  );

/** What a place on a logarithmic axis means, from two of its ticks. */
function logScale(ticks) {
  const known = ticks.map(({ x, text }) => [x, Math.log(parseFloat(text))]).filter(([, log]) => Number.isFinite(log));
  const [[x1, v1], [x2, v2]] = [known[0], known.at(-1)];
  return (x) => Math.exp(v1 + ((x - x1) / (x2 - x1)) * (v2 - v1));
}

test("all ten parts are there, each drawn or said to have nothing", async () => {
  await on(file, {}, async (page) => {
    const parts = await page.$$eval("section[data-part]", (all) => all.map((one) => one.id));
    assert.deepEqual(parts, ["verdict", "limits", "waterfall", "ledger", "profile", "latency", "pairs", "use", "ladder", "environment"]);
    for (const part of ["verdict", "limits", "waterfall", "ledger", "latency", "pairs"]) {
      assert.ok((await page.$$(`#${part} .view:not([hidden]) .chart [role=img]`)).length > 0, `${part} is drawn`);
    }
    for (const part of ["ladder"]) assert.ok(await page.$(`#${part} .without`), `${part} says that it has nothing`);
  });
});

test("the forest plot has each primary ratio where its figure is", async () => {
  await on(file, {}, async (page) => {
    const primary = own.comparisons.filter((row) => row.primary);
    const figures = await page.$$("#verdict .view:not([hidden]) .chart figure");
    let seen = 0;
    for (const [index, metric] of ["cpu_per_request", "rate"].entries()) {
      const rows = primary.filter((row) => row.metric === metric);
      const nth = `figure:nth-of-type(${index + 1})`;
      const scale = logScale(await marks(page, "verdict", `${nth} [aria-label="x-axis tick label"] text`));
      const dots = await marks(page, "verdict", `${nth} [aria-label=dot] path`);
      const lines = await marks(page, "verdict", `${nth} [aria-label=rule] line`);
      assert.equal(dots.length, rows.length);
      for (const [place, row] of rows.entries()) {
        assert.ok(Math.abs(Math.log(scale(dots[place].x) / row.ratio)) < 0.01, `${row.arm} ${metric}: ${scale(dots[place].x)} for ${row.ratio}`);
        const line = lines.find((one) => Math.abs(one.y - dots[place].y) < 2 && one.width > 3);
        assert.ok(Math.abs(Math.log(scale(line.left) / row.ci_low)) < 0.01 && Math.abs(Math.log(scale(line.right) / row.ci_high)) < 0.01, "its interval");
        seen += 1;
      }
    }
    assert.equal(seen, primary.length);
    assert.equal(figures.length, 2);
  });
});

test("the waterfall goes from the baseline to the arm", async () => {
  await on(file, {}, async (page) => {
    for (const [index, split] of own.splits.entries()) {
      const texts = (await marks(page, "waterfall", `figure:nth-of-type(${index + 1}) [aria-label=text] text`)).map((one) => one.text);
      const us = (text) => parseFloat(text);
      const total = (name) => own.arms.find((arm) => arm.name === name).cpu_ns_per_request.total / 1000;
      const want = [total(own.baseline), split.user_ns / 1000, split.system_ns / 1000, total(split.arm)];
      assert.equal(texts.length, want.length, `no step is missing or made up: ${texts}`);
      for (const [place, text] of texts.entries()) assert.ok(Math.abs(us(text) - want[place]) <= Math.abs(want[place]) * 0.006, `${text} for ${want[place]} µs`);
    }
  });
});

test("the pairs are those of the JSON, told apart by which came first", async () => {
  await on(file, {}, async (page) => {
    const rows = own.comparisons.filter((row) => row.metric === "cpu_per_request");
    for (const [index, row] of rows.entries()) {
      const says = await page.getAttribute(`#pairs .view:not([hidden]) .chart > figure:nth-of-type(${index + 1}) [role=img]`, "aria-label");
      for (const [block, ln] of row.pairs) {
        const first = data.detail.rounds.find((round) => round.block === block && [row.arm, row.baseline].includes(round.arm));
        const order = first.arm === row.arm ? "arm first" : "baseline first";
        assert.ok(says.includes(`block ${block + 1}, ${order}: ${Math.exp(ln).toFixed(3)}`), says);
      }
    }
    const seconds = data.detail.rounds.map((round) => round.warmup_per_s.length + round.windows[0].per_s.length).reduce((a, b) => a + b);
    const pairs = rows.reduce((sum, row) => sum + row.pairs.length, 0);
    assert.equal((await marks(page, "pairs", "[aria-label=dot] :is(circle, path)")).length, seconds + pairs, "a dot for each second of each round, and one for each pair");
  });
});

test("latency is drawn for every arm and percentile that the JSON has", async () => {
  await on(file, {}, async (page) => {
    const curves = data.detail.latency.filter((curve) => !curve.closed_loop && curve.points.length > 0);
    const says = await page.getAttribute("#latency .chart [role=img]", "aria-label");
    for (const curve of curves) for (const point of curve.points) assert.ok(says.includes(`${curve.arm} ${point.quantile * 100} %`), says);
    assert.equal((await page.$$("#latency .chart [aria-label=area] path")).length, curves.length, "a band for each");
  });
});

test("tables hold the figures of the JSON", async () => {
  await on(file, {}, async (page) => {
    const rows = await page.$$eval("#verdict .view:not([hidden]) tbody tr", (all) => all.map((row) => [...row.cells].map((cell) => cell.textContent)));
    assert.equal(rows.length, own.comparisons.length);
    for (const [index, row] of own.comparisons.entries()) {
      assert.equal(rows[index][0], row.arm);
      assert.equal(rows[index][2], row.verdict);
      assert.equal(rows[index][3], row.ratio === null ? "-" : row.ratio.toFixed(3));
      assert.equal(rows[index][4], row.ci_low === null ? "-" : `[${row.ci_low.toFixed(3)}, ${row.ci_high.toFixed(3)}]`);
    }
    const gates = await page.$$eval("#limits .view:not([hidden]) tbody th", (all) => all.map((one) => one.textContent));
    assert.deepEqual(gates, own.gates.map((gate) => gate.id));
  });
});

test("without scripts there are verdict, gates and causes", async () => {
  const { open } = await import("./support.mjs");
  const { page, close } = await open(file, { scripts: false });
  const text = await page.innerText("main");
  for (const gate of own.gates) assert.ok(text.includes(gate.text), gate.id);
  for (const cause of own.causes) assert.ok(text.includes(cause.text), cause.id);
  assert.match(text, /faster than threads in CPU per request/);
  await close();
});
