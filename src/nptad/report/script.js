"use strict";
(() => {
  document.getElementById("save").addEventListener("click", () => {
    const data = document.getElementById("data").textContent;
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([data], { type: "application/json" }));
    link.download = "anomaly-report.json";
    link.click();
    URL.revokeObjectURL(link.href);
  });
  document.getElementById("save-line").hidden = false;

  const table = document.getElementById("anomaly-table");
  if (!table) return; // no rows
  const body = table.tBodies[0];
  const rows = [...body.rows];
  const filter = document.getElementById("filter");
  const status = document.getElementById("status");
  const texts = new Map(rows.map((row) => [row, row.textContent.toLowerCase()]));
  const why = (row) => row.querySelector("summary").textContent.trim();
  const total = `${rows.length.toLocaleString("en")} row${rows.length === 1 ? "" : "s"}`;

  function say(text) {
    const shown = rows.filter((row) => !row.hidden).length;
    const count = shown === rows.length ? total : `${shown.toLocaleString("en")} of ${total}`;
    status.textContent = text ? `${count}, ${text}` : count;
  }

  function sortBy(header, key) {
    const current = header.getAttribute("aria-sort");
    const descending = current ? current === "ascending" : key === "score" || key === "label";
    for (const other of table.tHead.querySelectorAll("[aria-sort]")) other.removeAttribute("aria-sort");
    header.setAttribute("aria-sort", descending ? "descending" : "ascending");
    const text = key === "why" ? why : (row) => row.cells[header.cellIndex].textContent;
    const compare = key === "why" || key === "key" || key === "row"
      ? (a, b) => text(a).localeCompare(text(b), undefined, { numeric: true })
      : (a, b) => Number(a.dataset[key]) - Number(b.dataset[key]);
    const sign = descending ? -1 : 1;
    body.append(...[...rows].sort((a, b) => sign * compare(a, b)));
    say(`sorted by ${header.textContent.trim().toLowerCase()}, ${descending ? "descending" : "ascending"}`);
  }

  for (const header of table.tHead.querySelectorAll("th[data-sort]")) {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...header.childNodes);
    header.append(button);
    button.addEventListener("click", () => sortBy(header, header.dataset.sort));
  }

  function applyFilter() {
    const words = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
    for (const row of rows) row.hidden = !words.every((word) => texts.get(row).includes(word));
    say("");
  }
  filter.addEventListener("input", applyFilter);
  document.getElementById("tools").hidden = false;
  say("");

  function openTarget() {
    const row = document.getElementById(location.hash.slice(1));
    if (!row || row.parentNode !== body) return;
    if (row.hidden) {
      filter.value = "";
      applyFilter();
    }
    row.querySelector("details").open = true;
    row.scrollIntoView({ block: "start" });
    row.querySelector("summary").focus({ preventScroll: true });
  }
  addEventListener("hashchange", openTarget);
  openTarget();

  let opened = [];
  addEventListener("beforeprint", () => {
    opened = [...document.querySelectorAll("tr:nth-child(-n + 10) > .why > details:not([open])")];
    for (const details of opened) details.open = true;
  });
  addEventListener("afterprint", () => {
    for (const details of opened) details.open = false;
  });
})();
