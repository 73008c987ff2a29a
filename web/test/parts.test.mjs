// Each part is drawn with the figures of the JSON in the page.

import assert from "node:assert/strict";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { sampleSmall } from "./profiles.mjs";
import { dataOf, on, PICTURES, report, run, start, stop } from "./support.mjs";

let file, data, own;
/** A run with all that a run can have: profiles, two equal rates, and made as a ladder. */
let fullFile, full;
before(async () => {
  await start();
  file = report("parts.html", run("parts"));
  data = dataOf(file).runs[0];
  own = data.findings[0];
  const all = run("full", complete);
  sampleSmall(all);
  fullFile = report("full.html", all);
  full = dataOf(fullFile).runs[0];
});
after(stop);

/** Three times the equal rate that the run was made with. */
function complete(name, value) {
  if (name === "manifest.json") {
    value.plan.workload.conditions.push({ kind: "share_of_slowest", percent: 75 });
    value.command[1] = "ladder";
  }
  if (value.windows === undefined) return;
  const window = structuredClone(value.windows[1]);
  const { load } = window;
  const { rate_per_s } = load.schedule;
  window.condition.rate = `${(3 * rate_per_s) / 1000}k`;
  Object.assign(load, { requests: 3 * load.requests, rate_per_s: 3 * load.rate_per_s });
  load.schedule.rate_per_s = 3 * rate_per_s;
  for (const times of [load.response_ns, load.service_ns]) {
    times.count *= 3;
    for (const share of ["p50", "p75", "p90"]) times[share] = Math.round(times[share] * 1.7);
  }
  value.windows.push(window);
}

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

/** A figure with its unit, as ticks have it: nanoseconds, shares, rates. */
function meaning(text) {
  const [, figure, unit] = /^([+-]?[\d.\u202f]+)\s*(ns|µs|ms|s|%)?/.exec(text);
  return parseFloat(figure.replaceAll("\u202f", "")) * ({ ns: 1, "µs": 1e3, ms: 1e6, s: 1e9, "%": 0.01 }[unit] ?? 1);
}

/** What a place on an axis means, from its first and its last tick; `kind` is Math.log for a logarithmic axis. */
function axis(ticks, along, kind = Number) {
  const known = ticks.map((tick) => [tick[along], kind(meaning(tick.text))]);
  const [[p1, v1], [p2, v2]] = [known[0], known.at(-1)];
  const back = kind === Math.log ? Math.exp : Number;
  return (place) => back(v1 + ((place - p1) / (p2 - p1)) * (v2 - v1));
}

const near = (found, wanted, part, what) => assert.ok(Math.abs(found - wanted) <= Math.abs(wanted) * part, `${what}: ${found} for ${wanted}`);

