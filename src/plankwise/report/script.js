"use strict";
(() => {
  const root = document.documentElement;
  const tip = document.getElementById("tip");

  const theme = document.getElementById("theme");
  const isDark = () => root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  const name = () => { theme.textContent = isDark() ? "light" : "dark"; theme.setAttribute("aria-label", `switch to ${theme.textContent} colours`); };
  theme.addEventListener("click", () => { root.dataset.theme = isDark() ? "light" : "dark"; name(); });
  name();

  for (const title of document.querySelectorAll("svg .mark > title, svg text > title")) {
    title.parentNode.dataset.tip = title.textContent;
    title.remove();
  }

  const show = (mark) => {
    document.querySelectorAll(".mark.here").forEach((one) => one.classList.remove("here"));
    if (!mark) { tip.hidden = true; return; }
    mark.classList.add("here");
    tip.textContent = mark.dataset.tip;
    tip.hidden = false;
    const at = mark.getBoundingClientRect(), size = tip.getBoundingClientRect();
    const left = Math.min(Math.max(4, at.left + at.width / 2 - size.width / 2), innerWidth - size.width - 4);
    const above = at.top - size.height - 8;
    tip.style.left = `${left}px`;
    tip.style.top = `${above > 4 ? above : at.bottom + 8}px`;
  };
  document.addEventListener("pointerover", (event) => {
    const mark = event.target.closest && event.target.closest("[data-tip]");
    if (mark || !document.activeElement.matches("svg.chart")) show(mark);
  });
  addEventListener("scroll", () => show(null), { passive: true });
  document.addEventListener("keydown", (event) => { if (event.key === "Escape") show(null); });

  for (const chart of document.querySelectorAll("svg.chart")) {
    const marks = [...chart.querySelectorAll(".mark[data-tip]")];
    if (!marks.length) continue;
    let at = 0;
    chart.setAttribute("tabindex", "0");
    chart.addEventListener("focus", () => { if (chart.matches(":focus-visible")) show(marks[at]); });
    chart.addEventListener("blur", () => show(null));
    chart.addEventListener("keydown", (event) => {
      const row = Number(marks[at].dataset.columns || 1);
      const step = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: row, ArrowUp: -row }[event.key];
      const next = event.key === "Home" ? 0 : event.key === "End" ? marks.length - 1 : at + step;
      if (!(next >= 0 && next < marks.length)) return;
      event.preventDefault();
      at = next;
      show(marks[at]);
    });
  }

  const valueOf = (row, column) => row.cells[column].dataset.value;
  for (const table of document.querySelectorAll("table.sortable")) {
    const heads = [...table.tHead.rows[0].cells];
    heads.forEach((head, column) => head.firstElementChild.addEventListener("click", () => {
      const numeric = head.classList.contains("number");
      const now = head.getAttribute("aria-sort");
      const down = now === "none" ? numeric : now === "ascending";
      const compare = (a, b) => {
        const x = valueOf(a, column), y = valueOf(b, column);
        if (x === "" || y === "") return (x === "") - (y === "");
        const order = numeric ? Number(x) - Number(y) : x.localeCompare(y);
        return down ? -order : order;
      };
      table.tBodies[0].append(...[...table.tBodies[0].rows].sort(compare));
      heads.forEach((one) => one.setAttribute("aria-sort", "none"));
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
    }));
  }

  for (const bar of document.querySelectorAll("[data-filters]")) {
    const items = [...document.getElementById(bar.dataset.filters).children];
    const texts = items.map((item) => item.textContent.toLowerCase());
    const input = bar.querySelector("input"), select = bar.querySelector("select"), count = bar.querySelector(".count");
    const apply = () => {
      const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
      let shown = 0;
      items.forEach((item, index) => {
        const fits = words.every((word) => texts[index].includes(word)) && (!select || !select.value || item.dataset.kind === select.value);
        item.hidden = !fits;
        shown += fits;
      });
      count.textContent = shown === items.length ? `${shown} shown` : `${shown} of ${items.length} shown`;
    };
    input.addEventListener("input", apply);
    if (select) select.addEventListener("change", apply);
  }

  addEventListener("beforeprint", () => document.querySelectorAll("details").forEach((one) => { one.open = true; }));
})();
