// Theme and time zone as Airflow's UI has them, lag once Kafka has answered, what is asked for.
"use strict";

const tidemark = (() => {
  const root = document.documentElement;

  // The page stands in a frame of Airflow's UI, of the same origin; alone it asks the browser.
  function airflow() {
    try {
      return window.parent !== window ? window.parent.document.documentElement : null;
    } catch {
      return null;
    }
  }

  function kept(key) {
    try {
      const found = localStorage.getItem(key);
      return found === null ? null : found.replace(/^"|"$/g, "");
    } catch {
      return null;
    }
  }

  function theme() {
    const theirs = airflow();
    for (const name of ["dark", "light"]) if (theirs?.classList.contains(name)) return name;
    const chosen = kept("theme");
    if (chosen === "dark" || chosen === "light") return chosen;
    return matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
  }

  function paint() {
    if (root.dataset.theme === theme()) return;
    root.dataset.theme = theme();
    document.dispatchEvent(new Event("tidemark:theme"));
  }

  function zone() {
    const chosen = kept("timezone");
    const own = Intl.DateTimeFormat().resolvedOptions().timeZone;
    try {
      Intl.DateTimeFormat("sv", { timeZone: chosen || own });
      return chosen || own;
    } catch {
      return own;
    }
  }

  function clock(moment) {
    return new Intl.DateTimeFormat("sv", {
      timeZone: zone(), dateStyle: "short", timeStyle: "medium",
    }).format(new Date(moment));
  }

  function localise(within) {
    for (const one of within.querySelectorAll("time[datetime]")) {
      one.textContent = clock(one.dateTime);
    }
    for (const one of document.querySelectorAll("[data-zone]")) one.textContent = zone();
  }

  const number = (value) => (value === null ? "–" : value.toLocaleString("en"));

  async function fragment(path, into, method = "GET") {
    try {
      const answer = await fetch(path, { credentials: "same-origin", method });
      if (answer.status === 403) throw new Error((await answer.json()).detail);
      if (answer.status === 503) throw new Error("too many ask at this moment; try again in some seconds");
      if (!answer.ok) throw new Error(`Airflow answers ${answer.status}; load the page again`);
      into.innerHTML = await answer.text();
      localise(into);
      return true;
    } catch (error) {
      into.textContent = `This part could not be loaded: ${error.message}.`;
      return false;
    }
  }

  async function lags(table) {
    const note = document.querySelector("[data-lag-note]");
    try {
      const answer = await fetch("lags", { credentials: "same-origin" });
      if (!answer.ok) throw new Error(`Airflow answers ${answer.status}`);
      const told = await answer.json();
      if (told.problem) throw new Error(told.problem);
      const found = new Map(told.map((one) => [`${one.dag_id}/${one.region}`, one]));
      const problems = new Set();
      for (const row of table.tBodies[0].rows) showLag(row, found.get(row.dataset.key), problems);
      arrange(table);
      note.textContent = [...problems].join(" ");
      note.hidden = !problems.size;
    } catch (error) {
      note.textContent = `Lag is not known: ${error.message}.`;
    }
  }

  function showLag(row, one, problems) {
    const lag = row.querySelector("[data-lag]"), drift = row.querySelector("[data-drift]");
    lag.textContent = number(one?.lag ?? null);
    lag.closest("td").dataset.value = one?.lag ?? "";
    drift.textContent = number(one?.drifting ?? null);
    if (!one) return;
    row.querySelector("[data-oldest]").textContent = one.oldest ? `oldest ${one.oldest}` : "";
    if (one.worst && one.lag) lag.title = `the most in ${one.worst}`;
    drift.classList.toggle("warn", one.drifting > 0);
    if (one.problem) problems.add(one.problem);
    const chip = row.querySelector("[data-level]");
    chip.textContent = one.level;
    chip.className = `chip ${one.level}`;
    chip.closest("td").dataset.value = one.rank;
    row.querySelector("[data-verdict-code]").textContent = one.code ?? "";
    row.querySelector("[data-sentence]").textContent = one.sentence;
    row.dataset.rank = one.rank;
    row.dataset.waits = one.lag ?? 0;
  }

  function worstFirst(a, b) {
    return a.dataset.rank - b.dataset.rank || (b.dataset.waits ?? 0) - (a.dataset.waits ?? 0)
      || (a.dataset.name < b.dataset.name ? -1 : 1);
  }

  // By the column that was clicked, what has no value last; of equals, and without a click, the worst first.
  function arrange(table) {
    const head = table.querySelector("th[aria-sort]"), way = head?.ariaSort === "descending" ? -1 : 1;
    const value = (row) => {
      const cell = row.cells[head.cellIndex], told = cell.dataset.value ?? cell.innerText.replaceAll(",", "");
      return ["", "–", "…"].includes(told) ? null : Number.isNaN(Number(told)) ? told : Number(told);
    };
    const byColumn = (a, b) => {
      const [one, other] = [value(a), value(b)];
      if (one === other) return 0;
      return one === null ? 1 : other === null ? -1 : one < other ? -way : way;
    };
    const rows = [...table.tBodies[0].rows].sort((a, b) => (head ? byColumn(a, b) : 0) || worstFirst(a, b));
    table.tBodies[0].append(...rows);
  }

  // One click, the other way round, as at first.
  function sortBy(button) {
    const head = button.closest("th"), first = button.dataset.sort;
    const next = { [null]: first, [first]: first === "ascending" ? "descending" : "ascending" };
    const way = next[head.ariaSort] ?? null;
    for (const one of head.parentNode.cells) one.ariaSort = null;
    head.ariaSort = way;
    arrange(button.closest("table"));
  }

  function filter(table, text) {
    const wanted = text.trim().toLowerCase(), rows = [...table.tBodies[0].rows];
    for (const row of rows) row.hidden = !row.textContent.toLowerCase().includes(wanted);
    const shown = rows.filter((row) => !row.hidden).length;
    document.querySelector("[data-found]").textContent = wanted ? `${shown} of ${rows.length}` : "";
  }

  async function copy(text, button) {
    try {
      await navigator.clipboard.writeText(text);
    } catch {
      const area = document.createElement("textarea");
      area.value = text;
      document.body.append(area);
      area.select();
      document.execCommand("copy");
      area.remove();
    }
    const was = button.textContent;
    button.textContent = "Copied";
    setTimeout(() => { button.textContent = was; }, 1500);
  }

  // The frame may not leave Airflow's UI, but a link that stands in Airflow's own page may.
  function follow(link) {
    const theirs = airflow()?.ownerDocument;
    if (!theirs) { location.href = link.href; return; }
    const own = theirs.createElement("a");
    own.href = link.href;
    theirs.body.append(own);
    own.click();
    own.remove();
  }

  // Beside Airflow's own panels a narrow screen leaves the frame no room.
  function alone() {
    const place = document.querySelector("[data-alone]");
    place.querySelector("a").href = location.href;
    place.hidden = !airflow();
  }

  async function clicked(event) {
    const one = event.target.closest("[data-copy], [data-copy-text], [data-airflow], [data-to], [data-sort]");
    if (!one || event.ctrlKey || event.metaKey || event.button) return;
    if (one.dataset.copyText) await copy(one.dataset.copyText, one);
    if (one.dataset.copy) {
      if (one.dataset.airflow !== undefined) event.preventDefault();
      await copy(document.querySelector(one.dataset.copy).textContent, one);
    }
    if (one.dataset.airflow !== undefined) { event.preventDefault(); follow(one); }
    if (one.dataset.sort) sortBy(one);
    if (one.dataset.to) {
      const form = document.querySelector("[data-dry-form]");
      form.elements.to.value = one.dataset.to;
      form.requestSubmit();
      form.scrollIntoView({ block: "start" });
    }
  }

  function region(live) {
    const query = live.dataset.query;
    const now = document.querySelector("[data-now]");
    const failures = new Map();
    const focusable = () => [...live.querySelectorAll("a, button, summary")];
    const isOpen = () => live.querySelector("[data-state]")?.dataset.state === "open";

    async function look() {
      if (!now || !(await fragment(`dag/now?${query}`, now))) return;
      showNow();
      await again();  // what waits is part of the verdict
    }
    function lagNow() {
      return now?.querySelector("[data-now-lag]")?.dataset.nowLag || null;
    }
    async function showFailure() {
      const place = live.querySelector("[data-failure]");
      if (!place) return;
      if (failures.has(place.dataset.failure)) place.innerHTML = failures.get(place.dataset.failure);
      else if (await fragment(`dag/failure?${query}`, place)) {
        failures.set(place.dataset.failure, place.innerHTML);
      }
      // What the log says is nearer to the cause than what the ledger concludes.
      const told = place.querySelector("[data-code]");
      if (told) live.querySelector("[data-remedy]")?.remove();
      const code = live.querySelector("[data-verdict-code]");
      if (told?.dataset.code && code) code.textContent = told.dataset.code;
    }
    function showNow() {
      const fact = live.querySelector("[data-fact=lag]"), lag = lagNow();
      if (!fact) return;
      const unknown = now?.querySelector(".problem, [data-now-lag]") ? "–" : "…";
      fact.textContent = lag === null ? unknown : number(Number(lag));
      const oldest = now?.querySelector("[data-oldest]")?.textContent;
      live.querySelector("[data-fact=oldest]").textContent = oldest ?? unknown;
    }
    async function again() {
      if (document.hidden) return;
      const was = isOpen(), open = live.querySelector("details")?.open;
      const lag = lagNow(), focused = focusable().indexOf(document.activeElement);
      if (!(await fragment(`dag/live?${query}${lag === null ? "" : `&lag=${lag}`}`, live))) return;
      if (open) live.querySelector("details").open = true;
      focusable()[focused]?.focus({ preventScroll: true });
      showNow();
      showFailure();
      if (was) document.dispatchEvent(new Event("tidemark:moved"));
      if (was && !isOpen()) look();  // the lag that was known is the run's no more
    }
    const form = document.querySelector("[data-dry-form]");
    form?.addEventListener("submit", async (event) => {
      event.preventDefault();
      const into = document.querySelector("[data-dry-result]");
      into.textContent = "Asking the ledger and Kafka …";
      await fragment(`dag/dry-run?${query}&to=${encodeURIComponent(form.elements.to.value)}`, into, "POST");
    });
    look();
    showFailure();
    setInterval(() => { if (isOpen()) again(); }, 3000);
    setInterval(() => { if (!isOpen()) again(); }, 20000);
    setInterval(() => { if (isOpen() && !document.hidden) look(); }, 15000);
  }

  paint();
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", paint);
  addEventListener("storage", () => { paint(); localise(document); });
  const theirs = airflow();
  if (theirs) new MutationObserver(paint).observe(theirs, { attributeFilter: ["class"] });
  addEventListener("DOMContentLoaded", () => {
    localise(document);
    document.addEventListener("click", clicked);
    alone();
    const table = document.querySelector("[data-regions]");
    if (table) {
      lags(table);
      const find = document.querySelector("[data-filter]");
      find.addEventListener("input", () => filter(table, find.value));
    }
    const live = document.querySelector("[data-live]");
    if (live) region(live);
  });
  return { clock, fragment, number };
})();
