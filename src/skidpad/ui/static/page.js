"use strict";
/* The page works without this script; with it, filters answer as one types and findings are tagged by keys. */
(() => {
  const one = (selector, root = document) => root.querySelector(selector);
  const all = (selector, root = document) => [...root.querySelectorAll(selector)];
  const say = (words) => { one("#said").textContent = words; };
  const typing = (event) => event.target.closest("input:not([type=range]):not([type=radio]):not([type=checkbox]), select, textarea") !== null;

  /* Filtering: the server answers with rows, and the address follows. */
  const form = one("#ask");
  const results = one("#results");
  let asked = 0;

  async function show(parameters) {
    const number = ++asked;
    results.classList.add("waiting");
    try {
      const answer = await fetch(`${form.dataset.rows}?${parameters}`);
      const html = await answer.text();
      if (number !== asked) return;
      if (!answer.ok) { say("This filter cannot be answered."); return; }
      results.innerHTML = html;
      history.replaceState(null, "", `${location.pathname}${parameters ? `?${parameters}` : ""}`);
      say(one("#found").textContent);
    } catch {
      say("The page does not answer; is skidpad ui still running?");
    } finally {
      if (number === asked) results.classList.remove("waiting");
    }
  }

  function parametersOf(element) {
    const given = new URLSearchParams(new FormData(element));
    const plain = { show: "findings", view: "table", sort: "-excess" };
    for (const [name, value] of [...given]) if (value === "" || plain[name] === value) given.delete(name);
    return given.toString();
  }

  if (form) {
    let timer = 0;
    form.addEventListener("input", () => { clearTimeout(timer); timer = setTimeout(() => show(parametersOf(form)), 120); });
    form.addEventListener("submit", (event) => { event.preventDefault(); show(parametersOf(form)); });
    results.addEventListener("click", (event) => {
      const link = event.target.closest("thead a, .pager a");
      if (!link || event.ctrlKey || event.metaKey || event.shiftKey) return;
      event.preventDefault();
      const parameters = link.getAttribute("href").split("?")[1] || "";
      one("[name=sort]", form).value = new URLSearchParams(parameters).get("sort") || "-excess";
      show(parameters).then(() => { if (link.rel) one(".scroll", results)?.scrollTo(0, 0); });
    });
  }

  /* Back from a finding: the address names its row, and the keys go on from there; only then, since going to a row takes the focus away. */
  window.addEventListener("load", () => requestAnimationFrame(() => {
    const left = results && document.getElementById(location.hash.slice(1));
    left?.scrollIntoView({ block: "center", behavior: "instant" });
    if (left) one("a", left)?.focus({ preventScroll: true });
  }));

  function step(by) {
    const links = all("tbody th a, .shot", results);
    const place = links.indexOf(document.activeElement);
    (links[place + by] || links[place] || links[0])?.focus();
  }

  /* The list of runs: what was not counted in time is asked for, two at once. */
  const waiting = all("[data-count]");
  async function count() {
    for (let row = waiting.shift(); row; row = waiting.shift()) {
      try {
        const answer = await fetch(row.dataset.count);
        if (answer.ok) {
          const body = document.createElement("tbody");
          body.innerHTML = await answer.text();
          row.replaceWith(body.firstElementChild);
        }
      } catch { return; }
    }
  }
  count(); count();
  one("#find-run")?.addEventListener("input", (event) => {
    const wanted = event.target.value.toLowerCase();
    for (const row of all("#runs tr")) row.hidden = !row.dataset.words.toLowerCase().includes(wanted);
  });

  /* A running campaign: its figures come again every two seconds, while somebody looks. */
  const live = one("[data-live]");
  async function watch() {
    if (document.visibilityState === "visible") {
      try {
        const answer = await fetch(live.dataset.live);
        if (answer.ok) live.innerHTML = await answer.text();
        if (!one(".state.running", live)) { location.reload(); return; }
      } catch { return; }
    }
    setTimeout(watch, 2000);
  }
  if (live) setTimeout(watch, 2000);

  /* One finding: the slider, the film, the tags. */
  const range = one(".stage input");
  const split = () => range.closest(".stage").style.setProperty("--split", `${range.value}%`);
  range?.addEventListener("input", split);
  if (range) split();

  const motion = one("#motion");
  motion?.addEventListener("click", () => {
    const film = motion.closest("figure");
    const moving = motion.getAttribute("aria-pressed") !== "true";
    motion.setAttribute("aria-pressed", String(moving));
    film.classList.toggle("still", !moving);
    film.classList.toggle("asked", moving);
  });

  const finding = one(".case");
  const onward = one("#onward");
  if (onward) {
    onward.checked = sessionStorage.getItem("onward") === "yes";
    onward.addEventListener("change", () => sessionStorage.setItem("onward", onward.checked ? "yes" : "no"));
  }

  async function tag(button) {
    const body = new URLSearchParams({ tag: button.value });
    try {
      const answer = await fetch(finding.dataset.tag, { method: "POST", body, headers: { "X-Skidpad": "script" } });
      if (!answer.ok) { say("The tag could not be kept."); return; }
    } catch { say("The page does not answer; is skidpad ui still running?"); return; }
    for (const other of all(".tags button.tag")) other.setAttribute("aria-pressed", String(other === button));
    say(button.value ? `Tagged as ${button.value}.` : "The tag is taken away.");
    if (onward?.checked && button.value && finding.dataset.next) location.assign(finding.dataset.next);
  }
  one(".tags")?.addEventListener("submit", (event) => { event.preventDefault(); tag(event.submitter); });

  /* Keys. */
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || typing(event)) return;
    const key = event.key.toLowerCase();
    const go = (address) => { if (address) { event.preventDefault(); location.assign(address); } };
    if (key === "/") { event.preventDefault(); one(".search input")?.focus(); return; }
    const pressed = one(`button[aria-keyshortcuts="${CSS.escape(key)}"]`);
    if (pressed) { event.preventDefault(); pressed.click(); return; }
    if (finding) {
      if (key === "j") go(finding.dataset.next);
      if (key === "k") go(finding.dataset.previous);
      if (key === "u") go(finding.dataset.back);
      if (key === "x" && range) { range.value = Number(range.value) > 50 ? 0 : 100; split(); }
    } else if (results && (key === "j" || key === "k")) {
      event.preventDefault();
      step(key === "j" ? 1 : -1);
    }
  });
})();