test("all ten parts are there, each drawn or said to have nothing", async () => {
  await on(file, {}, async (page) => {
    const parts = await page.$$eval("section[data-part]", (all) => all.map((one) => one.id));
    assert.deepEqual(parts, ["verdict", "limits", "waterfall", "ledger", "profile", "latency", "pairs", "use", "ladder", "environment"]);
    for (const part of ["verdict", "limits", "waterfall", "latency", "pairs"]) {
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

/** The boxes of the first picture of where the time goes, as its reader walks through them: what each tells. */
async function walk(page) {
  const stage = page.locator("#waterfall .view:not([hidden]) .stage").first();
  await stage.focus();
  await page.keyboard.press("Shift+Tab");
  await page.keyboard.press("Tab");
  const told = () => stage.locator(".tip").innerText();
  /** Whether the key led to another box. */
  const goes = async (key) => {
    const before = await told();
    await page.keyboard.press(key);
    return (await told()) !== before;
  };
  const seen = [];
  const row = async () => {
    while (await goes("ArrowLeft"));
    do seen.push(await told()); while (await goes("ArrowRight"));
  };
  /** From any box of the row that has some below it. */
  const down = async () => {
    do if (await goes("ArrowDown")) return true; while (await goes("ArrowLeft"));
    return false;
  };
  do await row(); while (await down());
  return seen;
}

test("what is saved and what is paid add up to the change, box by box and row by row", async () => {
  await on(fullFile, {}, async (page) => {
    const [found] = full.findings;
    const arms = [...new Set(found.attribution.map((leaf) => leaf.arm))];
    const pictures = await page.$$eval("#waterfall .view:not([hidden]) .stage", (all) => all.map((one) => one.querySelector("figcaption").textContent));
    assert.equal(pictures.length, arms.length, "a picture for each arm");
    const widths = (nth) => page.$$eval(`#waterfall .view:not([hidden]) .stage >> nth=${nth} >> .boxes rect`, (all) => all.map((one) => ({ left: one.getBoundingClientRect().left, right: one.getBoundingClientRect().right, y: one.getBoundingClientRect().top })));
    for (const [place, arm] of arms.entries()) {
      const leaves = found.attribution.filter((leaf) => leaf.arm === arm);
      const sum = (wanted) => leaves.filter(wanted).reduce((total, leaf) => total + leaf.delta_ns, 0);
      const cpu = (name) => found.arms.find((one) => one.name === name).cpu_ns_per_request.total;
      near(sum(() => true), cpu(arm) - cpu(found.baseline), 1e-6, `${arm}: leaves sum to the change`);
      const boxes = await widths(place);
      const zero = await page.$$eval(`#waterfall .view:not([hidden]) .stage >> nth=${place} >> [aria-label=rule] line`, ([line]) => line.getBoundingClientRect().left);
      const sides = [boxes.filter((box) => box.right <= zero + 2), boxes.filter((box) => box.left >= zero - 2)];
      assert.equal(sides[0].length + sides[1].length, boxes.length, "no box lies on both sides");
      const top = Math.min(...boxes.map((box) => box.y));
      const width = (side) => sides[side].filter((box) => box.y < top + 2).reduce((total, box) => total + box.right - box.left, 0);
      const [saved, paid] = [Math.abs(sum((leaf) => leaf.delta_ns < 0)), sum((leaf) => leaf.delta_ns > 0)];
      if (paid > 0 && saved > 0) near(width(1) / width(0), paid / saved, 0.05, `${arm}: both sides are on one scale`);
    }
    const seen = await walk(page);
    assert.ok(seen.some((words) => /parse/.test(words) && /saved ±/.test(words) && /→/.test(words)), `a leaf tells both figures: ${seen.join(" | ")}`);
  });
});

test("the table of the tree has the whole first, and what is below a row sums to it", async () => {
  await on(fullFile, { scripts: false }, async (page) => {
    const table = await page.$$eval("#waterfall .view:not([hidden]) table >> nth=0", ([one]) => [...one.tBodies[0].rows].map((row) => [...row.cells].map((cell) => cell.textContent)));
    const rows = table.map(([name, , , change]) => ({ depth: (/^\u00a0*/.exec(name)[0].length) / 2, ns: meaning(change.replace("-", "−").replace("−", "-")) }));
    assert.equal(rows[0].depth, 0);
    const below = rows.filter((row) => row.depth === 1).reduce((sum, row) => sum + row.ns, 0);
    near(below, rows[0].ns, 0.02, "user and kernel are the whole");
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
    const seconds = data.detail.rounds.map((round) => round.warmup_per_turn.length + round.windows[0].per_s.length).reduce((a, b) => a + b);
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
    const firsts = (nth) => page.$$eval(`#limits .view:not([hidden]) table >> nth=${nth}`, ([table]) => [...table.tBodies[0].rows].map((row) => [...row.cells].map((cell) => cell.textContent)));
    const gates = (await firsts(0)).map(([gate]) => gate);
    assert.deepEqual(gates, own.gates.map((gate) => gate.id));
    const share = (value) => `${(value * 100).toFixed(1)} %`;
    const busy = own.arms.map((arm) => [arm.name, share(arm.server_set_busy), `[${arm.server_set_busy_range.map(share).join(", ")}]`]);
    assert.deepEqual((await firsts(1)).map((row) => row.slice(0, 3)), busy);
  });
});

test("without scripts there are verdict, gates and causes", async () => {
  const { open } = await import("./support.mjs");
  const { page, close } = await open(file, { scripts: false });
  const text = await page.innerText("main");
  for (const gate of own.gates) assert.ok(text.includes(gate.text), gate.id);
  for (const cause of own.causes) assert.ok(text.includes(cause.text), cause.id);
  assert.match(text, /cheaper than threads in CPU per request/);
  await close();
});

test("bars of what limits the arms are as long as their CPUs were busy", async () => {
  await on(file, {}, async (page) => {
    const scale = axis(await marks(page, "limits", '[aria-label="x-axis tick label"] text'), "x");
    const bars = await marks(page, "limits", "[aria-label=bar] rect");
    assert.equal(bars.length, own.arms.length);
    for (const [place, arm] of own.arms.entries()) near(scale(bars[place].right), arm.server_set_busy, 0.01, arm.name);
    const says = await page.getAttribute("#limits .view:not([hidden]) [role=img]", "aria-label");
    for (const arm of own.arms) assert.ok(says.includes(`${arm.name}: ${(arm.server_set_busy * 100).toFixed(1)} %, limited by ${arm.limiter}`), says);
  });
});

test("what was not sampled is hatched, with a pattern of its own, and is a row", async () => {
  await on(file, {}, async (page) => {
    // The other baseline's view has drawings of its own by now, all in one document.
    await page.locator('#controls label:has-text("baseline") select').selectOption("futures");
    await page.locator('#controls label:has-text("baseline") select').selectOption("threads");
    const ids = await page.$$eval("[id]", (all) => all.map((one) => one.id));
    assert.deepEqual(ids.filter((id, place) => ids.indexOf(id) !== place), [], "no name is given twice");
    const own = await page.$$eval("#waterfall .view:not([hidden]) .stage .boxes rect", (all) =>
      all.filter((one) => one.getAttribute("fill").startsWith("url(")).map((one) => one.closest("svg").contains(document.getElementById(/#([^")]*)/.exec(one.getAttribute("fill"))[1]))));
    assert.ok(own.length > 0 && own.every(Boolean), `boxes are hatched from their own drawing: ${own}`);
    const names = await page.$$eval("#waterfall .view:not([hidden]) table >> nth=0", ([one]) => [...one.tBodies[0].rows].map((row) => row.cells[0].textContent));
    assert.ok(names.some((name) => name.endsWith("not sampled")), names.join());
  });
});

test("steps of a ladder lie where their ratios are, and the table says the same", async () => {
  await on(fullFile, {}, async (page) => {
    assert.deepEqual(full.ladder.steps, ["threads", "futures", "coroutines"]);
    for (const [index, { rungs, whole }] of full.ladder.metrics.entries()) {
      const all = [...rungs, whole];
      const nth = `> figure:nth-of-type(${index + 1})`;
      const scale = logScale(await marks(page, "ladder", `${nth} [aria-label*="x-axis tick label"] text`));
      const dots = await marks(page, "ladder", `${nth} [aria-label=dot] :is(circle, path)`);
      assert.equal(dots.length, all.length);
      for (const [place, rung] of all.entries()) near(scale(dots[place].x), rung.ratio, 0.01, `${rung.to} over ${rung.from}`);
      const rows = await page.$$eval(`#ladder table >> nth=${index}`, ([table]) => [...table.tBodies[0].rows].map((row) => row.cells[1].textContent));
      assert.deepEqual(rows, all.map((rung) => rung.ratio.toFixed(3)));
    }
  });
});

/** Ends of the lines of a drawing, on the screen. */
const ends = (page, selector) =>
  page.$$eval(selector, (all) =>
    all.map((path) => {
      const at = (length) => {
        const { x, y } = path.getPointAtLength(length).matrixTransform(path.getScreenCTM());
        return { x, y };
      };
      return [at(0), at(path.getTotalLength())];
    }),
  );

test("response times against the rate are those of the JSON at both rates", async () => {
  await on(fullFile, {}, async (page) => {
    const place = "#latency .chart > figure:nth-of-type(2)";
    assert.match(await page.textContent(`${place} > figcaption`), /^Response time against rate/);
    const x = axis(await marks(page, "latency", '> figure:nth-of-type(2) [aria-label="x-axis tick label"] text'), "x", Math.log);
    const y = axis(await marks(page, "latency", '> figure:nth-of-type(2) [aria-label="y-axis tick label"] text'), "y", Math.log);
    const open = full.detail.latency.filter((curve) => !curve.closed_loop);
    const arms = [...new Set(open.map((curve) => curve.arm))];
    const lines = await ends(page, `${place} [aria-label=line] path`);
    assert.ok(lines.length >= arms.length, "a line of p50 for each arm, and after them those of p99");
    for (const [index, arm] of arms.entries()) {
      const curves = open.filter((curve) => curve.arm === arm).sort((a, b) => a.rate_per_s - b.rate_per_s);
      for (const [end, curve] of curves.entries()) {
        near(x(lines[index][end].x), curve.rate_per_s, 0.03, `${arm}: rate`);
        near(y(lines[index][end].y), curve.points.find((point) => point.quantile === 0.5).ns, 0.05, `${arm}: p50`);
      }
    }
    assert.doesNotMatch(await page.innerText("#latency"), /--equal-rates/);
  });
  await on(file, {}, async (page) => {
    assert.match(await page.innerText("#latency"), /needs two equal rates or more, as with --equal-rates 25,50,75/);
  });
});

test("the tables of resources and of the environment hold what the JSON has", async () => {
  await on(file, {}, async (page) => {
    const tables = await page.$$eval("#use .view:not([hidden]) table", (all) => all.map((table) => [...table.tBodies[0].rows].map((row) => [...row.cells].map((cell) => cell.textContent))));
    const names = await page.$$eval("#use .view:not([hidden]) h3", (all) => all.map((one) => [one.textContent, one.nextElementSibling.querySelector("caption").textContent]));
    assert.deepEqual(names.map(([heading]) => heading), own.resources.map((one) => one.arm), "each table stands under its arm");
    for (const [heading, caption] of names) assert.ok(caption.endsWith(`: ${heading}`), caption);
    for (const [place, { rows }] of own.resources.entries()) {
      assert.equal(tables[place].length, rows.length);
      for (const [index, row] of rows.entries()) {
        const [resource, level, used, , errors] = tables[place][index];
        assert.ok(resource.endsWith(row.resource), resource);
        assert.equal(level.toLowerCase(), row.level);
        assert.equal(used, row.utilisation === null ? "-" : `${(row.utilisation * 100).toFixed(1)} %`);
        assert.equal(errors, row.errors === null ? "-" : String(row.errors));
      }
    }
    const environment = await page.innerText("#environment");
    for (const fact of [own.host.cpu_model, own.host.kernel, own.run_id, ...own.arms.map((arm) => arm.command)]) assert.ok(environment.includes(fact), fact);
    for (const arm of own.arms) assert.ok(environment.includes(arm.build_id.slice(0, 12)), arm.name);
  });
});

test("pictures for review", { skip: !PICTURES }, async () => {
  await on(fullFile, {}, async (page) => {
    // What sticks to the top of the screen would lie over the pictures.
    await page.evaluate(() => { document.querySelector(".bar").style.position = "static"; });
    for (const part of ["limits", "waterfall", "ledger", "profile", "latency", "pairs", "use", "ladder"]) {
      await page.locator(`#${part}`).screenshot({ path: join(PICTURES, `${part}.png`) });
    }
  });
});
