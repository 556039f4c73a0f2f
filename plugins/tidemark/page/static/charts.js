// The charts of a region, as SVG; each has a table with the same values.
"use strict";

(() => {
  const parts = new Map();
  let found = null;

  const color = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

  function base() {
    const ink = color("--dim"), line = color("--line");
    const text = { color: ink, fontSize: 11 };
    return {
      animation: false,
      textStyle: { fontFamily: getComputedStyle(document.body).fontFamily },
      grid: { left: 8, right: 12, top: 14, bottom: 4, containLabel: true },
      tooltip: {
        trigger: "axis", confine: true, backgroundColor: color("--ground"), borderColor: line,
        textStyle: { color: color("--ink"), fontSize: 12 },
      },
      axis: {
        axisLine: { lineStyle: { color: line } }, axisTick: { show: false }, axisLabel: text,
        splitLine: { lineStyle: { color: line, opacity: 0.6 } },
      },
      text,
    };
  }

  const brief = new Intl.NumberFormat("en", { notation: "compact", maximumSignificantDigits: 3 });
  const safe = (text) => { const one = document.createElement("i"); one.textContent = text; return one.innerHTML; };

  function table(head, rows) {
    const cells = (row, tag) => row.map((one, n) => `<${tag} class="${n ? "n" : ""}">${safe(String(one))}</${tag}>`);
    return `<table><thead><tr>${cells(head, "th").join("")}</tr></thead><tbody>${
      rows.map((row) => `<tr>${cells(row, "td").join("")}</tr>`).join("")}</tbody></table>`;
  }

  // What the control says, also where it was chosen before this script had come.
  function chosenMs() {
    const seconds = document.querySelector("[data-range]")?.value;
    return seconds ? 1000 * seconds : null;
  }

  // What lies in the chosen time; the lag that it begins with is that of the last look before.
  function chosen() {
    const range = chosenMs();
    if (range === null) return found;
    const { times, bands } = found.lag, since = Date.now() - range;
    const first = times.findIndex((at) => at > since);
    const before = first > 0 ? 1 : 0, from = first < 0 ? times.length : first - before;
    return {
      batches: found.batches.filter((one) => one.at > since),
      lag: {
        ...found.lag,
        until: Date.now(),
        times: times.slice(from).map((at) => Math.max(at, since)),
        bands: bands.map((band) => ({ ...band, values: band.values.slice(from) })),
      },
    };
  }

  // One slow batch does not press the others flat: the axis ends at twice what nine in ten have.
  function ceiling(totals) {
    const sorted = totals.filter((one) => one > 0).sort((a, b) => a - b);
    const usual = sorted[Math.floor(0.9 * (sorted.length - 1))];
    return sorted.at(-1) > 4 * usual ? Number((2 * usual).toPrecision(1)) : null;
  }

  function lag({ lag: told }) {
    const { axis, tooltip, text, ...rest } = base();
    const bands = [...told.bands].reverse();  // the worst is drawn on top
    return {
      ...rest,
      aria: { enabled: true },
      tooltip: { ...tooltip, formatter: (points) => hover(points) },
      xAxis: { type: "time", ...axis, splitLine: { show: false },
        axisLabel: { ...text, hideOverlap: true, formatter: (at) => short(at, told.times) } },
      yAxis: { type: "value", minInterval: 1, ...axis, axisLine: { show: false },
        axisLabel: { ...text, formatter: (value) => brief.format(value) } },
      series: bands.map((band, n) => {
        const shade = band.name === told.worst ? color("--worst") : color(n % 2 ? "--band-a" : "--band-b");
        return {
          name: band.name, type: "line", stack: "lag", step: "end", symbol: "none",
          lineStyle: { width: 1, color: color("--ground") }, areaStyle: { color: shade, opacity: 1 },
          itemStyle: { color: shade }, emphasis: { disabled: true },
          data: [...told.times, told.until].map((at, i) => [at, band.values[i] ?? band.values.at(-1)]),
        };
      }),
    };
  }

  function short(at, times) {
    const isADay = times.at(-1) - times[0] > 86_400_000;
    return isADay ? tidemark.clock(at).slice(5, 16) : tidemark.clock(at).slice(11);
  }

  function hover(points) {
    const total = points.reduce((sum, one) => sum + one.value[1], 0);
    const lines = [...points].reverse().filter((one) => one.value[1]).slice(0, 12)
      .map((one) => `${one.marker}${safe(one.seriesName)} <b>${tidemark.number(one.value[1])}</b>`);
    return [safe(tidemark.clock(points[0].value[0])), `<b>${tidemark.number(total)}</b> in all`, ...lines].join("<br>");
  }

  function byBatch({ batches }, series, whole) {
    const { axis, tooltip, text, grid, ...rest } = base();
    const totals = batches.map((one) => series.reduce((sum, [, key]) => sum + (one[key] ?? 0), 0));
    const most = ceiling(totals);
    const beyond = batches.flatMap((one, n) => (most !== null && totals[n] > most
      ? [{ value: [String(one.seq), most], told: totals[n] }] : []));
    return {
      ...rest,
      grid: { ...grid, top: beyond.length ? 26 : grid.top },
      aria: { enabled: true },
      tooltip: { ...tooltip, formatter: (all) => {
        const points = all.filter((one) => one.seriesType !== "scatter");
        return [
          `batch ${points[0].name}, ${safe(tidemark.clock(batches[points[0].dataIndex].at))}`,
          ...points.map((one) => `${one.marker}${safe(one.seriesName)} <b>${one.value === null ? "–" : tidemark.number(one.value)}</b>`),
        ].join("<br>");
      } },
      xAxis: { type: "category", data: batches.map((one) => String(one.seq)), ...axis,
        splitLine: { show: false }, axisLabel: { ...text, hideOverlap: true } },
      yAxis: { type: "value", max: most, minInterval: whole ? 1 : 0, ...axis, axisLine: { show: false },
        axisLabel: { ...text, formatter: (value) => brief.format(value) } },
      series: [...series.map(([name, key, shade, more]) => ({
        name, type: "bar", barMaxWidth: 18, itemStyle: { color: color(shade) },
        emphasis: { disabled: true }, data: batches.map((one) => one[key]), ...more,
      })), {
        type: "scatter", symbol: "triangle", symbolSize: 9, clip: false, silent: true, z: 5,
        itemStyle: { color: color("--red"), opacity: 1 }, data: beyond, labelLayout: { hideOverlap: true },
        label: { show: true, position: "top", ...text, formatter: (one) => brief.format(one.data.told) },
      }],
    };
  }

  const OPTIONS = {
    lag,
    rows: (all) => byBatch(all, [["rows", "rows", "--accent"]], true),
    rate: (all) => byBatch(all, [["rows a second", "rows_per_s", "--accent",
      { type: "line", symbolSize: 5, lineStyle: { width: 2, color: color("--accent") } }]]),
    seconds: (all) => byBatch(all, [
      ["drain", "drain_s", "--band-a", { stack: "s" }], ["publish", "publish_s", "--worst", { stack: "s" }]]),
    letters: (all) => byBatch(all, [["dead letters", "dead_letters", "--amber"]], true),
  };

  function draw() {
    if (!found) return;
    const shown = chosen();
    for (const place of document.querySelectorAll("[data-chart]")) {
      const name = place.dataset.chart;
      const isEmpty = name === "lag" ? !shown.lag.times.length : !shown.batches.length;
      if (isEmpty) { clear(place, name); continue; }
      place.style.height = "";
      if (!parts.has(name)) parts.set(name, echarts.init(place, null, { renderer: "svg" }));
      parts.get(name).setOption(OPTIONS[name](shown), true);
    }
    say(shown.lag);
  }

  function clear(place, name) {
    parts.get(name)?.dispose();
    parts.delete(name);
    place.textContent = chosenMs() === null ? "Nothing yet." : "Nothing in this time.";
    place.style.height = "auto";
  }

  function say({ times, bands, worst }) {
    const totals = times.map((_, i) => bands.reduce((sum, band) => sum + band.values[i], 0));
    const last = totals.at(-1);
    document.querySelector("[data-lag-says]").textContent = times.length
      ? `${tidemark.number(last)} at the newest look, ${tidemark.number(Math.max(...totals))} at most; worst: ${worst}. `
        + "At each open and after each publish; Kafka's ends are those of the newest open."
      : "";
    const named = bands.slice(0, 6);
    document.querySelector("[data-table=lag]").innerHTML = table(
      ["time", "in all", ...named.map((band) => band.name)],
      times.map((at, i) => [tidemark.clock(at), tidemark.number(totals[i]),
        ...named.map((band) => tidemark.number(band.values[i]))]).reverse().slice(0, 100),
    );
  }

  // The newest lag lasts until now; a past of seconds is not pressed flat by the days since.
  function reach(lag) {
    const first = lag.times[0], last = lag.times.at(-1);
    if (last === undefined) return;
    lag.until = Math.max(last, Math.min(Date.now(), last + Math.max((last - first) / 20, 1000)));
  }

  async function load() {
    const live = document.querySelector("[data-live]");
    if (!live || !document.querySelector("[data-chart]")) return;
    const answer = await fetch(`dag/charts?${live.dataset.query}`, { credentials: "same-origin" });
    const told = answer.ok ? await answer.json() : { problem: `Airflow answers ${answer.status}` };
    if (told.problem) {
      document.querySelector("[data-lag-says]").textContent = told.problem;
      return;
    }
    found = told;
    reach(told.lag);
    draw();
  }

  document.querySelector("[data-range]")?.addEventListener("change", draw);
  addEventListener("resize", () => { for (const one of parts.values()) one.resize(); });
  document.addEventListener("tidemark:theme", draw);
  document.addEventListener("tidemark:moved", load);
  load();
})();
